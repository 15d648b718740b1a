"""The runbooks: pages are current, nothing that gates lacks its judgement, and nothing is said twice."""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import prometheus_rule
from docs import remedies, runbooks
from nodeprep import __version__
from nodeprep.checks import CHECKS
from nodeprep.config import remedy_files
from nodeprep.model import EVERYWHERE, Severity
from tests import test_docs_names
from tests.rigs import recordings

pytestmark = pytest.mark.slow

ROOT = runbooks.ROOT
FAMILIES = runbooks.families()
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation", "Escalate"]
ALERTS = sorted(rule["alert"] for group in prometheus_rule.groups() for rule in group["rules"] if "alert" in rule)
NOTHING_TO_SHOW = {"imds.token-mode", "plugin.in-use"}  # they never warn or fail
BY_HAND = {"README", "fabric-manager"}
BLOCK_LINES = 6  # lines that two places may not share
SENTENCE_CHARACTERS = 50  # a longer sentence says something of its own


def pages() -> list[Path]:
    return sorted(runbooks.TARGET.rglob("*.md"))


def each_family() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("family", FAMILIES)


@each_family()
def test_a_page_is_current(family: str) -> None:
    page = (runbooks.TARGET / f"{family}.md").read_text(encoding="utf-8")
    assert page == runbooks.page(family), "run `make docs`"


def test_the_page_of_remedies_is_current() -> None:
    page = remedies.TARGET.read_text(encoding="utf-8")
    assert page == remedies.page(remedy_files.headers()), "run `make docs`"
    assert [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")] == [
        *remedy_files.headers()
    ]


def test_each_family_that_gates_has_a_page_and_no_other() -> None:
    gating = {check.family for check in CHECKS.values() if check.severity is Severity.GATE}
    gating |= {CHECKS[gate].family for gates in runbooks.gates_of_profiles().values() for gate in gates}
    assert set(FAMILIES) == gating
    assert {path.stem for path in runbooks.TARGET.glob("*.md")} == gating | BY_HAND | {remedies.TARGET.stem}
    assert {path.stem for path in runbooks.SOURCES.glob("*")} == gating


@each_family()
def test_each_check_of_a_family_has_a_section(family: str) -> None:
    page = (runbooks.TARGET / f"{family}.md").read_text(encoding="utf-8")
    sections = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert sections == [check.id for check in CHECKS.values() if check.family == family]


