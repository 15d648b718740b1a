"""Generated pages are current, and agree with each check."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from docs import built_in_profiles, drill_table, job_outcomes, repair_proofs
from nodeprep.checks import CHECKS
from nodeprep.cli.check import check_sheet
from nodeprep.config import remedy_files
from nodeprep.model import EVERYWHERE, Check, filled
from tests.kubernetes.test_repair_drills import DRILLS
from tests.provision.remedy_cases import CASES
from tests.systems import outcomes

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
    assert (DOCS / "checks.md").read_text() == generator().page(tuple(CHECKS.values())), "run `make docs`"


def test_the_built_in_profiles_are_those_of_the_files() -> None:
    assert built_in_profiles.TARGET.read_text() == built_in_profiles.page(), "run `make docs`"


def test_every_link_inside_checks_md_leads_to_a_heading() -> None:
    page = (DOCS / "checks.md").read_text()
    headings = {line.removeprefix("## ").replace(".", "") for line in page.splitlines() if line.startswith("## ")}
    links = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert links <= headings
    assert {check_id.replace(".", "") for check_id in CHECKS} <= headings


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.id)
def test_every_number_is_explained(check: Check) -> None:
    together = " ".join(check_sheet.about_numbers(check))
    for number in check_sheet.numbers(check):
        assert number.about or number.key in together, f"the Want of {check.id} says nothing of {number.key}"


def test_explain_prints_what_the_page_says() -> None:
    page = " ".join((DOCS / "checks.md").read_text().split())
    for check in CHECKS.values():
        lines = " ".join(" ".join(check_sheet.sheet(check, 80)).split())
        for text in (check.question, check.why, filled(check.fix), check.source):
            words = " ".join(text.split())
            assert words in lines
            assert words in page


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.id)
def test_each_reason_is_told_with_its_status_and_its_fix(check: Check) -> None:
    section = (DOCS / "checks.md").read_text().partition(f"\n## {check.id}\n")[2].partition("\n## ")[0]
    lines = " ".join(" ".join(check_sheet.sheet(check, 80)).split())
    for reason in check.reasons:
        assert f"`{reason.name}` ({reason.status})" in section
        assert f"{reason.name} ({reason.status})" in lines
        assert filled(reason.fix) in section
        assert filled(reason.fix) in lines


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_an_example_of_ready_counts_the_checks_that_there_are(page: str) -> None:
    text = " ".join((DOCS.parent / page).read_text(encoding="utf-8").split())
    assert set(re.findall(r"by \d+ of (\d+) checks", text)) == {str(len(CHECKS))}


@pytest.mark.parametrize("page", ["README.md", "docs/configuration.md"])
def test_an_example_of_a_waiver_has_no_date_that_passes(page: str) -> None:
    assert set(re.findall(r"until: ([^,}]+)", (DOCS.parent / page).read_text(encoding="utf-8"))) == {"YYYY-MM-DD"}


def test_what_any_check_may_say_is_told_once() -> None:
    page = (DOCS / "checks.md").read_text()
    assert all(page.count(f"`{one.status} {one.name}`") == 1 for one in EVERYWHERE)


def test_each_remedy_has_a_row_that_says_where_it_is_proved() -> None:
    """What the guest showed last, or why no guest can need it: never both, and never neither."""
    cases, elsewhere = {case.remedy for case in CASES}, set(repair_proofs.ELSEWHERE)
    assert cases | elsewhere == set(remedy_files.headers())
    assert not cases & elsewhere
    assert {(case.remedy, case.check, case.reason) for case in CASES} == repair_proofs.proved(), "make prove-repair"
    assert repair_proofs.TARGET.read_text() == repair_proofs.page(), "run `make docs`"


def test_the_readme_has_the_drill_table_that_was_measured_last() -> None:
    assert drill_table.TARGET.read_text() == drill_table.page(), "run `make docs`"
    rows = [row.split("\t") for row in drill_table.RESULTS.read_text().splitlines()]
    assert [story for story, *_ in rows] == [drill.story for drill in DRILLS], "make prove-drills"
    assert all(", ".join(drill.remedies) == ran for drill, (_, ran, *_) in zip(DRILLS, rows, strict=True))
    opened = 2 + drill_table.LEGS.index("gate open")
    assert max(float(row[opened]) for row in rows) <= drill_table.LIMIT_SECONDS


def test_the_page_of_jobs_has_the_outcomes_that_were_measured_last() -> None:
    assert job_outcomes.TARGET.read_text() == job_outcomes.page(), "run `make docs`"
    measured = {row.partition("\t")[0] for row in job_outcomes.RESULTS.read_text().splitlines()}
    assert measured == set(outcomes.SYSTEMS), "make prove-jobs"
    assert {found[1] for found in job_outcomes.PLACE.findall(job_outcomes.TARGET.read_text())} == measured


def test_an_outcome_has_seconds_or_words_or_both() -> None:
    rows = (
        "mpijob\tbound\t0.14\t\nmpijob\tsoon\t-0.01\t\nrdma\tother\t1\t\nmpijob\tsaid\t\ta | b\nmpijob\tboth\t2.25\tc\n"
    )
    assert list(job_outcomes.table(rows, "mpijob"))[2:] == [
        "| bound | 0.1 s |\n",
        "| soon | less than 0.1 s |\n",
        '| said | "a \\| b" |\n',
        '| both | 2.2 s: "c" |\n',
    ]


def test_a_row_of_the_drill_table_says_what_is_left_without_the_plays() -> None:
    lines = list(drill_table.table("a fault\tlink_up, mtu\t0.5\t1.2\t0.9\t32\t181.4\t185\t70\n"))
    assert lines[2:] == ["| a fault | `link_up`, `mtu` | 1.2 s | 32 s | 181 s | 111 s | 185 s |"]
