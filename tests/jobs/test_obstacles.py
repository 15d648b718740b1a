"""All obstacles between a pod and a Node, where kube-scheduler names one."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.jobs import obstacles
from tests.jobs.job_values import ask, bound, cluster, container, node, pod, wanting

Object = dict[str, Any]

OURS = {"key": "nodeprep.io/unhealthy", "value": "NoSignal", "effect": "NoSchedule"}
GPUS = wanting(limits={"nvidia.com/gpu": "8"})


def taint(effect: str = "NoSchedule", key: str = "team", value: str = "a") -> Object:
    return {"key": key, "value": value, "effect": effect}


def affinity(*terms: Object) -> Object:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, *values: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


def said(whole: Object, there: Object, *pods: Object) -> list[str]:
    """The obstacles on the one Node; none if it can take the pod."""
    answer = ask(whole, cluster(there, pods=pods)).roles[0]
    return [str(one) for one in answer.refused.get("n1", ())]


SAID = [
    ("nothing in the way", pod(GPUS), node(), []),
    ("a taint", pod(), node(taints=[OURS]), ["taint nodeprep.io/unhealthy=NoSignal:NoSchedule"]),
    ("PreferNoSchedule is no obstacle", pod(), node(taints=[taint("PreferNoSchedule")]), []),
    ("NoExecute is one", pod(), node(taints=[taint("NoExecute")]), ["taint team=a:NoExecute"]),
    ("a cordon", pod(), node(unschedulable=True), ["cordoned"]),
    (
        "a cordon with the controller's taint is one obstacle",
        pod(),
        node(unschedulable=True, taints=[taint(key="node.kubernetes.io/unschedulable", value="")]),
        ["cordoned"],
    ),
    (
        "Exists without a key passes all",
        pod(tolerations=[{"operator": "Exists"}]),
        node(taints=[OURS, taint("NoExecute")], unschedulable=True),
        [],
    ),
    (
        "a toleration of one effect",
        pod(tolerations=[{"key": "team", "value": "a", "effect": "NoSchedule"}]),
        node(taints=[taint(), taint("NoExecute")]),
        ["taint team=a:NoExecute"],
    ),
    (
        "a toleration of another value",
        pod(tolerations=[{"key": "team", "value": "b"}]),
        node(taints=[taint()]),
        ["taint team=a:NoSchedule"],
    ),
    (
        "what the API server makes every pod tolerate",
        pod(),
        node(taints=[taint("NoExecute", "node.kubernetes.io/not-ready", "")]),
        [],
    ),
    ("a selector", pod(nodeSelector={"pool": "a"}), node(), ["pool: found no such label, wanted 'a'"]),
    ("another value", pod(nodeSelector={"pool": "a"}), node(labels={"pool": "b"}), ["pool: found 'b', wanted 'a'"]),
    ("In", pod(affinity=affinity(expression("a", "In", "1", "2"))), node(labels={"a": "2"}), []),
    ("NotIn holds without the label", pod(affinity=affinity(expression("a", "NotIn", "1"))), node(), []),
    (
        "NotIn",
        pod(affinity=affinity(expression("a", "NotIn", "1"))),
        node(labels={"a": "1"}),
        ["a: found '1', wanted NotIn 1"],
    ),
    ("Exists", pod(affinity=affinity(expression("a", "Exists"))), node(), ["a: found no such label, wanted Exists"]),
    ("DoesNotExist", pod(affinity=affinity(expression("a", "DoesNotExist"))), node(labels={"a": ""}), None),
    ("Gt compares numbers", pod(affinity=affinity(expression("a", "Gt", "7"))), node(labels={"a": "12"}), []),
    ("Gt is not at least", pod(affinity=affinity(expression("a", "Gt", "7"))), node(labels={"a": "7"}), None),
    ("Gt of a word", pod(affinity=affinity(expression("a", "Gt", "7"))), node(labels={"a": "x"}), None),
    ("Lt without the label", pod(affinity=affinity(expression("a", "Lt", "7"))), node(), None),
    ("one term of several", pod(affinity=affinity(expression("a", "Exists"), named("In", "n1"))), node(), []),
    ("the name of another", pod(affinity=affinity(named("In", "n2"))), node(), None),
    ("an empty term matches nothing", pod(affinity=affinity({})), node(), None),
    ("nodeName of another", pod(nodeName="n2"), node(), ["nodeName: found n1, wanted n2"]),
    ("nodeName meets no scheduler", pod(nodeName="n1"), node(taints=[taint()], unschedulable=True), []),
    ("nodeName and NoExecute", pod(nodeName="n1"), node(taints=[taint("NoExecute")]), ["taint team=a:NoExecute"]),
    (
        "too small",
        pod(wanting(limits={"nvidia.com/gpu": "16"})),
        node(),
        ["nvidia.com/gpu: 8 of 8 free, wanted 16"],
    ),
    (
        "nothing of the kind",
        pod(wanting(limits={"rdma/hca": "1"})),
        node(),
        ["rdma/hca: none on this node, wanted 1"],
    ),
    (
        "all obstacles at once",
        pod(GPUS, nodeSelector={"pool": "a"}),
        node(taints=[OURS], unschedulable=True, room={"nvidia.com/gpu": "4"}),
        [
            "cordoned",
            "taint nodeprep.io/unhealthy=NoSignal:NoSchedule",
            "pool: found no such label, wanted 'a'",
            "nvidia.com/gpu: 4 of 4 free, wanted 8",
        ],
    ),
]


@pytest.mark.parametrize(("whole", "there", "wanted"), [case[1:] for case in SAID], ids=[case[0] for case in SAID])
def test_what_stands_in_the_way(whole: Object, there: Object, wanted: list[str] | None) -> None:
    found = said(whole, there)
    assert found == wanted if wanted is not None else len(found) == 1


COUNTED = [
    ("running", bound("n1", GPUS), True),
    ("waiting for its containers", bound("n1", GPUS, phase="Pending"), True),
    ("done", bound("n1", GPUS, phase="Succeeded"), False),
    ("failed", bound("n1", GPUS, phase="Failed"), False),
    ("elsewhere", bound("n2", GPUS), False),
    ("unknown to its kubelet", bound("n1", GPUS, phase="Unknown"), True),
]


@pytest.mark.parametrize(("there", "counts"), [case[1:] for case in COUNTED], ids=[case[0] for case in COUNTED])
def test_which_pods_take_room(there: Object, counts: bool) -> None:
    assert said(pod(GPUS), node(), there) == (["nvidia.com/gpu: 0 of 8 free, wanted 8"] if counts else [])


def test_a_pod_that_is_being_deleted_takes_room_until_it_is_gone() -> None:
    ending = bound("n1", GPUS)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert said(pod(GPUS), node(), ending) == ["nvidia.com/gpu: 0 of 8 free, wanted 8"]


def test_the_number_of_pods_is_room_too() -> None:
    assert said(pod(), node(room={"pods": "1"}), bound("n1")) == ["pods: 0 of 1 free, wanted 1"]


def port(number: int, address: str = "", protocol: str = "TCP") -> Object:
    one: Object = {"containerPort": number, "hostPort": number, "protocol": protocol}
    return container(ports=[one | ({"hostIP": address} if address else {})])


PORTS = [
    (port(80), port(80), True),
    (port(80), port(81), False),
    (port(80), port(80, protocol="UDP"), False),
    (port(80), port(80, "127.0.0.1"), True),
    (port(80, "127.0.0.1"), port(80, "10.0.0.1"), False),
    (port(80, "0.0.0.0"), port(80, "10.0.0.1"), True),
]


@pytest.mark.parametrize(("mine", "theirs", "conflict"), PORTS)
def test_ports_of_the_host(mine: Object, theirs: Object, conflict: bool) -> None:
    assert bool(said(pod(mine), node(), bound("n1", theirs))) == conflict


def test_on_the_hosts_network_each_port_is_the_hosts() -> None:
    ours = container(ports=[{"containerPort": 22}])
    assert said(pod(ours, hostNetwork=True), node(), bound("n1", port(22))) == ["host port 22/TCP in use"]
    assert said(pod(ours), node(), bound("n1", port(22))) == []


def test_without_pods_the_whole_node_counts() -> None:
    answer = ask(pod(GPUS), cluster(node(), node("n2", room={"nvidia.com/gpu": "4"}), pods=None))
    assert answer.starts is None
    assert list(answer.roles[0].able) == ["n1"]
    assert answer.placed is None


def test_copies_heed_ports_and_room() -> None:
    where = cluster(node())
    demand = ask(pod(port(80)), where).roles[0].role.pod.demand
    assert where.used is not None
    assert obstacles.copies(demand, where.nodes["n1"], where.used["n1"]) == 1
    assert ask(pod(wanting(limits={"nvidia.com/gpu": "3"})), where).roles[0].able == {"n1": 2}


def test_volcano_leaves_an_overcommitted_node_alone() -> None:
    there, taken = node(), bound("n1", wanting(requests={"cpu": "100"}))
    assert said(pod(GPUS), there, taken) == []
    assert said(pod(GPUS, schedulerName="volcano"), there, taken) == [
        "cpu: 100 of 64 taken, wanted no more than there is, by Volcano"
    ]
