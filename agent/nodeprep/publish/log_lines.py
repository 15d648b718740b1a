"""What a round changed: one entry for each transition, none at steady state. And these as lines of JSON on stderr."""

from __future__ import annotations

import json
import logging
import os
import select
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from nodeprep.agent_state import BlindSince, Case, NodeState
from nodeprep.decide import drill_notice
from nodeprep.decide.fault_confirmation import ConfirmationPolicy
from nodeprep.decide.gate_readiness import Mode, ProfileReadiness
from nodeprep.newer_python import UTC
from nodeprep.publish import node_status, repair_lines
from nodeprep.publish.node_status import NOT_ENFORCED, NodeStatus
from nodeprep.values import Value, field

FIELD_LIMITS_CHARACTERS = (1000, 200, 60)  # characters of a field; the next lower limit if the line is too long
# Bytes of a line: a pipe takes so many at once or not at all (PIPE_BUF), so the writer never stops in a line.
LINE_LIMIT_BYTES = select.PIPE_BUF
NOT_REPAIR = "mode {}: only mode repair runs remedies, and a human goes by the fix"
REPORT_HINT = "nodeprep explain {}"
NEED_HUMANS = (NodeState.UNHEALTHY, NodeState.AWAITING_HUMAN)
DEFAULT_CONFIRMATION = ConfirmationPolicy()


class LogEntry(Value):
    """One transition: a stable word for programs, and its details. A `warning` needs a human."""

    event: str
    fields: Mapping[str, object] = field(default_factory=dict)
    warning: bool = False


def transitions(
    before: NodeStatus | None,
    after: NodeStatus,
    blind_after: float = DEFAULT_CONFIRMATION.blind_after,
    *,
    started: str = "",
) -> tuple[LogEntry, ...]:
    """What changed in a round. `before` is None in the first round. Then everything that is not fine is told.

    After `blind_after` seconds a check that could not look is told. `started` is the reason for the state in the log
    line of the start; the first round does not repeat it. A conviction comes before its consequences, which only name
    it.
    """
    return (
        *_mode(before, after),
        *_profile_selection(before, after),
        *_drill(before, after),
        *_cases(before, after),
        *_state(before, after, started),
        *_profiles(before, after),
        *_blind(before, after, blind_after),
        *_deferred(before, after),
        *_pending_gates(before, after),
        *_planned_remedies(before, after),
        *_repairs(before, after),
        *_event_sources(before, after),
        *_trouble("store", before.store_trouble if before else "", after.store_trouble),
        *_trouble("gate", before.gate_trouble if before else "", after.gate_trouble),
        *_trouble("config", before.config_trouble if before else "", after.config_trouble),
        *_trouble("publish", _unpublished(before), _unpublished(after)),
        *_admission_policy(before, after),
        *_mounts(before, after),
    )


