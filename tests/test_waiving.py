"""A waiver excuses what it names and what follows from that on the same device, and nothing else (docs/adr/0033)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep import check_round
from nodeprep.assessment import Assessment
from nodeprep.checks import CHECKS, IDS
from nodeprep.cli.check import outcome
from nodeprep.cli.check.choices import FailOn
from nodeprep.config.configuration import Settings
from nodeprep.config.waiver_rules import Waiver
from nodeprep.decide import fault_causes
from nodeprep.model import NODE, SEVERAL, Finding, Lack, Status, Subject, Verdict, Waived
from nodeprep.values import replace
from tests.cli import reports
from tests.cli.program import node, nodeprep
from tests.machines import BF3, STATES, Function, Machine, never_cabled, rails
from tests.rigs import faults

AFTER = {check.id: check.after for check in CHECKS.values()}
TODAY, UNTIL = "2026-11-21", "2026-12-21"
A, B, C = "0000:19:00.0", "0000:3b:00.0", "0000:4c:00.0"
BY = Waived("known", UNTIL, 30)


def found(check: str, place: str, status: Status = Status.FAIL, lack: Lack | None = None) -> Finding:
    subject = {"": NODE, "*": SEVERAL}.get(place, Subject(place, None, place))
    return CHECKS[check].finding(Verdict(subject, status, "Because", "", lack=lack))


def short(count: int, *counted: str) -> Finding:
    return found("port.present", "*", lack=Lack(count, counted))


def waived(finding: Finding) -> Finding:
    return replace(finding, waived=BY)


UNBOUND, RDMA, STATE = "pci.driver-bound", "pci.rdma-driver", "port.state"
FOLDED = [
    # findings                                                         roots, and which of them are excused
    ([waived(found(UNBOUND, A)), found(STATE, A)], [None, UNBOUND], [True, True]),
    ([waived(found(UNBOUND, A)), found(STATE, B)], [None, None], [True, False]),
    ([waived(found(UNBOUND, A)), found("rdma.verbs-class", "")], [None, None], [True, False]),
    ([waived(found("module.core", "")), found("rdma.verbs-class", "")], [None, "module.core"], [True, True]),
    ([waived(found("module.core", "")), found(RDMA, A)], [None, None], [True, False]),
    ([waived(found(UNBOUND, A)), found(STATE, A, Status.UNKNOWN)], [None, UNBOUND], [True, True]),
    ([waived(found(UNBOUND, A)), found(STATE, A, Status.OK)], [None, None], [True, False]),
    ([found(UNBOUND, A), waived(found(STATE, A)), found("port.gid", A)], [None, UNBOUND, UNBOUND], [False, True, True]),
    # A count that lacks n things follows from n faults, and a waived one explains one of them.
    ([found(UNBOUND, A), short(1)], [None, UNBOUND], [False, False]),
    ([found(UNBOUND, A), short(2)], [None, None], [False, False]),
    ([found(UNBOUND, A), found(RDMA, A), short(2)], [None, UNBOUND, None], [False, False, False]),
    ([found(UNBOUND, A), found(UNBOUND, B), short(2)], [None, None, UNBOUND], [False, False, False]),
    ([waived(found(UNBOUND, A)), short(1)], [None, UNBOUND], [True, True]),
    ([waived(found(UNBOUND, A)), short(4)], [None, None], [True, False]),
    ([waived(found(UNBOUND, A)), found(UNBOUND, B), short(2)], [None, None, UNBOUND], [True, False, False]),
    ([waived(found(UNBOUND, A)), found(UNBOUND, B), short(3)], [None, None, None], [True, False, False]),
    # A device that is counted already is not among those that the count lacks.
    ([waived(found(UNBOUND, A)), short(1, A, B)], [None, None], [True, False]),
    ([found("module.core", ""), short(8)], [None, "module.core"], [False, False]),
    ([waived(found("module.core", "")), short(8)], [None, None], [True, False]),
]


@pytest.mark.parametrize(("findings", "roots", "excused"), FOLDED)
def test_folds(findings: list[Finding], roots: list[str | None], excused: list[bool]) -> None:
    told = check_round.fold(findings, AFTER)
    assert [one.root for one in told] == roots
    assert [one.waived is not None for one in told] == excused


PLACES = (A, B, C, "", "*")
FINDINGS = st.lists(
    st.builds(
        lambda check, place, status, count: found(check, place, status, Lack(count) if place == "*" else None),
        st.sampled_from(sorted(AFTER)),
        st.sampled_from(PLACES),
        st.sampled_from((Status.FAIL, Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK)),
        st.integers(1, 4),
    ),
    max_size=12,
    unique_by=lambda one: (one.check, one.subject),
)
WAIVERS = st.builds(
    lambda check, place: Waiver(check, UNTIL, "known", place),
    st.sampled_from((*sorted(AFTER), "*", "port.*", "pci.*")),
    st.sampled_from((A, B, C, "node", "0000:19*")),
)


def judged(findings: list[Finding], *waivers: Waiver) -> tuple[Finding, ...]:
    asked = Assessment(IDS, (), Settings(waivers=waivers), TODAY)
    return asked.waived(check_round.fold(findings, AFTER), {})[0]


def exit_code(findings: tuple[Finding, ...]) -> int:
    report = replace(reports.report({}), findings=findings)
    return outcome.outcome(report, FailOn.FAIL).exit_code


@settings(max_examples=1000)
@given(FINDINGS, WAIVERS)
def test_a_waiver_excuses_what_it_names_and_what_follows_there(findings: list[Finding], waiver: Waiver) -> None:
    told = judged(findings, waiver)
    named = [one for one in findings if one.status is not Status.OK and waiver.covers(one, "")]
    for before, after in zip(findings, told, strict=True):
        follows = any(
            one.status is Status.FAIL
            and one.check in fault_causes.ancestors(before.check, AFTER)
            and one.subject.place == before.subject.place
            for one in named
        )
        is_bad = before.status is not Status.OK
        if before.verdict.lack is None:
            assert (after.waived is not None) == (before in named or (is_bad and follows))
        elif after.waived is not None:
            causes = fault_causes.ancestors(before.check, AFTER)
            faulty = {one.subject.place for one in findings if one.status is Status.FAIL and one.check in causes}
            assert before in named or len(faulty - {"", "*"}) >= before.verdict.lack.count or (is_bad and follows)
    assert (exit_code(told) == 1) == any(one.status is Status.FAIL and one.waived is None for one in told)


@settings(max_examples=500)
@given(FINDINGS)
def test_a_fold_hides_no_fault_from_the_exit_code(findings: list[Finding]) -> None:
    told = judged(findings)
    assert (exit_code(told) == 1) == any(one.status is Status.FAIL for one in findings)


CONFIG = """\
apiVersion: nodeprep.io/v1
kind: Config
waivers:
  - {{check: {check}, device: "{device}", until: {until}, reason: riser on order}}
