"""lingjun.zone by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.lingjun.zone import CHECK
from nodeprep.facts.kubernetes.cluster import LINGJUN, EniConfig
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, eni_config, node_object, terway_node
from tests.cni_values import terway
from tests.values import say, verdicts

WORKER = {LINGJUN: "true"}
NODE = node_object(labels=WORKER)
ELSEWHERE = node_object(labels=WORKER | {"topology.kubernetes.io/zone": "cn-wulanchabu-b"})
UNLABELLED = node_object(labels=WORKER | {"topology.kubernetes.io/zone": ""})
CUT = Unreadable(Why.MALFORMED, "eni_conf")
DENIED = Unreadable(Why.DENIED, "nodes", detail="403")

ROWS = [
    ({"node": NODE}, "ok ZoneListed"),
    ({"node": ELSEWHERE}, "fail ZoneNotListed"),
    ({"node": NODE, "eni_config": eni_config(vswitches={"cn-hangzhou-j": []})}, "fail ZoneNotListed"),
    ({"node": NODE, "eni_config": eni_config(vswitches=None)}, "fail ZoneNotListed"),
    ({"node": NODE, "eni_config": EniConfig("kube-system/eni-config", {})}, "fail ZoneNotListed"),
    ({"node": UNLABELLED}, "ok ZoneListed"),  # Terway's own record has it
    ({"node": UNLABELLED, "terway": terway_node(zone="cn-wulanchabu-b")}, "fail ZoneNotListed"),
    ({"node": UNLABELLED, "terway": None}, "fail NoZone"),
    ({"node": NODE, "eni_config": EniConfig("kube-system/eni-config", CUT)}, "unknown CannotLook"),  # type: ignore[arg-type]
    ({"node": NODE, "eni_config": DENIED}, "unknown CannotLook"),
    ({"node": NODE, "eni_config": None}, "absent Nothing"),
    ({"node": node_object()}, "absent Nothing"),
    ({"node": node_object(labels={LINGJUN: "false"})}, "absent Nothing"),
    ({"node": node_object(labels=WORKER | {"k8s.aliyun.com/ignore-by-terway": "true"})}, "absent Nothing"),
]


@pytest.mark.parametrize(("different", "says"), ROWS)
def test_says(different: dict[str, Any], says: str) -> None:
    assert say(CHECK, cluster(**different), terway()) == says


def test_where_terway_is_not_no_zone_is_asked_for() -> None:
    assert say(CHECK, cluster(node=ELSEWHERE), terway(present=False)) == "absent Nothing"
    assert say(CHECK, cluster(node=DENIED), terway(present=False)) == "absent Nothing"
    assert say(CHECK, cluster(node=DENIED), terway()) == "unknown CannotLook"
    assert say(CHECK, cluster(node=ELSEWHERE)) == "fail ZoneNotListed"


def test_messages() -> None:
    (verdict,) = verdicts(CHECK, cluster(node=ELSEWHERE))
    assert verdict.message == (
        "zone cn-wulanchabu-b of this node is not among the vswitches of kube-system/eni-config (zones: "
        "cn-hangzhou-j), and on Lingjun Terway has no other to fall back to: "
        "kubectl -n kube-system edit configmap eni-config"
    )
    (verdict,) = verdicts(CHECK, cluster(node=UNLABELLED, terway=None))
    assert verdict.message == (
        "the node has no label topology.kubernetes.io/zone, so Terway finds no vSwitch for it "
        "(zones of kube-system/eni-config: cn-hangzhou-j)"
    )
