"""kubelet.runtime: the runtime's own word where it may be asked, else the Node's."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from nodeprep.checks.kubelet.runtime import CHECK
from nodeprep.facts.kubernetes.cluster import Cluster, StatedCondition
from nodeprep.facts.kubernetes.container_runtime import RuntimeCondition
from nodeprep.model import Unreadable, Why, guarded
from tests import cluster_values
from tests.kubelet_values import kubelet, runtime
from tests.values import say, verdicts

SOCKET = "/run/containerd/containerd.sock"
READY = RuntimeCondition("RuntimeReady", True, "", "")
NOT_READY = RuntimeCondition("RuntimeReady", False, "ShimDied", "no shim")
NO_NETWORK = RuntimeCondition("NetworkReady", False, "NetworkPluginNotReady", "cni plugin not initialized")
OWN = RuntimeCondition("ContainerdHasNoDeprecationWarnings", True, "", "")
LATE = Unreadable(Why.TIMEOUT, SOCKET, None, "/runtime.v1.RuntimeService/Status: no answer in 2 s")
REFUSED = Unreadable(Why.IO_ERROR, SOCKET, errno.ECONNREFUSED, "Connection refused")
GONE = Unreadable(Why.MISSING, SOCKET, errno.ENOENT, "no such socket")
DENIED = Unreadable(Why.DENIED, SOCKET, errno.EACCES, "Permission denied")
NOBODY_SAYS = "no pod of the agent may connect to the runtime's socket, and no Node says whether it is Ready"
NOT_FOUND = Unreadable(Why.MISSING, "container runtime", detail="no socket")

ROWS = [
    # the runtime                     says
    (runtime(), "ok Ready"),
    (runtime(READY, OWN), "ok Ready"),
    (runtime(NOT_READY), "warn NotReady"),
    (runtime(NOT_READY, NO_NETWORK), "warn NotReady"),
    (runtime(READY, NO_NETWORK), "warn NetworkNotReady"),
    (runtime(conditions=guarded(LATE)), "warn Hangs"),
    (runtime(conditions=guarded(REFUSED)), "warn NotRunning"),
    (runtime(conditions=guarded(GONE)), "warn NotRunning"),
    (runtime(conditions=guarded(DENIED)), "unknown CannotLook"),
    (runtime(conditions=guarded(NOT_FOUND), socket=""), "unknown CannotLook"),
    (runtime(asked=False, socket=""), "unknown CannotLook"),
]


@pytest.mark.parametrize(("found", "says"), ROWS, ids=range(len(ROWS)))
def test_by_itself(found: Any, says: str) -> None:
    assert say(CHECK, kubelet(), found) == says


def node(status: str, message: str = "kubelet is posting ready status", at: float = 3940.0) -> Cluster:
    ready = StatedCondition("Ready", status, "KubeletNotReady", message, 5.0)
    return cluster_values.cluster(at=at, node=cluster_values.node_object(conditions=(ready,)))


WORDS = [
    # Ready     its message                                                            says
    ("True", "kubelet is posting ready status", "ok ReadyByNode"),
    ("False", "[container runtime is down, PLEG is not healthy: pleg was last seen active 3m]", "warn NotReady"),
    ("False", "PLEG is not healthy: pleg has yet to be successful", "warn NotReady"),
    ("False", "container runtime network not ready: NetworkReady=false reason:x message:y", "warn NotReady"),
    ("False", "runtime is not ready: RuntimeReady=false", "warn NotReady"),
    ("False", "node is shutting down", "ok OtherReason"),
    ("Unknown", "Kubelet stopped posting node status.", "unknown CannotLook"),
]


@pytest.mark.parametrize(("status", "message", "says"), WORDS, ids=range(len(WORDS)))
@pytest.mark.parametrize("unasked", [runtime(asked=False, socket=""), runtime(conditions=guarded(DENIED))], ids=[0, 1])
def test_by_its_node_where_it_cannot_be_asked(status: str, message: str, says: str, unasked: Any) -> None:
    assert say(CHECK, kubelet(), unasked, node(status, message)) == says


def test_its_own_word_counts_before_its_nodes() -> None:
    """The Node is asked each 15 minutes, and the runtime now."""
    assert say(CHECK, kubelet(), runtime(), node("False", "container runtime is down")) == "ok Ready"
    assert say(CHECK, kubelet(), runtime(conditions=guarded(LATE)), node("True")) == "warn Hangs"


def test_no_kubelet_is_no_question() -> None:
    assert say(CHECK, kubelet(present=False), runtime()) == "absent Nothing"


MESSAGES = [
    (
        (runtime(READY, NO_NETWORK),),
        f"{SOCKET} says: NetworkReady is false, NetworkPluginNotReady: cni plugin not initialized",
    ),
    (
        (runtime(asked=False, socket=""), node("False", "container runtime is down")),
        "the kubelet said 60 s ago that its container runtime is not ready: container runtime is down",
    ),
    (
        (runtime(conditions=guarded(REFUSED)),),
        f"nobody listens on {SOCKET} (Connection refused): the container runtime does not run",
    ),
    (
        (runtime(asked=False, socket=""),),
        f"node: could not look at container runtime: missing ({NOBODY_SAYS})",
    ),
]


@pytest.mark.parametrize(("facts", "says"), MESSAGES, ids=range(len(MESSAGES)))
def test_its_words(facts: tuple[object, ...], says: str) -> None:
    (verdict,) = verdicts(CHECK, kubelet(), *facts)
    assert verdict.message == says