def _mode(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    if before is None or before.mode is not after.mode:
        yield LogEntry("mode", {"from": before.mode if before else "", "to": after.mode})


def _drill(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    former, now = before.drill if before else None, after.drill
    if former is not None and former != now:
        yield LogEntry("drill-ended", {"drill": former.name, "device": former.device})
    if now is not None and former != now:
        fields = {"drill": now.name, "device": now.device, "seconds_left": round(now.until - after.at)}
        yield LogEntry("drill-began", fields)


def _profile_selection(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    now, former = after.report, before.report if before else None
    if former is None or (now.profile, now.chosen_by) != (former.profile, former.chosen_by):
        yield LogEntry(
            "profile-chosen", {"from": former.profile if former else "", "to": now.profile, "chosen_by": now.chosen_by}
        )


def _state(before: NodeStatus | None, after: NodeStatus, started: str) -> Iterator[LogEntry]:
    state, why = after.agent_state.state, after.agent_state.why
    if before is None or before.agent_state.state is not state:
        fields: dict[str, object] = {"from": before.agent_state.state if before else "", "to": state}
        if before is not None or why != started:
            fields["why"] = _without_message(why, after)
        yield LogEntry("state", fields, state in NEED_HUMANS)


def _profiles(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    former = {found.name: found for found in before.desired.profiles} if before else {}
    for found in after.desired.profiles:
        known = former.get(found.name)
        if known is None or (known.device, known.ready) != (found.device, found.ready):
            # A gate that is closed at the start is not news about the node: the state tells why.
            worse = known is not None and (known.ready, known.device) > (found.ready, found.device)
            fields = {"profile": found.name, "gating": found.gating, "device_stage": found.device}
            yield LogEntry(_gate_event(found), fields | {"why": _without_message(found.why, after)}, worse)
    gone = former.keys() - {found.name for found in after.desired.profiles}
    yield from (LogEntry("profile-gone", {"profile": name}) for name in sorted(gone))


def _without_message(why: str, after: NodeStatus) -> str:
    """A reason without the message of the conviction at its end: the conviction has a line of its own."""
    for case in after.agent_state.cases:
        before, named, _ = why.partition(f"{case.check} {case.reason}: ")
        if named and case.convicted:
            return f"{before}{case.check} {case.reason}"
    return why


def _gate_event(found: ProfileReadiness) -> str:
    if found.ready:
        return "profile-ready"
    return "profile-device-ready" if found.device else "profile-closed"


def _cases(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    former = {(case.check, case.subject): case for case in before.agent_state.cases} if before else {}
    now = {(case.check, case.subject): case for case in after.agent_state.cases}
    for key, case in now.items():
        known = former.get(key)
        if case.convicted and (known is None or known.convicted_at != case.convicted_at):
            if known is not None and known.convicted:
                yield _released(known, after)
            fields = {"reason": case.reason, "message": case.message, "fix": _fix(case, after)}
            made = after.drill if drill_notice.has_made(after.drill, case) else None
            drill = {"drill": made.name} if made is not None else {}
            yield LogEntry("convicted", _about(case) | drill | fields, warning=True)
        if case.latched and (known is None or known.latched != case.latched):
            yield LogEntry("latched", _about(case) | {"why": case.latched}, warning=True)
    for key, case in former.items():
        found = now.get(key)
        if case.convicted and (found is None or not found.convicted):
            yield _released(case, after)


def _released(case: Case, after: NodeStatus) -> LogEntry:
    seconds = round(after.at - (case.convicted_at or 0.0), 1)
    return LogEntry("released", _about(case) | {"reason": case.reason, "stood_seconds": seconds})


def _fix(case: Case, after: NodeStatus) -> str:
    """What to do about a conviction, as long as it is seen. Otherwise where to read it."""
    seen = (one.fix for one in after.report.findings if (one.check, one.subject) == (case.check, case.subject))
    return next(filter(None, seen), "") or REPORT_HINT.format(case.check)


def _about(case: Case) -> dict[str, object]:
    return {"check": case.check, "subject": case.name, "place": case.subject.key}


def _blind(before: NodeStatus | None, after: NodeStatus, limit: float) -> Iterator[LogEntry]:
    former, now = _long_blind(before, limit), _long_blind(after, limit)
    for check, blind in now.items():
        if check not in former:
            seconds = round(after.at - blind.since)
            yield LogEntry("cannot-look", {"check": check, "seconds": seconds, "message": blind.message}, warning=True)
    yield from (LogEntry("can-look", {"check": check}) for check in former.keys() - now.keys())


def _long_blind(status: NodeStatus | None, limit: float) -> dict[str, BlindSince]:
    if status is None:
        return {}
    return {check: blind for check, blind in status.agent_state.blind.items() if status.at - blind.since >= limit}


def _deferred(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    former = before.deferred if before else ()
    why = f"only this {after.new_rules} finds the fault, the one before did not, so the gate stays as it is for now"
    yield from (
        LogEntry("deferred", {"check": one, "why": why}, warning=True) for one in after.deferred if one not in former
    )
    yield from (LogEntry("deferred-no-more", {"check": one}) for one in former if one not in after.deferred)


def _pending_gates(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    former = before.pending_gates if before else ()
    why = "new in this version and yet to pass; a rollout waits until it did"
    yield from (
        LogEntry("gate-pending", {"check": one, "why": why}) for one in after.pending_gates if one not in former
    )
    yield from (LogEntry("gate-pending-no-more", {"check": one}) for one in former if one not in after.pending_gates)


def _repairs(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    for one in repair_lines.lines(before, after):
        yield LogEntry(one.word, {**one.fields, "message": one.message}, one.warning)


def _planned_remedies(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    if after.mode is Mode.REPAIR:
        return
    former = before.desired.planned_remedies if before else ()
    for check, remedy in after.desired.planned_remedies:
        if (check, remedy) not in former:
            due: dict[str, object] = {"check": check, "planned": remedy.playbook, "args": dict(remedy.args)}
            due["why"] = NOT_REPAIR.format(after.mode)
            seen = (one for one in after.report.findings if (one.check, one.verdict.remedy) == (check, remedy))
            yield LogEntry(
                "would-run", {**due, "fix": next((one.fix for one in seen if one.fix), REPORT_HINT.format(check))}
            )


def _event_sources(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    for name, event_source in after.event_sources.items():
        known = before.event_sources.get(name) if before else None
        was_alive = known is None or known.alive
        if was_alive and event_source.absent:
            yield LogEntry("event-source-absent", {"event_source": name, "why": event_source.why})
        elif was_alive and not event_source.alive:
            yield LogEntry("event-source-died", {"event_source": name, "why": event_source.why}, warning=True)
        elif event_source.alive and not was_alive:
            yield LogEntry("event-source-back", {"event_source": name, "restarts": event_source.restarts})
        elif event_source.alive and event_source.restarts != (known.restarts if known else event_source.restarts):
            yield LogEntry("event-source-restarted", {"event_source": name, "restarts": event_source.restarts})


def _trouble(what: str, former: str, now: str) -> Iterator[LogEntry]:
    if now and now != former:
        yield LogEntry(f"{what}-trouble", {"message": now}, warning=True)
    elif former and not now:
        yield LogEntry(f"{what}-fine-again")


def _unpublished(status: NodeStatus | None) -> str:
    return status.api_status.trouble if status is not None and status.api_status is not None else ""


def _admission_policy(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    former = before.api_status.policy_enforced if before is not None and before.api_status is not None else None
    now = after.api_status.policy_enforced if after.api_status is not None else None
    if now is not None and now is not former:
        yield (
            LogEntry("policy-enforced")
            if now
            else LogEntry("policy-not-enforced", {"message": NOT_ENFORCED}, warning=True)
        )


def _mounts(before: NodeStatus | None, after: NodeStatus) -> Iterator[LogEntry]:
    """Once: the mounts of a container do not change."""
    if after.exposed and (before is None or before.exposed != after.exposed):
        yield LogEntry("mounts-trouble", {"message": node_status.exposed_mounts_message(after.exposed)}, warning=True)


def tell(entries: Iterable[LogEntry], logger: logging.Logger) -> None:
    """Log entries: as a warning if a human should look, otherwise as info."""
    for entry in entries:
        level = logging.WARNING if entry.warning else logging.INFO
        logger.log(level, entry.event, extra={"fields": entry.fields})


class JsonLines(logging.Handler):
    """Each record as one line of JSON on a file descriptor.

    What cannot be written at once is dropped and counted: a log that is full, gone or not read must not stop the agent.
    The next line that is written says how many were lost.
    """

    def __init__(self, descriptor: int = 2) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)
        self.lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, if that is possible now."""
        try:
            is_written = (
                bool(self._ready.poll(0)) and os.write(self._descriptor, line(record, self.lost).encode("ascii")) > 0
            )
        except Exception:  # noqa: BLE001 - the boundary: a line that cannot be made or written must not stop who logs
            is_written = False
        self.lost = 0 if is_written else self.lost + 1


def line(record: logging.LogRecord, lost: int = 0) -> str:
    """A record as one line of ASCII, with control characters escaped.

    Long fields are cut; many long fields are cut more.
    """
    head: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "event": record.getMessage(),
    }
    if lost:
        head["lost_lines"] = lost
    fields: dict[str, Any] = dict(getattr(record, "fields", {}))
    if record.exc_info:
        fields["trace"] = logging.Formatter().formatException(record.exc_info)
    for limit in FIELD_LIMITS_CHARACTERS:
        text = _json({name: _truncated(value, limit) for name, value in (head | fields | head).items()})
        if len(text) <= LINE_LIMIT_BYTES:
            return text
    return _json({name: _truncated(value, FIELD_LIMITS_CHARACTERS[-1]) for name, value in head.items()})


def _truncated(value: object, limit: int) -> object:
    if isinstance(value, Mapping):
        return {str(key)[:limit]: _truncated(one, limit) for key, one in value.items()}
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _json(fields: Mapping[str, object]) -> str:
    return json.dumps(fields) + "\n"  # everything except printable ASCII is escaped


def to_stderr(*, verbose: bool = False) -> logging.Logger:
    """The logger of the whole program. From now on it writes only to stderr."""
    root = logging.getLogger()
    root.handlers = [JsonLines()]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    return logging.getLogger("nodeprep")
