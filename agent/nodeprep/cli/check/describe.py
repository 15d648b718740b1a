"""`nodeprep list` and `nodeprep explain`."""

from __future__ import annotations

from nodeprep.checks import ALL
from nodeprep.cli import page_layout, terminal
from nodeprep.cli.check import check_sheet, json_report, selection
from nodeprep.cli.check.choices import ListFormat


def list_all(form: ListFormat) -> int:
    if form is ListFormat.JSON:
        terminal.put(json_report.text([check_sheet.listed(check) for check in ALL]))
        return 0
    rows = [(check.id, str(check.severity), str(check.stage), check.question) for check in ALL]
    terminal.put("\n".join(page_layout.columns([("CHECK", "SEVERITY", "STAGE", "QUESTION"), *rows])))
    return 0


def explain(wanted: str, no_color: bool) -> int:
    terminal.put(
        "\n".join(check_sheet.sheet(selection.find(ALL, wanted), terminal.width(), terminal.colourful(no_color)))
    )
    return 0