"""
PROFILE = """\
apiVersion: nodeprep.io/v1
kind: Profile
name: rails
extends: rdma-roce
expect: {ports: {link-layer: Ethernet, rate: 400, at-least: 8}}
"""
RAILS = ("0000:3b:00.0", "0000:4c:00.0", "0000:5d:00.0")
GONE = [
    # left the bus  exit
    (0, 0),
    (1, 1),
    (3, 1),
]


@pytest.mark.parametrize(("pulled", "code"), GONE)
def test_a_waived_nic_hides_no_nic_that_left_the_bus(pulled: int, code: int, tmp_path: Path) -> None:
    root = node("h100-roce", tmp_path)
    faults.unbind(root, A)
    for address in RAILS[:pulled]:
        faults.pull(root, address)
    (tmp_path / "rails.yaml").write_text(PROFILE)
    (tmp_path / "config.yaml").write_text(CONFIG.format(check=UNBOUND, device=A, until=today_plus_a_month()))
    profile, config = str(tmp_path / "rails.yaml"), str(tmp_path / "config.yaml")
    done = nodeprep("check", "--root", str(root), "--profile", profile, "--config", config)
    assert done.returncode == code
    assert "WAIVED    pci.driver-bound" in done.stdout
    assert ("FAIL      port.present: TooFewPorts" in done.stdout) == (code == 1)


def today_plus_a_month() -> str:
    return (datetime.now(UTC).date() + timedelta(days=30)).isoformat()


UNUSED = never_cabled((Function(8, "0000:90:00.0", chip=BF3),), 0)
SLOWER = Machine((*rails(8, rate=200.0, speed=16.0, max_speed=16.0), *UNUSED))
OF_A_CARD = [
    # waiver of the faster card                          FAIL that counts with 0, 1 and 7 rails down
    (None, [1, 1, 1]),
    (Waiver("port.state", UNTIL, "never cabled", "0000:90:00.0"), [0, 1, 7]),
    (Waiver("port.state", UNTIL, "never cabled", "mlx5_8"), [0, 1, 7]),
    (Waiver("port.state", UNTIL, "never cabled", "mlx5_8", ("another-node",)), [1, 1, 1]),
    (Waiver("port.state", "2026-11-20", "never cabled", "mlx5_8"), [1, 1, 1]),
    # Another fault of that card is not excused, and the rails are judged by themselves all the same.
    (Waiver("port.rate", UNTIL, "known", "mlx5_8"), [1, 2, 8]),
]


@pytest.mark.parametrize(("waiver", "counts"), OF_A_CARD)
def test_a_waiver_of_a_dead_card_does_not_excuse_the_rails(waiver: Waiver | None, counts: list[int]) -> None:
    """A faster card that was never cabled is the rail, and made 7 of 8 others that are down a front end's."""
    asked = Assessment(("port.state",), (), Settings(waivers=(waiver,) if waiver else ()), TODAY)
    told = []
    for count in (0, 1, 7):
        look = SLOWER.with_fault(STATES["port down"], *range(count)).look()
        findings = asked.report(look, None, asked.select(look)).findings
        told.append(sum(one.status is Status.FAIL and one.counts for one in findings))
    assert told == counts
