"""plugin.in-use: which pods hold devices, by the kubelet or its checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.plugin.in_use import CHECK
from nodeprep.facts.kubernetes.device_plugins import Checkpoint, CheckpointEntry
from nodeprep.model import Unreadable, Why, not_mounted
from tests import cluster_values
from tests.kubelet_values import GPU, allocatable, holding, kubelet, plugins
from tests.values import say, verdicts

LATE: Any = Unreadable(Why.TIMEOUT, "/var/lib/kubelet/pod-resources/kubelet.sock", detail="no answer in 1 s")
UNSEEN: Any = not_mounted("/var/lib/kubelet/pod-resources", "daemonset/base/daemonset.yaml")
HELD = (holding("ns/a", GPU, "GPU-0", "GPU-1"),)
CLAIMS = (holding("ns/c", "", claims=2),)
WRITTEN = Checkpoint(1.7e9, (CheckpointEntry("u-a", "train", GPU, {"0": ("GPU-0",)}),), {GPU: ("GPU-0", "GPU-1")})


def kubernetes(**different: Any) -> Any:
    """Kubernetes' view of the pod ns/a, as new as the kubelet's."""
    pod = cluster_values.pod(**({"namespace": "ns", "name": "a"} | different))
    return cluster_values.advertising({}, at=4000.0, pods=(pod,))


ROWS: list[tuple[Any, tuple[Any, ...], str]] = [
    (HELD, (), "ok InUse"),
    ((), (allocatable({GPU: ("GPU-0",)}),), "ok Idle"),
    (HELD, (allocatable({GPU: ("GPU-0",), "rdma/hca": ("1",)}),), "ok InUse; ok Idle"),
    ((), (), "absent Nothing"),
    (CLAIMS, (), "ok Claimed"),
    ((*HELD, *CLAIMS), (), "ok InUse; ok Claimed"),
    (LATE, (), "unknown CannotLook"),
    (LATE, (plugins(),), "unknown CannotLook"),
    (LATE, (plugins(checkpoint=WRITTEN),), "ok InUse"),
    (UNSEEN, (), "unknown NotMounted"),
    # A kubelet lists claims only behind a feature gate; Kubernetes names them in the pod.
    ((), (kubernetes(claims=1),), "ok Claimed"),
    ((), (kubernetes(claims=1, phase="Succeeded"),), "absent Nothing"),
    ((), (kubernetes(),), "absent Nothing"),
]


@pytest.mark.parametrize(("pods", "others", "says"), ROWS, ids=range(len(ROWS)))
def test_what_it_says(pods: Any, others: Any, says: str) -> None:
    started: Any = UNSEEN if pods is UNSEEN else 400.0
    assert say(CHECK, kubelet(pods=pods, started=started), *others) == says


def test_no_kubelet_is_no_question() -> None:
    assert say(CHECK, kubelet(present=False, started=None, healthz=None, pods=())) == "absent Nothing"


def test_a_pod_that_has_ended_holds_nothing() -> None:
    assert "InUse" not in say(CHECK, kubelet(pods=HELD), kubernetes(phase="Succeeded"))


def test_its_words() -> None:
    (found,) = verdicts(CHECK, kubelet(pods=HELD), allocatable({GPU: ("GPU-0", "GPU-1", "GPU-2")}))
    assert found.message == "nvidia.com/gpu: allocatable 3, in use 2 (ns/a 2)"
    (found,) = verdicts(CHECK, kubelet(pods=CLAIMS))
    assert found.message == "1 pod holds devices by resource claims: ns/c"
    (found,) = verdicts(CHECK, kubelet(pods=tuple(holding(f"ns/c{number}", "", claims=1) for number in range(9))))
    assert found.message.startswith("9 pods hold devices by resource claims: ns/c0, ns/c1, ")
    assert found.message.endswith(", ns/c7, ...")
