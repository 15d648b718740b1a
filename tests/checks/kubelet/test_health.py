"""kubelet.health: both ways to ask it, and each way in which they do not answer."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from nodeprep.checks.kubelet.health import CHECK
from nodeprep.facts.kubernetes.cluster import StatedCondition
from nodeprep.facts.kubernetes.kubelet import SOCKET, Healthz
from nodeprep.model import Unreadable, Why, guarded, not_mounted
from tests import cluster_values
from tests.kubelet_values import FINE, kubelet
from tests.values import say, verdicts

UNHEALTHY = Healthz(500, ("syncloop",))
PORT = "http://127.0.0.1:10248/healthz"
PORT_LATE = Unreadable(Why.TIMEOUT, PORT, detail="no whole answer in 1 s")
PORT_BUSY = Unreadable(Why.BUSY, PORT, detail="no whole answer in 1 s")
PORT_ODD = Unreadable(Why.MALFORMED, PORT, detail="it begins with b'SSH', which is not HTTP")
LATE = Unreadable(Why.TIMEOUT, SOCKET, detail="/v1.PodResourcesLister/List: no answer in 1 s")
BUSY = Unreadable(Why.BUSY, SOCKET, detail="/v1.PodResourcesLister/List: no answer in 1 s")
REFUSED = Unreadable(Why.IO_ERROR, SOCKET, errno.ECONNREFUSED, "Connection refused")
GONE = Unreadable(Why.MISSING, SOCKET, errno.ENOENT, "no such socket")
DENIED = Unreadable(Why.DENIED, SOCKET, errno.EACCES, "Permission denied")
LIMITED = Unreadable(Why.IO_ERROR, SOCKET, None, "grpc-status 8 RESOURCE_EXHAUSTED: rejected by rate limit")
ODD = Unreadable(Why.MALFORMED, SOCKET, None, "List: byte 3: a number that is cut")
UNSEEN = not_mounted("/var/lib/kubelet/pod-resources", "daemonset/base/daemonset.yaml")
ELSEWHERE = Unreadable(Why.MISSING, SOCKET, detail="no socket: the kubelet starts, or its --root-dir is another")
PODS = ()

ROWS = [
    # its port      its socket   says
    (FINE, PODS, "ok Answers"),
    (FINE, LATE, "warn SocketHangs"),
    (FINE, BUSY, "ok Answers"),
    (FINE, REFUSED, "warn SocketRefuses"),
    (FINE, GONE, "warn SocketRefuses"),
    (FINE, DENIED, "ok Answers"),
    (FINE, LIMITED, "ok Answers"),
    (FINE, ODD, "ok Answers"),
    (FINE, UNSEEN, "ok Answers"),
    (FINE, ELSEWHERE, "ok Answers"),
    (UNHEALTHY, PODS, "fail Unhealthy"),
    (UNHEALTHY, LATE, "fail Unhealthy"),
    (UNHEALTHY, UNSEEN, "fail Unhealthy"),
    (Healthz(503, ()), PODS, "fail Unhealthy"),
    (PORT_LATE, PODS, "warn PortHangs"),
    (PORT_LATE, LATE, "fail Hangs"),
    (PORT_LATE, REFUSED, "fail Hangs"),
    (PORT_LATE, DENIED, "fail Hangs"),
    (PORT_LATE, UNSEEN, "fail Hangs"),
    (PORT_BUSY, PODS, "ok Answers"),
    (PORT_BUSY, LATE, "fail Hangs"),
    (PORT_BUSY, DENIED, "unknown CannotLook"),
    (PORT_ODD, PODS, "ok Answers"),
    (PORT_ODD, LATE, "fail Hangs"),
    (PORT_ODD, REFUSED, "fail NotRunning"),
    (PORT_ODD, DENIED, "unknown CannotLook"),
    (PORT_ODD, UNSEEN, "unknown NotMounted"),
    (None, PODS, "ok Answers"),
    (None, LATE, "fail Hangs"),
    (None, BUSY, "unknown CannotLook"),
    (None, REFUSED, "fail NotRunning"),
    (None, GONE, "fail NotRunning"),
    (None, DENIED, "unknown CannotLook"),
    (None, LIMITED, "unknown CannotLook"),
    (None, UNSEEN, "unknown NotMounted"),
    (None, ELSEWHERE, "unknown CannotLook"),
]


@pytest.mark.parametrize(("healthz", "pods", "says"), ROWS, ids=range(len(ROWS)))
def test_what_it_says(healthz: Any, pods: Any, says: str) -> None:
    started: Any = 400.0 if pods == PODS else guarded(pods)
    assert say(CHECK, kubelet(healthz=healthz, pods=pods, started=started)) == says


def node(status: str) -> Any:
    ready = StatedCondition("Ready", status, "KubeletReady", "kubelet is posting ready status", 5.0)
    return cluster_values.cluster(node=cluster_values.node_object(conditions=(ready,)))


READY = [
    # its socket  its Node   says
    (DENIED, "True", "absent NoHealthPort"),
    (LIMITED, "True", "absent NoHealthPort"),
    (DENIED, "False", "unknown CannotLook"),
    (DENIED, "Unknown", "unknown CannotLook"),
    (UNSEEN, "True", "unknown NotMounted"),  # never absent: a mount is missing
    (REFUSED, "True", "fail NotRunning"),  # the Node is not told yet
    (LATE, "True", "fail Hangs"),
    (PODS, "Unknown", "ok Answers"),
]


@pytest.mark.parametrize(("pods", "status", "says"), READY, ids=range(len(READY)))
def test_no_health_port_is_legal_where_its_node_is_ready(pods: Any, status: str, says: str) -> None:
    assert say(CHECK, kubelet(healthz=None, pods=pods), node(status)) == says


def test_a_node_of_which_nothing_is_known_helps_nobody() -> None:
    unknown = cluster_values.cluster(node=cluster_values.node_object(conditions=()))
    assert say(CHECK, kubelet(healthz=None, pods=DENIED), unknown) == "unknown CannotLook"


def test_no_kubelet_is_no_question() -> None:
    none = kubelet(present=False, started=None, healthz=None, pods=())
    assert say(CHECK, none) == "absent Nothing"


MESSAGES = [
    (
        {"healthz": None, "pods": REFUSED},
        f"nobody listens on {SOCKET} nor on 127.0.0.1:10248: the kubelet does not run",
    ),
    (
        {"healthz": None, "pods": REFUSED, "started": -50.0},
        f"nobody listens on {SOCKET} (of a former boot) nor on 127.0.0.1:10248: the kubelet does not run",
    ),
    (
        {"healthz": UNHEALTHY},
        "the kubelet says on 127.0.0.1:10248 that it is not healthy: syncloop",
    ),
    (
        {"healthz": Healthz(503, ())},
        "the kubelet says on 127.0.0.1:10248 that it is not healthy: HTTP status 503",
    ),
    (
        {"healthz": PORT_LATE, "pods": LATE},
        "the kubelet takes connections on 127.0.0.1:10248 and answers none within a second: it is stopped or hangs",
    ),
    (
        {"healthz": None, "pods": UNSEEN},
        f"node: could not look at {UNSEEN}",
    ),
]


@pytest.mark.parametrize(("different", "says"), MESSAGES, ids=range(len(MESSAGES)))
def test_its_words(different: dict[str, Any], says: str) -> None:
    (verdict,) = verdicts(CHECK, kubelet(**different))
    assert verdict.message == says


def test_a_hung_kubelet_is_restarted_after_a_look_at_its_stack() -> None:
    (verdict,) = verdicts(CHECK, kubelet(healthz=PORT_LATE, pods=LATE))
    assert CHECK.fix_of(verdict) == "cat /proc/$(pidof kubelet)/{status,stack}; then systemctl restart kubelet"
