"""terway.two-erdma-owners: Terway or erdma-controller, not both."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.terway.two_erdma_owners import CHECK
from nodeprep.facts.kubernetes.cluster import EniConfig
from nodeprep.model import Unreadable, Why, guarded
from tests.cluster_values import cluster, eni_config, erdma_agent, pod, terway_pod
from tests.cni_values import terway
from tests.values import say, verdicts

OURS, THEIRS = "1763740000-erdma-eni.sock", "1763740001-erdma.sock"
BOTH = ("kubelet.sock", OURS, THEIRS)
ON = eni_config(enable_erdma=True)
AGENT = erdma_agent()
OVER = erdma_agent(phase="Failed")
USERS = (erdma_agent(namespace="users"), erdma_agent(owner=None))  # with its label and its name
OTHER = pod(name="log-agent", labels={"tier": "agent"})
DENIED = Unreadable(Why.DENIED, "pods")
ILL = EniConfig("kube-system/eni-config", guarded(Unreadable(Why.MALFORMED, "eni_conf")))
UNSEEN: Any = guarded(Unreadable(Why.MISSING, "/var/lib/kubelet/device-plugins"))
ROWS: list[tuple[Any, Any, str]] = [
    # sockets      Kubernetes                                       says
    ((), None, "absent Nothing"),
    (("kubelet.sock", "1763740000-eni.sock"), None, "absent Nothing"),
    ((OURS,), None, "ok OneOwner"),
    ((THEIRS,), None, "ok OneOwner"),
    (BOTH, None, "fail TwoSockets"),
    ((), cluster(), "absent Nothing"),
    ((), cluster(eni_config=None), "absent Nothing"),
    ((OURS,), cluster(eni_config=ON), "ok OneOwner"),
    ((), cluster(eni_config=ON), "ok OneOwner"),
    ((THEIRS,), cluster(pods=(terway_pod(), AGENT)), "ok OneOwner"),
    ((), cluster(eni_config=ON, pods=(AGENT,)), "fail TwoOwners"),
    ((THEIRS,), cluster(eni_config=ON, pods=(AGENT,)), "fail TwoOwners"),
    (BOTH, cluster(eni_config=ON, pods=(AGENT,)), "fail TwoOwners"),
    (BOTH, cluster(eni_config=ON, pods=(OVER, OTHER)), "warn SocketLeft"),
    (BOTH, cluster(eni_config=ON, pods=USERS), "warn SocketLeft"),
    (BOTH, cluster(pods=(AGENT,)), "warn SocketLeft"),
    (BOTH, cluster(eni_config=eni_config(enable_erdma="true"), pods=(AGENT,)), "warn SocketLeft"),
    ((THEIRS,), cluster(eni_config=ON, pods=DENIED), "unknown CannotLook"),
    ((), cluster(eni_config=ILL, pods=(AGENT,)), "unknown CannotLook"),
    ((), cluster(eni_config=DENIED, pods=(AGENT,)), "unknown CannotLook"),
    # One that cannot be read does not matter where nobody else can be an owner.
    ((), cluster(eni_config=ILL), "absent Nothing"),
    ((), cluster(eni_config=DENIED), "absent Nothing"),
    ((OURS,), cluster(eni_config=DENIED), "ok OneOwner"),
    (BOTH, cluster(eni_config=DENIED), "warn SocketLeft"),
    # In the agent's pod the sockets are not seen: Kubernetes alone says who is configured.
    (UNSEEN, None, "unknown CannotLook"),
    (UNSEEN, cluster(), "absent Nothing"),
    (UNSEEN, cluster(eni_config=ON), "ok OneOwner"),
    (UNSEEN, cluster(pods=(terway_pod(), AGENT)), "ok OneOwner"),
    (UNSEEN, cluster(eni_config=ON, pods=(AGENT,)), "fail TwoOwners"),
    (UNSEEN, cluster(eni_config=ON, pods=DENIED), "unknown CannotLook"),
    (UNSEEN, cluster(eni_config=DENIED, pods=(AGENT,)), "unknown CannotLook"),
    (UNSEEN, cluster(eni_config=DENIED), "absent Nothing"),
]


@pytest.mark.parametrize(("sockets", "told", "says"), ROWS)
def test_says(sockets: Any, told: Any, says: str) -> None:
    facts = (terway(device_plugins=sockets),) if told is None else (terway(device_plugins=sockets), told)
    assert say(CHECK, *facts) == says


def test_without_terway_nothing() -> None:
    assert say(CHECK, terway(present=False, device_plugins=BOTH)) == "absent Nothing"


def test_names_the_owner() -> None:
    (ours,) = verdicts(CHECK, terway(), cluster(eni_config=ON))
    (theirs,) = verdicts(CHECK, terway(device_plugins=(THEIRS,)))
    assert ours.message == "Terway alone serves aliyun/erdma"
    assert theirs.message == "erdma-controller alone serves aliyun/erdma"


def test_says_that_it_goes_by_the_records_alone() -> None:
    (ours,) = verdicts(CHECK, terway(device_plugins=UNSEEN), cluster(eni_config=ON))
    assert ours.message == (
        "Terway alone serves aliyun/erdma by Kubernetes' records; /var/lib/kubelet/device-plugins is not seen here, "
        "nor what was left in it"
    )
