"""A TFJob as a gang on two real nodes, one of them gated by the shipped agent: nothing starts, and then all of it.

First under Volcano, as its users have it; then by kube-scheduler's own gang, which is alpha. One story, told in order.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.kubernetes.shipped import UNHEALTHY, broken, taints
from tests.kubernetes.training import Announced, announced, running
from tests.rigs import started
from tests.rigs.cluster import Node
from tests.rigs.operators import training_operator
from tests.rigs.waiting import until
from tests.systems import job_pods, manifests, own_gang, stage
from tests.systems.gangs import GANG, JOBS, NAMESPACE, PART, PODS, Object, tfjob
from tests.systems.job_pods import is_placed, placed, refusal
from tests.systems.outcomes import record
from tests.systems.own_gang import GatedCluster
from tests.systems.preflighted import preflight
from tests.systems.stage import PERIOD, TFJOBS

GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
NODES = "/api/v1/nodes"
PERIODS = 4  # in which a scheduler would have placed what it can
SOON = 60.0  # seconds; what no change brings back, kube-scheduler tries again after 5 minutes
TOGETHER = 10.0  # seconds from the first bound pod of a gang to the last; here it takes some hundredths of one
NAME = "dist-mnist"
PART_FITS = f"CANNOT TFJob {NAMESPACE}/{{}}: {PART} of {GANG} pods fit now"
WANTED = "wanted schedulerName of each replica's template"
DROPPED = f"schedulerName: TFJob v1 has no such field, so the API server drops it; {WANTED}"


@dataclass
class Story:
    """The cluster, the programs that place its jobs now, what is broken now, and what is said of a gang's pods."""

    cluster: GatedCluster
    directory: Path
    programs: ExitStack
    fault: ExitStack = field(default_factory=ExitStack)
    told: ExitStack = field(default_factory=ExitStack)
    node_said: Announced = field(default_factory=Announced)
    pods: Announced = field(default_factory=Announced)

    @property
    def node(self) -> Node:
        """The one that breaks."""
        return self.cluster.nodes["n2"]

    def listen(self, name: str) -> None:
        """From now on to the pods of this job and to the node that breaks, and to nothing else any more."""
        self.told.close()
        self.node_said = self.told.enter_context(announced(self.cluster, NODES, self.node.name))
        self.pods = self.told.enter_context(announced(self.cluster, PODS, labels=job_pods.labels(name)))

    def gate(self) -> None:
        """The node breaks, and its agent closes it."""
        self.fault.enter_context(broken(self.node))
        until(lambda: UNHEALTHY in taints(self.node.object()), "the agent taints its node")

    def open(self) -> float:
        """The node is mended; when we heard that its agent has opened it."""
        began = time.monotonic()
        self.fault.close()
        return self.node_said.when(lambda told: not taints(told), "the taint is gone", began)

    def preflight(self, manifest: Object) -> tuple[int, str, Object]:
        """Exit code, the page for a person without line breaks, and the answer for the job as a program reads it."""
        return preflight(self.cluster, self.directory, manifest)

    def group(self, name: str) -> Object:
        """Volcano's PodGroup of a job."""
        told: Object = self.cluster.call("GET", f"{GROUPS}/{name}")[1]
        return told

    def reasons(self) -> Counter[str]:
        """How many pods the scheduler leaves alone for each reason."""
        return Counter(refusal(pod)[0] for pod in job_pods.states(self.pods).values())

    def is_refused(self, pod: str) -> bool:
        return bool(refusal(self.cluster.call("GET", f"{PODS}/{pod}")[1])[0])

    def job_says(self, name: str) -> set[str]:
        """The conditions that are true of a job."""
        return job_pods.true_of(self.cluster.call("GET", f"{JOBS}/{name}")[1])

    def waits(self, name: str) -> None:
        """No pod of the gang gets a node in some periods of its scheduler, and the job does not say that it runs."""
        job_pods.whole(
            self.pods, lambda pod: is_placed(pod) or refusal(pod) != ("", ""), "the scheduler saw each pod", GANG
        )
        time.sleep(PERIODS * PERIOD)
        assert placed(self.pods) == {}
        assert self.job_says(name) == {"Created"}

    def starts_whole_after(self, opened: float, by: str) -> None:
        """All pods get a node, and none had one before the node was open."""
        job_pods.whole(self.pods, is_placed, "all pods of the gang have a node", GANG)
        found = placed(self.pods)
        assert len(found) == GANG
        first, last = (each(at for at, _ in found.values()) for each in (min, max))
        assert last - first <= TOGETHER
        revisions = [int(pod["metadata"]["resourceVersion"]) for _, pod in found.values()]
        assert self.node_said.revision(opened) < min(revisions)
        assert last - opened <= SOON, "by the change of the Node"
        assert {pod["spec"]["nodeName"] for _, pod in found.values()} == set(self.cluster.nodes)
        record("tfjob", f"{by}: taint gone, all {GANG} pods bound", last - opened)

    def runs_and_ends(self, name: str) -> None:
        """All its pods run. When the Chief has trained, the job succeeds; it is deleted, and leaves no pod."""
        job_pods.whole(self.pods, running, "all pods of the gang run", GANG)
        until(lambda: "Running" in self.job_says(name), "the job says that it runs")
        self.cluster.kubectl("-n", NAMESPACE, "exec", f"{name}-chief-0", "--", *job_pods.ENOUGH)
        until(lambda: "Succeeded" in self.job_says(name), "the job succeeds")
        until(lambda: self.cluster.call("GET", f"{GROUPS}/{name}")[0] == 404, "no PodGroup of Volcano's is left")
        self.cluster.call("DELETE", f"{JOBS}/{name}")
        until(lambda: not self.cluster.call("GET", PODS)[1]["items"], "its pods are gone")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Both nodes are open, and training-operator leaves its jobs to Volcano."""
    directory = tmp_path_factory.mktemp("gang")
    with started.or_absent(stage.tfjob(directory)) as (cluster, programs), ExitStack() as stack:
        made = Story(cluster, directory, programs)
        stack.callback(made.fault.close)
        stack.callback(made.told.close)
        yield made


def test_what_the_users_wrote_is_dropped_and_preflight_says_so(story: Story) -> None:
    job = tfjob(story.cluster, NAME)
    with pytest.raises(RuntimeError, match=r'unknown field "spec\.schedulerName"'):
        story.cluster.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(job))
    # With the scheduler in each template it is taken, by the most careful of clients.
    mended = (manifests.DIRECTORY / "tfjob-volcano.yaml").read_text()
    assert "created (server dry run)" in story.cluster.kubectl("create", "--dry-run=server", "-f", "-", text=mended)
    kept = story.cluster.create(f"{JOBS}?dryRun=All", job)
    assert "schedulerName" not in kept["spec"]
    code, page, answer = story.preflight(job)
    assert code == 0
    assert page.startswith(f"CAN START TFJob {NAMESPACE}/{NAME}: {GANG} of {GANG} pods fit now")
    (lint,) = answer["lints"]
    assert (lint["word"], lint["key"], lint["text"]) == ("DroppedField", "spec.schedulerName", DROPPED)


def test_under_volcano_nothing_of_a_gang_starts_while_a_node_is_gated(story: Story) -> None:
    """Three of the four pods have room on the other node. Without a gang they would start and hold it."""
    story.gate()
    job = tfjob(story.cluster, NAME)
    code, page, _ = story.preflight(job)
    assert code == 1
    assert page.startswith(PART_FITS.format(NAME))
    assert f"taint {UNHEALTHY}=Missing:NoSchedule (Missing for " in page
    record("tfjob", "Volcano: preflight before, one of two nodes gated", None, page.partition(" ROLE ")[0])

    story.listen(NAME)
    story.cluster.create(JOBS, job)  # as a pipeline does; kubectl refuses the field that the CRD drops
    story.waits(NAME)
    # Whoever searches for Unschedulable finds one pod of four.
    until(lambda: story.reasons() == {"Schedulable": PART, "Unschedulable": GANG - PART}, "what each pod says")
    words = dict(map(refusal, job_pods.states(story.pods).values()))["Unschedulable"]
    assert f"untolerated taint {{{UNHEALTHY}: Missing}}" in words
    group = story.group(NAME)
    assert group["spec"]["minMember"] == GANG
    assert (group["status"]["phase"], job_pods.conditions(group)) == ("Inqueue", {"Unschedulable": "True"})
    record("tfjob", "Volcano: what a pod that waits says", None, words)
    code, _, answer = story.preflight(job)
    assert code == 1
    assert answer["podGroup"].startswith(f"PodGroup {NAMESPACE}/{NAME} is Inqueue (Unschedulable: ")


def test_preflight_tells_the_phase_of_the_group_to_who_mends_the_field(story: Story) -> None:
    """The job that waits is the same: of the two manifests the API server keeps the same, but for the scheduler."""
    code, page, answer = story.preflight(tfjob(story.cluster, NAME, schedulerName="volcano"))
    assert code == 1
    assert f"{PART_FITS.format(NAME)}; {GANG} must start together" in page
    assert answer["podGroup"].startswith(f"PodGroup {NAMESPACE}/{NAME} is Inqueue (Unschedulable: NotEnoughResources:")
    record("tfjob", "Volcano: preflight of the group that waits", None, answer["podGroup"])


def test_under_volcano_the_gang_starts_whole_once_the_node_is_open(story: Story) -> None:
    story.starts_whole_after(story.open(), "Volcano")
    until(lambda: story.group(NAME)["status"]["phase"] == "Running", "the group runs")
    # The oldest condition stays, and is still true.
    assert job_pods.conditions(story.group(NAME)) == {"Unschedulable": "True", "Scheduled": "True"}
    _, _, answer = story.preflight(tfjob(story.cluster, NAME, schedulerName="volcano"))
    assert answer["podGroup"].startswith(f"PodGroup {NAMESPACE}/{NAME} is Running (Scheduled: ")
    record("tfjob", "Volcano: preflight of the group that runs", None, answer["podGroup"])
    story.runs_and_ends(NAME)


def test_under_volcano_a_gang_starts_at_once_on_open_nodes(story: Story) -> None:
    job = tfjob(story.cluster, "again")
    code, page, _ = story.preflight(job)
    assert code == 0
    record("tfjob", "Volcano: preflight before, both nodes open", None, page.partition(" ROLE ")[0])
    story.listen("again")
    began = time.monotonic()
    story.cluster.create(JOBS, job)
    job_pods.whole(story.pods, is_placed, "all pods of the gang have a node", GANG)
    bound = max(at for at, _ in placed(story.pods).values())
    record("tfjob", f"Volcano: submitted to open nodes, all {GANG} pods bound", bound - began)
    story.runs_and_ends("again")


def test_by_kube_schedulers_own_gang_nothing_starts_while_a_node_is_gated(story: Story) -> None:
    """The CRD drops its field of a pod, too, so a policy adds it to the pods. Nobody makes the group but us."""
    story.told.close()
    story.programs.close()
    story.cluster.switch_on()
    story.programs.enter_context(training_operator(story.cluster, TFJOBS))
    story.gate()
    job = tfjob(story.cluster, "own", schedulingGroup={"podGroupName": "own"})
    code, page, answer = story.preflight(job)
    assert code == 1
    assert page.startswith(PART_FITS.format("own"))
    assert {one["key"].rpartition(".")[2] for one in answer["lints"]} == {"schedulerName", "schedulingGroup"}

    story.listen("own")
    story.cluster.create(JOBS, job)
    job_pods.whole(story.pods, lambda pod: "schedulingGroup" in pod["spec"], "all pods have the group's name", GANG)
    # The scheduler has looked at a pod that came after them. Without the group it says nothing of them: whoever
    # searches for Unschedulable finds none.
    huge = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1000"}}}
    story.cluster.create(PODS, {"metadata": {"name": "marker"}, "spec": {"containers": [huge]}})
    until(lambda: story.is_refused("marker"), "the scheduler looked at a pod that came later")
    story.cluster.call("DELETE", f"{PODS}/marker?gracePeriodSeconds=0")
    assert {refusal(pod) for pod in job_pods.states(story.pods).values()} == {("", "")}
    story.cluster.create(own_gang.groups(NAMESPACE), own_gang.group("own", GANG))
    story.waits("own")
    reasons, words = zip(*map(refusal, job_pods.states(story.pods).values()), strict=True)
    assert set(reasons) == {"Unschedulable"}
    there = story.cluster.call("GET", f"{own_gang.groups(NAMESPACE)}/own")[1]
    assert job_pods.conditions(there) == {"PodGroupScheduled": "False"}
    assert sum("untolerated taint" in one for one in words) == GANG - PART
    assert sum("waiting for minCount pods from a gang to be scheduled" in one for one in words) == PART
    record("tfjob", "own gang: what a pod that would fit says", None, next(one for one in words if "minCount" in one))


def test_preflight_does_not_judge_kube_schedulers_own_gang(story: Story) -> None:
    """One of the pods that wait has room on the open node, and does not start there."""
    pods = job_pods.states(story.pods).values()
    waiting = next(pod for pod in pods if "minCount" in refusal(pod)[1])
    code, page, answer = story.preflight(waiting)
    assert code == 3
    assert answer["unjudged"] == ["pod: gang of kube-scheduler itself (alpha): its minimum is in another object"]
    record("tfjob", "own gang: preflight of a pod that waits", None, page.partition(" ROLE ")[0])


def test_by_kube_schedulers_own_gang_it_starts_whole_once_the_node_is_open(story: Story) -> None:
    story.starts_whole_after(story.open(), "own gang")
    story.runs_and_ends("own")


def test_by_kube_schedulers_own_gang_it_starts_at_once_on_open_nodes(story: Story) -> None:
    code, page, _ = story.preflight(tfjob(story.cluster, "later"))
    assert code == 0
    record("tfjob", "own gang: preflight before, both nodes open", None, page.partition(" ROLE ")[0])
    story.listen("later")
    story.cluster.create(own_gang.groups(NAMESPACE), own_gang.group("later", GANG))
    story.cluster.create(JOBS, tfjob(story.cluster, "later"))
    job_pods.whole(story.pods, is_placed, "all pods of the gang have a node", GANG)
    story.runs_and_ends("later")
