"""route.rules: two for each pod of a shared ENI, none for anybody else."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.route.rules import CHECK
from nodeprep.door_values import RoutingRule
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster, Pod
from nodeprep.model import Unreadable, Why, guarded
from tests.cluster_values import cluster, node_object, pod, terway_node, terway_pod
from tests.cni_values import terway
from tests.imds_values import SHARED_MAC, imds
from tests.route_values import MAIN, POD, routes, rule, rules_of
from tests.values import changed, link, links, say, verdicts

HERE = links(
    link(name="eth0", index=2, permanent_mac="00:16:3e:00:00:01"), link(name="eth1", index=6, permanent_mac=SHARED_MAC)
)
TO, FROM = rules_of()
FRESH = "192.168.0.140"  # in no book
NO_RECORD = cluster(terway=None)
SILENT = imds(guarded(Unreadable(Why.TIMEOUT, "http://100.100.100.200")))

RULES = [
    ((TO, FROM), "ok Rules"),
    ((TO,), "fail RuleMissing terway_restart()"),
    ((FROM,), "fail RuleMissing terway_restart()"),
    ((), "fail RuleMissing terway_restart()"),
    ((TO, rule(table=1002)), "fail RuleMissing terway_restart()"),
    ((TO, rule(priority=2049)), "fail RuleMissing terway_restart()"),
    ((rule(priority=512, source="", destination=f"{POD}/32", table=1006), FROM), "fail RuleMissing terway_restart()"),
    ((TO, FROM, *rules_of(FRESH)), "warn RuleLeftOver terway_restart()"),
    ((TO, FROM, rule(source="192.168.0.0/24")), "ok Rules"),  # a prefix is nobody's of Terway
    ((TO, FROM, rule(priority=100, source=f"{FRESH}/32")), "ok Rules"),
    ((TO, FROM, rule(family="inet6", source="fd00::9/128")), "ok Rules"),
    ((*rules_of(FRESH),), "fail RuleMissing terway_restart()"),  # the one explains the other
]


@pytest.mark.parametrize(("rules", "says"), RULES)
def test_says_by_rules(rules: tuple[RoutingRule, ...], says: str) -> None:
    assert say(CHECK, routes(rules=rules), cluster(), terway(), HERE, imds()) == says


PODS = [
    (pod(), "fail RuleMissing terway_restart()"),
    (pod(host_network=True), "absent Nothing"),
    (pod(phase="Pending"), "absent Nothing"),
    (pod(phase="Succeeded"), "absent Nothing"),
    (pod(deleted=True), "absent Nothing"),
    (pod(addresses=()), "absent Nothing"),
    (pod(addresses=("fd00::9",)), "absent Nothing"),
    (pod(annotations={"k8s.aliyun.com/pod-eni": "true"}), "absent Nothing"),
    (pod(requests={"aliyun/eni": 1}), "absent Nothing"),
    (pod(requests={"aliyun/member-eni": 1}), "absent Nothing"),
]


@pytest.mark.parametrize(("one", "says"), PODS)
def test_says_by_pods(one: Pod, says: str) -> None:
    assert say(CHECK, routes(rules=()), cluster(pods=(terway_pod(), one)), terway(), HERE) == says


NODES: list[tuple[dict[str, Any], Terway, str]] = [
    ({}, terway(), "fail RuleMissing terway_restart()"),
    ({}, terway(present=False), "absent Nothing"),
    ({}, terway(capabilities=None), "fail RuleMissing terway_restart()"),
    ({}, terway(capabilities={"cni_exclusive_eni": "eniOnly"}), "absent Nothing"),
    ({"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}, terway(), "absent Nothing"),
    ({"k8s.aliyun.com/ignore-by-terway": "true"}, terway(), "absent Nothing"),
]


@pytest.mark.parametrize(("labels", "cni", "says"), NODES)
def test_says_by_node(labels: dict[str, str], cni: Terway, says: str) -> None:
    assert say(CHECK, routes(rules=()), cluster(node=node_object(labels=labels)), cni, HERE) == says


BOOKS: list[tuple[Cluster, tuple[object, ...], tuple[RoutingRule, ...], str, str]] = [
    # what Terway's record and the metadata know            rules                   says              about
    (cluster(), (HERE,), (TO,), "fail RuleMissing", SHARED_MAC),
    (NO_RECORD, (HERE, imds()), (TO,), "fail RuleMissing", SHARED_MAC),
    (NO_RECORD, (HERE,), (TO,), "fail RuleMissing", ""),
    (NO_RECORD, (HERE,), (TO, FROM), "ok Rules", SHARED_MAC),  # its table tells
    (NO_RECORD, (HERE,), (TO, rule(table=100)), "fail RuleMissing", ""),  # no table of Terway's
    (changed(cluster(), terway=Unreadable(Why.DENIED, "nodes")), (HERE, imds()), (TO,), "fail RuleMissing", SHARED_MAC),
    (cluster(), (), (TO,), "fail RuleMissing", SHARED_MAC),
    # Who does not know which ENI it is cannot say that the rule names its table.
    (NO_RECORD, (HERE, SILENT), (TO, FROM), "unknown CannotLook", ""),
    (NO_RECORD, (HERE, SILENT), (TO,), "fail RuleMissing", ""),
    (cluster(), (HERE, SILENT), (TO, FROM), "ok Rules", SHARED_MAC),
]


@pytest.mark.parametrize(("books", "others", "rules", "says", "about"), BOOKS)
def test_whose_it_is(
    books: Cluster, others: tuple[object, ...], rules: tuple[RoutingRule, ...], says: str, about: str
) -> None:
    (verdict,) = verdicts(CHECK, routes(rules=rules), books, terway(), *others)
    assert (f"{verdict.status} {verdict.reason}", verdict.subject.place) == (says, about)


def test_one_verdict_for_each_eni() -> None:
    others = tuple(pod(name=f"worker-{number}", addresses=(f"192.168.1.{number}",)) for number in range(5))
    found = verdicts(CHECK, routes(), cluster(pods=(pod(), *others), terway=terway_node()), terway(), HERE, imds())
    assert [(one.reason, one.subject.place) for one in found] == [("RuleMissing", ""), ("Rules", SHARED_MAC)]
    assert found[0].message == (
        "pods whose ENI is not known: default/worker-0 (192.168.1.0): no rule 2048: from 192.168.1.0 lookup "
        "1000+ifindex; its packets leave by table main, default/worker-1 (192.168.1.1): no rule 2048: from "
        "192.168.1.1 lookup 1000+ifindex; its packets leave by table main, default/worker-2 (192.168.1.2): no rule "
        "2048: from 192.168.1.2 lookup 1000+ifindex; its packets leave by table main and 2 more; Terway adds them anew "
        "when its pod starts, see ip rule"
    )


def test_messages() -> None:
    (missing,) = verdicts(CHECK, routes(rules=(TO,)), cluster(), terway(), HERE)
    assert missing.message == (
        "eth1 (00:16:3e:aa:bb:01): default/client-b6989bf87-2bgtc (192.168.0.134): no rule 2048: from 192.168.0.134 "
        "lookup 1006; its packets leave by table main; Terway adds them anew when its pod starts, see ip rule"
    )
    (left,) = verdicts(CHECK, routes(rules=(TO, FROM, *rules_of(FRESH))), cluster(), terway(), HERE)
    assert left.message == (
        "eth1 (00:16:3e:aa:bb:01): rules for 192.168.0.140 and no pod here has that address; "
        "the next pod that gets it is misled"
    )
    assert MAIN == 254
