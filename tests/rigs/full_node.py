"""The status of an agent on a node that has everything: the most that a scrape can hold."""

from __future__ import annotations

from pathlib import Path

from nodeprep.agent_state import NodeState
from nodeprep.checks import IDS
from nodeprep.config import agent_settings
from nodeprep.decide.attempt_steps import AttemptStep
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.repair_budget import AttemptOutcome
from nodeprep.decide.repair_refusal import Suppression, SuppressionReason
from nodeprep.doors.events.listener import EventSourceState
from nodeprep.doors.node_host import Host
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.facts.kubernetes.resource_slices import ResourceSlices
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.routes import Routes
from nodeprep.facts.rdma.counters import Counters, PortCounters
from nodeprep.facts.rdma.qos import QosSettings
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.history.repeat_offenders import RepeatOffender
from nodeprep.model import Status
from nodeprep.observer import Observer
from nodeprep.publish import series
from nodeprep.publish.node_status import ApiStatus, NodeStatus
from nodeprep.publish.repair_status import RepairStatus
from nodeprep.values import replace
from tests.agent_state_values import attempt, finding, past
from tests.cluster_values import cluster, node_object
from tests.eni_values import kernel
from tests.gpu_values import uuids
from tests.imds_values import imds
from tests.kubelet_values import allocatable, holding, kubelet
from tests.rigs import trees
from tests.status_values import report, standing, status
from tests.values import rdma

OTHER_NICS = ("erdma", "lingjun")
# Looks that ask a server or read hundreds of files. The others take less than a millisecond on a node that is well.
SLOW = (
    Pci,
    Rdma,
    Counters,
    QosSettings,
    Modules,
    Routes,
    Links,
    Imds,
    Kubelet,
    AllocatableDevices,
    Cluster,
    ResourceSlices,
)
OVERFLOWN = ("links", "uevents")  # event sources that lost events in a storm, and were opened again
FAULT = {"check": "port.state", "reason": "NoSignal"}
INSTANCE: dict[type, object] = {Links: kernel(), Imds: imds()}
RELEASED, CHANGED, UNRELEASED, REFUSED = (
    AttemptOutcome.RELEASED,
    AttemptOutcome.CHANGED,
    AttemptOutcome.UNRELEASED,
    AttemptOutcome.REFUSED,
)
# What an agent has run that has lived for weeks on a node with more than its share of trouble.
RUNS = (
    ("link_up", RELEASED),
    ("link_up", UNRELEASED),
    ("rdma_link_add", RELEASED),
    ("rdma_link_add", CHANGED),
    ("kernel_modules", RELEASED),
    ("mtu", RELEASED),
    ("mtu", REFUSED),
    ("driver_bind", RELEASED),
)
# The three faults that it has now: one is mended, one had its tries, one waits for the first.
ON_ITS_WAY = RepairStatus(
    remedy="link_up",
    check="port.state",
    step=AttemptStep.VALIDATING,
    suppressions=(
        Suppression(SuppressionReason.BUSY, "port.mtu", "mtu", "link_up for port.state runs or is judged"),
        Suppression(SuppressionReason.BUDGET, "pci.driver-bound", "driver_bind", "3 tries in 24 hours or in a row"),
    ),
    suppressed=dict.fromkeys(tuple(SuppressionReason)[-10:], 1),
    tries_left={("port.state", "link_up"): 1, ("port.mtu", "mtu"): 3, ("pci.driver-bound", "driver_bind"): 0},
)
# All that is to be provisioned on a new node, in its first minute: nothing has run yet.
NEW_NODE = (
    ("module.core", "kernel_modules"),
    ("pci.driver-bound", "driver_bind"),
    ("pci.rdma-driver", "rdma_link_add"),
    ("rdma.device-nodes", "rdma_device_nodes"),
    ("limits.memlock", "memlock"),
    ("sysctl.rp-filter", "sysctl_terway"),
    ("terway.directories", "terway_dirs"),
    ("terway.bpffs", "mount_bpffs"),
    ("eni.os-manager", "os_unmanage_eni"),
    ("port.mtu", "mtu"),
)
PROVISIONED = RepairStatus(
    remedy="kernel_modules",
    check="module.core",
    step=AttemptStep.RUNNING,
    suppressions=tuple(
        Suppression(SuppressionReason.BUSY, check, remedy, "kernel_modules runs or is judged")
        for check, remedy in NEW_NODE[1:]
    ),
    suppressed={SuppressionReason.BUSY: len(NEW_NODE) - 1},
    tries_left=dict.fromkeys(NEW_NODE, 3),
)

