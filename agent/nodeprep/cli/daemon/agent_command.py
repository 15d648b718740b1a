"""`nodeprep agent`: the daemon of a node."""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nodeprep import __version__
from nodeprep.agent.loop import LOOP_PERIOD_SECONDS, Agent, AgentParts
from nodeprep.cli import place, usage
from nodeprep.cli.check import json_report
from nodeprep.cli.check.choices import FailOn
from nodeprep.cli.daemon import directories, repair_waits
from nodeprep.cli.daemon.directories import SOCKET, AgentDirectories
from nodeprep.cli.kubernetes_access import NO_CLUSTER, ClusterOptions
from nodeprep.cli.place import NodePlace
from nodeprep.cli.usage import UsageError
from nodeprep.config import configuration
from nodeprep.config.configuration import DEFAULT_FILE
from nodeprep.doors import clock, socket_probe, systemd
from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.files import state_store
from nodeprep.doors.files.alive_mark import AliveMark
from nodeprep.doors.files.state_store import LOCK, LockHolder, Store
from nodeprep.publish import log_lines, probes, web
from nodeprep.publish.log_lines import LogEntry
from nodeprep.publish.metrics import MetricsPage
from nodeprep.publish.node_status import NodeStatus
from nodeprep.publish.publisher import Publisher
from nodeprep.publish.web import CannotServe, LocalPages, NetworkPages
from nodeprep.repair import drill_files
from nodeprep.values import Value

# Python's own, between two collections. With that of a start, rounds left 10 MiB behind before anybody collected it.
GC_THRESHOLD_OBJECTS = 700
FORMER_AGENT_TIMEOUT_SECONDS = 5.0  # seconds in which a former agent's socket accepts a connection
LISTENING_ERRNOS = (None, errno.EAGAIN, errno.ETIMEDOUT)  # the results if one lives, even a busy one


class AgentOptions(Value):
    """The options of `agent`, as they were typed."""

    config: str | None = None
    config_by_rollout: bool = False
    host_root: str | None = None
    cluster: ClusterOptions = NO_CLUSTER
    state_dir: str | None = None
    run_dir: str | None = None
    socket_dir: str | None = None
    bind: str | None = None
    port: int | None = None
    repair_waits: str | None = None


def run(asked: AgentOptions, listeners: tuple[Callable[[NodeStatus], None], ...] = ()) -> int:
    """Judge this node until SIGTERM or Ctrl-C; `listeners` hear each round's outcome. Raises UsageError."""
    at = place.place(None, asked.host_root, asked.cluster)
    where = directories.directories(at.root, asked.state_dir, asked.run_dir, asked.socket_dir)
    waits = repair_waits.read(asked.repair_waits)
    with usage.usage():
        settings = configuration.load_settings(asked.config, None)
    with ExitStack() as stack:
        store, lock_trouble = stack.enter_context(_locked_store(where))
        logger = log_lines.to_stderr()
        if lock_trouble:
            log_lines.tell([LogEntry("lock-trouble", {"message": lock_trouble}, warning=True)], logger)
        if trouble := _remove_former_files(where.run):
            log_lines.tell([LogEntry("start-trouble", {"message": trouble}, warning=True)], logger)
        event_sources = EventSources(at.root, (str(Path(asked.config or DEFAULT_FILE).absolute().parent),))
        stack.callback(event_sources.close)
        metrics = MetricsPage()
        requests = at.kubernetes.requests if at.kubernetes else {}
        parts = AgentParts(
            host_of=at.host,
            read_settings=lambda: configuration.load_settings(asked.config, clock.today()),
            event_sources=event_sources,
            store=store,
            run_directory=where.run,
            requests=requests,
            listeners=(metrics.show, *listeners),
            publisher=_publisher(at),
            read_drill=lambda: drill_files.notice(where.socket),
            waits=waits,
            config_by_rollout=asked.config_by_rollout,
            system_state=systemd.system_state if at.root == "/" else lambda _: "",
            alive=AliveMark(where.socket),
            exposed=at.host().writable_mounts((where.state, where.run, where.socket)),
        )
        agent = Agent(parts, settings)
        own = settings.agent.metrics
        at_port = own.port if asked.port is None else asked.port
        _serve(stack, agent, metrics, (asked.bind or own.bind, at_port), where)
        _handle_signals(agent)
        gc.freeze()  # imported modules stay: scanning them repeatedly would only cool the caches
        gc.set_threshold(GC_THRESHOLD_OBJECTS)
        try:
            agent.run()
        except Exception:
            logger.exception("broke")  # gates stay as they are; the next start continues from the state file
            return 1
    return 0


def _publisher(at: NodePlace) -> Publisher | None:
    """The publisher to the API server; None without access to one."""
    return Publisher(at.kubernetes) if at.kubernetes is not None else None


@contextmanager
def _locked_store(where: AgentDirectories) -> Iterator[tuple[Store, str]]:
    """The agent state while we are the node's only agent, and why we may not be. Raises UsageError if we are not."""
    for directory in (where.state, where.run):
        try:
            Path(directory).mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            if directory == where.run:
                raise UsageError(
                    f"{directory}: {error.strerror}; the agent needs a directory that it can create and write to"
                ) from error
    _secure_socket_directory(where)
    store = Store(where.state, where.socket, former=where.run)
    try:
        lock_trouble = store.hold()
        _refuse_former_agent(where)
    except LockHolder as other:
        store.release()
        raise UsageError(str(other)) from other
    try:
        yield store, lock_trouble
    finally:
        store.release()


