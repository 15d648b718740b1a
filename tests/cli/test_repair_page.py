"""What a repair prints about a step."""

from __future__ import annotations

from nodeprep.cli.repair import repair_page
from nodeprep.cli.repair.repair_page import PageStyle
from nodeprep.config import remedy_files
from nodeprep.decide.repair_plan import RepairStep
from nodeprep.model import Finding, Severity, Status, Subject, Verdict
from nodeprep.repair.run_outcome import FileDiff, RunEnd, RunOutcome, TaskLine, TaskResult

STYLE = PageStyle(120)


def words(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def finding(status: Status = Status.FAIL, root: str | None = None) -> Finding:
    verdict = Verdict(Subject("eth0"), status, "Down", "eth0 is down")
    return Finding("port.state", Severity.GATE, verdict, root, None, "ip link set up")


def test_a_fault_that_stays_is_told_with_what_to_do_by_hand() -> None:
    step = RepairStep(remedy_files.headers()["link_up"], {"interface": "eth0"}, (finding(),))
    told = words(repair_page.still(step, [finding()], RunOutcome(RunEnd.DONE, 1.0, changed=1), STYLE))
    assert told == (
        "still link_up ended with 1 changed, and port.state still says Down: eth0 is down by hand ip link set up"
    )


def test_what_fails_and_what_warns_is_left_and_no_consequence() -> None:
    found = [finding(), finding(Status.WARN), finding(Status.OK), finding(Status.UNKNOWN), finding(root="pci.link")]
    assert repair_page.left(found) == tuple(found[:2])


def test_an_end_says_what_changed_or_would() -> None:
    done = RunOutcome(RunEnd.DONE, 1.25, changed=2)
    assert words(repair_page.ended(done, STYLE)) == "done 2 changed, 1.2 s"
    assert words(repair_page.ended(RunOutcome(RunEnd.DONE, 1.0), STYLE)) == "done nothing to change, 1.0 s"
    dry = RunOutcome(RunEnd.DONE, 1.0, changed=1, diffs=(FileDiff("Write it", "+ a\n- \x1b[31mb\n"),))
    told = words(repair_page.ended(dry, STYLE, dry_run=True))
    assert told.startswith("done 1 would change, 1.0 s + a - ")
    assert "\x1b" not in told


def test_an_end_that_is_not_good_names_the_task_the_reason_and_who_is_left() -> None:
    bad = RunOutcome(RunEnd.TIMED_OUT, 120.0, 0, "Set it", "the deadline came", left=("process 77 (tee)",))
    told = words(repair_page.ended(bad, STYLE))
    assert told.startswith("timed-out Set it: the deadline came")
    assert "cannot be ended: process 77 (tee); it sleeps in the kernel" in told


def test_a_task_is_told_as_it_ended() -> None:
    assert words(repair_page.task(TaskLine("Set it", TaskResult.CHANGED), STYLE)) == "changed Set it"
