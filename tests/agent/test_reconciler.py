"""The agent's mind on whole nodes: every fact of a built tree, seen again and again, and what it comes to."""

from __future__ import annotations

import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest

from nodeprep import __version__, state_file
from nodeprep.agent.reconciler import SETTLED_NODE_PERIOD_SECONDS, Reconciler
from nodeprep.agent.state_writer import StateWriter
from nodeprep.agent_state import AgentState, NodeState, PassStreak
from nodeprep.config import agent_settings, configuration, verdict_digest
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.configuration import Settings
from nodeprep.decide import gate_readiness, rule_change
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.decide.desired import REPEATS_ANNOTATION, GatePolicy
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.rule_change import RULE_HOLD_SECONDS
from nodeprep.doors import clock
from nodeprep.doors.files.state_store import Store
from nodeprep.doors.node_host import Host
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.facts.network.routes import Routes
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.history.repeat_offenders import RepeatOffender
from nodeprep.model import NO_ACCESS, Status, Unreadable, Why, not_recorded
from nodeprep.observer import Observation, Observer
from nodeprep.publish import probes
from nodeprep.publish.node_status import NodeStatus
from nodeprep.values import replace
from tests.agent_state_values import past
from tests.cluster_values import cluster, node_object
from tests.kubelet_values import kubelet
from tests.rigs import trees
from tests.route_values import route, routes

LIVE_ONLY = not_recorded("what only a live node shows")
NOBODY = Unreadable(Why.MISSING, "Kubernetes", detail=NO_ACCESS)
# What a kernel would be asked: there is a way out, no pod, and nothing in the log.
ASKED: dict[type, object] = {
    AllocatableDevices: AllocatableDevices(0.0, False, ()),
    Cluster: NOBODY,
    Kubelet: kubelet(present=False, started=None, healthz=None, pods=()),
    KernelLog: KernelLog(0.0, ()),
    Routes: routes(rules=(), routes=(route(oif="eth2"),), out=(), back=()),
}


class Node:
    """A tree, and a mind that sees all of it every ten seconds of a clock of its own. `asked` is what no tree holds."""

    def __init__(self, root: Path, memory: Path, settings: Settings) -> None:
        memory.mkdir(exist_ok=True)
        self.asked = dict(ASKED)
        self.root = root
        self.store = Store(str(memory), str(memory))
        self.now = clock.now()
        known = gate_readiness.state_at_start(state_file.load(self.store).agent_state, "boot", "", self.now)
        digest = verdict_digest.digest(settings)
        agent_state = rule_change.after_rule_change(known, __version__, digest, self.now)
        self.reconciler = Reconciler(
            settings, StateWriter(self.store), agent_state, frozenset(fact.kind for fact in FACTS)
        )

    def sees(self, *, after: float = 10.0) -> NodeStatus:
        self.now += after
        look = Observer(Host(str(self.root), live=False)).look(FACTS)
        values = {fact.kind: look.facts.get(fact.kind, LIVE_ONLY) for fact in FACTS} | self.asked
        status = self.reconciler.consider([Observation(fact, self.now, 0.001, values[fact.kind]) for fact in FACTS], {})
        assert status is not None
        return status

    def sees_often(self, times: int) -> NodeStatus:
        for _ in range(times - 1):
            self.sees()
        return self.sees()