def _refuse_former_agent(where: AgentDirectories) -> None:
    """Raise Held if an agent of a former version lives, which has a lock beside the gate files.

    A pod that mounts that directory read-only can also lock, but not listen: only an agent locks and answers.
    """
    pid, sockets = state_store.holder(where.run), (f"{where.run}/{SOCKET}", where.address)
    if pid is not None and any(
        socket_probe.connect(path, FORMER_AGENT_TIMEOUT_SECONDS) in LISTENING_ERRNOS for path in sockets
    ):
        raise LockHolder(pid or None, f"{where.run}/{LOCK}")


def _secure_socket_directory(where: AgentDirectories) -> None:
    """Close the socket's directory to everyone except us, also to pods that wait for a gate. Raises UsageError."""
    place, run = Path(where.socket), Path(where.run).resolve()
    if run in (place.resolve(), *place.resolve().parents):
        raise UsageError(
            f"{place}: is in {where.run}, which waiting pods mount; a pod that mounts a socket's directory read-only "
            "may still connect; wanted a directory of its own, as in NODEPREP_SOCKET_DIR=/run/nodeprep-agent"
        )
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{place}: {error.strerror}; the agent needs a directory for its socket") from error
    try:
        found = os.fstat(directory)
        if found.st_uid != os.geteuid():
            raise UsageError(
                f"{place}: belongs to uid {found.st_uid}, wanted ours ({os.geteuid()}): see ls -ld {place}"
            )
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.fchmod(directory, 0o700)  # the kubelet creates a hostPath with 0755
    except OSError as error:
        raise UsageError(f"{place}: {error.strerror}; wanted mode 0700: see ls -ld {place}") from error
    finally:
        os.close(directory)


def _remove_former_files(run: str) -> str:
    """Remove the socket and the lock that former versions had beside the gate files: "" if none is left, else why."""
    for name, is_one in ((SOCKET, stat.S_ISSOCK), (f"{SOCKET}.new", stat.S_ISSOCK), (LOCK, stat.S_ISREG)):
        path = Path(run, name)
        try:
            if is_one(path.lstat().st_mode):
                path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{path}: {error.strerror}; it is a former agent's, and pods can reach it; remove it"
    return ""


def _serve(
    stack: ExitStack, agent: Agent, metrics: MetricsPage, address: tuple[str, int], where: AgentDirectories
) -> None:
    """Serve until the stack is unwound; nothing to the network where the port is 0. Raises UsageError."""
    pages = NetworkPages(
        metrics.page,
        lambda: probes.health(clock.now() - agent.turned_at, LOOP_PERIOD_SECONDS),
        lambda: probes.readiness(agent.status),
    )
    local = LocalPages(lambda: report(agent), agent.forget, lambda: agent.forget(inventory=True), agent.hear_drill)
    try:
        if address[1]:
            stack.callback(web.serve(*address, pages).close)
        stack.callback(web.serve_local(Path(where.address), local).close)
    except CannotServe as error:
        raise UsageError(str(error)) from error


def _handle_signals(agent: Agent) -> None:
    """SIGHUP reads the configuration again; SIGTERM and Ctrl-C end the agent and leave gates as they are."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda which, _: agent.stop(signal.Signals(which).name))
    signal.signal(signal.SIGHUP, lambda *_: agent.reload())


def report(agent: Agent) -> str:
    """What `/report` says: the agent's own state, and the report as `check -o json` gives it."""
    status = agent.status
    if status is None:
        return json.dumps({"agent": {"version": __version__, "pid": os.getpid()}, "report": None})
    agent_state = status.agent_state
    own = {
        "version": __version__,
        "pid": os.getpid(),
        "mode": str(status.mode),
        "state": str(agent_state.state),
        "since": agent_state.since,
        "why": agent_state.why,
        "rounds": status.rounds,
        "profiles": [
            {"name": one.name, "device": one.device, "ready": one.ready, "gating": one.gating, "why": one.why}
            for one in status.desired.profiles
        ],
        "conditions": [
            {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
            for one in status.desired.conditions
        ],
        "labels": dict(status.desired.labels),
        "annotations": dict(status.desired.annotations),
        "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in status.desired.taints],
        "cases": [
            {
                "check": one.check,
                "subject": {"place": one.place, "port": one.port, "name": one.name},
                "reason": one.reason,
                "message": one.message,
                "convictedAt": one.convicted_at,
                "latched": one.latched,
            }
            for one in agent_state.cases
            if one.convicted
        ],
        "repair": _repair(status),
        "memoryTrouble": status.store_trouble,
        "gateTrouble": status.gate_trouble,
        "configurationTrouble": status.config_trouble,
        "publishTrouble": status.api_status.trouble if status.api_status else "",
        "policy_enforced": status.api_status.policy_enforced if status.api_status else None,
        "writableMounts": status.exposed,
        "at": status.at,
    }
    document = json_report.document(status.report, FailOn.FAIL, time=clock.utc(status.round_time))
    return json_report.text({"agent": own, "report": document})


def _repair(status: NodeStatus) -> dict[str, object]:
    """What the agent's repairs are about."""
    repair, attempt = status.repair, status.agent_state.attempt
    return {
        "remedy": repair.remedy,
        "check": repair.check,
        "step": repair.step,
        "attempt": "" if attempt is None else attempt.id,
        "suppressed": [
            {"check": one.check, "remedy": one.remedy, "reason": str(one.reason), "why": one.why}
            for one in repair.suppressions
        ],
        "attempts": [
            {"id": one.id, "check": one.check, "remedy": one.remedy, "outcome": one.outcome, "refused": one.refused}
            for one in status.agent_state.attempts
        ],
    }