# More than are shown: a series each would be without bound.
REPEATS = tuple(
    RepeatOffender("port.state", f"0000:{number:02x}:00.0/1", f"mlx5_{number}/1", 3 + number, 1e9)
    for number in range(5)
)


def rounds(root: Path) -> tuple[NodeStatus, ...]:
    """Two rounds of that agent, in which all came about that it counts."""
    now = eight_rails(root)
    began = replace(now.agent_state, state=NodeState.UNHEALTHY, attempt=attempt(AttemptStep.RUNNING, id="1"))
    over = tuple(
        past(outcome, id=str(number), remedy=remedy, boot_id=began.boot_id)
        for number, (remedy, outcome) in enumerate(RUNS, 1)
    )
    return replace(now, agent_state=began), replace(now, agent_state=replace(began, attempt=None, attempts=over))


def a_new_node(root: Path) -> NodeStatus:
    """The same node in its first minute, when all is to be provisioned."""
    return replace(eight_rails(root), repair=PROVISIONED)


def eight_rails(root: Path) -> NodeStatus:
    """The tree of a node with 8 rails and 8 GPUs as it is looked at, with all else that an agent may say of one.

    A tree holds few counters and no cloud. Here its 8 rails count all that hardware of their kind can, and the node is
    an ECS instance in a cluster. Every check applies but those of other NICs. A fault closes both of its gates.
    """
    host = Host(str(trees.build("h100-roce", root)), live=False)
    look = Observer(host).look(FACTS)
    seen = look.get(Rdma)
    assert seen is not None
    rails = tuple(one for one in seen.ports if one.gids)
    assert len(rails) == 8
    names = [name for names in series.KINDS.values() for name in names]
    full = [PortCounters(one.device, one.number, one.bdf, tuple((name, 0) for name in names), ()) for one in rails]
    resources = {f"rdma/hca_{letter}": "1" for letter in "abcdefgh"} | {"nvidia.com/gpu": "8"}
    node = node_object(capacity=resources, allocatable=resources)
    ids = {name: uuids(int(count)) for name, count in resources.items()}
    more = {
        Rdma: rdma(*rails),
        Counters: Counters(0.0, tuple(full)),
        Cluster: cluster(node=node, pods=()),
        Kubelet: kubelet(pods=tuple(holding(f"jobs/{name[-1]}", name, *own) for name, own in ids.items())),
        AllocatableDevices: allocatable(ids),
    }
    return status(
        report=report(*(finding(one, Status.OK) for one in IDS if one.partition(".")[0] not in OTHER_NICS)),
        facts={**look.facts, **INSTANCE, **more},
        fact_seconds={agent_settings.fact_name(fact): 0.01 if fact.kind in SLOW else 0.0001 for fact in FACTS},
        profiles=tuple(standing(name=name, ready=False, **FAULT) for name in ("rdma-roce", "mpijob-exclusive-eni")),
        event_sources={
            name: EventSourceState(True, restarts=int(name in OVERFLOWN))
            for name in ("links", "rdma", "uevents", "infiniband-ports", "kernel-log", "configuration")
        },
        api_status=ApiStatus(policy_enforced=True),
        mode=Mode.REPAIR,
        drill=DrillNotice("link-down", "eth1", ("eth1",), "boot", 10.0, 20.0),
        repeat_offenders=REPEATS,
        repair=ON_ITS_WAY,
        api_requests={(verb, code): 1 for verb in ("GET", "PATCH") for code in ("200", "409", "none")},
    )
