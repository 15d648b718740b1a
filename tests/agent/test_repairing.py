"""What the agent's repairs are decided with: each thing that it knows is asked. The decisions are in tests/decide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeprep.agent.reconciler import Reconciler
from nodeprep.agent.repairing import Repairing
from nodeprep.agent.state_writer import StateWriter
from nodeprep.agent_state import NodeState
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.configuration import Settings
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.foreign_maintenance import RepairNode
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.decide.repair_orders import PAUSE
from nodeprep.decide.repair_policy import RepairPolicy
from nodeprep.decide.repair_refusal import SuppressionReason
from nodeprep.doors import clock
from nodeprep.doors.files.state_store import Store
from nodeprep.doors.node_host import Host
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Remedy, Status, not_recorded
from nodeprep.observer import Observation, Observer
from nodeprep.repair.remediator_client import RemediatorClient
from nodeprep.values import replace
from tests.agent_state_values import agent_state, attempt, case
from tests.cluster_values import cluster, pod
from tests.repair_values import TAINT, UID
from tests.rigs import trees
from tests.values import changed

MODULE = Remedy("kernel_modules", {"module": "mlx5_core"})
RESCAN = Remedy("pci_rescan", {"bdf": "0000:5c:00.0"})
LIVE_ONLY = not_recorded("what only a live node shows")
STOOD = 40.0  # seconds for which the conviction stands


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trees.build("h100-roce", tmp_path_factory.mktemp("tree") / "tree")


@pytest.fixture
def sick(root: Path, tmp_path: Path) -> Callable[..., Reconciler]:
    """An agent that has looked at a tree and convicted a gate, for which there is this remedy."""

    def make(remedy: Remedy = MODULE, **different: Any) -> Reconciler:
        settings = Settings(agent_part=AgentSettings(**({"mode": Mode.REPAIR} | different)))
        now, store = clock.now(), Store(str(tmp_path), str(tmp_path))
        known = frozenset(fact.kind for fact in FACTS)
        made = Reconciler(settings, StateWriter(store), agent_state(since=now - STOOD), known)
        look = Observer(Host(str(root), live=False)).look(FACTS)
        values = {fact.kind: look.facts.get(fact.kind, LIVE_ONLY) for fact in FACTS}
        made.consider([Observation(fact, now, 0.001, values[fact.kind]) for fact in FACTS], {})
        convicted = case(
            remedy=remedy,
            opened_at=now - STOOD - 1,
            looks=((now - STOOD, True), (now - 1, True)),
            convicted_at=now - STOOD,
        )
        made.agent_state = replace(
            made.agent_state, state=NodeState.UNHEALTHY, was_ready=True, cases=(convicted,), node_uid=UID
        )
        return made

    return make


def held_back(reconciler: Reconciler, **different: Any) -> SuppressionReason | None:
    """Why the remedy does not run where the Node is as this says, None for nothing."""
    repairing = Repairing(reconciler, None, RemediatorClient("/nowhere/socket"), lambda: None)
    node = RepairNode(**({"uid": UID, "taints": (TAINT,)} | different))
    repairing.turn(replace(node, annotations={**node.annotations, PAUSE: "it is due"}))
    assert reconciler.repair.suppressions, "it is not due at all"
    repairing.turn(node)
    return next((one.reason for one in reconciler.repair.suppressions), None)


R = SuppressionReason
BRINGS = cluster(pods=(pod(writes=("/run/mellanox/drivers",)),))
SERVING = RepairPolicy(max_class=SafetyClass.S1)
NEW = RepairPolicy(bootstrap_max_class=SafetyClass.S1)


def test_nothing_else_holds_it_back(sick: Callable[..., Reconciler]) -> None:
    assert held_back(sick()) is None
    assert held_back(sick(RESCAN)) is None


def test_the_mode_and_the_classes_of_the_configuration_count(sick: Callable[..., Reconciler]) -> None:
    assert held_back(sick(mode=Mode.GATE)) is R.MODE
    assert held_back(sick(RESCAN, repair=SERVING)) is R.CLASS
    assert held_back(sick(RESCAN, repair=NEW)) is None


def test_the_labels_of_the_node_and_the_pods_that_were_seen_say_whose_a_driver_is(
    sick: Callable[..., Reconciler],
) -> None:
    assert held_back(sick(), labels={"network.nvidia.com/operator.mofed.wait": "false"}) is R.OPERATOR_OWNED
    seen = sick()
    seen.latest.facts[Cluster] = BRINGS
    assert held_back(seen) is R.OPERATOR_OWNED


def test_a_drill_and_a_memory_that_is_not_whole_hold_it_back(sick: Callable[..., Reconciler]) -> None:
    drilled = sick()
    (made,) = drilled.agent_state.cases
    at = drilled.agent_state.boot_id, made.opened_at - 1, made.opened_at + 600
    drilled.drill = DrillNotice("link-down", "eth2", (made.name,), *at)
    assert held_back(drilled) is R.DRILL
    forgetful = sick()
    forgetful.forgotten = "what was tried here is not known"
    assert held_back(forgetful) is R.MEMORY


def test_a_pause_and_the_work_of_others_on_the_node_hold_it_back(sick: Callable[..., Reconciler]) -> None:
    assert held_back(sick(), annotations={PAUSE: "cable"}) is R.PAUSED
    assert held_back(sick(), unschedulable=True) is R.FOREIGN_MAINTENANCE
    assert held_back(sick(), uid="another") is R.TAINT


def test_a_validation_looks_at_once(sick: Callable[..., Reconciler]) -> None:
    """Closed loop 2: by its own period a fact may be minutes old."""
    one = sick()
    now = clock.now()
    later = one.latest.begun[Rdma] + one.latest.begun[Rdma]
    assert one.wanted(later).get(Rdma, later) > now
    under_way = attempt("validating", boot_id=one.agent_state.boot_id, step_since=now, wall=clock.wall())
    one.agent_state = replace(one.agent_state, attempt=under_way)
    assert one.wanted(later)[Rdma] <= now


FLAPS = [
    pytest.param("running", ("port.flap",), False, id="the play may have done it"),
    pytest.param("running", (), True, id="such a play takes no link down"),
    pytest.param("validating", ("port.flap",), True, id="after the play"),
]


@pytest.mark.parametrize(("step", "disturbs", "counts"), FLAPS)
def test_what_a_play_did_to_a_link_counts_for_no_rate(
    sick: Callable[..., Reconciler], step: str, disturbs: tuple[str, ...], *, counts: bool
) -> None:
    """A play that loads a driver anew takes its links down, and that is no flap; a link lost after it is one."""
    one = sick()
    began, facts = one.latest.begun[Links], dict(one.latest.facts)
    at = {"boot_id": one.agent_state.boot_id, "step_since": began - 1000, "heard_at": began - 1000}
    one.agent_state = replace(one.agent_state, attempt=attempt(step, disturbs=disturbs, **at))
    Repairing(one, None, RemediatorClient("/nowhere/socket"), lambda: None).turn(RepairNode(uid=UID, taints=(TAINT,)))
    assert one.agent_state.attempt is not None
    assert one.agent_state.attempt.step == "validating"
    assert flaps(one, facts, began + 70) is counts
    assert flaps(one, facts, began + 140), "the next one is one again"


def flaps(reconciler: Reconciler, facts: dict[type, object], at: float) -> bool:
    """Whether port.flap says so after a look at this time, at which each link was lost five times more."""
    links = facts[Links]
    assert isinstance(links, Links)
    told = tuple(changed(link, downs=(link.downs or 0) + 5) for link in links.links)
    facts[Links] = changed(links, links=told)
    reconciler.consider([Observation(fact, at, 0.001, facts[fact.kind]) for fact in FACTS], {})
    return any(finding.status is Status.FAIL for finding in reconciler.latest.said.get("port.flap", ()))


def test_a_fault_is_looked_at_once_more_before_anything_acts(sick: Callable[..., Reconciler]) -> None:
    one = sick()
    later = one.latest.begun[Pci] + 5
    assert one.wanted(later).get(Pci, later) != later
    one.before_repair = {Pci: later}
    assert one.wanted(later)[Pci] == later