def settings(mode: Mode = Mode.OBSERVE, gate: GatePolicy | None = None) -> Settings:
    """Hardware chooses; its profile asks only what a tree can show."""
    return Settings(agent_part=AgentSettings(mode=mode, gate=gate or GatePolicy()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return trees.build("h100-roce", tmp_path / "tree")


def failing(status: NodeStatus) -> set[str]:
    return {one.check for one in status.report.findings if one.status is Status.FAIL}


def unplug(root: Path, address: str) -> None:
    """Take a function off the bus, with all that its driver showed."""
    home = (root / "sys/bus/pci/devices" / address).resolve()
    for link in [*root.glob("sys/class/*/*"), *root.glob("sys/bus/*/devices/*"), *root.glob("sys/bus/pci/drivers/*/*")]:
        if link.is_symlink() and link.resolve().is_relative_to(home):
            link.unlink()
    shutil.rmtree(home)


def test_hardware_chooses_and_what_it_chose_is_held(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    assert node.sees().report.profile == "rdma-roce"
    for path in list((root / "sys/class/infiniband").iterdir()):
        unplug(root, path.resolve().parent.parent.name)
    status = node.sees()
    assert status.report.profile == "rdma-roce", "a node that lost its NICs looks like one that never had any"
    assert "port.present" in failing(status)
    again = Node(root, tmp_path / "memory", settings())
    assert again.sees().report.profile == "rdma-roce", "nor does a restart make it forget"


def test_what_a_look_took_is_told_by_the_names_that_the_configuration_has(root: Path, tmp_path: Path) -> None:
    told = Node(root, tmp_path / "memory", settings()).sees().fact_seconds
    assert set(told) == {agent_settings.fact_name(fact) for fact in FACTS}
    assert "kernel-log" in told


def test_too_little_to_choose_by_is_told_to_nobody(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    fact = FACTS[0]
    look = Observer(Host(str(root), live=False)).look([fact])
    seen = Observation(fact, node.now, 0.001, look.facts[fact.kind])
    assert node.reconciler.consider([seen], {}) is None


def test_a_node_that_is_ready_once_is_held_against_what_it_had(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    status = node.sees_often(6)
    assert status.agent_state.state is NodeState.READY, status.agent_state.why
    assert status.agent_state.baseline is not None
    assert status.agent_state.gates == (("rdma-roce", "device"), ("rdma-roce", "ready"))
    node.sees()
    gone = min((root / "sys/class/infiniband").iterdir()).resolve().parent.parent.name
    unplug(root, gone)
    status = node.sees()
    assert "pci.expected-nic" in failing(status)
    assert any(gone in one.verdict.message for one in status.report.findings if one.check == "pci.expected-nic")
    assert "devices as when it was first ready" in status.report.chosen_by


@pytest.mark.parametrize(
    ("mode", "gate", "refused"),
    [
        pytest.param(Mode.OBSERVE, GatePolicy(), False, id="observe needs nobody's word"),
        pytest.param(Mode.GATE, GatePolicy(), True, id="a gate does"),
        pytest.param(Mode.GATE, GatePolicy(allow_auto=True), False, id="or leave to go by hardware"),
        pytest.param(Mode.GATE, GatePolicy(profiles=("tcp-*",)), False, id="or not to be a gate"),
    ],
)
def test_hardware_alone_opens_no_gate(
    root: Path, tmp_path: Path, mode: Mode, gate: GatePolicy, *, refused: bool
) -> None:
    status = Node(root, tmp_path / "memory", settings(mode, gate)).sees()
    (profile,) = status.desired.profiles
    assert bool(profile.refusal) == refused


def test_a_human_makes_it_forget(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(5)
    node.reconciler.forget()
    agent_state = node.reconciler.agent_state
    assert (agent_state.hardware_profiles, agent_state.state, dict(agent_state.pass_streaks)) == (
        ("rdma-roce",),
        NodeState.BOOTSTRAP,
        {},
    )
    node.reconciler.forget(inventory=True)
    assert (node.reconciler.agent_state.hardware_profiles, node.reconciler.agent_state.baseline) == ((), None)


def test_a_reset_node_that_is_sound_is_ready_again_in_mode_gate(root: Path, tmp_path: Path) -> None:
    """What it had is no fault that a human dealt with: it stays, and the gate opens by it."""
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(6)
    node.reconciler.follow(settings(Mode.GATE))
    assert node.sees_often(2).agent_state.state is NodeState.READY
    node.reconciler.forget()
    assert node.sees().agent_state.state is NodeState.BOOTSTRAP
    status = node.sees_often(6)
    assert status.agent_state.state is NodeState.READY, status.agent_state.why


def test_what_was_seen_before_a_reset_counts_for_no_rate(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(3)
    assert "port.flap" in node.reconciler.latest.said
    node.reconciler.forget()
    node.sees(after=1.0)
    assert "port.flap" not in node.reconciler.latest.said


def test_a_ready_node_without_rdma_is_not_judged_anew_each_round(tmp_path: Path) -> None:
    root = trees.build("terway-shared", tmp_path / "tree")
    for path in list((root / "sys/class/infiniband").iterdir()):
        path.unlink()
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(8)
    choice = node.reconciler.selection
    assert choice is not None
    node.sees()
    assert node.reconciler.selection is choice


def test_a_ready_node_that_shows_the_same_is_reconciled_again_after_half_a_minute(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(9)
    before = node.sees().desired
    node.reconciler.reconciled_at = clock.now()
    assert node.sees().desired is before
    node.reconciler.reconciled_at = clock.now() - SETTLED_NODE_PERIOD_SECONDS
    assert node.sees().desired is not before


def test_a_ready_node_is_reconciled_at_once_where_a_look_says_something_new(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    before = node.sees_often(10)
    state = min((root / "sys/class/infiniband").iterdir()).resolve() / "ports/1/state"
    state.write_text("1: DOWN\n")
    status = node.sees(after=0.5)
    assert status.desired is not before.desired
    (case,) = (one for one in status.agent_state.cases if one.check == "port.state")
    assert [fault for _, fault in case.looks] == [True]
    assert node.sees(after=0.5).agent_state is not status.agent_state, "while there is a case, each look counts"


def test_a_suspicion_asks_for_a_look_half_a_second_later(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(2)
    port = min((root / "sys/class/infiniband").iterdir()).resolve() / "ports/1"
    (port / "state").write_text("1: DOWN\n")
    node.sees()
    wanted = node.reconciler.wanted(node.now)
    assert min(wanted.values()) == pytest.approx(node.now + 0.5, abs=0.01)
    status = node.sees(after=0.6)
    assert "port.state" in {one.check for one in status.agent_state.cases if one.convicted}


def test_after_a_remedy_the_next_pass_is_wanted_when_it_can_count(root: Path, tmp_path: Path) -> None:
    """A pass-span of 0 s is 30 s there. By its own number a look each second would be wanted for so long."""
    span = ConfirmationPolicy(passes=1, pass_span=0.0)
    node = Node(root, tmp_path / "memory", Settings(agent_part=AgentSettings(confirmation=span)))
    node.sees_often(3)
    reconciler = node.reconciler
    passing = PassStreak(passes=4, first=node.now - 15.0, last=node.now)
    streaks = {**reconciler.agent_state.pass_streaks, "port.state": passing}
    reconciler.agent_state = replace(reconciler.agent_state, pass_streaks=streaks, attempts=(past("released"),))
    assert reconciler.wanted(node.now)[Rdma] == pytest.approx(node.now + 10.0, abs=0.01)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.GATE, Mode.REPAIR])
def test_a_taint_asks_once_for_a_look_at_who_bears_it(mode: Mode, root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings(mode, GatePolicy(allow_auto=True)))
    node.sees_often(6)
    reconciler = node.reconciler
    assert reconciler.agent_state.state is NodeState.READY, reconciler.agent_state.why
    assert reconciler.wanted(node.now).get(Cluster) is None
    port = min((root / "sys/class/infiniband").iterdir()).resolve() / "ports/1"
    (port / "state").write_text("1: DOWN\n")
    node.sees_often(2)
    closed = clock.now()
    reconciler.latest.begun[Cluster] = closed - 300.0  # when the node's pods were last looked at
    asked = reconciler.wanted(node.now).get(Cluster)
    if mode is Mode.OBSERVE:
        assert asked is None
        return
    assert asked == pytest.approx(closed, abs=5.0)
    reconciler.latest.begun[Cluster] = closed - 30.0
    assert reconciler.wanted(node.now)[Cluster] == pytest.approx(closed + 30.0, abs=5.0), (
        "no oftener than once a minute"
    )
    (kubernetes,) = (fact for fact in FACTS if fact.kind is Cluster)
    in_vain = Unreadable(Why.TIMEOUT, "Kubernetes")
    reconciler.latest.take([Observation(kubernetes, closed - 30.0, 1.0, in_vain)])
    assert reconciler.wanted(node.now)[Cluster] == closed - 15.0, "what wants it sooner has it sooner"
    reconciler.latest.take([Observation(kubernetes, closed, 1.0, NOBODY)])
    assert reconciler.wanted(node.now).get(Cluster) is None
    (port / "state").write_text("4: ACTIVE\n")
    node.sees_often(8)
    assert reconciler.agent_state.state is NodeState.READY, reconciler.agent_state.why
    reconciler.latest.begun[Cluster] = closed - 300.0
    assert reconciler.wanted(node.now).get(Cluster) is None, "no taint is to stand"


def test_what_of_the_node_could_be_written_is_told_on_a_node_that_is_ready_all_the_same(tmp_path: Path) -> None:
    node = Node(trees.build("h100-roce", tmp_path / "tree"), tmp_path / "memory", settings())
    node.reconciler.exposed = ("/host/a", "/host/b", "/host/c", "/host/d")
    status = node.sees_often(12)
    assert status.exposed == node.reconciler.exposed
    message = status.desired.conditions[0].message
    assert message.endswith(
        "; a taken-over agent could write /host/a, /host/b, /host/c and 1 more (nodeprep_mounts_ok 0): containerd "
        "before 2.0 leaves that open"
    )


def test_other_settings_count_from_the_next_look_on(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.sees()
    node.reconciler.follow(replace(settings(), want={"port.mtu": {"at-least": 65000}}))
    status = node.sees()
    assert any(
        one.check == "port.mtu" and one.status is Status.WARN and "65000" in one.verdict.message
        for one in status.report.findings
    )


def test_another_node_object_has_proven_nothing(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(5)
    assert any(streak.proven for streak in node.reconciler.agent_state.pass_streaks.values())
    node.reconciler.agent_state = replace(node.reconciler.agent_state, node_uid="one")
    node.reconciler.latest.facts[Cluster] = cluster(node=node_object(uid="two"))
    node.reconciler._meet_node()
    assert node.reconciler.agent_state.node_uid == "two"
    assert node.reconciler.proves_anew, "and is looked at at once, not when each period is over"
    assert not node.reconciler.agent_state.pass_streaks
    assert node.reconciler.agent_state.state is NodeState.BOOTSTRAP


def test_what_only_a_new_version_sees_closes_no_gate_for_a_while(root: Path, tmp_path: Path) -> None:
    """The version before passed the very value that this one takes for a fault."""
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(6)
    port = min((root / "sys/class/infiniband").iterdir()).resolve() / "ports/1"
    (port / "state").write_text("1: DOWN\n")
    before = node.reconciler.agent_state
    place = node.sees().agent_state.cases[0].subject
    passed = {**before.passed, AgentState.passed_key("port.state", place): "1: DOWN"}
    node.reconciler.agent_state = rule_change.after_rule_change(
        replace(before, version="0.0.1", passed=passed), "0.0.2", before.configuration, node.now
    )
    status = node.sees(after=0.6)
    status = node.sees(after=0.6)
    case = next(one for one in status.agent_state.cases if one.check == "port.state")
    assert case.convicted
    assert case.deferred_until is not None
    assert "port.state" in status.deferred
    assert status.agent_state.state is NodeState.READY


def upgraded(node: Node) -> None:
    """The next version takes over."""
    known = node.reconciler.agent_state
    node.reconciler.agent_state = rule_change.after_rule_change(
        replace(known, version="0.0.1"), "0.0.2", known.configuration, clock.now()
    )


def closed_by_a_fault(node: Node, root: Path) -> NodeStatus:
    port = min((root / "sys/class/infiniband").iterdir()).resolve() / "ports/1"
    (port / "state").write_text("1: DOWN\n")
    node.sees(after=0.6)
    return node.sees(after=0.6)


def test_a_gate_that_closes_after_an_upgrade_holds_the_rollout_up_for_a_while(root: Path, tmp_path: Path) -> None:
    """The value changed too: the new version may read it wrongly, and then it does so on every node."""
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(6)
    upgraded(node)
    assert probes.readiness(node.sees())[0]
    status = closed_by_a_fault(node, root)
    assert status.agent_state.state is NodeState.UNHEALTHY
    well, why = probes.readiness(status)
    assert (well, why.partition(":")[0]) == (False, "port.state")
    assert "rollout waits" in why
    node.reconciler.agent_state = replace(node.reconciler.agent_state, rules_changed_at=clock.now() - RULE_HOLD_SECONDS)
    assert probes.readiness(node.sees(after=0.6))[0]


def test_a_node_that_was_closed_before_an_upgrade_holds_nothing_up(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(6)
    closed_by_a_fault(node, root)
    upgraded(node)
    status = node.sees(after=0.6)
    assert status.agent_state.state is NodeState.UNHEALTHY
    assert probes.readiness(status)[0]


def without_port_state(agent_state: AgentState) -> AgentState:
    """What was kept where nobody asked for that gate."""
    part = dict(agent_state.parts[0])
    fewer = tuple(gate for gate in part["profile"]["gates"] if gate != "port.state")
    return replace(agent_state, parts=({**part, "profile": {**part["profile"], "gates": fewer}},))


def test_a_gate_that_a_version_adds_closes_no_open_profile(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    before = node.sees_often(6).agent_state
    node.reconciler.agent_state = without_port_state(before)
    upgraded(node)
    status = node.sees()
    assert (status.agent_state.state, status.agent_state.gates) == (NodeState.READY, before.gates)
    assert not status.agent_state.pass_streaks["port.state"].proven
    well, why = probes.readiness(status)
    assert (well, why.partition(":")[0]) == (False, "port.state")
    status = node.sees_often(5)
    assert (status.agent_state.state, status.agent_state.gates) == (NodeState.READY, before.gates)
    assert status.agent_state.pass_streaks["port.state"].proven
    assert probes.readiness(status)[0]


def test_a_gate_that_never_passes_holds_a_rollout_up_though_it_closed(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.reconciler.agent_state = without_port_state(node.sees_often(6).agent_state)
    upgraded(node)
    status = node.sees()
    assert (status.rollout_wait_count, status.rollout_blockers) == (1, ())
    assert "stays open" in probes.readiness(status)[1]
    late = clock.now() - RULE_HOLD_SECONDS - 1.0  # the upgrade was so long ago, and the gate came a second after it
    waits = {"port.state": late + 1.0 + RULE_HOLD_SECONDS}
    node.reconciler.agent_state = replace(node.reconciler.agent_state, rules_changed_at=late, unproven_until=waits)
    status = node.sees(after=0.1)
    assert (status.agent_state.gates, status.rollout_blockers, status.rollout_wait_count) == ((), ("port.state",), 1)
    assert probes.readiness(status)[0] is False
    assert "the gate is closed" in probes.readiness(status)[1]


def test_a_fault_holds_a_rollout_up_before_it_is_believed(root: Path, tmp_path: Path) -> None:
    """Else an agent is ready for the half second until confirmation's second look, and a rollout goes on by that."""
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(6)
    port = min((root / "sys/class/infiniband").iterdir()).resolve() / "ports/1/state"
    port.write_text("1: DOWN\n")
    status = node.sees()
    assert probes.readiness(status)[0], "the node's own fault, under a version that has been here"
    port.write_text("4: ACTIVE\n")
    assert node.sees_often(8).agent_state.cases == ()
    upgraded(node)
    assert probes.readiness(node.sees())[0]
    port.write_text("1: DOWN\n")
    status = node.sees()
    assert (status.agent_state.state, status.suspected, status.rollout_blockers) == (
        NodeState.READY,
        ("port.state",),
        (),
    )
    assert not probes.readiness(status)[0]
    status = node.sees()
    assert (status.suspected, status.rollout_blockers) == ((), ("port.state",))
    assert not probes.readiness(status)[0]
    port.write_text("4: ACTIVE\n")
    status = node.sees_often(8)
    assert (status.agent_state.state, status.suspected, status.rollout_blockers) == (NodeState.READY, (), ())
    assert probes.readiness(status)[0]


def test_a_fault_long_after_an_upgrade_holds_no_rollout_up(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(6)
    upgraded(node)
    node.reconciler.agent_state = replace(
        node.reconciler.agent_state, rules_changed_at=clock.now() - RULE_HOLD_SECONDS - 1.0
    )
    port = min((root / "sys/class/infiniband").iterdir()).resolve() / "ports/1"
    (port / "state").write_text("1: DOWN\n")
    assert node.sees().suspected == ()


def expecting(directory: Path, rate: int, more: str = "") -> Settings:
    """What an operator writes of ports that belong here, with `more` of the configuration."""
    directory.mkdir(exist_ok=True)
    ports = f"expect: {{ports: {{at-least: 1, rate: {rate}}}}}"
    (directory / "pool.yaml").write_text(f"apiVersion: nodeprep.io/v1\nkind: Profile\nname: pool\n{ports}\n")
    assign = "assign: [{use: [rdma-roce], expect: pool.yaml}]"
    (directory / "config.yaml").write_text(f"apiVersion: nodeprep.io/v1\nkind: Config\nmode: gate\n{assign}\n{more}")
    return configuration.load_settings(str(directory / "config.yaml"), None)


def test_a_wrong_configuration_closes_no_gate_for_a_while_and_holds_its_rollout_up(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", expecting(tmp_path / "config", 400))
    before = node.sees_often(8).agent_state
    assert before.state is NodeState.READY
    node.reconciler.follow(expecting(tmp_path / "config", 800))
    status = node.sees_often(8)
    assert "port.rate" in failing(status)
    assert status.deferred == ("port.rate",)
    assert (status.agent_state.state, status.agent_state.gates) == (NodeState.READY, before.gates)
    well, why = probes.readiness(status)
    assert (well, why.partition(":")[0], "only this configuration" in why) == (False, "port.rate", True)
    node.reconciler.follow(expecting(tmp_path / "config", 801))  # the next wrong one renews nothing
    assert node.sees().deferred == ("port.rate",)
    node.reconciler.agent_state = held_until(node.reconciler.agent_state, clock.now())
    status = node.sees()
    assert (status.agent_state.state, status.deferred) == (NodeState.UNHEALTHY, ())
    assert not probes.readiness(status)[0]
    node.reconciler.follow(expecting(tmp_path / "config", 400))
    status = node.sees_often(8)
    assert status.agent_state.state is NodeState.READY
    assert probes.readiness(status)[0]


def held_until(agent_state: AgentState, at: float) -> AgentState:
    """As if the hold had begun so much earlier."""
    cases = (replace(one, deferred_until=at) if one.deferred_until is not None else one for one in agent_state.cases)
    return replace(agent_state, cases=tuple(cases))


def test_a_port_that_gets_slower_under_a_wrong_configuration_closes_at_once(root: Path, tmp_path: Path) -> None:
    """It fails by the former configuration too, so the node itself changed."""
    node = Node(root, tmp_path / "memory", expecting(tmp_path / "config", 400))
    node.sees_often(8)
    node.reconciler.follow(expecting(tmp_path / "config", 800))
    assert node.sees_often(8).deferred == ("port.rate",)
    port = min((root / "sys/class/infiniband").iterdir()).resolve() / "ports/1"
    (port / "rate").write_text("200 Gb/sec (4X HDR)\n")
    status = node.sees_often(2)
    assert status.agent_state.state is NodeState.UNHEALTHY
    closed = [one for one in status.agent_state.cases if one.check == "port.rate" and one.deferred_until is None]
    assert "200 Gb/s" in {one.observed for one in closed}


def test_a_node_whose_fault_only_the_next_configuration_waives_opens(root: Path, tmp_path: Path) -> None:
    """And a fault of its own that comes within the hold of that configuration closes at once."""
    node = Node(root, tmp_path / "memory", expecting(tmp_path / "config", 800))
    assert node.sees_often(8).agent_state.state is not NodeState.READY
    node.reconciler.follow(expecting(tmp_path / "config", 400))
    assert node.sees_often(8).agent_state.state is NodeState.READY
    closed_by_a_fault(node, root)
    assert node.sees().agent_state.state is NodeState.UNHEALTHY


def test_a_fault_that_the_next_configuration_names_otherwise_stays_closed(root: Path, tmp_path: Path) -> None:
    """The former one counts ports, and one is lost; the next names each port by its address."""
    counted = expecting(tmp_path / "config", 400)
    node = Node(root, tmp_path / "memory", counted)
    node.sees_often(8)
    ports = sorted(
        f"{path.resolve().parent.parent.name}/1" for path in (root / "sys/class/infiniband").iterdir() if rail(path)
    )
    lost = ports[-1].partition("/")[0]
    named = "".join(f'    "{port}": {{}}\n' for port in ports)
    directory = tmp_path / "config"
    profile = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: pool\nexpect:\n  ports:\n"
    (directory / "pool.yaml").write_text(f"{profile}    at-least: {len(ports)}\n    rate: 400\n")
    node.reconciler.follow(configuration.load_settings(str(directory / "config.yaml"), None))
    assert node.sees_often(8).agent_state.state is NodeState.READY
    unplug(root, lost)
    assert node.sees_often(8).agent_state.state is NodeState.UNHEALTHY
    (directory / "pool.yaml").write_text(f"{profile}{named}")
    node.reconciler.follow(configuration.load_settings(str(directory / "config.yaml"), None))
    for _ in range(12):
        status = node.sees()
        assert (status.agent_state.gates, status.deferred) == ((), ())


def rail(device: Path) -> bool:
    return (device / "ports/1/rate").read_text().startswith("400 ")


def test_a_fault_that_a_waiver_excused_is_held_when_the_waiver_goes(root: Path, tmp_path: Path) -> None:
    """The former configuration is asked with its own waivers: by it, nothing was wrong."""
    until = date.fromisoformat(clock.today()) + timedelta(days=30)
    waiver = f"waivers: [{{check: port.rate, until: {until}, reason: cable on order}}]\n"
    node = Node(root, tmp_path / "memory", expecting(tmp_path / "config", 800, waiver))
    assert node.sees_often(8).agent_state.state is NodeState.READY
    node.reconciler.follow(expecting(tmp_path / "config", 800))
    status = node.sees_often(8)
    assert "port.rate" in failing(status)
    assert (status.agent_state.state, status.deferred) == (NodeState.READY, ("port.rate",))


def test_a_look_that_began_under_the_former_settings_opens_no_case_under_these(root: Path, tmp_path: Path) -> None:
    """Such a case would be older than the settings that made it, and no hold would be for it."""
    node = Node(root, tmp_path / "memory", expecting(tmp_path / "config", 400))
    node.now -= 100.0
    assert node.sees_often(8).agent_state.state is NodeState.READY
    node.reconciler.follow(expecting(tmp_path / "config", 800))
    status = node.sees()  # which began 10 s before that
    assert "port.rate" in failing(status)
    assert not [one for one in status.agent_state.cases if one.check == "port.rate"]
    assert node.sees_often(20).deferred == ("port.rate",)


def test_a_gate_that_a_configuration_adds_closes_no_open_profile_and_is_awaited(root: Path, tmp_path: Path) -> None:
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(6)
    node.reconciler.follow(Settings(agent_part=AgentSettings(gate=GatePolicy(allow_auto=True))))
    node.reconciler.agent_state = without_port_state(node.reconciler.agent_state)
    status = node.sees()
    assert (status.pending_gates, status.agent_state.state) == (("port.state",), NodeState.READY)
    assert not probes.readiness(status)[0]


def test_a_device_that_fails_again_and_again_is_told_on_the_node(root: Path, tmp_path: Path) -> None:
    """By an annotation that goes as soon as it is told of none, also on a settled node."""
    node = Node(root, tmp_path / "memory", settings())
    node.sees_often(8)
    node.reconciler.repeat_offenders = (RepeatOffender("port.state", "0000:5d:00.0/1", "mlx5_5/1", 3, 0.0),)
    status = node.sees()
    assert status.desired.annotations[REPEATS_ANNOTATION] == "port.state mlx5_5/1 in 3 hours"
    node.reconciler.repeat_offenders = ()
    assert REPEATS_ANNOTATION not in node.sees().desired.annotations
