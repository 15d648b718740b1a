"""What a node was at a moment, from the records before it: state, profiles, convictions, and whether the agent ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nodeprep.history.node_record import (
    BASE,
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
from nodeprep.values import Value, asdict, field, replace

PROFILE_EVENTS = (READY, "profile-device-ready", "profile-closed")


class OpenCase(Value):
    """A conviction that stands. `name` is the device's, `since` wall time of its conviction (seconds since 1970)."""

    check: str
    place: str
    name: str
    reason: str
    since: float
    message: str = ""


class PastState(Value):
    """What a node was. `is_judged` is False from a start to the first round's outcome.

    `runs` is False if the agent had ended, and None before the first start. `profiles` are those of the node, each with
    whether it was ready and since when. `configuration` is a digest, `keys` a short digest of each key that was set.
    """

    boot: str = ""
    runs: bool | None = None
    is_judged: bool = False
    version: str = ""
    mode: str = ""
    state: str = ""
    state_since: float = 0.0
    why: str = ""
    profiles: Mapping[str, tuple[bool, float]] = field(default_factory=dict)
    cases: Mapping[str, OpenCase] = field(default_factory=dict)
    configuration: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def ready(self) -> tuple[str, ...]:
        """The names of profiles that were ready."""
        return tuple(name for name, (is_ready, _) in self.profiles.items() if is_ready)


NOTHING = PastState()


def replay(records: Iterable[NodeRecord], state: PastState = NOTHING) -> PastState:
    """The state after these records, in their order."""
    for one in records:
        state = after(state, one)
    return state


def after(state: PastState, record: NodeRecord) -> PastState:
    """The state after one more record. A word that is not known changes nothing."""
    step = STEPS.get(record.event)
    return state if step is None else step(state, record)


def _started(state: PastState, record: NodeRecord) -> PastState:
    said = {"version": record.text("version"), "state": record.text("state"), "state_since": record.time}
    return replace(state, boot=record.boot, runs=True, is_judged=False, profiles={}, cases={}, why="", **said)


def _judged(state: PastState, record: NodeRecord) -> PastState:
    return replace(state, is_judged=True, state=record.text("to"), state_since=record.time, why=record.text("why"))


def _configured(state: PastState, record: NodeRecord) -> PastState:
    keys = record.fields.get("keys")
    return replace(state, configuration=record.text("digest"), keys=keys if isinstance(keys, dict) else {})


def _profile_moved(state: PastState, record: NodeRecord) -> PastState:
    found = dict(state.profiles)
    if record.event == "profile-gone":
        found.pop(record.text("profile"), None)
    else:
        found[record.text("profile")] = (record.event == READY, record.time)
    return replace(state, profiles=found)


def _case_moved(state: PastState, record: NodeRecord) -> PastState:
    found = dict(state.cases)
    found.pop(record.case, None)
    if record.event != RELEASED:
        check, place, name, reason = (record.text(one) for one in ("check", "place", "subject", "reason"))
        found[record.case] = OpenCase(check, place, name, reason, record.time, record.text("message"))
    return replace(state, cases=found)


def base(before: NodeRecord | None, records: Iterable[NodeRecord]) -> NodeRecord | None:
    """A record of what holds after these, for a history that goes on without them; None if there are none."""
    last = None
    state = NOTHING if before is None else _of_base(before)
    for last in records:
        state = after(state, last)
    if last is None:
        return None
    said: dict[str, Any] = asdict(state)
    said["profiles"] = {name: list(one) for name, one in state.profiles.items()}
    return NodeRecord(last.time, last.at, last.boot, BASE, {"was": said})


def _of_base(record: NodeRecord) -> PastState:
    """The state that a base record holds; nothing known if it is no such record."""
    said = record.fields.get("was")
    try:
        known = {name: said[name] for name in PastState.__struct_fields__ if name in said}  # type: ignore[index,operator]
        profiles = {str(name): (bool(one[0]), float(one[1])) for name, one in known.get("profiles", {}).items()}
        cases = {str(key): OpenCase(**one) for key, one in known.get("cases", {}).items()}
        return PastState(**{**known, "profiles": profiles, "cases": cases})
    except (TypeError, ValueError, LookupError, AttributeError):
        return replace(NOTHING, boot=record.boot)


STEPS: Mapping[str, Callable[[PastState, NodeRecord], PastState]] = {
    BASE: lambda _, record: _of_base(record),
    STARTED: _started,
    STOPPED: lambda state, _: replace(state, runs=False),
    LOST: lambda state, _: replace(state, is_judged=False, profiles={}, cases={}),
    CONFIGURATION: _configured,
    "mode": lambda state, record: replace(state, mode=record.text("to")),
    "state": _judged,
    "closed-for-shutdown": lambda state, record: replace(
        state, profiles=dict.fromkeys(state.profiles, (False, record.time))
    ),
    **dict.fromkeys((*PROFILE_EVENTS, "profile-gone"), _profile_moved),
    **dict.fromkeys((CONVICTED, STILL_CONVICTED, RELEASED), _case_moved),
}
