"""What `nodeprep repair` takes from its options and from the configuration, and with which code it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli.check.check_command import CheckOptions
from nodeprep.cli.repair import repair_command
from nodeprep.cli.repair.repair_command import RepairOptions
from nodeprep.cli.repair.repair_session import SessionEnd, SessionTerms
from nodeprep.cli.usage import UsageError
from nodeprep.config import remedy_files
from nodeprep.config.configuration import Settings
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.decide.repair_plan import RefusalReason, RefusedRemedy, RepairStep
from nodeprep.decide.repair_policy import PlayDeadlines
from nodeprep.model import Finding, Report, Severity, Skipped, Status, Subject, Verdict, Waived
from tests.config_files import settings


def asked(**different: Any) -> RepairOptions:
    return RepairOptions(**{"command": "repair", "check": CheckOptions(), **different})


def test_the_daemons_to_ignore_are_those_of_the_configuration(tmp_path: Path) -> None:
    own = settings(tmp_path, 'idle: {ignore: ["dcgm*"]}\n')
    assert repair_command.session_terms(asked(), own).ignored == ("dcgm*",)
    assert repair_command.session_terms(asked(), Settings()).ignored == Settings().idle.ignore


def test_a_play_by_hand_has_the_deadlines_that_an_agent_gives_it(tmp_path: Path) -> None:
    own = settings(tmp_path, "repair: {deadline: {safe: 60}}\n")
    assert repair_command.session_terms(asked(), own).deadlines == PlayDeadlines(safe=60, idle=600)
    assert repair_command.session_terms(asked(), Settings()).deadlines == PlayDeadlines()


def test_what_the_options_say() -> None:
    terms = repair_command.session_terms(
        asked(checks=("port.s*",), max_class=SafetyClass.S3, dry_run=True, wait_idle="10m", recheck="2"), Settings()
    )
    assert (terms.command, terms.limit, terms.dry_run, terms.wait_idle, terms.recheck) == (
        "repair",
        SafetyClass.S3,
        True,
        600.0,
        2.0,
    )
    assert terms.checks is not None
    assert "port.state" in terms.checks
    assert "port.mtu" not in terms.checks
    assert repair_command.session_terms(asked(), Settings()).checks is None


@pytest.mark.parametrize(
    ("options", "says"), [({"wait_idle": "soon"}, "--wait-idle: found 'soon'"), ({"recheck": "-1"}, "--recheck")]
)
def test_what_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        repair_command.session_terms(asked(**options), Settings())


def finding(status: Status, check: str = "port.state", *, root: str | None = None, waived: bool = False) -> Finding:
    verdict = Verdict(Subject("eth0"), status, "Said", "it is so")
    excuse = Waived("known", "2030-01-01", 9) if waived else None
    return Finding(check, Severity.GATE, verdict, root, excuse, "mend it")


def refusal(reason: RefusalReason) -> RefusedRemedy:
    return RefusedRemedy("port.state", "link_up", reason, "so")


STEP = RepairStep(remedy_files.headers()["link_up"], {"interface": "eth0"}, (finding(Status.FAIL),))
RAN, DOUBT = [STEP], refusal(RefusalReason.DOUBT)
ONE = frozenset({"port.state"})
ENDS = [
    # what happened                                   checks  findings now                      exit code
    (SessionEnd(), ONE, (finding(Status.OK),), 0),
    (SessionEnd(), ONE, (finding(Status.ABSENT),), 0),
    (SessionEnd(), ONE, (finding(Status.WARN),), 1),
    (SessionEnd(), ONE, (finding(Status.UNKNOWN),), 1),
    (SessionEnd(), ONE, (finding(Status.FAIL, root="pci.link"),), 1),
    (SessionEnd(), ONE, (finding(Status.FAIL, waived=True),), 0),
    (SessionEnd(), ONE, (finding(Status.FAIL, "port.mtu"), finding(Status.OK)), 0),
    (SessionEnd(), frozenset({"port.mtu"}), (), 1),  # it did not run, and says why
    (SessionEnd(ran=RAN), ONE, (finding(Status.OK),), 0),
    (SessionEnd(ran=RAN, failed=True), ONE, (finding(Status.OK),), 1),
    (SessionEnd(ran=RAN, declined=True), ONE, (finding(Status.OK),), 1),
    (SessionEnd(declined=True), ONE, (finding(Status.OK),), 1),
    (SessionEnd(refusals=[DOUBT], doubted=True), ONE, (finding(Status.FAIL),), 3),
    (SessionEnd(ran=RAN, refusals=[DOUBT], doubted=True), ONE, (finding(Status.FAIL),), 1),
    (SessionEnd(refusals=[refusal(RefusalReason.CLASS)]), ONE, (finding(Status.OK),), 1),
    (SessionEnd(ran=RAN, refusals=[refusal(RefusalReason.FOLLOWS)]), ONE, (finding(Status.OK),), 0),
]


def report(*findings: Finding) -> Report:
    return Report("n1", "boot", "rdma", "test", (), findings, (Skipped("port.mtu", "it needs a live node"),))


@pytest.mark.parametrize(("end", "checks", "findings", "code"), ENDS)
def test_the_exit_code_is_the_verdict_of_our_own_checks(
    end: SessionEnd, checks: frozenset[str], findings: tuple[Finding, ...], code: int
) -> None:
    terms = SessionTerms("repair", checks, SafetyClass.S2)
    assert repair_command.ended(asked(), terms, end, report(*findings), never) == code


def never(_: Report) -> int:
    raise AssertionError("a whole report is for a repair of the whole node")


@pytest.mark.parametrize(("code", "end", "says"), [(0, SessionEnd(), 0), (3, SessionEnd(), 1), (0, SessionEnd(RAN), 0)])
def test_of_the_whole_node_it_is_that_of_check(code: int, end: SessionEnd, says: int) -> None:
    terms = SessionTerms("provision", None, SafetyClass.S2)
    assert repair_command.ended(asked(), terms, end, report(finding(Status.FAIL)), lambda _: code) == says


DRY = [
    (SessionEnd(ran=RAN), 0),
    (SessionEnd(ran=RAN, failed=True), 1),
    (SessionEnd(refusals=[DOUBT]), 1),
    (SessionEnd(), 0),
]


@pytest.mark.parametrize(("end", "code"), DRY)
def test_a_dry_run_judges_nothing(end: SessionEnd, code: int) -> None:
    terms = SessionTerms("repair", ONE, SafetyClass.S2, dry_run=True)
    assert repair_command.ended(asked(dry_run=True), terms, end, report(finding(Status.FAIL)), never) == code
