"""A record in a few words, for a person who reads a timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nodeprep.history.node_record import (
    CONFIGURATION,
    CONVICTED,
    LOST,
    READY,
    RELEASED,
    STARTED,
    STILL_CONVICTED,
    STOPPED,
    NodeRecord,
)

# Of decide.repair_budget.AttemptOutcome, which are stored as text.
OUTCOMES: Mapping[str, str] = {
    "released": "helped",
    "changed": "helped in part",
    "unreleased": "did not help",
    "refused": "was refused",
    "cut-off": "was cut off",
}
HIDDEN = ("message", "why")  # they are told beside the words, or not at all


def words(record: NodeRecord) -> str:
    """What happened, without the time."""
    say = WORDS.get(record.event)
    if say is not None:
        return say(record)
    if record.event.startswith("repair-"):
        return record.text("message")
    plain = (
        f"{name} {value}"
        for name, value in record.fields.items()
        if not (isinstance(value, list | dict) or name in HIDDEN)
    )
    return " ".join((record.event, *plain))


def device(record: NodeRecord) -> str:
    """What a human calls the device of a case; "" for the node itself."""
    return record.text("subject") or record.text("place")


def _checked(record: NodeRecord) -> str:
    return f"{record.text('check')} {device(record)}".rstrip()


def _case(record: NodeRecord) -> str:
    return f"{record.text('check')} {record.text('reason')} {device(record)}".rstrip()


def _configuration(record: NodeRecord) -> str:
    changed, keys = record.fields.get("changed"), record.fields.get("keys")
    names = ", ".join(map(str, changed)) if isinstance(changed, list) else ""
    first = ", ".join(sorted(keys)) if isinstance(keys, dict) else ""
    told = f"{names or 'nothing'} changed" if isinstance(changed, list) else f"sets {first or 'nothing'}"
    return f"configuration {record.text('digest')}: {told}"


def _stopped(record: NodeRecord) -> str:
    return f"agent stopped ({record.text('signal')})" if record.text("signal") else "agent stopped"


WORDS: Mapping[str, Callable[[NodeRecord], str]] = {
    CONVICTED: _case,
    STILL_CONVICTED: lambda one: f"still {_case(one)}",
    RELEASED: lambda one: f"{_checked(one)} passes again",
    STARTED: lambda one: f"agent {one.text('version')} started in boot {one.boot}",
    STOPPED: _stopped,
    CONFIGURATION: _configuration,
    LOST: lambda one: f"{one.text('count')} records are lost: {one.text('why')}",
    READY: lambda one: f"gate {one.text('profile')} open",
    "profile-closed": lambda one: f"gate {one.text('profile')} closed",
    "profile-device-ready": lambda one: f"gate {one.text('profile')} open for plugins",
    "profile-chosen": lambda one: f"profile {one.text('to')} ({one.text('chosen_by')})",
    "state": lambda one: f"state {one.text('to')}",
    "mode": lambda one: f"mode {one.text('to')}",
    "repair-step": lambda one: f"repair {one.text('remedy')} runs",
    "repair-ended": lambda one: f"repair {one.text('remedy')} {OUTCOMES.get(one.text('outcome'), 'ended')}",
    "policy-enforced": lambda _: "admission policy enforced",
    "policy-not-enforced": lambda _: "admission policy not enforced",
    "closed-for-shutdown": lambda _: "all gates closed for a shutdown",
}
