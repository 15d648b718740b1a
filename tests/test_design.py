"""docs/design.md agrees with the code, and every citation of it or of a decision resolves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

import pytest

import nodeprep.cli.app  # noqa: F401 - all commands register there
from nodeprep.agent.loop import GATE_FILES_PERIOD_SECONDS, LOOP_PERIOD_SECONDS
from nodeprep.config import agent_settings
from nodeprep.config.agent_settings import MetricsSettings
from nodeprep.config.waiver_rules import WAIVER_LIMIT_DAYS
from nodeprep.decide.confirmation_policy import RULES, ConfirmationPolicy
from nodeprep.decide.desired import MODES
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.kubernetes_text import CONDITION_MESSAGE_LIMIT_CHARACTERS
from nodeprep.decide.look_schedule import (
    CALM_SECONDS,
    EARLY_LOOK_SECONDS,
    EVENT_STORM_SECONDS,
    RECORD_VALIDITY_SECONDS,
    SECOND_LOOK_SECONDS,
)
from nodeprep.decide.rule_change import RULE_HOLD_SECONDS
from nodeprep.decide.state_table import TABLE, ReadinessPolicy
from nodeprep.decide.taint_toleration import ABSENT_LIMIT_SECONDS
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.expected.inventory import SLOWER
from nodeprep.facts.kubernetes import resource_slices
from nodeprep.facts.kubernetes.cluster_requests import FACT
from nodeprep.publish import agent_lease, node_patches, node_writing, pace, probes, publisher, side_writes
from nodeprep.publish.node_patches import REFRESH_SECONDS, REFRESH_SPREAD
from nodeprep.values import Value, field_names
from tests.bench import taint
from tests.test_docs_names import PROGRAM, inner

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/design.md"
TEXT = PAGE.read_text(encoding="utf-8")
HEADING = re.compile(r"^#{2,3} (\d+(?:\.\d+)?)\.? ", re.MULTILINE)
# One form. It may be split over two lines of a comment.
CITED = re.compile(r"\b[Dd]esign[\s#]+(\d+(?:\.\d+)*)")
OTHER_FORM = re.compile(r"design\.md[\s,]+\d|\bdesign,? (?:section|chapter|§)|§ ?\d", re.IGNORECASE)
DECISION = re.compile(r"(?:\bADR[\s#]+|\badr/)(\d{4})\b")
DOCUMENT = re.compile(r"(?<![\w./-])((?:[\w-]+/)*[\w-]+\.md)\b")
PLACES = ("agent", "tests", "docs", "proofs", "daemonset", "playbooks", "dashboards", ".ci", ".github")
KINDS = (".py", ".md", ".yaml", ".yml", ".go", ".sh", ".json", ".toml")
# Of other projects. The text beside them names the project.
FOREIGN = {
    "SPEC.md",
    "config-linux.md",
    "docs/ecs.md",
    "docs/erdma-coexistence.md",
    "docs/exclusive-eni-node-pool.md",
    "docs/linjun.md",
    "linjun.md",
}
# Their texts have wrong citations on purpose, or pages that a test writes.
PLANTED = {Path(__file__).relative_to(ROOT), Path("tests/test_docs_names.py")}


def section(number: str) -> str:
    """The text below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(number)}\.? .*?\n(.*?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"docs/design.md has no section {number}"
    return found[1]


def table(number: str, first: str) -> list[list[str]]:
    """The rows of the table in a section whose header begins with `first`."""
    lines = section(number).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return rows


def test_the_sections_that_code_relies_on_are_there() -> None:
    assert re.findall(HEADING, TEXT) == [
        "1",
        "2",
        "2.1",
        "2.2",
        "2.3",
        *(["3"] + [f"3.{n}" for n in range(1, 6)]),
        *"45678",
    ]


def test_facts() -> None:
    has = [
        [
            agent_settings.fact_name(one),
            f"{one.every:g}" + (f" (heard {one.every_heard:g})" if one.every_heard else ""),
            f"{one.deadline:g}",
            f"{one.rest:g}",
            ", ".join(sorted(one.woken_by)),
        ]
        for one in FACTS
    ]
    assert table("2.1", "fact") == has


def test_the_table_of_states() -> None:
    """Row by row in the code's order."""
    rows = [[row.start, row.why, row.to] for row in TABLE]
    assert table("3.1", "from") == rows


def keyed(policy: Value) -> dict[str, str]:
    numbers = {name: getattr(policy, name) for name in field_names(policy)}
    return {name.replace("_", "-"): f"{one:g}" for name, one in numbers.items() if isinstance(one, int | float)}


def test_times_and_numbers() -> None:
    assert {key: value for key, value, _ in table("3.1", "key")} == keyed(ReadinessPolicy())
    assert {key: value for key, value, _ in table("3.2", "key")} == keyed(ConfirmationPolicy())


def test_confirmation() -> None:
    has = [[str(kind), f"{one.fails} of {one.of}", f"{one.apart:g}", f"{one.span:g}"] for kind, one in RULES.items()]
    assert [row[:4] for row in table("3.2", "class")] == has


def test_modes() -> None:
    words = {True: "yes", False: "no"}
    has = [[mode, words[row.taints], words[row.keeps_bootstrap_taint]] for mode, row in MODES.items()]
    assert [[row[0].removesuffix(" (default)"), *row[1:]] for row in table("3.4", "mode")] == has
    assert table("3.4", "mode")[0][0] == f"{Mode.OBSERVE} (default)"


SECOND_RENEWAL = 2 * agent_lease.RENEW_SECONDS * pace.SPREAD_FACTORS[1]
RETRIES = {3: "fourth"}  # by the number of quick ones before it
LONGEST_TEST = side_writes.DRY_RUN_SECONDS * (1 + side_writes.DRY_RUN_SPREAD)
LEAST_LATER, MOST_LATER = (100 * (one - 1) for one in pace.SPREAD_FACTORS)
BURST = f"a burst of {pace.BURST_REQUESTS:g}, and {pace.GATE_TOKENS:g} of that burst"
SAID = [
    # section, its text with the code's number
    ("2.3", f"{WAIVER_LIMIT_DAYS} days at most"),
    ("2.3", "less than half of the rails' rate" if SLOWER == 2 else str(SLOWER)),
    ("3.2", f"may be {RECORD_VALIDITY_SECONDS:g} s old beside it"),
    ("3.2", f"After {CALM_SECONDS:g} s without one, the second look may begin {SECOND_LOOK_SECONDS:g} s later."),
    ("3.2", f"begins {EVENT_STORM_SECONDS:g} s after the one before"),
    ("3.2", f"Facts that fall due within {EARLY_LOOK_SECONDS:g} s are looked at together"),
    ("3.3", f"After {ConfirmationPolicy().blind_after:g} s (`confirmation.blind-after`)"),
    ("3.4", f"none was here for {ABSENT_LIMIT_SECONDS:g} s"),
    ("3.5", f"({node_writing.RACES_LIMIT} tries)"),
    ("3.5", f"waits for the Node for {publisher.OPENING_TIMEOUT_SECONDS:g} s at most"),
    ("3.5", f"each {REFRESH_SECONDS:g} s, {'a tenth' if REFRESH_SPREAD == 0.1 else REFRESH_SPREAD} earlier or later"),
    ("3.5", f"somebody else changed them: a look at the Node each {publisher.NODE_PERIOD_SECONDS:g} s"),
    (
        "3.5",
        f"each {agent_lease.RENEW_SECONDS:g} s, if the checks ran; believed for {agent_lease.DURATION_SECONDS:g} s",
    ),
    (
        "3.5",
        (
            f"each {side_writes.DRY_RUN_SECONDS:g} to {LONGEST_TEST:.2f} s, "
            "one dry run: alternately the label and the Lease"
        ),
    ),
    ("3.5", f"come {LEAST_LATER:.0f} to {MOST_LATER:.0f} % later than their time"),
    (
        "3.5",
        f"the second renewal is due {SECOND_RENEWAL:g} s after the one that is believed",
    ),
    ("3.5", f"each policy is tried within {2 * LONGEST_TEST:.0f} s"),
    ("3.5", f"comes once more after {side_writes.DRY_RUN_RETRY_SECONDS:g} s"),
    ("3.5", f"are read each {FACT.every:g} s"),
    ("3.5", f"is older than {RECORD_VALIDITY_SECONDS:g} s, at most each {FACT.rest:g} s"),
    ("3.5", f"compared with what should be there each {GATE_FILES_PERIOD_SECONDS:g} s"),
    ("3.5", f"messages of {CONDITION_MESSAGE_LIMIT_CHARACTERS} characters at most"),
    ("3.5", f"At most {pace.RATE_PER_SECOND:g} a second go out after {BURST} are kept for"),
    ("3.5", f"doubles from {pace.BACKOFF_FIRST_SECONDS:g} to {pace.BACKOFF_LIMIT_SECONDS:g} s"),
    (
        "3.5",
        f"after {pace.FUTILE_RETRY_SECONDS:g} s more from the {RETRIES[pace.QUICK_RETRIES]} try on",
    ),
    ("3.5", f"closes no gate for {RULE_HOLD_SECONDS:g} s"),
    ("3.5", f"the last {probes.MISSED_PERIODS} intervals of {LOOP_PERIOD_SECONDS:g} s"),
    ("4", f"that stood for {ReadinessPolicy().remedy_after:g} s"),
    ("6", f"port {MetricsSettings().port}"),
]


RECORDS = 8 + 10  # requests for the records of a node of ACK (cluster_requests.py) with a GPU, and for ten free ENIs
BUDGET = {"in all": 3.0, "in all on ACK": 4.0}
# The row of the table, the seconds from one to the next, and the requests of each.
ASKED = {
    "look at the Node": ([publisher.NODE_PERIOD_SECONDS * one for one in pace.SPREAD_FACTORS], 1),
    "renewal of the Lease": ([agent_lease.RENEW_SECONDS * one for one in pace.SPREAD_FACTORS], 1),
    "dry run of the admission policy": ([side_writes.DRY_RUN_SECONDS, LONGEST_TEST], 1),
    "conditions written again; the look before it is a read of the Node itself": (
        [node_patches.refresh_after(0.0), node_patches.refresh_after(1.0)],
        1,
    ),
    "Node, pods, and ResourceSlices on a node with a GPU": ([min(FACT.every, resource_slices.FACT.every)], 3),
    "on ACK up to 8 in place of these three, and one for each ENI that no PodENI holds, 10 of them": (
        [FACT.every],
        RECORDS,
    ),
}


def test_the_requests_of_a_quiet_node_stay_within_their_budget_whatever_chance_says() -> None:
    """The table adds up what the code does; tests/bench/taint.py measures it."""
    rates = {what: many * 60.0 / min(seconds) for what, (seconds, many) in ASKED.items()}
    *each, node, ack = rates.values()
    has = {**rates, "in all": sum(each) + node, "in all on ACK": sum(each) + ack}
    rows = {row[0]: row[1:] for row in table("3.5", "request")}
    assert {what: rate for what, (_, rate) in rows.items()} == {what: f"{rate:.3f}" for what, rate in has.items()}
    for what, (seconds, _) in ASKED.items():
        said = [float(one) for one in re.findall(r"[\d.]+", rows[what][0])]
        assert said == [pytest.approx(one, abs=0.005) for one in seconds]
    assert all(has[what] <= most for what, most in BUDGET.items())
    assert tuple(BUDGET.values()) == (taint.ELSEWHERE, taint.ON_ACK)
    assert "makes 3 a minute at most, on ACK 4" in " ".join(section("3.5").split())


def test_whatever_is_drawn_lies_within_what_is_reckoned_with() -> None:
    chance = Random(0)
    drawn = sorted(pace.spread(1.0, chance) for _ in range(2000))
    assert pace.SPREAD_FACTORS[0] <= drawn[0] < drawn[-1] <= pace.SPREAD_FACTORS[1]
    assert drawn[-1] - drawn[0] > 0.9 * (pace.SPREAD_FACTORS[1] - pace.SPREAD_FACTORS[0]), "a fleet spreads"


@pytest.mark.parametrize(("number", "said"), SAID, ids=[f"{number} {said}" for number, said in SAID])
def test_numbers_in_sentences(number: str, said: str) -> None:
    assert said in " ".join(section(number).split())


def commands() -> Iterator[str]:
    for name, command in inner(PROGRAM).items():
        yield from [f"{name} {one}" for one in inner(command)] or [name]


def test_each_command_has_its_exit_codes() -> None:
    named = [one for row in table("5", "command") for one in row[0].split(", ")]
    assert sorted(named) == sorted(commands())


def test_budgets_are_those_of_the_benches() -> None:
    for what, limit, benches in table("7", "what"):
        numbers = re.findall(r"(?<![\w.])[\d.]+(?= )", limit)  # the 99 of "p99" is no limit
        assert numbers
        for bench, number in product(benches.split(", "), numbers):
            text = (ROOT / bench).read_text()
            assert re.search(rf"\b{re.escape(number)}(\.0)?\b", text), f"{bench} knows no {number} for {what}"


def wrong(text: str, headings: frozenset[str], decisions: frozenset[str], documents: frozenset[str]) -> set[str]:
    """The citations of a text that do not resolve, or have another form than ours."""
    found = {f"design {one}" for one in CITED.findall(text) if one not in headings}
    found |= {f"ADR {one}" for one in DECISION.findall(text) if one not in decisions}
    found |= {one.strip() for one in OTHER_FORM.findall(text)}
    named = set(DOCUMENT.findall(text)) - FOREIGN
    return found | {one for one in named if not any(f"/{path}".endswith(f"/{one}") for path in documents)}


def ours() -> Iterator[Path]:
    """Every file of the repository that a person wrote or reads, by its path in the repository."""
    for top in PLACES:
        found = (path.relative_to(ROOT) for path in (ROOT / top).rglob("*") if path.is_file())
        yield from (path for path in found if path.suffix in KINDS or top == ".ci")
    yield from (path.relative_to(ROOT) for path in ROOT.iterdir() if path.is_file() and path.suffix in (*KINDS, ""))


FILES = [path for path in sorted(ours()) if path not in PLANTED]
THERE = (
    frozenset(HEADING.findall(TEXT)),
    frozenset(path.name[:4] for path in (ROOT / "docs/adr").glob("[0-9]*.md")),
    frozenset(str(path) for path in FILES if path.suffix == ".md"),
)


def test_whatever_is_cited_is_there() -> None:
    assert len(FILES) > 500
    broken = {str(path): found for path in FILES if (found := wrong((ROOT / path).read_text(errors="replace"), *THERE))}
    assert broken == {}


def test_most_of_it_is_cited() -> None:
    """If nobody cited the page any more, this test would prove nothing."""
    cited = [one for path in FILES if path.suffix == ".py" for one in CITED.findall((ROOT / path).read_text())]
    assert len(cited) > 50
    assert {"3.1", "3.2", "3.3", "3.4", "3.5", "4", "5", "7"} <= set(cited)


WRONG = [
    ("TEST = 60.0  # seconds; design 3.6", {"design 3.6"}),
    ("waits for a minute (design\n    3.9).", {"design 3.9"}),
    ("# as told in design\n# 9", {"design 9"}),
    ("Design 3.5 and design 3.4 say so", set()),
    ("as docs/design.md 3.2 has it", {"design.md 3"}),
    ("see § 3.2", {"§ 3"}),
    ("decided (ADR 9999)", {"ADR 9999"}),
    ("decided (ADR 0016, docs/adr/0015)", set()),
    ("[9998](adr/9998-none.md)", {"ADR 9998", "adr/9998-none.md"}),
    ("their kinds (gating.md 9.2)", {"gating.md"}),
    ("see docs/agent.md and agent.md", set()),
]


@pytest.mark.parametrize(("text", "found"), WRONG, ids=[text for text, _ in WRONG])
def test_a_citation_of_what_is_not_there_is_found(text: str, found: set[str]) -> None:
    assert wrong(text, *THERE) == found
