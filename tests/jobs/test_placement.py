"""How many pods fit: exact for pods that are alike, by first fit and said so where they differ."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.jobs import job_manifest, placement
from tests.jobs.job_values import ask, bound, cluster, job, kubeflow, node, pod, template, wanting

Object = dict[str, Any]


def gpus(count: int, **more: str) -> Object:
    return wanting(limits={"nvidia.com/gpu": str(count), **more})


def workers(count: int, each: int, **spec: Any) -> Object:
    roles = {"Worker": {"replicas": count, "template": template(gpus(each, cpu="1"))}}
    return kubeflow("JAXJob", "jaxReplicaSpecs", roles, **spec)


def test_one_role_is_the_sum_of_floors() -> None:
    where = cluster(node("a"), node("b", room={"nvidia.com/gpu": "7"}), node("c"), pods=(bound("c", gpus(5)),))
    answer = ask(workers(4, 3), where)
    assert answer.roles[0].able == {"a": 2, "b": 2, "c": 1}
    assert (answer.starts, answer.placed, answer.exact) == (True, 4, True)
    assert ask(workers(6, 3), where).starts is False


@given(st.lists(st.integers(0, 16), min_size=1, max_size=5), st.integers(1, 5), st.integers(0, 12))
def test_one_role_is_exact(rooms: list[int], each: int, count: int) -> None:
    where = cluster(*(node(f"n{index}", room={"nvidia.com/gpu": str(room)}) for index, room in enumerate(rooms)))
    most = sum(room // each for room in rooms)
    answer = ask(workers(count, each), where)
    assert answer.placed == min(count, most)
    assert answer.starts == (count <= most)


def test_several_roles_are_by_first_fit_and_that_is_no_proof() -> None:
    roles = {
        "Master": {"replicas": 2, "template": template(wanting(requests={"cpu": "3"}))},
        "Worker": {"replicas": 3, "template": template(wanting(requests={"cpu": "2"}))},
    }
    whole = kubeflow("XGBoostJob", "xgbReplicaSpecs", roles)
    # 7 = 3 + 2 + 2 and 5 = 3 + 2 would take all. By first fit both masters go onto the first.
    answer = ask(whole, cluster(node("a", room={"cpu": "7"}), node("b", room={"cpu": "5"})))
    assert (answer.placed, answer.starts, answer.exact) == (4, False, False)
    assert ask(whole, cluster(node("a", room={"cpu": "5"}), node("b", room={"cpu": "7"}))).starts is True


def test_a_role_that_alone_is_too_much_is_a_proof() -> None:
    roles = {
        "Master": {"replicas": 1, "template": template(wanting(requests={"cpu": "4"}))},
        "Worker": {"replicas": 1, "template": template(wanting(requests={"cpu": "600"}))},
    }
    answer = ask(kubeflow("XGBoostJob", "xgbReplicaSpecs", roles), cluster(node("a")))
    assert (answer.starts, answer.exact) == (False, True)


def test_roles_that_ask_for_the_same_are_one() -> None:
    same = template(gpus(8, cpu="1"))
    roles = {"PS": {"replicas": 1, "template": same}, "Worker": {"replicas": 2, "template": same}}
    answer = ask(kubeflow("TFJob", "tfReplicaSpecs", roles), cluster(node("a"), node("b")))
    assert (answer.placed, answer.starts, answer.exact) == (2, False, True)


def test_a_gang_needs_its_minimum_alone() -> None:
    where = cluster(node("a"), node("b"))
    policy = {"schedulingPolicy": {"minAvailable": 2}}
    assert ask(workers(3, 8), where).starts is False
    assert ask(workers(3, 8, runPolicy=policy), where).starts is True


def test_a_task_has_a_minimum_of_its_own() -> None:
    tasks = [
        {"name": "head", "replicas": 1, "template": template(gpus(8))},
        {"name": "work", "replicas": 3, "minAvailable": 1, "template": template(gpus(8))},
    ]
    whole = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v"},
        "spec": {"tasks": tasks, "schedulerName": "volcano"},
    }
    assert job(whole).minimum == 2
    assert ask(whole, cluster(node("a"), node("b"))).starts is True
    assert ask(whole, cluster(node("a"))).starts is False


def test_jobs_of_one_file_share_the_room() -> None:
    jobs = job_manifest.read([pod(gpus(8), name="a"), pod(gpus(8), name="b")]).jobs
    first, second = placement.ask(jobs, cluster(node()))
    assert (first.starts, second.starts) == (True, False)
    assert [str(one) for one in second.roles[0].refused["n1"]] == ["nvidia.com/gpu: 0 of 8 free, wanted 8"]


def test_a_pod_that_keeps_others_away_makes_the_answer_unknown() -> None:
    keeps = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    ]}}  # fmt: skip
    where = cluster(node(), pods=(bound("n1", affinity=keeps),))
    assert [one.words for one in ask(pod(labels={"app": "a"}), where).unclaimed] == [
        "pod: pod default/b keeps it away by its anti-affinity"
    ]
    assert ask(pod(labels={"app": "b"}), where).unclaimed == ()


def test_an_empty_cluster_takes_nothing() -> None:
    answer = ask(pod(), cluster())
    assert answer.starts is False


def test_no_replicas_start_at_once() -> None:
    whole = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    assert ask({**whole, "spec": {"replicas": 0, "template": template()}}, cluster()).starts is True
