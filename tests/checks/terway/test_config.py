"""terway.config: eni_conf is sound and fits the node."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.terway.config import CHECK
from nodeprep.facts.kubernetes.cluster import EniConfig
from nodeprep.model import Unreadable, Why, guarded
from tests.cluster_values import cluster, eni_config, node_object, terway_node
from tests.cni_values import terway
from tests.values import changed, say, verdicts

LINGJUN = {"alibabacloud.com/lingjun-worker": "true"}
ELSEWHERE = {"cn-hangzhou-k": ["vsw-1"]}
CUT = Unreadable(Why.MALFORMED, "ConfigMap kube-system/eni-config, eni_conf", detail="line 3 column 5: Expecting value")
DENIED = Unreadable(Why.DENIED, "configmaps kube-system/eni-config")
ROWS: list[tuple[Any, str, str]] = [
    # settings                                         on ECS                on Lingjun
    (eni_config(), "ok Sound", "ok Sound"),
    (EniConfig("kube-system/eni-config", {}), "ok Sound", "ok Sound"),
    (None, "warn NoConfig", "fail NoConfig"),
    (EniConfig("kube-system/eni-config", guarded(CUT)), "warn NotJson", "fail NotJson"),
    (DENIED, "unknown CannotLook", "unknown CannotLook"),
    (eni_config(vswitches=ELSEWHERE), "warn NoVswitch", "ok Sound"),  # there lingjun.zone says it
    (eni_config(vswitches={}), "ok Sound", "ok Sound"),
    (eni_config(vswitches=["vsw-1"]), "ok Sound", "ok Sound"),
    (eni_config(security_groups=["sg"] * 10), "ok Sound", "ok Sound"),
    (eni_config(security_groups=["sg"] * 11), "warn TooManyGroups", "fail TooManyGroups"),
    (eni_config(security_groups=("sg",) * 11), "warn TooManyGroups", "fail TooManyGroups"),
    (eni_config(min_pool_size=5), "ok Sound", "ok Sound"),
    (eni_config(min_pool_size=6), "warn PoolSizes", "fail PoolSizes"),
    (eni_config(min_pool_size="6"), "ok Sound", "ok Sound"),
    (eni_config(ip_stack="dual"), "ok Sound", "ok Sound"),
    (eni_config(ip_stack=""), "ok Sound", "ok Sound"),
    (eni_config(ip_stack="ipv5"), "warn IpStack", "fail IpStack"),
    (eni_config(ip_stack=["ipv4"]), "warn IpStack", "fail IpStack"),
]


@pytest.mark.parametrize(("config", "on_ecs", "on_lingjun"), ROWS)
def test_says(config: Any, on_ecs: str, on_lingjun: str) -> None:
    assert say(CHECK, terway(), cluster(eni_config=config)) == on_ecs
    assert say(CHECK, terway(), cluster(node=node_object(labels=LINGJUN), eni_config=config)) == on_lingjun


def test_the_zone_is_the_nodes_or_its_records() -> None:
    bare = node_object(labels={"topology.kubernetes.io/zone": ""})
    assert say(CHECK, terway(), cluster(node=bare, terway=terway_node(zone="cn-hangzhou-j"))) == "ok Sound"
    assert say(CHECK, terway(), cluster(node=bare, terway=terway_node(zone="cn-hangzhou-k"))) == "warn NoVswitch"
    assert say(CHECK, terway(), cluster(node=bare, terway=None)) == "ok Sound"


def test_elsewhere_nothing() -> None:
    ignored = node_object(labels={"k8s.aliyun.com/ignore-by-terway": "true"})
    unasked = changed(node_object(provider_id="aws:///us-west-2a/i-0abc"), annotations={})
    assert say(CHECK, terway(present=False), cluster(eni_config=None)) == "absent Nothing"
    assert say(CHECK, terway(), cluster(eni_config=None, node=ignored)) == "absent Nothing"
    assert say(CHECK, terway(), cluster(eni_config=None, node=unasked)) == "absent Nothing"


def test_message_names_every_fault() -> None:
    (verdict,) = verdicts(CHECK, terway(), cluster(eni_config=eni_config(min_pool_size=9, vswitches=ELSEWHERE)))
    assert verdict.message == (
        "ConfigMap kube-system/eni-config: vswitches has none for this node's zone cn-hangzhou-j, only for "
        "cn-hangzhou-k: it takes the instance's own; min_pool_size 9 is more than max_pool_size 5; "
        "see kubectl -n kube-system get cm"
    )
    (cut,) = verdicts(CHECK, terway(), cluster(eni_config=EniConfig("kube-system/eni-config", guarded(CUT))))
    assert cut.message == (
        "ConfigMap kube-system/eni-config: eni_conf is no JSON object: line 3 column 5: Expecting value; "
        "see kubectl -n kube-system get cm"
    )
