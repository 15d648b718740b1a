"""plugin.sockets: a dead socket is a fault only where its resource has no living plugin."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from nodeprep.checks.plugin.sockets import CHECK
from nodeprep.facts.kubernetes.device_plugins import Checkpoint
from nodeprep.model import Unreadable, Why
from tests import cluster_values
from tests.kubelet_values import GPU, allocatable, kubelet, plugins, socket
from tests.values import expected, say, verdicts

REFUSED = errno.ECONNREFUSED
HCA, ERDMA, ENI, SRIOV = "rdma/hca_a", "aliyun/erdma", "aliyun/eni", "nvidia.com/mlnxnics"
DENIED: Any = Unreadable(Why.DENIED, "/var/lib/kubelet/device-plugins/a.sock", errno.EACCES)
SERVES = ("/var/lib/kubelet/device-plugins",)
PLUGIN = cluster_values.pod(namespace="gpu", name="plugin-x", writes=SERVES)
WAITS = cluster_values.container(name="wait-ready", init=True)
HELD = cluster_values.pod(namespace="gpu", name="plugin-x", writes=SERVES, phase="Pending", containers=(WAITS,))
RESTART = "plugin_restart(pod=gpu/plugin-x)"


def cluster(*pods: Any) -> Any:
    return cluster_values.cluster(node=cluster_values.node_object(capacity={}, allocatable={}), pods=pods)


def judged(sockets: Any, wanted: Any = (), ids: Any = (), pods: Any = (PLUGIN,), **different: Any) -> str:
    hope = expected(resources=dict.fromkeys(wanted, 1))
    healthy = allocatable(dict.fromkeys(ids, ("1",)))
    given = {"kubelet": kubelet(pods=()), "plugins": plugins(*sockets)} | different
    return say(CHECK, given["plugins"], given["kubelet"], healthy, hope, cluster(*pods))


def test_what_the_node_still_says_excuses_no_dead_plugin() -> None:
    """The Node says 8 for minutes after the plugin died; the kubelet knows of none."""
    told = cluster_values.node_object(capacity={GPU: "8"}, allocatable={GPU: "8"})
    seen = (plugins(DEAD), kubelet(pods=()), allocatable({}), expected(resources={GPU: 8}))
    assert say(CHECK, *seen, cluster_values.cluster(node=told, pods=(PLUGIN,))) == f"fail Dead {RESTART}"


ALIVE, DEAD = socket("nvidia-gpu.sock"), socket("nvidia-gpu.sock", REFUSED)
ROWS: list[tuple[tuple[Any, ...], tuple[str, ...], tuple[str, ...], str]] = [
    # sockets             expected   healthy   says
    ((), (GPU,), (), "absent Nothing"),
    ((ALIVE,), (GPU,), (GPU,), "ok Listens"),
    ((DEAD,), (GPU,), (), f"fail Dead {RESTART}"),
    ((DEAD,), (), (), "warn Unclaimed"),
    ((DEAD,), (GPU,), (GPU,), "warn Stale"),  # another socket serves it
    ((socket("hca_a.sock", REFUSED),), (HCA,), (), f"fail Dead {RESTART}"),
    ((socket("hca_b.sock", REFUSED),), (HCA,), (), "warn Unclaimed"),
    ((socket("nvidia.com_mlnxnics.sock", REFUSED),), (SRIOV,), (), f"fail Dead {RESTART}"),
    ((socket("nvidia-gpu.sock", errno.ETIMEDOUT),), (GPU,), (), f"fail Dead {RESTART}"),
    # Alibaba's: a start leaves the file of the start before
    (
        (socket("1700000000-erdma-eni.sock", REFUSED), socket("1700000900-erdma-eni.sock")),
        (ERDMA,),
        (),
        "warn Stale; ok Listens",
    ),
    (
        (socket("1700000000-erdma-eni.sock", REFUSED), socket("1700000900-eni.sock")),
        (ERDMA, ENI),
        (),
        f"fail Dead {RESTART}; ok Listens",
    ),
    (
        (socket("1700000000-erdma-eni.sock", REFUSED), socket("1700000900-erdma.sock")),
        (ERDMA,),
        (),
        "warn Stale; ok Listens",
    ),
    ((socket("1700000000-eni.sock", REFUSED),), (ERDMA,), (), "warn Unclaimed"),  # CRD IPAM wants no socket for it
    ((socket("foo.sock", DENIED), ALIVE), (GPU,), (), "unknown CannotLook; ok Listens"),
]


@pytest.mark.parametrize(("sockets", "wanted", "ids", "says"), ROWS, ids=range(len(ROWS)))
def test_what_it_says(sockets: Any, wanted: Any, ids: Any, says: str) -> None:
    assert judged(sockets, wanted, ids) == says


def test_what_the_checkpoint_knows_is_needed_too() -> None:
    known = plugins(DEAD, checkpoint=Checkpoint(1.7e9, (), {GPU: ("GPU-0",)}))
    assert judged((), plugins=known) == f"fail Dead {RESTART}"


def test_an_old_copy_of_the_node_accuses_nobody() -> None:
    node = cluster_values.node_object(capacity={GPU: "8"}, allocatable={GPU: "8"})
    told = cluster_values.cluster(node=node, pods=(PLUGIN,))
    assert say(CHECK, plugins(DEAD), kubelet(pods=()), allocatable({}), expected(), told) == "warn Unclaimed"


def test_plugins_that_may_still_come() -> None:
    assert judged((DEAD,), (GPU,), kubelet=kubelet(started=3990.0, pods=())) == "unknown Starting"
    assert judged((DEAD,), (GPU,), pods=(HELD,)) == "ok HeldByGate"


def test_a_copy_has_no_sockets() -> None:
    assert judged((), (GPU,), plugins=plugins(sockets=None)) == "absent Nothing"


def test_its_words() -> None:
    seen = (plugins(DEAD), kubelet(pods=()), allocatable({}), expected(resources={GPU: 8}), cluster(PLUGIN))
    (found,) = verdicts(CHECK, *seen)
    assert found.message == (
        "nobody listens on /var/lib/kubelet/device-plugins/nvidia-gpu.sock (ECONNREFUSED): the plugin of "
        "nvidia.com/gpu is dead; pods here that serve plugins: gpu/plugin-x"
    )
    assert found.subject.place == GPU
    (found,) = verdicts(CHECK, plugins(socket("a.sock", REFUSED)), kubelet(pods=()))
    assert CHECK.fix_of(found) == (
        "ls -l /var/lib/kubelet/device-plugins/a.sock; rm it if no plugin of that name runs here any more."
    )
