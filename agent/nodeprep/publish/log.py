"""What a round changed, one entry per transition and none at steady state; and those as lines of JSON on stderr."""

from __future__ import annotations

import json
import logging
import os
import select
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nodeprep.decide.damping import DampingPolicy
from nodeprep.decide.readiness import ProfileStanding
from nodeprep.facts.past import Blind, Case, State
from nodeprep.publish.status import UNFENCED, NodeStatus, words_of

LONGEST = (1000, 200, 60)  # characters of a field; the next lower where a line would be too long
# Bytes of a line: so much goes into a pipe at once or not at all (PIPE_BUF), and never stops who writes it.
MOST_LINE = select.PIPE_BUF
NOT_BUILT = "what runs it is not built yet: do what nodeprep explain {} says under fix"
NEED_HUMANS = (State.UNHEALTHY, State.AWAITING_HUMAN)
STANDARD = DampingPolicy()


@dataclass(frozen=True, slots=True)
class Entry:
    """One transition: a stable word for programs, and what it is about. `warning` wants a human's eye."""

    event: str
    fields: Mapping[str, object] = field(default_factory=dict)
    warning: bool = False


def transitions(
    before: NodeStatus | None, after: NodeStatus, blind_after: float = STANDARD.blind_after, *, started: str = ""
) -> tuple[Entry, ...]:
    """What is different after a round. `before` is None in the first: then all that is not fine is told.

    `blind_after` is the seconds after which a check that could not look is told of; `started` is the reason that the
    line of the start gave for the state, which the first round does not say again. What is believed comes before what
    follows from it, which names it and no more.
    """
    return (
        *_mode(before, after),
        *_chosen(before, after),
        *_cases(before, after),
        *_state(before, after, started),
        *_profiles(before, after),
        *_blind(before, after, blind_after),
        *_spared(before, after),
        *_awaited(before, after),
        *_remedies(before, after),
        *_bells(before, after),
        *_trouble("store", before.store_trouble if before else "", after.store_trouble),
        *_trouble("gate", before.gate_trouble if before else "", after.gate_trouble),
        *_trouble("config", before.config_trouble if before else "", after.config_trouble),
        *_trouble("publish", _unpublished(before), _unpublished(after)),
        *_fence(before, after),
        *_mounts(before, after),
    )