def test_the_index_names_each_page() -> None:
    index = (runbooks.TARGET / "README.md").read_text(encoding="utf-8")
    linked = set(test_docs_names.LINK.findall(index))
    others = {str(path.relative_to(runbooks.TARGET)) for path in pages()} - {"README.md"}
    assert others <= linked


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_a_page(alert: str) -> None:
    lines = (runbooks.TARGET / "alerts" / f"{alert}.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# {alert}"
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == HEADINGS
    parts = "\n".join(lines).split("\n## ")[1:]
    assert all(len(part.partition("\n")[2].split()) >= 10 for part in parts)
    diagnosis = parts[HEADINGS.index("Diagnosis")]
    assert all(f"*{who}:*" in " ".join(diagnosis.split()) for who in ("The network", "The node", "nodeprep itself"))


def test_no_page_is_of_an_alert_that_is_gone() -> None:
    assert runbooks.alerts() == ALERTS


def test_the_address_of_a_page_is_its_path_below_a_version() -> None:
    path = runbooks.TARGET.relative_to(ROOT) / "alerts" / "NodeprepGone.md"
    assert prometheus_rule.runbook_url("NodeprepGone") == f"https://nodeprep.invalid/v{__version__}/{path}"


def test_names_of_the_documentation_are_looked_up_in_all_of_them() -> None:
    """tests/test_docs_names.py tests each link, path, make step and call of nodeprep of these pages."""
    assert set(pages()) <= set(test_docs_names.PAGES)


def test_each_runbook_that_a_fix_names_is_there() -> None:
    fixes = [reason.fix for check in CHECKS.values() for reason in (*check.reasons, *EVERYWHERE)]
    fixes += [check.fix for check in CHECKS.values()]
    named = {path for fix in fixes for path in re.findall(r"docs/runbooks/[\w./-]+\.md", fix)}
    assert named
    assert {path for path in named if not (ROOT / path).is_file()} == set()


def test_each_section_shows_an_example_unless_there_is_nothing_to_show() -> None:
    without = {
        check.id
        for family, checks in FAMILIES.items()
        for check in checks
        if "none" in runbooks.source(family)[check.id]["example"]
    }
    assert without == NOTHING_TO_SHOW


def test_each_recording_is_shown() -> None:
    used = {one["example"].get("recording") for one in judgements().values()}
    assert used - {None} == set(recordings.RECORDINGS)


def judgements() -> dict[str, dict[str, Any]]:
    return {check.id: runbooks.source(family)[check.id] for family, checks in FAMILIES.items() for check in checks}


def blocks(page: Path) -> Iterator[tuple[str, ...]]:
    """Each run of lines that are not empty, by their words: numbers may differ."""
    lines = [re.sub(r"\d+", "0", line.strip()) for line in page.read_text(encoding="utf-8").splitlines()]
    full = [line for line in lines if line and not set(line) <= set("|-` ")]
    yield from (tuple(full[at : at + BLOCK_LINES]) for at in range(len(full) - BLOCK_LINES + 1))


def shared(found: list[Path]) -> dict[tuple[str, ...], list[str]]:
    where: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for page in found:
        for block in blocks(page):
            where[block].append(page.name)
    return {block: names for block, names in where.items() if len(names) > 1}


def test_no_two_places_share_a_block() -> None:
    assert shared(pages()) == {}


def test_a_block_that_two_pages_share_is_found(tmp_path: Path) -> None:
    text = "".join(f"Line {word} says {number}.\n\n" for number, word in enumerate("abcdef"))
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"# {name}\n{text}")
    assert list(shared(sorted(tmp_path.iterdir())).values()) == [["one", "two"]]


def test_no_sentence_of_the_judgement_stands_twice() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for check_id, judgement in judgements().items():
        for key in runbooks.WORDS:
            for sentence in re.split(r"(?<=[.:;])\s", " ".join(str(judgement.get(key, "")).split())):
                if len(sentence) >= SENTENCE_CHARACTERS:
                    where[sentence].append(f"{check_id} {key}")
    assert {sentence: at for sentence, at in where.items() if len(at) > 1} == {}


PORT = runbooks.SOURCES / "port.yaml"
GOOD = yaml.safe_load(PORT.read_text(encoding="utf-8"))["port.state"]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"meaning": None}, "lacks ['meaning']"),
    ({"network": None}, ""),  # a fault inside the node has none
    ({"opinion": "x"}, "has ['opinion']"),
    ({"reasons": {**GOOD["reasons"], "Invented": "node"}}, "has ['Invented']"),
    ({"reasons": {"NoSignal": "network"}}, "lacks ["),
    ({"example": {}}, "example: wanted one of"),
    ({"example": {"case": "rate-halved", "none": "no tree"}}, "example: wanted one of"),
    ({"example": {"tree": "h100-ib"}}, "example: wanted one of"),
]


@pytest.mark.parametrize(("different", "says"), WRONG, ids=range(len(WRONG)))
def test_a_source_that_lacks_something_is_refused(different: dict[str, Any], says: str) -> None:
    judgement = {key: value for key, value in {**copy.deepcopy(GOOD), **different}.items() if value is not None}
    if says:
        with pytest.raises(runbooks.BadSourceError, match=re.escape(says)):
            runbooks.validate(PORT, CHECKS["port.state"], judgement)
    else:
        runbooks.validate(PORT, CHECKS["port.state"], judgement)


def test_an_example_without_the_fault_is_refused() -> None:
    with (
        runbooks.Examples() as examples,
        pytest.raises(runbooks.BadSourceError, match=r"port\.gid: its example shows no fault"),
    ):
        examples.of(CHECKS["port.gid"], {"case": "rail-with-its-cable-out"})


def test_lists_and_paragraphs_are_broken_apart() -> None:
    long = "word " * 40
    assert runbooks.flowed(f"1. {long}\n   more\n2. next\n\nafter") == (
        f"1. {'word ' * 22}word\n   {'word ' * 17}more\n2. next\n\nafter"
    )
