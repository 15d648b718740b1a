"""What an operator reads, character by character: the cases are tests/cli/pages, a report and its text in each."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.cli.check import outcome, table
from nodeprep.cli.check.choices import FailOn
from nodeprep.cli.check.table import Style
from nodeprep.cli.page_layout import PARAGRAPH_LIMIT_CHARACTERS
from nodeprep.values import replace
from tests.cli import reports

PAGES = sorted((Path(__file__).parent / "pages").glob("*.yaml"))
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def page(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def style(case: dict[str, Any], **different: Any) -> Style:
    usual = {"where": case.get("where", "/ (live)"), "fail_on": FailOn(case.get("fail-on", "fail"))}
    return Style(**(usual | different))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page(path: Path) -> None:
    case = page(path)
    lines = table.table(reports.report(case), style(case))
    assert "\n".join(lines) == case["text"].rstrip("\n")
    assert outcome.outcome(reports.report(case), FailOn(case.get("fail-on", "fail"))).exit_code == case["exit"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_the_page_and_none_ends_in_blanks(path: Path, width: int) -> None:
    case = page(path)
    for line in table.table(reports.report(case), style(case, width=width)):
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_colour_changes_no_character(path: Path) -> None:
    case = page(path)
    plain = table.table(reports.report(case), style(case))
    coloured = table.table(reports.report(case), style(case, colour=True))
    assert coloured != plain
    assert [ESCAPE.sub("", line) for line in coloured] == plain


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_wide_has_the_verdict_and_a_row_for_every_finding(path: Path) -> None:
    case = page(path)
    lines = table.wide(reports.report(case), style(case))
    assert lines[0].split(":")[0] == case["text"].split(":")[0]
    assert len(lines) == 3 + len(case.get("findings", ()))
    for line, finding in zip(lines[3:], case.get("findings", ()), strict=True):
        assert line.split()[:2] == [finding["check"], finding["status"]]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
@pytest.mark.parametrize("width", [80, 132, 250])
def test_wide_is_as_wide_as_the_terminal(path: Path, width: int) -> None:
    case = page(path)
    whole = table.wide(reports.report(case), style(case))
    fitting = table.wide(reports.report(case), replace(style(case), whole_width=width))
    assert len(fitting) == len(whole)
    assert all(len(line) <= width for line in fitting[2:])
    if all(len(line) <= width for line in whole[2:]):
        assert fitting == whole
    else:
        assert max(map(len, fitting[2:])) > width - 8  # the width is used


HOSTILE = st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Lu", "Zs"]), min_size=1, max_size=30)


@given(name=HOSTILE, message=HOSTILE)
def test_nothing_that_a_node_shows_commands_the_terminal(name: str, message: str) -> None:
    told = {"check": "port.state", "status": "fail", "at": "0000:5c:00.0", "name": name, "message": message}
    blind = {"kind": "denied", "path": f"/sys/{name}", "detail": message}
    unread = {"check": "port.rate", "status": "unknown", "at": "0000:5c:00.0", "name": name, "blind": blind}
    excused = {**told, "waived": {"reason": message, "until": "2026-12-24", "days": 30}}
    case = {"node": name, "profile": name, "notes": [message], "findings": [told, unread, excused]}
    report = reports.report(case)
    for line in (*table.table(report, style(case)), *table.wide(report, style(case))):
        assert not [one for one in line if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_a_mebibyte_of_anything_is_cut() -> None:
    case = {"findings": [{"check": "port.state", "status": "fail", "message": "x" * (1 << 20)}]}
    text = "\n".join(table.table(reports.report(case), style(case)))
    assert len(text) < 2000
    assert f"({(1 << 20) - PARAGRAPH_LIMIT_CHARACTERS} more characters" in text


FIXES = [
    # fixes of two devices               what is shown
    (("look.", "look."), ["look."]),
    (("up eth2.",), ["up eth2."]),
    (("up eth2.", "up eth3."), ["up eth2.", "up eth3."]),
    (("up eth2.", "up eth3.", "up eth2."), ["up eth2.", "up eth3."]),
    (tuple(f"up eth{number}." for number in range(4)), ["up eth0.", "up eth1.", "up eth2.", "up eth3."]),
    (tuple(f"up eth{number}." for number in range(5)), ["up eth0.", "the same for the 4 others"]),
]


@pytest.mark.parametrize(("fixes", "shown"), FIXES)
def test_several_devices_share_a_fix_or_have_one_each(fixes: tuple[str, ...], shown: list[str]) -> None:
    fault = {"check": "port.state", "status": "fail", "reason": "Down"}
    case = {
        "fixes": {"port.state": {"": "look.", "Down": "up {interface}."}},
        "findings": [fault | {"at": str(number)} for number in range(len(fixes))],
    }
    told = reports.report(case)
    told = replace(told, findings=tuple(replace(one, fix=fix) for one, fix in zip(told.findings, fixes, strict=True)))
    lines = table.table(told, style(case))
    at = lines.index(f"  fix     {shown[0]}")
    assert [line.strip() for line in lines[at + 1 : lines.index("  more    nodeprep explain port.state")]] == shown[1:]
