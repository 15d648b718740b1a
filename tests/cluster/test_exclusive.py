"""Faults in what Kubernetes has of a node whose pods take whole ENIs: only records tell where those are.

What is wrong is compared whole, so that each fault also shows that the finding of the one before went with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.known_node import Fault, Known, known
from tests.rigs.cluster import Cluster
from tests.rigs.netns_node import Shape, veth
from tests.rigs.netns_records import exclusive, limits
from tests.rigs.waiting import until

SHAPE = Shape(enis=3, pods=0)
PROFILE = "mpijob-exclusive-eni"
CAPABILITIES = "/var/run/eni/node_capabilities"


@pytest.fixture(scope="module")
def here(cluster: Cluster) -> Iterator[Known]:
    """eth1 and eth2 are in pods, whose namespace is one that a program holds; eth3 waits for the next pod."""
    with known(cluster, SHAPE, exclusive) as one:
        held = one.node.start("unshare", "--net", "cat")
        try:
            until(
                lambda: network(held.pid) not in (network(one.node.pid), network(os.getpid())),
                "a network namespace of the pods",
            )
            one.shell(f"sed -i 's/^cni_exclusive_eni.*/cni_exclusive_eni = eniOnly/' {CAPABILITIES}")
            for eni in (1, 2):
                one.shell(into_pod(eni, held.pid))
            yield one
        finally:
            held.communicate()


def network(process: int) -> int:
    return Path(f"/proc/{process}/ns/net").stat().st_ino


def into_pod(eni: int, pod: int) -> str:
    """What Terway does with an exclusive ENI: the pod takes it, and has a veth for what is of the node."""
    name, address = veth(eni - 1), SHAPE.addresses(eni)[0]
    return f"""
        ip link set eth{eni} netns {pod}
        ip link add {name} type veth peer name p{eni} netns {pod}
        nsenter -t {pod} -n ip link set p{eni} up
        ip link set {name} up
        ip route add {address}/32 dev {name} scope link
    """


def bound(phase: str) -> dict[str, Any]:
    return {"status": {"phase": phase}}


TRUNK_HERE = {"metadata": {"annotations": {"k8s.aliyun.com/trunk-on": "eni-1"}}}
IS_TRUNK = {"status": {"networkInterfaces": {"eni-1": {"networkInterfaceType": "Trunk"}}}}
FAULTS = [
    Fault("an ENI that no record has", ("fail eni.missing-link NoLink",), {"pod-eni": None}, PROFILE),
    Fault("an ENI on its way to a pod", ("warn eni.missing-link Changing",), {"pod-eni": bound("Unbind")}, PROFILE),
    Fault(
        "an ENI on its way to no pod", ("warn eni.missing-link Changing",), {"interface": bound("Detaching")}, PROFILE
    ),
    Fault("pods hold all ENIs", ("warn eni.free NoneFree",), {"node": limits(EniQuantity=3)}, PROFILE),
    Fault(
        "a trunk ENI that is not here",
        ("fail eni.missing-link NoLink", "fail eni.trunk NoLink"),
        {"pod-eni": None, "node": TRUNK_HERE, "terway": IS_TRUNK},
        PROFILE,
    ),
]


def test_a_node_as_it_should_be(here: Known) -> None:
    said = here.check(PROFILE)
    assert (said.bad, said.code, said.report["verdict"]) == ((), 0, "passed")
    held = [one["message"] for one in said.findings("ok") if one["reason"] == "InPod"]
    assert ["default/worker-0 holds it" in held[0], "eni-2 holds it" in held[1]] == [True, True]
    assert {"terway.mode", "terway.pod", "eni.free", "terway.veth"} <= {one["check"] for one in said.findings("ok")}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault(here: Known, fault: Fault) -> None:
    with here.having(fault):
        assert here.check(fault.profile).bad == fault.says


def test_all_faults_are_gone(here: Known) -> None:
    def is_well() -> bool:
        print(bad := here.check(PROFILE).bad)
        return bad == ()

    until(is_well, "no fault: a busy machine may be late with an answer of the metadata server three times")


def test_without_access(here: Known) -> None:
    """Whether an ENI that left is in a pod or is lost, nobody on the node knows."""
    said = here.alone(PROFILE)
    assert said.code == 3
    assert [one for one in said.bad if "eni.missing-link" in one] == ["unknown eni.missing-link CannotLook"] * 2
    unknown = [one["message"] for one in said.findings("unknown")]
    assert all("--kubeconfig FILE --node NAME" in one for one in unknown)
