"""terway.pod: there, Ready, and if not, why."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.terway.pod import CHECK
from nodeprep.facts.kubernetes.cluster import Container, Owner, Pod
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, container, node_object, pod, terway_pod
from tests.cni_values import terway
from tests.values import say, verdicts

DONE = container(name="terway-init", init=True, state="terminated: Completed")
RUNS, WAITS = container(ready=False), container(ready=False, state="waiting: CrashLoopBackOff", restarts=7)
GONE = terway_pod(deleted=True)
OVER = terway_pod(phase="Failed", ready=False)


def down(*containers: Container, **different: Any) -> Pod:
    return terway_pod(**({"ready": False, "containers": containers} | different))


def init(message: str) -> Container:
    state = "waiting: CrashLoopBackOff"
    return container(name="terway-init", init=True, ready=False, restarts=4, state=state, message=message)


ROWS: list[tuple[tuple[Pod, ...], str]] = [
    ((terway_pod(), pod()), "ok Ready"),
    ((terway_pod(labels={"app": "terway-eni"}),), "ok Ready"),
    ((terway_pod(containers=(init("mount failed"),)),), "ok Ready"),
    ((), "fail NoPod"),
    ((pod(),), "fail NoPod"),
    ((GONE, OVER), "fail NoPod"),
    ((GONE, terway_pod()), "ok Ready"),
    ((down(DONE, RUNS), terway_pod()), "ok Ready"),  # a rolling update
    ((down(DONE, RUNS),), "fail NotReady terway_restart()"),
    ((down(DONE, container(), RUNS),), "fail NotReady terway_restart()"),
    ((down(DONE, WAITS),), "fail NotReady"),
    ((down(phase="Pending"),), "fail NotReady"),
    ((down(init(""), WAITS),), "fail InitNotDone"),
    ((down(init("Error: unsupport kernel version, require >=5.10"), WAITS),), "fail KernelTooOld"),
    ((down(init("Error: ipvlan is unsupported"), WAITS),), "fail IpvlanUnsupported"),
    ((down(init("Error: failed process input"), WAITS),), "fail ConfigurationRefused"),
    ((down(init("exclusive eni mode changed"), WAITS),), "fail ModeChanged"),
    ((down(init("mount failed: permission denied"), WAITS),), "fail MountFailed"),
]


USERS: list[dict[str, Any]] = [  # what whoever may create a pod, or a DaemonSet in a namespace, can have
    {"namespace": "users", "name": "mine"},
    {"namespace": "users"},
    {"owner": None},
    {"owner": Owner("v1", "Node", "n1")},
    {"owner": Owner("apps/v1", "ReplicaSet", "terway-eniip-7c9")},
]


@pytest.mark.parametrize("different", USERS)
@pytest.mark.parametrize("ready", [True, False])
def test_a_users_pod_with_its_label_is_not_terways(different: dict[str, Any], ready: bool) -> None:
    users = terway_pod(ready=ready, containers=(container(ready=ready),), **different)
    assert say(CHECK, terway(), cluster(pods=(users,))) == "fail NoPod"
    for real in (terway_pod(), down(DONE, WAITS), down(DONE, RUNS), down(init("mount failed"), WAITS)):
        alone = verdicts(CHECK, terway(), cluster(pods=(real,)))
        assert verdicts(CHECK, terway(), cluster(pods=(users, real))) == alone


@pytest.mark.parametrize(("pods", "says"), ROWS)
def test_says(pods: tuple[Pod, ...], says: str) -> None:
    assert say(CHECK, terway(), cluster(pods=pods)) == says


def test_where_it_has_no_pods_nothing() -> None:
    ignored = node_object(labels={"k8s.aliyun.com/ignore-by-terway": "true"})
    assert say(CHECK, terway(), cluster(pods=(), node=ignored)) == "absent Nothing"
    assert say(CHECK, terway(present=False), cluster(pods=())) == "absent Nothing"


def test_pods_that_may_not_be_listed_are_not_missing() -> None:
    assert say(CHECK, terway(), cluster(pods=Unreadable(Why.DENIED, "pods"))) == "unknown CannotLook"


def test_messages() -> None:
    (refused,) = verdicts(CHECK, terway(), cluster(pods=(down(init("Error: ipvlan is unsupported\n"), WAITS),)))
    assert refused.message == (
        "kube-system/terway-eniip-x7k2p: terway-init is waiting: CrashLoopBackOff, 4 restarts, said "
        "'Error: ipvlan is unsupported'; drain the node, then set eniip_virtual_type to veth or datapathv2"
    )
    (dead,) = verdicts(CHECK, terway(), cluster(pods=(down(DONE, RUNS),)))
    assert dead.message == (
        "kube-system/terway-eniip-x7k2p is not Ready: terway is running, 0 restarts; "
        "see kubectl -n kube-system logs terway-eniip-x7k2p -c terway --previous"
    )
