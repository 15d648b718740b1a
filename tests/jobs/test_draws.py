"""On random clusters: a Node takes a pod exactly if nothing stands in its way, and plans stay within the room."""

from __future__ import annotations

import random
from typing import Any

from nodeprep.jobs import job_cluster, job_manifest, obstacles, placement
from nodeprep.jobs.job_cluster import JobCluster
from tests.rigs.agreement_draws import Draw

DRAWS = 150


def drawn(number: int) -> tuple[JobCluster, list[dict[str, Any]]]:
    draw = Draw(random.Random(number), number)
    pods = (one for one in map(job_cluster.pod, draw.bound) if one is not None)
    return JobCluster.of(map(job_cluster.node, draw.nodes), pods), draw.pods


def test_a_node_is_able_exactly_if_nothing_stands_in_its_way() -> None:
    seed = random.randrange(1 << 32)
    able = refused = 0
    for number in range(DRAWS):
        cluster, pods = drawn(seed + number)
        for pod in pods:
            (answer,) = placement.ask(job_manifest.read([pod]).jobs, cluster)
            role = answer.roles[0]
            assert all(role.refused.values()), seed + number
            assert role.able.keys() | role.refused.keys() == cluster.nodes.keys()
            for name in role.able:
                there = cluster.used[name] if cluster.used is not None else None
                assert not obstacles.obstacles(role.role.pod.demand, cluster.nodes[name], there), seed + number
            able, refused = able + len(role.able), refused + len(role.refused)
    assert able > DRAWS
    assert refused > DRAWS


def test_a_plan_takes_no_more_than_there_is() -> None:
    seed = random.randrange(1 << 32)
    for number in range(DRAWS):
        cluster, pods = drawn(seed + number)
        jobs = job_manifest.read(pods).jobs
        answers = placement.ask(jobs, cluster)
        one_by_one = cluster
        for job, answer in zip(jobs, answers, strict=True):
            ((again,), one_by_one) = placement.ask((job,), one_by_one), placement.after((job,), one_by_one)
            assert again == answer, seed + number
        before, after = cluster.used or {}, one_by_one.used or {}
        for name, node in cluster.nodes.items():
            for resource, count in after[name].requests.items():
                grew = count > before[name].requests.get(resource, 0)
                assert not grew or count <= node.allocatable.get(resource, 0), seed + number
