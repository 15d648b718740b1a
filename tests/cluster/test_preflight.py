"""`nodeprep preflight` against a real kube-apiserver and kube-scheduler: the seeds' manifests, rights, agreement."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.program import NODEPREP, nodeprep
from tests.cluster import accounts, fleet
from tests.jobs import job_values
from tests.rigs import agreement, cluster_setup
from tests.rigs.agreement import Scheduled
from tests.rigs.ending import ending
from tests.rigs.waiting import until

Object = dict[str, Any]

RIGHTS = Path(__file__).resolve().parents[2] / "daemonset/components/preflight/rights.yaml"
RDMA = "feature.node.kubernetes.io/network-rdma.capable"
PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
DRAWS = 50
GPU_POD = job_values.pod(job_values.wanting(limits={"nvidia.com/gpu": "8"}), name="gpus")
# Kinds of jobs that the server is to know: of their definitions, what preflight asks for is only that they are there.
KINDS = (
    ("kubeflow.org", "tfjobs", "v1", "TFJob", "Namespaced"),
    ("kubeflow.org", "mpijobs", "v1alpha1", "MPIJob", "Namespaced"),
    ("scheduling.volcano.sh", "queues", "v1beta1", "Queue", "Cluster"),
    ("scheduling.volcano.sh", "podgroups", "v1beta1", "PodGroup", "Namespaced"),
    ("batch.volcano.sh", "jobs", "v1alpha1", "Job", "Namespaced"),
)


def node(
    cluster: Scheduled, name: str, state: str = "Ready", *, renewed: float = 10, labels: Object | None = None
) -> None:
    """A Node of 64 processors and eight GPUs, as its agent leaves it."""
    fleet.node(cluster, name, state, renewed=renewed)
    room = dict(job_values.ROOM)
    assert cluster.call("PATCH", f"{fleet.NODES}/{name}/status", {"status": {"allocatable": room}})[0] == 200
    keep = [] if state == "Ready" else [fleet.TAINT]
    changes = {"metadata": {"labels": {"kubernetes.io/hostname": name, **(labels or {})}}, "spec": {"taints": keep}}
    assert cluster.call("PATCH", f"{fleet.NODES}/{name}", changes)[0] == 200


@pytest.fixture(scope="module")
def scheduled() -> Iterator[Scheduled]:
    with Scheduled() as cluster:
        cluster.namespace("nodeprep")
        for group, plural, version, kind, scope in KINDS:
            made = cluster_setup.definition(plural, version, kind, scope, group)
            cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made)
        for group, plural, version, _, _ in KINDS:
            cluster.wait_for(f"/apis/{group}/{version}/{plural}")
        yield cluster


@pytest.fixture
def three(scheduled: Scheduled) -> Iterator[Scheduled]:
    """gpu-1 is closed by its agent, gpu-2 is open to RDMA, of gpu-3 nobody knows."""
    node(scheduled, "gpu-1", "Unhealthy")
    node(scheduled, "gpu-2", labels={RDMA: "true"})
    node(scheduled, "gpu-3", renewed=640)
    try:
        yield scheduled
    finally:
        for pod in scheduled.call("GET", PODS)[1]["items"]:
            scheduled.call("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
        fleet.clear(scheduled)


def preflight(
    cluster: Scheduled, *words: str, file: Path | None = None, more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {"KUBECONFIG": str(file or cluster.kubeconfig()), "HOME": "/nonexistent", **(more or {})}
    return nodeprep("preflight", *words, **environment)


def seed(number: int) -> str:
    return str(job_values.MANIFESTS / job_values.SEEDS[number])


def told(done: subprocess.CompletedProcess[str]) -> Object:
    found: Object = json.loads(done.stdout)
    return found


def refused(document: Object, role: int = 0) -> dict[str, list[str]]:
    nodes = document["jobs"][0]["roles"][role]["refused"]
    return {one["name"]: [each["kind"] for each in one["obstacles"]] for one in nodes}


def test_agreement_with_the_scheduler(scheduled: Scheduled) -> None:
    said: list[str] = []
    found = agreement.agree(scheduled, DRAWS, random.randrange(1 << 32), said.append)
    assert found.disagreements == [], "\n".join(said)
    assert found.counts["bound"], said
    assert found.counts["Pending"], said


SEEDS = [
    (0, 1, {"gpu-1": ["taint"]}),  # a launcher of 50 processors and two workers do not fit on two nodes
    (1, 1, {"gpu-1": ["taint", "affinity"], "gpu-2": ["selector"], "gpu-3": ["selector", "affinity"]}),
    (2, 0, {"gpu-1": ["taint"]}),
    (3, 0, {"gpu-1": ["taint"]}),
]


@pytest.mark.parametrize(("number", "code", "wanted"), SEEDS)
def test_a_seed_is_answered(three: Scheduled, number: int, code: int, wanted: dict[str, list[str]]) -> None:
    done = preflight(three, "-f", seed(number), "-o", "json")
    assert (done.returncode, done.stderr) == (code, ""), done.stdout
    document = told(done)
    assert document["exitCode"] == code
    assert refused(document) == wanted


def test_a_person_is_told_who_keeps_a_node_and_since_when(three: Scheduled) -> None:
    done = preflight(three, "-f", seed(2))
    assert done.returncode == 0, done.stderr
    assert "CAN START Deployment default/pytorch: 1 of 1 pods fit now" in done.stdout
    assert "taint nodeprep.io/unhealthy=NoSignal:NoSchedule (NoSignal for 5m" in done.stdout
    assert "gpu-3 would be used: nobody knows: its agent is silent for 10m" in " ".join(done.stdout.split())


def test_stdin_and_another_namespace(three: Scheduled) -> None:
    command = [NODEPREP, "preflight", "-f", "-", "-n", "team", "-o", "json"]
    environment = {**os.environ, "KUBECONFIG": str(three.kubeconfig())}
    done = subprocess.run(
        command, input=json.dumps(GPU_POD), capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert told(done)["jobs"][0]["namespace"] == "team"


def test_the_shipped_roles_are_enough_and_less_says_so(three: Scheduled) -> None:
    three.apply(RIGHTS.read_text())
    rules = {
        one["kind"] + " " + one["metadata"]["name"]: one["rules"] for one in yaml.safe_load_all(RIGHTS.read_text())
    }
    cluster_rules = rules["ClusterRole nodeprep-preflight"]
    every = [*cluster_rules, *rules["Role nodeprep-preflight"]]
    whole = three.kubeconfig({"token": accounts.account(three, "preflight-all", every)})
    done = preflight(three, "-f", seed(2), file=whole)
    assert (done.returncode, done.stderr) == (0, "")
    alone = three.kubeconfig({"token": accounts.account(three, "preflight-cluster", cluster_rules)})
    done = preflight(three, "-f", seed(2), file=alone)
    assert done.returncode == 0
    assert "see kubectl auth can-i list leases -n nodeprep" in done.stderr
    nodes = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    less = three.kubeconfig({"token": accounts.account(three, "preflight-nodes", nodes)})
    done = preflight(three, "-f", seed(2), file=less)
    assert done.returncode == 3
    assert "NOT KNOWN Deployment default/pytorch: what is free on the nodes is not known" in done.stdout
    assert "see kubectl auth can-i list pods --all-namespaces" in " ".join(done.stdout.split())
    none = three.kubeconfig({"token": accounts.account(three, "preflight-nobody")})
    done = preflight(three, "-f", seed(2), file=none)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "see kubectl auth can-i list nodes" in done.stderr


def test_a_server_that_is_gone_and_a_kind_that_is_not_there(three: Scheduled, tmp_path: Path) -> None:
    away = three.kubeconfig(cluster={"server": "https://127.0.0.1:1"})
    done = preflight(three, "-f", seed(2), file=away)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    manifest = job_values.kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": {"template": job_values.template()}})
    (tmp_path / "job.yaml").write_text(json.dumps(manifest))
    done = preflight(three, "-f", str(tmp_path / "job.yaml"), "-o", "json")
    assert done.returncode == 1
    (hindrance,) = told(done)["jobs"][0]["hindrances"]
    assert hindrance == "this cluster has no kind JAXJob of kubeflow.org/v1: its operator's CRD is not installed"


def test_the_launcher_that_asks_is_not_counted_against_itself(three: Scheduled, tmp_path: Path) -> None:
    for name in ("gpu-2", "gpu-3"):
        whole = {**GPU_POD, "metadata": {"name": f"on-{name}"}}
        three.create(PODS, {**whole, "spec": {**whole["spec"], "nodeName": name}})
    (tmp_path / "job.yaml").write_text(json.dumps(GPU_POD))
    words = ("-f", str(tmp_path / "job.yaml"))
    assert preflight(three, *words).returncode == 1
    there = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "POD_NAMESPACE": "default", "POD_NAME": "on-gpu-2"}
    done = preflight(three, *words, more=there)
    assert done.returncode == 0, done.stdout
    assert "own pod   default/on-gpu-2 is not counted" in done.stdout


def test_it_waits_until_a_node_is_free(three: Scheduled, tmp_path: Path) -> None:
    for name in ("gpu-2", "gpu-3"):
        whole = {**GPU_POD, "metadata": {"name": f"on-{name}"}}
        three.create(PODS, {**whole, "spec": {**whole["spec"], "nodeName": name}})
    (tmp_path / "job.yaml").write_text(json.dumps(GPU_POD))
    words = ("-f", str(tmp_path / "job.yaml"), "--wait")
    assert preflight(three, *words, "1s").returncode == 1
    environment = {**os.environ, "KUBECONFIG": str(three.kubeconfig())}
    command = (NODEPREP, "preflight", *words, "4m")
    pipe = subprocess.PIPE
    with ending(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("waiting: Pod default/gpus: 0 of 1 pods fit now")
        assert three.call("DELETE", f"{PODS}/on-gpu-2?gracePeriodSeconds=0")[0] == 200
        said, _ = waiting.communicate()
    assert waiting.returncode == 0, said


def test_a_pod_that_is_being_deleted_takes_its_room(three: Scheduled, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(GPU_POD))
    words = ("-f", str(tmp_path / "job.yaml"))
    for name in ("gpu-2", "gpu-3"):
        metadata = {"name": f"ends-{name}", "finalizers": ["example.com/keep"]}
        three.create(PODS, {"metadata": metadata, "spec": {**GPU_POD["spec"], "nodeName": name}})
        three.call("DELETE", f"{PODS}/ends-{name}?gracePeriodSeconds=0")
    try:
        assert preflight(three, *words).returncode == 1
    finally:
        for name in ("gpu-2", "gpu-3"):
            three.call("PATCH", f"{PODS}/ends-{name}", {"metadata": {"finalizers": None}})
    until(lambda: preflight(three, *words).returncode == 0, "the room is free")


def test_volcano_queue_and_pod_group(three: Scheduled, tmp_path: Path) -> None:
    task = {"name": "w", "replicas": 1, "template": job_values.template()}
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v"},
        "spec": {"minAvailable": 1, "queue": "research", "tasks": [task]},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(manifest))
    words = ("-f", str(tmp_path / "job.yaml"))
    done = preflight(three, *words)
    assert done.returncode == 1
    assert "no queue research of Volcano here" in " ".join(done.stdout.split())
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "research"}}
    three.create(QUEUES, {**queue, "status": {"state": "Closed"}})
    done = preflight(three, *words)
    assert done.returncode == 1
    assert "Volcano's queue research is Closed, wanted Open" in " ".join(done.stdout.split())
    for path in (f"{QUEUES}/research", f"{QUEUES}/research/status"):
        three.call("PATCH", path, {"status": {"state": "Open"}})
    job = three.create("/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs", manifest)
    conditions = [
        {"type": "Unschedulable", "reason": "NotEnoughResources", "lastTransitionTime": "2026-01-02T00:00:00Z"},
        {"type": "Scheduled", "reason": "tasks in gang are ready", "lastTransitionTime": "2026-01-03T00:00:00Z"},
    ]
    group: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": f"v-{job['metadata']['uid']}"},
        "spec": {"minMember": 1, "queue": "research"},
        "status": {"phase": "Running", "conditions": conditions},
    }
    three.create("/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups", group)
    done = preflight(three, *words)
    assert done.returncode == 0, done.stdout
    assert "is Running (Scheduled: tasks in gang are ready)" in " ".join(done.stdout.split())
    (tmp_path / "job.yaml").write_text(json.dumps({**group, "metadata": {"name": group["metadata"]["name"]}}))
    done = preflight(three, *words)
    assert done.returncode == 3, done.stdout
    assert "unjudged its pods are not in the file" in " ".join(done.stdout.split())
    assert "is Running (Scheduled: tasks in gang are ready)" in " ".join(done.stdout.split())


def test_a_job_that_its_operator_leaves_to_volcano(three: Scheduled, tmp_path: Path) -> None:
    """The manifest does not say so. Its PodGroup does, with the queue that it waits in."""
    spec = {"Worker": {"replicas": 1, "template": job_values.template(job_values.container("tensorflow"))}}
    job = job_values.kubeflow("TFJob", "tfReplicaSpecs", spec)
    job["metadata"]["name"] = "left"
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    words = ("-f", str(tmp_path / "job.yaml"))
    assert preflight(three, *words).returncode == 0
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "shut"}}
    three.create(QUEUES, {**queue, "status": {"state": "Closed"}})
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "left"},
        "spec": {"minMember": 1, "queue": "shut"},
        "status": {"phase": "Pending"},
    }
    three.create("/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups", group)
    done = preflight(three, *words)
    assert done.returncode == 1, done.stdout
    said = " ".join(done.stdout.split())
    assert "Volcano's queue shut is Closed, wanted Open" in said
    assert "PodGroup default/left is Pending" in said
