"""An MPIJob whose workers each take a whole ENI, on Terway nodes: as Arena wrote it, and as a new operator runs it.

Real: mpi-operator 0.6, kubelets, the shipped agent with the profile mpijob-exclusive-eni. What stands for Terway is
said in tests/rigs/terway_node.py; `aliyun/eni` and `nvidia.com/gpu` come from the rig's device plugin. One story, told
in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kubernetes.training import Announced, announced, running
from tests.rigs import started
from tests.rigs.waiting import until
from tests.systems import job_pods, manifests, stage, terway_cluster
from tests.systems.job_pods import Object, placed, refusal
from tests.systems.outcomes import record
from tests.systems.preflighted import obstacles, preflight
from tests.systems.stage import MPIJOB
from tests.systems.terway_cluster import LONG, Fleet

pytestmark = pytest.mark.prove

# The cloud attached two ENIs to each node. On the third one the kernel has missed the hot-plug of one.
GOOD, LOST = ("n1", "n2"), "n3"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
ALL = 3  # pods: a launcher and two workers


@dataclass
class Story:
    fleet: Fleet
    directory: Path

    def asked(self, manifest: Object) -> tuple[int, str, Object]:
        return preflight(self.fleet.cluster, self.directory, manifest)

    def submitted(self, stack: ExitStack, name: str) -> tuple[float, Announced]:
        """When the job was made, and its pods from then on."""
        job = stage.fitted("mpijob")
        job["metadata"]["name"] = name
        pods = stack.enter_context(announced(self.fleet.cluster, PODS, labels=job_pods.labels(name)))
        began = time.monotonic()
        self.fleet.cluster.create(JOBS, job)
        return began, pods

    def says(self, name: str) -> set[str]:
        return job_pods.true_of(self.fleet.cluster.call("GET", f"{JOBS}/{name}")[1])

    def runs_on_good_nodes(self, name: str, pods: Announced) -> float:
        """When the last pod was bound. All run, the job says so; its launcher ends, and the job succeeds."""
        job_pods.whole(pods, running, "launcher and workers run", count=ALL)
        found = placed(pods)
        nodes = {pod: told["spec"]["nodeName"] for pod, (_, told) in found.items()}
        workers = [nodes[pod] for pod in nodes if "-worker-" in pod]
        assert sorted(workers) == list(GOOD)
        assert LOST not in nodes.values()
        until(lambda: "Running" in self.says(name), "the job says that it runs", LONG)
        (launcher,) = (pod for pod in nodes if "-launcher" in pod)
        hosts = job_pods.said(self.fleet.cluster, launcher, lines=2)
        assert [line.split()[1] for line in hosts.split("\n") if line] == ["slots=8", "slots=8"]
        self.fleet.cluster.kubectl("exec", launcher, "--", *job_pods.ENOUGH)
        until(lambda: "Succeeded" in self.says(name), "the job succeeds", LONG)
        self.ended(name)
        return max(at for at, _ in found.values())

    def ended(self, name: str) -> None:
        """The job is deleted, and leaves no pod."""
        self.fleet.cluster.kubectl("delete", "mpijob", name, f"--timeout={LONG:g}s")
        # The garbage collector looks for new kinds each 30 s, and the launcher's Job is of one.
        self.fleet.cluster.kubectl("delete", "job,pod", "-l", job_pods.labels(name), f"--timeout={LONG:g}s")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Three nodes that registered with the bootstrap taint, and no agent yet."""
    directory = tmp_path_factory.mktemp("mpijob")
    with started.or_absent(stage.mpijob(directory)) as fleet:
        yield Story(fleet, directory)


def test_what_arena_wrote_is_read_and_no_operator_here_runs_it(story: Story) -> None:
    code, page, answer = story.asked(manifests.shipped("mpijob-arena"))
    assert code == 1
    assert answer["hindrances"] == [
        "this cluster has no kind MPIJob of kubeflow.org/v1alpha1: its operator's CRD is not installed"
    ]
    assert [(role["name"], role["pods"]) for role in answer["roles"]] == [("Launcher", 1), ("Worker", 2)]
    assert "IgnoredAnnotation" in {lint["word"] for lint in answer["lints"]}
    record("mpijob", "preflight of Arena's own manifest", None, page.partition(" ROLE ")[0])


def test_it_waits_until_two_nodes_have_the_profile(story: Story) -> None:
    job = stage.fitted("mpijob")
    code, page, answer = story.asked(job)
    assert code == 1
    record("mpijob", "preflight before any node is ready", None, page.partition(" ROLE ")[0])
    kept = obstacles(answer, "Worker")
    assert set(kept) == {*GOOD, LOST}
    for name, words in kept.items():
        assert any("nodeprep.io/bootstrap" in one for one in words), name
        assert any(f"nodeprep.io/profile.{MPIJOB}: found no such label" in one for one in words), name
    with ExitStack() as stack:
        _, pods = story.submitted(stack, "first")
        job_pods.whole(pods, lambda pod: bool(refusal(pod)[0]), "no pod is placed", count=ALL)
        assert {refusal(pod)[0] for pod in job_pods.states(pods).values()} == {"Unschedulable"}
        assert story.says("first") <= {"Created"}

        began = time.monotonic()
        story.fleet.cluster.apply(story.directory / "agent")
        terway_cluster.ready(story.fleet, MPIJOB, *GOOD)
        bound = story.runs_on_good_nodes("first", pods)
        record("mpijob", "agent installed, launcher and workers bound", bound - began)


def test_the_third_node_says_why_and_preflight_says_the_same(story: Story) -> None:
    until(lambda: "eni.missing-link NoLink" in story.fleet.reason(LOST), "its agent says why", LONG)
    assert not story.fleet.has(LOST, MPIJOB)
    job = stage.fitted("mpijob")
    code, page, answer = story.asked(job)
    assert code == 0
    record("mpijob", "preflight with two of three nodes ready", None, page.partition(" ROLE ")[0])
    assert answer["pods"] == {"total": ALL, "needed": ALL, "fit": ALL}
    kept = obstacles(answer, "Worker")
    assert set(kept) == {LOST}
    (taint,) = (one for one in kept[LOST] if "nodeprep.io/unhealthy" in one)
    assert "eni.missing-link NoLink: eni-2 (00:16:3e:00:03:02)" in taint
    record("mpijob", "preflight of the third node", None, taint)
    with ExitStack() as stack:
        began, pods = story.submitted(stack, "second")
        bound = story.runs_on_good_nodes("second", pods)
        record("mpijob", "submitted to ready nodes, launcher and workers bound", bound - began)


def test_a_third_worker_waits(story: Story) -> None:
    """Devices are there on all three nodes: what keeps the third worker away is the gate."""
    job = stage.fitted("mpijob")
    job["metadata"]["name"] = "third"
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 3
    code, page, answer = story.asked(job)
    assert code == 1
    assert answer["pods"]["fit"] == ALL
    record("mpijob", "preflight of one worker more", None, page.partition(" ROLE ")[0])
    with announced(story.fleet.cluster, PODS, labels=job_pods.labels("third")) as pods:
        story.fleet.cluster.create(JOBS, job)
        job_pods.whole(pods, lambda pod: running(pod) or bool(refusal(pod)[0]), "two workers run, one waits", ALL + 1)
        waits = [name for name, pod in job_pods.states(pods).items() if not running(pod)]
        assert len(placed(pods)) == ALL
        (name,) = waits
        assert "-worker-" in name
    story.ended("third")
