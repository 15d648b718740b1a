"""Builders for tests of decisions over time: checks, findings, observations and cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nodeprep.agent_state import AgentState, Case, NodeState, PastAttempt, RepairAttempt
from nodeprep.decide.check_results import CheckObservation
from nodeprep.model import (
    Check,
    Confirmation,
    Finding,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    Waived,
    Why,
)

PLACE = "0000:5c:00.0"
BOOT = "6f1c1b9e-0000-4000-8000-000000000001"
WAIVED = Waived("cable on order", "2030-01-01", 30)
BLIND = Unreadable(Why.DENIED, "/sys/class/infiniband", 13)


def _judge(_: Seen) -> Iterator[Verdict]:
    yield from ()


def check(check_id: str = "port.state", **different: Any) -> Check:
    """A gate check about devices, of the confirmation class `fast`."""
    usual: dict[str, Any] = {
        "id": check_id,
        "question": "?",
        "why": "",
        "fix": "",
        "source": "",
        "severity": Severity.GATE,
        "stage": Stage.DEVICE,
        "confirmation": Confirmation.FAST,
        "needs": (),
        "judge": _judge,
    }
    return Check(**(usual | different))


def checks(*some: Check) -> dict[str, Check]:
    return {one.id: one for one in some}


def finding(
    check_id: str = "port.state",
    status: Status = Status.FAIL,
    *,
    place: str = PLACE,
    port: int | None = 1,
    name: str = "mlx5_3/1",
    reason: str = "",
    message: str = "",
    observed: str = "",
    remedy: Remedy | None = None,
    severity: Severity = Severity.GATE,
    root: str | None = None,
    waived: Waived | None = None,
) -> Finding:
    """A finding on mlx5_3/1; with `place=""` and `port=None`, on the node. UNKNOWN looks as from a check round."""
    reason = reason or {Status.FAIL: "NoSignal", Status.UNKNOWN: "CannotLook"}.get(status, "Fine")
    blind = BLIND if status is Status.UNKNOWN else None
    verdict = Verdict(
        subject=Subject(place, port, name),
        status=status,
        reason=reason,
        message=message or f"{name}: {reason}",
        remedy=remedy,
        observed=observed,
        blind=blind,
    )
    return Finding(check_id, severity, verdict, root, waived)


def observation(at: float, took: float = 0.0) -> CheckObservation:
    """A look whose first fact was observed at `at`, and its last `took` seconds later."""
    return CheckObservation(at, at + took)


def case(check_id: str = "port.state", **different: Any) -> Case:
    """A conviction of mlx5_3/1 since second 100."""
    usual: dict[str, Any] = {
        "check": check_id,
        "place": PLACE,
        "port": 1,
        "name": "mlx5_3/1",
        "reason": "NoSignal",
        "message": "mlx5_3/1: NoSignal",
        "opened_at": 99.0,
        "looks": ((99.0, True), (100.0, True)),
        "convicted_at": 100.0,
    }
    return Case(**(usual | different))


def agent_state(**different: Any) -> AgentState:
    """The agent state of one boot of one node, written by version 1.0."""
    usual: dict[str, Any] = {"boot_id": BOOT, "node_uid": "uid-1", "version": "1.0"}
    return AgentState(**(usual | different))


def attempt(step: str = "running", **different: Any) -> RepairAttempt:
    """An attempt to set up the interface of mlx5_3/1, that began 10 s after its conviction on an unhealthy node."""
    usual: dict[str, Any] = {
        "id": "a" * 32,
        "check": "port.state",
        "place": PLACE,
        "port": 1,
        "reason": "NoSignal",
        "remedy": "link_up",
        "step": step,
        "boot_id": BOOT,
        "wall": 1.8e9,
        "step_since": 110.0,
        "deadline": 120.0,
        "disturbs": ("port.flap", "port.state", "counter.physical"),
        "slot": "nodeprep-slot-0",
        "slot_until": 290.0,
        "state_before": NodeState.UNHEALTHY.value,
        "heard_at": 110.0,
    }
    return RepairAttempt(**(usual | different))


def past(outcome: str = "unreleased", **different: Any) -> PastAttempt:
    """The same attempt, over since second 200."""
    usual: dict[str, Any] = {
        "id": "b" * 32,
        "check": "port.state",
        "place": PLACE,
        "port": 1,
        "reason": "NoSignal",
        "remedy": "link_up",
        "boot_id": BOOT,
        "at": 200.0,
        "wall": 1.8e9,
        "outcome": outcome,
    }
    return PastAttempt(**(usual | different))
