"""`nodeprep list` and `nodeprep explain`."""

from __future__ import annotations

from nodeprep.checks import ALL
from nodeprep.cli import machine, output
from nodeprep.cli.choices import ListFormat
from nodeprep.cli.explain import listed, sheet
from nodeprep.cli.page import columns
from nodeprep.cli.selection import find


def list_all(form: ListFormat) -> int:
    if form is ListFormat.JSON:
        output.put(machine.text([listed(check) for check in ALL]))
        return 0
    rows = [(check.id, str(check.severity), str(check.stage), check.question) for check in ALL]
    output.put("\n".join(columns([("CHECK", "SEVERITY", "STAGE", "QUESTION"), *rows])))
    return 0


def explain(wanted: str, no_color: bool) -> int:
    output.put("\n".join(sheet(find(ALL, wanted), output.width(), output.colourful(no_color))))
    return 0
