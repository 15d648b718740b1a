"""Kubeflow's operators of the rig: they serve with their own rights and webhooks, and say why they end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.jobs.job_values import container, kubeflow, template
from tests.rigs import started
from tests.rigs.cluster import Cluster
from tests.rigs.operators import TRAINING, mpi_operator, training_operator
from tests.rigs.waiting import until

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
V2BETA1 = "kubeflow.org/v2beta1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """An API server alone: nobody runs the pods that operators make."""
    with started.cluster() as made:
        yield made


def submitted(cluster: Cluster, job: Object) -> tuple[int, str]:
    """Code and words of the API server."""
    path = f"/apis/{job['apiVersion']}/namespaces/default/{job['kind'].lower()}s"
    code, told = cluster.call("POST", path, job)
    return code, str(told.get("message", ""))


def tfjob(name: str, box: str) -> Object:
    job = kubeflow("TFJob", "tfReplicaSpecs", {"Worker": {"template": template(container(box))}})
    job["metadata"]["name"] = name
    return job


def is_made(cluster: Cluster, pod: str) -> bool:
    return cluster.call("GET", f"{PODS}/{pod}")[0] == 200


def test_training_operator_refuses_by_its_webhook_and_makes_pods(cluster: Cluster) -> None:
    with started.or_absent(training_operator(cluster, "--enable-scheme=tfjob", leave_out=("mpijobs.kubeflow.org",))):
        code, words = submitted(cluster, tfjob("odd", "main"))
        assert code == 403
        assert 'admission webhook "validator.tfjob.training-operator.kubeflow.org" denied the request' in words
        assert submitted(cluster, tfjob("tf", "tensorflow")) == (201, "")
        until(lambda: is_made(cluster, "tf-worker-0"), "the worker's pod")
        assert cluster.call("GET", "/apis/kubeflow.org/v1/mpijobs")[0] == 404
        asked = cluster.requests("system:serviceaccount:kubeflow:training-operator")
    assert f"create {PODS}" in asked
    # It is gone, and nobody takes its place.
    assert submitted(cluster, tfjob("late", "tensorflow"))[0] == 500


@pytest.mark.prove  # for it alone a new machine would build mpi-operator, two and a half minutes of processor
def test_mpi_operator_leads_also_after_one_that_was_killed(cluster: Cluster) -> None:
    """The kind is free, because training-operator's of that name was left out."""
    roles = {"Launcher": {"template": template()}, "Worker": {"replicas": 1, "template": template()}}
    with started.or_absent(mpi_operator(cluster)):
        assert submitted(cluster, kubeflow("MPIJob", "mpiReplicaSpecs", roles, V2BETA1)) == (201, "")
        until(lambda: is_made(cluster, "j-worker-0"), "the worker's pod")
    assert cluster.call("DELETE", f"{PODS}/j-worker-0?gracePeriodSeconds=0")[0] == 200
    with mpi_operator(cluster):
        until(lambda: is_made(cluster, "j-worker-0"), "the worker's pod again")


def test_an_operator_that_ends_is_shown_with_its_words(cluster: Cluster) -> None:
    with (
        pytest.raises(RuntimeError, match=r"training-operator ended:(?s:.*)flag provided but not defined: -no-such"),
        training_operator(cluster, "--no-such", leave_out=("mpijobs.kubeflow.org",)),
    ):
        pass
    assert TRAINING not in cluster.processes
