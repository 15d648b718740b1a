"""Reports from short descriptions, for tests of what is said about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nodeprep.model import (
    NODE,
    Basis,
    Check,
    Confirmation,
    Finding,
    Reason,
    Remedy,
    Report,
    Seen,
    Severity,
    Skipped,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    Waived,
    Why,
)
from nodeprep.values import replace


def nothing(seen: Seen) -> Iterator[Verdict]:  # noqa: ARG001
    yield from ()


LOOK = {"": "Look at it."}


def check(check_id: str, fixes: Mapping[str, str], severity: str = "gate") -> Check:
    """A check of which only id, severity and fixes matter here: those of reasons by name, that of the check by ""."""
    return Check(
        id=check_id,
        question="Is it well?",
        why="It matters.",
        fix=fixes[""],
        source="somewhere",
        severity=Severity(severity),
        stage=Stage.DEVICE,
        confirmation=Confirmation.FAST,
        needs=(),
        judge=nothing,
        reasons=tuple(
            Reason(name, status, fix) for name, fix in fixes.items() if name for status in (Status.FAIL, Status.WARN)
        ),
    )


def finding(given: dict[str, Any], fixes: Mapping[str, str]) -> Finding:
    """`check`, `status`, and what differs from an OK verdict on the node; `at` is ADDRESS or ADDRESS/PORT."""
    place, _, port = given.get("at", "").partition("/")
    subject = Subject(place, int(port) if port else None, given.get("name") or given["at"]) if place else NODE
    blind, remedy, waived = given.get("blind"), given.get("remedy"), given.get("waived")
    verdict = Verdict(
        subject=subject,
        status=Status(given["status"]),
        reason=given.get("reason", "Fine"),
        message=given.get("message", "as it should be"),
        remedy=Remedy(remedy["playbook"], remedy.get("args", {})) if remedy else None,
        observed=given.get("observed", ""),
        expected=given.get("expected", ""),
        blind=Unreadable(Why(blind["kind"]), blind["path"], blind.get("errno"), blind.get("detail", ""))
        if blind
        else None,
    )
    excused = Waived(waived["reason"], waived["until"], waived["days"]) if waived else None
    of = check(given["check"], fixes, given.get("severity", "gate"))
    return replace(of.finding(verdict), root=given.get("root"), waived=excused)


def report(given: dict[str, Any]) -> Report:
    fixes = given.get("fixes", {})
    return Report(
        node=given.get("node", "gpu-17"),
        boot_id=given.get("boot-id", ""),
        profile=given.get("profile", "rdma-roce"),
        chosen_by=given.get("chosen-by", "chosen with --profile"),
        gates=tuple(given.get("gates", ())),
        findings=tuple(finding(one, fixes.get(one["check"], LOOK)) for one in given.get("findings", ())),
        skipped=tuple(Skipped(*one) for one in given.get("skipped", ())),
        missing_hardware=given.get("looked-for", ""),
        notes=tuple(given.get("notes", ())),
        basis=basis(given.get("basis", {})),
    )


def basis(given: dict[str, Any]) -> Basis:
    """By the names of its fields."""
    stated: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in given.items()}
    return Basis(**stated)
