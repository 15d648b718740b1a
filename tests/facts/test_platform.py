"""Whether a node is Alibaba Cloud's: any sign of it is enough, what cannot be read is none."""

from __future__ import annotations

import pytest

from nodeprep.facts.alibaba import platform
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.lingjun import Lingjun
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.system import System
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, node_object
from tests.cni_values import terway
from tests.erdma_values import erdma, lingjun
from tests.imds_values import imds, instance
from tests.values import changed

BLIND = Unreadable(Why.DENIED, "/somewhere", 13)
OTHERS = System(0.0, "node", "6.1.0", "boot", True, "Amazon EC2", "p5.48xlarge", "")
ELSEWHERE = (OTHERS, Imds(0.0, None, None), terway(present=False), erdma(functions=()), Lingjun(0.0, ()))
FOREIGN = node_object(provider_id="aws:///eu-west-1a/i-0123456789abcdef0", annotations={})
ROWS = [
    ((), False),
    ((OTHERS, cluster(node=changed(FOREIGN, labels={}, annotations={}))), False),
    ((changed(OTHERS, product="Alibaba Cloud ECS"),), True),
    ((changed(OTHERS, vendor="Alibaba Cloud", product="ecs.g8i"),), True),
    ((changed(OTHERS, product=BLIND),), True),
    ((imds(instance()),), True),
    ((imds(BLIND),), False),
    ((terway(),), True),
    ((terway(present=BLIND),), False),
    ((erdma(),), True),
    ((lingjun(),), True),
    ((cluster(),), True),
    ((cluster(node=BLIND),), False),
]


@pytest.mark.parametrize(("signs", "says"), ROWS)
def test_one_sign_is_enough(signs: tuple[object, ...], says: bool) -> None:
    facts = {type(fact): fact for fact in ELSEWHERE} | {type(fact): fact for fact in signs}
    assert platform.is_alibaba(facts) == says


def test_a_fact_that_could_not_be_observed_is_no_sign() -> None:
    assert not platform.is_alibaba({System: OTHERS, Cluster: BLIND})
