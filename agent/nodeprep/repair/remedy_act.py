"""One remedy with its arguments: whether it may run at this moment, and its run. For a session and for an attempt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from nodeprep.config import remedy_files
from nodeprep.decide import remedy_arguments
from nodeprep.decide.idleness import IdleDoubt, Idleness
from nodeprep.decide.remedy_arguments import InvalidArgument
from nodeprep.decide.remedy_header import RemedyHeader
from nodeprep.model import Unreadable
from nodeprep.repair import agent_restart, container_restart, idle_proof, machine_names, playbook_run
from nodeprep.repair.container_restart import CriClient
from nodeprep.repair.playbook_run import PlaybookRun
from nodeprep.repair.run_outcome import RunOutcome, TaskLine
from nodeprep.values import Value

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

POD = "pod"  # the argument of an act
AGENT_SECONDS = 120.0  # for the agent's pod to run again after a play


class RemedyAct(Value):
    """What to do: the header of the remedy, its arguments, for how many seconds at most. `check` changes nothing.

    `attempt` is its id in the history, 32 hexadecimal digits. `on_host`, `host_root` and `held` are those of a
    PlaybookRun.
    """

    header: RemedyHeader
    args: Mapping[str, str]
    seconds: float
    check: bool = False
    attempt: str = ""
    on_host: tuple[str, ...] = ()
    host_root: str = ""
    held: tuple[int, ...] = ()


class RemedyRunner(Protocol):
    """Who runs remedies for a session: this process or the remediator."""

    def require_ansible(self) -> None:
        """Raise AnsibleMissing where no playbook could be run."""

    def run(self, act: RemedyAct, say: Callable[[TaskLine], None]) -> RunOutcome:
        """Run it. `say` hears of each task that has ended. Raises RefusedRun, OSError."""


class OwnRunner:
    """Runs remedies on this host, by this process."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def require_ansible(self) -> None:
        """Raise AnsibleMissing."""
        playbook_run.require_ansible()

    def run(self, act: RemedyAct, say: Callable[[TaskLine], None]) -> RunOutcome:
        """As `run` below."""
        return run(self._host, act, say)


def hold_arguments(host: Host, header: RemedyHeader, args: Mapping[str, str]) -> None:
    """Hold the arguments against the machine as it is now. Raises InvalidArgument.

    A pod whose container is to be restarted must serve a device plugin. Where that cannot be seen, `idle` has a doubt.
    """
    remedy_arguments.resolve(header, args, machine_names.observe(host))
    pod = args.get(POD)
    if header.is_act and pod is not None and container_restart.chosen(CriClient(host), pod) == ():
        raise InvalidArgument(f"{header.name}: {POD}: found {pod!r}, of which no container {container_restart.SERVES}")


def idle(host: Host, header: RemedyHeader, args: Mapping[str, str], ignored: Collection[str]) -> Idleness:
    """Whether nobody uses now what the remedy disturbs. `ignored` are the daemons of `idle.ignore`."""
    if header.is_act:
        return container_restart.idle(host, args.get(POD))
    target = idle_proof.target_of(host, header, args)
    if isinstance(target, Unreadable):
        return Idleness(doubts=(IdleDoubt(None, target),))
    return idle_proof.prove(host, target, header.safety, ignored)


def run(
    host: Host,
    act: RemedyAct,
    say: Callable[[TaskLine], None],
    hangs: Callable[[Sequence[str]], None] | None = None,
) -> RunOutcome:
    """Run the playbook and what it ends with, or the act of the container runtime. Raises what `playbook_run.run` does.

    `say` hears of each task that has ended, and `hangs` of what cannot be ended, as there. What follows a playbook has
    the rest of its time.
    """
    if act.header.is_act:
        return container_restart.restart(CriClient(host), act.args.get(POD), act.seconds, say, check=act.check)
    playbook = remedy_files.directory() / f"{act.header.name}.yml"
    play = PlaybookRun(str(playbook), act.seconds, act.args, act.check, act.on_host, act.host_root, act.held)
    outcome = playbook_run.run(play, say, hangs)
    if outcome.left:
        return outcome  # nothing runs beside it
    rest = min(AGENT_SECONDS, max(act.seconds - outcome.seconds, 0.0))
    return agent_restart.after(host, act.header, outcome, rest, say, check=act.check)