def _mode(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    if before is None or before.mode is not after.mode:
        yield Entry("mode", {"from": before.mode if before else "", "to": after.mode})


def _chosen(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    now, then = after.report, before.report if before else None
    if then is None or (now.profile, now.chosen_by) != (then.profile, then.chosen_by):
        yield Entry(
            "profile-chosen", {"from": then.profile if then else "", "to": now.profile, "chosen_by": now.chosen_by}
        )


def _state(before: NodeStatus | None, after: NodeStatus, started: str) -> Iterator[Entry]:
    state, why = after.past.state, after.past.why
    if before is None or before.past.state is not state:
        told: dict[str, object] = {"from": before.past.state if before else "", "to": state}
        if before is not None or why != started:
            told["why"] = _named(why, after)
        yield Entry("state", told, state in NEED_HUMANS)


def _profiles(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    then = {found.name: found for found in before.desired.profiles} if before else {}
    for found in after.desired.profiles:
        known = then.get(found.name)
        if known is None or (known.device, known.ready) != (found.device, found.ready):
            # Closed at a start is no news of the node: the state tells why.
            worse = known is not None and (known.ready, known.device) > (found.ready, found.device)
            told = {"profile": found.name, "gating": found.gating, "device_stage": found.device}
            yield Entry(_standing(found), told | {"why": _named(found.why, after)}, worse)
    gone = then.keys() - {found.name for found in after.desired.profiles}
    yield from (Entry("profile-gone", {"profile": name}) for name in sorted(gone))


def _named(why: str, after: NodeStatus) -> str:
    """A reason that a conviction is at the end of, without its message: the conviction has a line of its own."""
    for case in after.past.cases:
        before, named, _ = why.partition(f"{case.check} {case.reason}: ")
        if named and case.convicted:
            return f"{before}{case.check} {case.reason}"
    return why


def _standing(found: ProfileStanding) -> str:
    if found.ready:
        return "profile-ready"
    return "profile-device-ready" if found.device else "profile-closed"


def _cases(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    then = {(case.check, case.subject): case for case in before.past.cases} if before else {}
    now = {(case.check, case.subject): case for case in after.past.cases}
    for key, case in now.items():
        known = then.get(key)
        if case.convicted and (known is None or known.convicted_at != case.convicted_at):
            if known is not None and known.convicted:
                yield _released(known, after)
            yield Entry("convicted", _about(case) | {"reason": case.reason, "message": case.message}, warning=True)
        if case.latched and (known is None or known.latched != case.latched):
            yield Entry("latched", _about(case) | {"why": case.latched}, warning=True)
    for key, case in then.items():
        found = now.get(key)
        if case.convicted and (found is None or not found.convicted):
            yield _released(case, after)


def _released(case: Case, after: NodeStatus) -> Entry:
    seconds = round(after.at - (case.convicted_at or 0.0), 1)
    return Entry("released", _about(case) | {"reason": case.reason, "stood_seconds": seconds})


def _about(case: Case) -> dict[str, object]:
    return {"check": case.check, "subject": case.name, "place": case.subject.key}


def _blind(before: NodeStatus | None, after: NodeStatus, limit: float) -> Iterator[Entry]:
    then, now = _long_blind(before, limit), _long_blind(after, limit)
    for check, blind in now.items():
        if check not in then:
            seconds = round(after.at - blind.since)
            yield Entry("cannot-look", {"check": check, "seconds": seconds, "message": blind.message}, warning=True)
    yield from (Entry("can-look", {"check": check}) for check in then.keys() - now.keys())


def _long_blind(status: NodeStatus | None, limit: float) -> dict[str, Blind]:
    if status is None:
        return {}
    return {check: blind for check, blind in status.past.blind.items() if status.at - blind.since >= limit}


def _spared(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    then = before.spared if before else ()
    why = "only this version finds the fault; the one before passed the same value, so the gate stays as it is for now"
    yield from (Entry("spared", {"check": one, "why": why}, warning=True) for one in after.spared if one not in then)
    yield from (Entry("spared-no-more", {"check": one}) for one in then if one not in after.spared)


def _awaited(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    then = before.awaited if before else ()
    why = "new in this version and yet to pass; a rollout waits until it did"
    yield from (Entry("awaited", {"check": one, "why": why}) for one in after.awaited if one not in then)
    yield from (Entry("awaited-no-more", {"check": one}) for one in then if one not in after.awaited)


def _remedies(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    then = before.desired.would_run if before else ()
    for check, remedy in after.desired.would_run:
        if (check, remedy) not in then:
            due = {"check": check, "planned": remedy.playbook, "args": dict(remedy.args)}
            yield Entry("would-run", {**due, "why": NOT_BUILT.format(check)})


def _bells(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    for name, bell in after.bells.items():
        known = before.bells.get(name) if before else None
        was_alive = known is None or known.alive
        if was_alive and bell.absent:
            yield Entry("bell-absent", {"bell": name, "why": bell.why})
        elif was_alive and not bell.alive:
            yield Entry("bell-died", {"bell": name, "why": bell.why}, warning=True)
        elif bell.alive and not was_alive:
            yield Entry("bell-back", {"bell": name, "restarts": bell.restarts})
        elif bell.alive and bell.restarts != (known.restarts if known else bell.restarts):
            yield Entry("bell-restarted", {"bell": name, "restarts": bell.restarts})


def _trouble(what: str, then: str, now: str) -> Iterator[Entry]:
    if now and now != then:
        yield Entry(f"{what}-trouble", {"message": now}, warning=True)
    elif then and not now:
        yield Entry(f"{what}-fine-again")


def _unpublished(status: NodeStatus | None) -> str:
    return status.published.trouble if status is not None and status.published is not None else ""


def _fence(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    then = before.published.fenced if before is not None and before.published is not None else None
    now = after.published.fenced if after.published is not None else None
    if now is not None and now is not then:
        yield Entry("fenced") if now else Entry("unfenced", {"message": UNFENCED}, warning=True)


def _mounts(before: NodeStatus | None, after: NodeStatus) -> Iterator[Entry]:
    """Once: the mounts of a container stay as they are."""
    if after.exposed and (before is None or before.exposed != after.exposed):
        yield Entry("mounts-trouble", {"message": words_of(after.exposed)}, warning=True)


def tell(entries: Iterable[Entry], logger: logging.Logger) -> None:
    """Log entries: a warning where a human should look, else for the record."""
    for entry in entries:
        level = logging.WARNING if entry.warning else logging.INFO
        logger.log(level, entry.event, extra={"fields": entry.fields})


class JsonLines(logging.Handler):
    """Each record as one line of JSON on a file descriptor.

    What cannot be written at once is dropped and counted: a log that nobody reads, or that is full or gone, must not
    stop the agent. The next line that goes out says how many were lost.
    """

    def __init__(self, descriptor: int = 2) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)
        self.lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, if that can be done now."""
        try:
            goes = bool(self._ready.poll(0)) and os.write(self._descriptor, line(record, self.lost).encode("ascii")) > 0
        except Exception:  # noqa: BLE001 - the boundary: a line that cannot be made or written must not stop who logs
            goes = False
        self.lost = 0 if goes else self.lost + 1


def line(record: logging.LogRecord, lost: int = 0) -> str:
    """A record as one line of ASCII, control characters escaped; long fields are cut, and many of them the more."""
    told: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "event": record.getMessage(),
    }
    if lost:
        told["lost_lines"] = lost
    fields: dict[str, Any] = dict(getattr(record, "fields", {}))
    if record.exc_info:
        fields["trace"] = logging.Formatter().formatException(record.exc_info)
    for longest in LONGEST:
        text = _json({name: _cut(value, longest) for name, value in (told | fields | told).items()})
        if len(text) <= MOST_LINE:
            return text
    return _json({name: _cut(value, LONGEST[-1]) for name, value in told.items()})


def _cut(value: object, longest: int) -> object:
    if isinstance(value, Mapping):
        return {str(key)[:longest]: _cut(one, longest) for key, one in value.items()}
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _json(told: Mapping[str, object]) -> str:
    return json.dumps(told) + "\n"  # all but printable ASCII escaped


def to_stderr(*, verbose: bool = False) -> logging.Logger:
    """The logger of the whole program, which from now on writes to stderr and nowhere else."""
    root = logging.getLogger()
    root.handlers = [JsonLines()]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    return logging.getLogger("nodeprep")
