"""eni.trunk: the ENI that the node's annotation names, by every book."""

from __future__ import annotations

import pytest

from nodeprep.checks.eni.trunk import CHECK, Want
from nodeprep.facts.kubernetes.cluster import Cluster, EniRecord
from tests.cluster_values import node_object
from tests.eni_values import DENIED, SILENT, eth0, kernel, known, recorded
from tests.imds_values import NOT_ECS, SHARED_MAC, imds
from tests.values import changed, say, verdicts


def named(eni: str, *enis: EniRecord) -> Cluster:
    return recorded(*enis, node=node_object(annotations={"k8s.aliyun.com/trunk-on": eni}))


TRUNK = known(type="Trunk")
ROWS = [
    # Kubernetes                                                   links           says
    (named("eni-shared1", TRUNK), kernel(), "ok Trunk"),
    (named("eni-shared1", TRUNK), kernel(eth0()), "fail NoLink"),
    (named("eni-shared1", known()), kernel(), "fail NotTrunk"),
    (named("eni-shared1", known(type="Trunk", status="Detaching")), kernel(), "fail NotInUse"),
    (named("eni-gone", TRUNK), kernel(), "fail NotRecorded"),
    (named("eni-far", known(id="eni-far", type="Trunk")), kernel(), "fail NotAttached"),
    (changed(named("eni-shared1"), terway=None), kernel(), "ok Trunk"),  # without CRD IPAM there is no record
    (changed(named("eni-gone"), terway=None), kernel(), "fail NotAttached"),
    (changed(named("eni-shared1"), terway=DENIED), kernel(), "unknown CannotLook"),
    (named(""), kernel(), "absent Nothing"),
    (recorded(), kernel(), "absent Nothing"),
]


@pytest.mark.parametrize(("kubernetes", "links", "says"), ROWS)
def test_says(kubernetes: object, links: object, says: str) -> None:
    assert say(CHECK, imds(), links, kubernetes) == says


def test_a_node_without_a_trunk_fails_only_where_one_is_required() -> None:
    assert say(CHECK, imds(), kernel(), recorded(), want=Want(required=True)) == "fail NoTrunk"
    assert say(CHECK, imds(), kernel(), named("eni-shared1", TRUNK), want=Want(required=True)) == "ok Trunk"
    assert say(CHECK, NOT_ECS, kernel(), recorded(), want=Want(required=True)) == "absent Nothing"


def test_elsewhere_and_blind() -> None:
    assert say(CHECK, NOT_ECS, kernel(), named("eni-gone")) == "absent Nothing"
    assert say(CHECK, imds(SILENT), kernel(), named("eni-gone")) == "unknown CannotLook"


def test_messages() -> None:
    (lost,) = verdicts(CHECK, imds(), kernel(eth0()), named("eni-shared1", TRUNK))
    assert lost.message == (
        "the node's annotation k8s.aliyun.com/trunk-on names eni-shared1; the metadata has it "
        "(00:16:3e:aa:bb:01), and the kernel no link with that MAC: rescan the PCI bus"
    )
    assert lost.subject.place == SHARED_MAC
    (plain,) = verdicts(CHECK, imds(), kernel(), named("eni-shared1", known()))
    assert plain.message == (
        "the node's annotation k8s.aliyun.com/trunk-on names eni-shared1 (00:16:3e:aa:bb:01), which is a "
        "'Secondary' ENI by Terway's record"
    )
