"""Pods, Nodes and manifests for the tests of jobs, as the API server and users write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodeprep.config import yaml_document
from nodeprep.jobs import job_cluster, job_manifest, placement
from nodeprep.jobs.job_cluster import JobCluster
from nodeprep.jobs.job_manifest import JobManifest
from nodeprep.jobs.job_model import Job
from nodeprep.jobs.placement import JobAnswer

Object = dict[str, Any]

MANIFESTS = Path(__file__).resolve().parents[2] / "docs/jobs"
# What the four users submit.
SEEDS = ("mpijob-arena.yaml", "rdma-pod-of-one-node.yaml", "pytorch-deployment.yaml", "tfjob.yaml")
ROOM = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8", "ephemeral-storage": "100Gi"}


def container(name: str = "main", **fields: Any) -> Object:
    return {"name": name, "image": "x", **fields}


def wanting(*, limits: Object | None = None, requests: Object | None = None, **fields: Any) -> Object:
    """A container with these resources."""
    stated = {key: value for key, value in (("limits", limits), ("requests", requests)) if value}
    return container(**fields, resources=stated)


def pod(*containers: Object, name: str = "p", labels: Object | None = None, **spec: Any) -> Object:
    """A manifest of a pod."""
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers or (container(),)), **spec},
    }


def template(
    *containers: Object, annotations: Object | None = None, labels: Object | None = None, **spec: Any
) -> Object:
    """The template of a pod, in a job."""
    metadata = {key: value for key, value in (("annotations", annotations), ("labels", labels)) if value}
    return {"metadata": metadata, "spec": {"containers": list(containers or (container(),)), **spec}}


def kubeflow(kind: str, key: str, roles: Object, api: str = "kubeflow.org/v1", **spec: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "j"}, "spec": {key: roles, **spec}}


def node(
    name: str = "n1", labels: Object | None = None, taints: Any = (), room: Object | None = None, **spec: Any
) -> Object:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": ROOM | (room or {})},
    }


def bound(on: str, *containers: Object, name: str = "b", phase: str = "Running", **spec: Any) -> Object:
    """A pod of the API server on a Node."""
    whole = pod(*containers, name=name, **spec)
    whole["metadata"]["namespace"] = "default"
    whole["spec"]["nodeName"] = on
    return {**whole, "status": {"phase": phase}}


def cluster(*nodes: Object, pods: tuple[Object, ...] | None = ()) -> JobCluster:
    kept = None if pods is None else [one for one in map(job_cluster.pod, pods) if one is not None]
    return JobCluster.of(map(job_cluster.node, nodes), kept)


def job(manifest: Object) -> Job:
    """The one job of a manifest."""
    (found,) = job_manifest.read([manifest]).jobs
    return found


def ask(manifest: Object, where: JobCluster) -> JobAnswer:
    (answer,) = placement.ask(job_manifest.read([manifest]).jobs, where)
    return answer


def seed(number: int) -> JobManifest:
    """A manifest of the four users, as `preflight` reads it."""
    path = MANIFESTS / SEEDS[number]
    documents = yaml_document.read_stream(path.read_bytes(), path.name)
    return job_manifest.read(one.value for one in documents)
