"""Generated pages are current, and what they say of each check is what the check does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from nodeprep.checks import ALL
from nodeprep.cli import reasons
from nodeprep.cli.check import check_sheet, selection
from nodeprep.model import Check

TESTS = Path(__file__).resolve().parent
DOCS = TESTS.parent / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_checks_md_is_current() -> None:
    assert (DOCS / "checks.md").read_text() == generator().page(ALL), "run `make docs`"


def test_every_link_inside_checks_md_leads_to_a_heading() -> None:
    page = (DOCS / "checks.md").read_text()
    headings = {line.removeprefix("## ").replace(".", "") for line in page.splitlines() if line.startswith("## ")}
    links = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert links <= headings
    assert {check.id.replace(".", "") for check in ALL} <= headings


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_every_number_is_explained(check: Check) -> None:
    together = " ".join(check_sheet.about_numbers(check))
    for number in check_sheet.numbers(check):
        assert number.about or number.key in together, f"the Want of {check.id} says nothing of {number.key}"


SAID = re.compile(r"\b(ok|warn|fail) ([A-Z][a-z]+[A-Za-z0-9]*)\b")
EVERYWHERE = {"DeviceNotAnswering"}


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_the_reasons_are_those_that_the_checks_own_test_has_seen(check: Check) -> None:
    family, question = check.id.split(".")
    tests = TESTS / "checks" / family
    own = (tests / f"test_{question.replace('-', '_')}.py").read_text()
    all_of_family = "".join(path.read_text() for path in sorted(tests.glob("test_*.py")))
    seen = {(reason, status) for status, reason in SAID.findall(own) if reason not in EVERYWHERE}
    found = {reason: set(statuses.split(", ")) - {""} for reason, statuses in reasons.reasons(check)}
    assert {reason for reason, _ in seen} <= set(found)
    for reason, statuses in found.items():
        assert re.search(rf"\b{reason}\b", all_of_family), f"{reason} is no reason that a test has seen"
        of_it = {status for other, status in seen if other == reason}
        assert not (of_it and statuses) or of_it == statuses, reason


def test_explain_prints_what_the_page_says() -> None:
    page = " ".join((DOCS / "checks.md").read_text().split())
    for check in ALL:
        lines = " ".join(" ".join(check_sheet.sheet(check, 80)).split())
        for text in (check.question, check.why, check.fix, check.source):
            words = " ".join(text.split())
            assert words in lines
            assert words in page


REASONS = [
    # check        reason                  statuses, as its source has them
    ("port.state", "NoSignal", "fail"),
    ("port.state", "NotNeeded", "ok"),
    ("port.rate", "BelowRate", "fail, warn"),
    ("pci.aer", "Nonfatal", "warn"),
]


@pytest.mark.parametrize(("check_id", "reason", "statuses"), REASONS)
def test_reasons_are_read_from_the_source(check_id: str, reason: str, statuses: str) -> None:
    assert dict(reasons.reasons(selection.find(ALL, check_id)))[reason] == statuses
