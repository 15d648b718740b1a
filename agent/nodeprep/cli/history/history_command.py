"""`nodeprep history`: what happened to this node or another, and what it was at a time."""

from __future__ import annotations

from nodeprep.cli import place, terminal
from nodeprep.cli.check import json_report
from nodeprep.cli.check.choices import Format
from nodeprep.cli.files import snapshot_command
from nodeprep.cli.history import history_reading, moment, timeline_page
from nodeprep.cli.history.history_reading import HistoryReading
from nodeprep.cli.nodes import agent_exec, scope
from nodeprep.cli.nodes.fleet_reader import CannotSee, Fleet
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.usage import UsageError
from nodeprep.doors.kube.pod_exec import ExecTarget
from nodeprep.history import incidents, timeline
from nodeprep.history.incidents import Selection
from nodeprep.history.timeline import StateAt
from nodeprep.job_profile import API_VERSION
from nodeprep.model import Unreadable
from nodeprep.values import Value, asdict, field

READY, NOT_READY, UNKNOWN = 0, 1, 3  # exit codes of --at
COMMAND = ("history", "-o", "json")
WORDS = 300  # characters of what a command complained about


class HistoryOptions(Value):
    """The options of `history`, as they were typed. Without `where.names` it is this node's."""

    where: FleetScope = field(default_factory=FleetScope)
    host_root: str | None = None
    since: str | None = None
    at: str | None = None
    device: str = "*"
    check: str = "*"
    output: Format = Format.TABLE
    snapshot: str | None = None


def run(asked: HistoryOptions) -> int:
    """Print it; returns the exit code. Raises UsageError."""
    if asked.at is not None and (asked.since is not None or (asked.device, asked.check) != ("*", "*")):
        raise UsageError(
            "--at is one moment of the whole node: it cannot be combined with --since, --device or --check"
        )
    if asked.snapshot is not None:
        if asked.where.names:
            raise UsageError("--snapshot is a file, and NODE a Node of the cluster: give one of them")
        return _told(asked, history_reading.of_snapshot(snapshot_command.read(asked.snapshot), asked.snapshot))
    if not asked.where.names:
        return _told(asked, history_reading.of_place(place.place(None, asked.host_root)))
    fleet = asked.where.fleet()
    return scope.exit_code(lambda: _told(asked, _remote(fleet, asked.where.names[0])))


def remote(fleet: Fleet, node: str, target: ExecTarget) -> HistoryReading | str:
    """The history of another node, from its agent; or why there is none."""
    answer = agent_exec.run(fleet, target, COMMAND)
    if isinstance(answer, Unreadable):
        return str(answer)
    found = history_reading.of_document(answer.stdout.decode(errors="replace"), node) if answer.code == 0 else None
    if found is not None:
        return found
    said = answer.stderr.decode(errors="replace").strip().splitlines()
    return f"nodeprep history ended with {answer.code}: {said[-1][:WORDS] if said else 'it said nothing'}"


def _remote(fleet: Fleet, node: str) -> HistoryReading:
    """Raises CannotSee."""
    target = agent_exec.targets(fleet).get(node)
    if target is None:
        raise CannotSee(f"{node}: no agent runs there; its history is in /var/lib/nodeprep on that node")
    found = remote(fleet, node, target)
    if isinstance(found, str):
        raise CannotSee(f"{node}: {found}")
    return found


def _told(asked: HistoryOptions, reading: HistoryReading) -> int:
    if asked.at is not None:
        return _told_of_then(asked, reading, moment.seconds("--at", asked.at, reading.now.time))
    since = 0.0 if asked.since is None else moment.seconds("--since", asked.since, reading.now.time)
    wanted = Selection(since, asked.device, asked.check)
    if asked.output is Format.JSON:
        chosen = incidents.selected(incidents.grouped(reading.single), wanted)
        records = [record for one in chosen for record in one.records]
        if not wanted.is_narrow and not since:
            records = reading.single
        terminal.put(json_report.text(history_reading.document(reading, records)))
    else:
        terminal.put("\n".join(timeline_page.page(reading, wanted, wide=asked.output is Format.WIDE)))
    return 0


def _told_of_then(asked: HistoryOptions, reading: HistoryReading, then: float) -> int:
    past = timeline.past(reading.records, then, reading.now)
    if asked.output is Format.JSON:
        terminal.put(json_report.text(_past_document(reading, past)))
    else:
        terminal.put("\n".join(timeline_page.past_page(reading, past)))
    return _code(past)


def _code(past: StateAt) -> int:
    profiles = past.state.profiles
    if past.unknown or not profiles:
        return UNKNOWN
    return READY if len(past.state.ready) == len(profiles) else NOT_READY


def _past_document(reading: HistoryReading, past: StateAt) -> dict[str, object]:
    said = asdict(past.state)
    profiles = {
        name: {"open": is_open, "since": moment.exact(at)} for name, (is_open, at) in past.state.profiles.items()
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "PastState",
        "node": reading.node,
        "time": moment.exact(past.then),
        "verdict": {READY: "ready", NOT_READY: "not-ready", UNKNOWN: "unknown"}[_code(past)],
        "unknown": past.unknown,
        "profiles": {} if past.unknown else profiles,
        "open": []
        if past.unknown
        else [asdict(one) | {"since": moment.exact(one.since)} for one in past.state.cases.values()],
        "state": "" if past.unknown else said["state"],
        "mode": "" if past.unknown else said["mode"],
        "version": "" if past.unknown else said["version"],
        "configuration": "" if past.unknown else said["configuration"],
        "before": [history_reading.record_document(one) for one in past.before],
    }
