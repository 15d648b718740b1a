"""A repair step by step: what is proved, run, said and kept. The runtime is a server of ours, and no Ansible runs.

tests/netns has playbooks on a node, tests/kubernetes a real runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli.repair.repair_page import PageStyle
from nodeprep.cli.repair.repair_session import RepairDialogue, RepairSession, SessionTerms
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.decide.repair_plan import RefusalReason
from nodeprep.decide.repair_policy import PlayDeadlines
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes.cri_containers import RunningContainer
from nodeprep.model import Finding, Remedy, Report, Severity, Status, Subject, Verdict
from nodeprep.repair.remedy_act import RemedyAct
from nodeprep.repair.repair_history import RepairHistory
from nodeprep.repair.repair_lock import RepairLock
from nodeprep.repair.run_outcome import RunEnd, RunOutcome, TaskLine
from tests.kubelet_values import container, cri_container, message, plugin_devices, pod_devices
from tests.rigs import idle_host
from tests.rigs.grpc_server import GrpcCaller, fine, talk
from tests.rigs.raw_server import RawServer
from tests.rigs.scratch import in_memory

SOCKET = "run/containerd/containerd.sock"
TERWAY = RunningContainer("c1", "kube-system", "terway-x7k2p", "uid-1", "terway", "s1")
AGAIN = RunningContainer("c2", "kube-system", "terway-x7k2p", "uid-1", "terway", "s1")
STOP = "Stop kube-system/terway-x7k2p (container terway)"


class Runtime:
    """A container runtime with Terway. It refuses what is in `refused`. `then` runs after a stop."""

    def __init__(self, *refused: str, then: tuple[RunningContainer, ...] = (AGAIN,)) -> None:
        self.refused = refused
        self.then = then
        self.running: tuple[RunningContainer, ...] = (TERWAY,)
        self.stops = 0

    def answer(self, here: GrpcCaller) -> None:
        call = here.headers[":path"].rpartition("/")[2]
        if call in self.refused:
            here.head(("grpc-status", "14"), ("grpc-message", "not now"), ended=True)
            return
        if call == "StopContainer":
            self.stops += 1
            self.running = self.then
        listed = message(*((1, cri_container(one)) for one in self.running))
        names = message((1, TERWAY.pod), (2, TERWAY.pod_uid), (3, TERWAY.namespace))
        labelled = message((1, message((1, TERWAY.sandbox), (2, names))))
        fine({"ListContainers": listed, "ListPodSandbox": labelled}.get(call, b""))(here)


def finding(
    remedy: str = "terway_restart", reason: str = "Silent", check: str = "terway.socket", **args: str
) -> Finding:
    verdict = Verdict(Subject("terway"), Status.FAIL, reason, "Terway is silent", Remedy(remedy, args))
    return Finding(check, Severity.GATE, verdict, None, None, "restart it")


def report(*findings: Finding) -> Report:
    return Report("n1", "boot", "rdma", "test", (), findings, ())


class Told:
    """A session that has ended, and what it printed and kept."""

    def __init__(self, session: RepairSession, history: RepairHistory, lines: list[str]) -> None:
        self.end = session.end
        self.text = "\n".join(lines)
        self.words = " ".join(self.text.split())
        self.records = list(history.records())
        self.report = session.report


@pytest.fixture
def root() -> Iterator[Path]:
    """The root of a host with a kubelet and containerd, and a directory for the history."""
    with in_memory() as directory:
        idle_host.tree(directory)
        idle_host.kubelet_directories(directory)
        for one in ("run/containerd", "repairs", "sys/bus/pci/devices", "sys/class/net"):
            (directory / one).mkdir(parents=True)
        yield directory


def repaired(root: Path, reports: list[Report], runtime: Runtime | None = None, **different: Any) -> Told:
    """Mend by these reports: each look takes the next, and the last one stays. `meanwhile` happens before it begins.

    `pods` are those that hold devices by the kubelet's list; None: it does not answer.
    """
    lines: list[str] = []
    usual: dict[str, Any] = {"command": "repair", "checks": None, "limit": SafetyClass.S2, "recheck": 0.0}
    pods: tuple[bytes, ...] | None = different.pop("pods", ())
    agrees, meanwhile = bool(different.pop("agrees", True)), different.pop("meanwhile", lambda: None)
    runner = different.pop("runner", None)
    terms = SessionTerms(**(usual | different))
    dialogue = RepairDialogue(lines.extend, lambda _: (meanwhile(), agrees)[1], PageStyle(120))
    left = list(reports)

    def look() -> Report:
        return left.pop(0) if len(left) > 1 else left[0]

    answers = (runtime or Runtime()).answer
    kubelet = nullcontext() if pods is None else idle_host.kubelet_of(root, *pods)
    with RawServer(talk(answers), path=root / SOCKET), kubelet:
        history = RepairHistory(str(root / "repairs"))
        session = RepairSession(look, Host(str(root), live=True), history, terms, dialogue, runner=runner)
        session.run()
    return Told(session, history, lines)


def test_an_act_is_told_kept_and_proved_by_our_own_look(root: Path) -> None:
    runtime = Runtime()
    told = repaired(root, [report(finding()), report()], runtime)
    assert runtime.stops == 1
    assert (told.end.failed, told.end.doubted, told.end.declined, told.end.refusals) == (False, False, False, [])
    assert [step.label for step in told.end.ran] == ["terway_restart"]
    assert [one.state for one in told.records] == ["began", "done"]
    assert (told.records[1].changed, told.records[1].checks, told.records[1].still) == (1, ("terway.socket",), ())
    assert f"changed {STOP}" in told.words
    assert told.report == report()


def test_it_ends_with_the_deadline_of_its_configuration(root: Path) -> None:
    told = repaired(root, [report(finding())], Runtime(then=()), deadlines=PlayDeadlines(safe=0.5, idle=0.5))
    assert told.end.failed
    assert "timed-out Wait until it runs again" in told.words


def test_a_fault_that_stays_is_told_with_both_facts(root: Path) -> None:
    told = repaired(root, [report(finding())])
    assert told.end.failed
    assert "terway_restart ended with 1 changed, and terway.socket still says Silent: Terway is silent" in told.words
    assert [(one.state, one.still) for one in told.records] == [
        ("began", ()),
        ("done", ()),
        ("done", ("terway.socket",)),
    ]
    assert len(told.end.ran) == 1, "no remedy runs twice"


def test_another_reason_is_another_fault(root: Path) -> None:
    told = repaired(root, [report(finding()), report(finding(reason="Gone"))])
    assert not told.end.failed
    assert "still says" not in told.words


def test_a_task_that_failed_is_told_once_with_its_reason(root: Path) -> None:
    told = repaired(root, [report(finding())], Runtime("StopContainer"))
    assert told.end.failed
    assert told.words.count(STOP) == 1
    assert f"failed {STOP}: " in told.words
    assert "not now" in told.words
    assert [one.state for one in told.records[:2]] == ["began", "failed"]
    assert "not now" in told.records[1].why


class Hanging:
    """Runs remedies of which something sleeps in the kernel."""

    def __init__(self, end: RunEnd | KeyboardInterrupt) -> None:
        self.end, self.ran = end, list[str]()

    def require_ansible(self) -> None:
        pass

    def run(self, act: RemedyAct, say: Callable[[TaskLine], None]) -> RunOutcome:
        del say
        self.ran.append(act.header.name)
        if isinstance(self.end, KeyboardInterrupt):
            raise self.end
        return RunOutcome(self.end, 120.0, 0, "Set it", "it was ended", left=("tee (77)",))


@pytest.mark.parametrize("end", [RunEnd.TIMED_OUT, RunEnd.DONE])
def test_nothing_runs_beside_what_sleeps_in_the_kernel(root: Path, end: RunEnd) -> None:
    """Neither the next step of the plan nor another round: our lock keeps only others away."""
    runner, other = Hanging(end), finding("terway_dirs", "Missing", "terway.directories")
    with RepairLock(str(root / "repairs"), "nodeprep repair") as lock:
        told = repaired(root, [report(finding(), other)], runner=runner, lock=lock)
        assert (root / "repairs/lock").read_text().startswith("tee (77), which sleeps in the kernel and was left by")
    assert len(runner.ran) == 1
    assert (told.end.left, told.end.failed) == (("tee (77)",), True)
    assert "cannot be ended: tee (77); it sleeps in the kernel" in told.words
    left_out = {"terway_restart", "terway_dirs"} - set(runner.ran)
    assert f"not run {left_out.pop()}: nothing runs beside what sleeps in the kernel" in told.words


def test_who_interrupts_a_repair_hears_what_could_not_be_ended(root: Path) -> None:
    with RepairLock(str(root / "repairs"), "nodeprep repair") as lock:
        with pytest.raises(KeyboardInterrupt):
            repaired(root, [report(finding())], runner=Hanging(KeyboardInterrupt("tee (77)")), lock=lock)
        assert (root / "repairs/lock").read_text().startswith("tee (77), which sleeps in the kernel")
    kept = list(RepairHistory(str(root / "repairs")).records())
    assert [(one.state, one.why) for one in kept] == [
        ("began", ""),
        ("interrupted", "Ctrl-C or SIGTERM; cannot be ended: tee (77)"),
    ]


def test_a_dry_run_stops_nothing_and_keeps_nothing(root: Path) -> None:
    runtime = Runtime()
    told = repaired(root, [report(finding())], runtime, dry_run=True)
    assert (runtime.stops, told.records, told.end.failed) == (0, [], False)
    assert "1 would change" in told.words


def test_who_does_not_agree_changes_nothing(root: Path) -> None:
    runtime = Runtime()
    told = repaired(root, [report(finding())], runtime, agrees=False)
    assert (runtime.stops, told.records, told.end.declined, told.end.ran) == (0, [], True, [])


def test_arguments_are_resolved_again_at_the_moment_of_acting(root: Path) -> None:
    """The pod has gone since the plan was shown."""
    runtime = Runtime()

    def ends() -> None:
        runtime.running = ()

    asked = finding("plugin_restart", check="plugin.registered", pod="kube-system/terway-x7k2p")
    told = repaired(root, [report(asked)], runtime, meanwhile=ends)
    (refused,) = told.end.refusals
    assert (refused.reason, runtime.stops) == (RefusalReason.ARGUMENT, 0)
    assert [one.state for one in told.records] == ["refused"]


def test_terway_that_holds_a_device_is_not_restarted(root: Path) -> None:
    runtime = Runtime()
    held = container("terway", plugin_devices("aliyun/erdma", ["1"], 0))
    told = repaired(root, [report(finding())], runtime, pods=(pod_devices(TERWAY.namespace, TERWAY.pod, held),))
    (refused,) = told.end.refusals
    assert (refused.reason, runtime.stops, told.end.doubted) == (RefusalReason.IN_USE, 0, False)
    assert "pod kube-system/terway-x7k2p (container terway)" in refused.why


def test_a_pod_that_serves_no_plugin_is_refused_by_name(root: Path) -> None:
    runtime = Runtime()
    asked = finding("plugin_restart", check="plugin.registered", pod="kube-system/terway-x7k2p")
    told = repaired(root, [report(asked)], runtime)
    (refused,) = told.end.refusals
    assert (refused.reason, runtime.stops) == (RefusalReason.ARGUMENT, 0)
    assert "pod: found 'kube-system/terway-x7k2p', of which no container serves a device plugin" in refused.why


def test_only_the_checks_that_were_named(root: Path) -> None:
    told = repaired(root, [report(finding())], checks=frozenset({"port.state"}))
    assert (told.text, told.end.ran) == ("", [])


def held_node(root: Path, command: str) -> None:
    """A process of this name has the uverbs node of the only RDMA device open."""
    (root / "proc/devices").write_text("Character devices:\n231 infiniband_verbs\n\nBlock devices:\n")
    node = root / "sys/class/infiniband_verbs/uverbs0"
    node.mkdir(parents=True)
    (node / "dev").write_text("231:192\n")
    (node / "ibdev").write_text("mlx5_0\n")
    here = root / "proc/77"
    (here / "fd").mkdir(parents=True)
    (here / "comm").write_text(f"{command}\n")
    (here / "fd/3").symlink_to("/dev/infiniband/uverbs0")


RESCAN = {"remedy": "pci_rescan", "check": "eni.missing-link"}


@pytest.mark.parametrize(("ignored", "is_named"), [((), True), (("dcgm*",), False)])
def test_who_holds_it_is_named_and_a_daemon_of_idle_ignore_is_not(
    root: Path, ignored: tuple[str, ...], is_named: bool
) -> None:
    """The kubelet's list cannot be had here, so there is a doubt in any case, and nothing is done."""
    held_node(root, "dcgm-exporter")
    told = repaired(root, [report(finding(**RESCAN))], ignored=ignored, pods=None)
    assert ("process 77 (dcgm-exporter)" in told.words) is is_named
    (refused,) = told.end.refusals
    assert refused.reason is (RefusalReason.IN_USE if is_named else RefusalReason.DOUBT)
    assert told.end.doubted is not is_named
    assert [one.state for one in told.records] == ["refused"]
    assert told.end.ran == []
