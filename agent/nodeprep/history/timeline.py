"""Records in the order in which they happened, each with the time of a corrected clock.

A clock that is wrong after a boot is set later, and may step by hours. CLOCK_BOOTTIME never steps. So within a boot
all times are reckoned back from its last record, whose clock was the last to be set. Records lie in the file in the
order in which they happened, whatever the clock said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from nodeprep.history import node_state
from nodeprep.history.node_record import BASE, FOLDED, LOST, STARTED, STOPPED, NodeRecord
from nodeprep.history.node_state import PastState
from nodeprep.newer_python import UTC
from nodeprep.values import Value, replace

STEP_SECONDS = 2.0  # of a clock against CLOCK_BOOTTIME from one record to the next: less is slewing (adjtimex)
STATED_SECONDS = 1.0  # a time that a human names has whole seconds


class Now(Value):
    """When a history is read: wall time, CLOCK_BOOTTIME and boot id; `alive_at` when the agent was last known to run.

    `alive_at` is in CLOCK_BOOTTIME, None if nobody knows. It is `at` while the agent runs.
    """

    time: float
    at: float
    boot: str
    alive_at: float | None = None


class StateAt(Value):
    """The answer to "what was this node then". `unknown` says why nobody knows, "" if `state` holds.

    `then` is the time that was asked for. `before` are the records of the half hour before it, oldest first, `last` the
    last of all before it.
    """

    then: float
    state: PastState = node_state.NOTHING
    unknown: str = ""
    before: tuple[NodeRecord, ...] = ()
    last: NodeRecord | None = None


def corrected(records: Iterable[NodeRecord], now: Now | None = None) -> list[NodeRecord]:
    """The records with the time that the last clock of their boot gives them."""
    known = [one for one in records if one.event != FOLDED]
    offsets = {one.boot: one.time - one.at for one in known}
    if now is not None and now.boot in offsets:
        offsets[now.boot] = now.time - now.at
    return [replace(one, time=one.at + offsets[one.boot]) for one in known]


def steps(records: Sequence[NodeRecord]) -> list[tuple[NodeRecord, float]]:
    """Where the clock stepped: the first record after it, and by how many seconds."""
    found = []
    for former, one in pairwise([one for one in records if one.event != FOLDED]):
        step = (one.time - one.at) - (former.time - former.at)
        if one.boot == former.boot and abs(step) > STEP_SECONDS:
            found.append((one, step))
    return found


def unseen_ends(records: Iterable[NodeRecord]) -> dict[tuple[str, float], NodeRecord]:
    """Starts before which an agent ended without a word, by boot and CLOCK_BOOTTIME; each with the record before."""
    found: dict[tuple[str, float], NodeRecord] = {}
    former: NodeRecord | None = None
    for one in records:
        if one.event == STARTED and former is not None and former.event not in (STOPPED, BASE):
            found[one.boot, one.at] = former
        former = one
    return found


def past(records: Iterable[NodeRecord], then: float, now: Now, window: float = 1800.0) -> StateAt:
    """What the node was at `then`, wall time in seconds since 1970.

    It is unknown before what is kept, after now, while the agent did not run, and while two boots claim that time.
    """
    known = corrected(records, now)
    if then > now.time + STATED_SECONDS:
        return StateAt(then, unknown="that time has not come yet")
    if not known or then + STATED_SECONDS <= known[0].time:
        return StateAt(then, unknown="that is before what this history keeps")
    claims = [boot for boot, first, last in _boots(known, now) if first <= then <= last]
    if len(set(claims)) > 1:
        return StateAt(then, unknown="the clock was set back, so that two boots claim that time")
    until = [index for index, one in enumerate(known) if one.time <= then + STATED_SECONDS * 0.999]
    heard = known[: until[-1] + 1] if until else []
    state = _within_a_second(heard, then)
    before = tuple(one for one in heard if one.time > then - window and one.event != BASE)
    return StateAt(
        then, state, _doubt(state, heard, known[len(heard) :], then, now), before, next(reversed(heard), None)
    )


def _within_a_second(heard: Sequence[NodeRecord], then: float) -> PastState:
    """The state at the end of the second that a human names; ready for what it was ready for in all of it."""
    before = [one for one in heard if one.time <= then]
    states = [node_state.replay(before)]
    for one in heard[len(before) :]:
        states.append(node_state.after(states[-1], one))
    last = states[-1]
    if len(states) == 1:
        return last
    profiles = {
        name: (is_ready and all(one.profiles.get(name, (False, 0.0))[0] for one in states), since)
        for name, (is_ready, since) in last.profiles.items()
    }
    cases = {key: case for one in states for key, case in one.cases.items()}
    return replace(last, profiles=profiles, cases=cases, is_judged=all(one.is_judged for one in states))


def _boots(records: Sequence[NodeRecord], now: Now) -> list[tuple[str, float, float]]:
    """Each boot with the times of its first and last record, as the corrected clock gives them."""
    found: dict[str, tuple[float, float]] = {}
    for one in records:
        first, _ = found.get(one.boot, (one.time, one.time))
        found[one.boot] = (first, one.time)
    if now.boot in found:
        found[now.boot] = (found[now.boot][0], now.time)
    return [(boot, first, last) for boot, (first, last) in found.items()]


def _doubt(state: PastState, heard: Sequence[NodeRecord], later: Sequence[NodeRecord], then: float, now: Now) -> str:
    """Why nobody knows what held then; "" if the records say it."""
    if state.runs is False:
        signal = heard[-1].text("signal") or "stopped"
        return f"the agent ended {_at(heard[-1].time)} ({signal}){_next_start(later)}"
    if state.runs is None:
        return "no start of the agent is kept from before that time"
    if not state.is_judged:
        return "the agent had not judged yet: it had just started, or its records before that time are lost"
    alive_until = _alive_until(heard[-1], later, now)
    if alive_until is None or then > alive_until + STATED_SECONDS:
        last = heard[-1].time if alive_until is None else max(alive_until, heard[-1].time)
        return f"the agent was last known to run {_at(last)}{_next_start(later)}"
    return ""


def _next_start(later: Sequence[NodeRecord]) -> str:
    start = next((one for one in later if one.event == STARTED), None)
    return " and has not started since" if start is None else f" and started again {_at(start.time)}"


def _at(time: float) -> str:
    return f"at {datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _alive_until(last: NodeRecord, later: Sequence[NodeRecord], now: Now) -> float | None:
    """Until when the agent is known to have run after this record, as wall time; None if that is not known."""
    following = next(iter(later), None)
    if following is None:
        if last.boot != now.boot or now.alive_at is None:
            return last.time
        return now.time - (now.at - now.alive_at)
    if following.event == LOST:
        return last.time  # what came between is among the records that are lost
    if following.event != STARTED:
        return following.time
    alive_at = following.fields.get("former_alive_at")
    if following.boot != last.boot or not isinstance(alive_at, int | float):
        return last.time
    return max(following.time - (following.at - float(alive_at)), last.time)
