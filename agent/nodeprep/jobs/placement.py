"""How many pods of a job's roles fit now: exact for pods that are alike, by first fit where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nodeprep.jobs import obstacles
from nodeprep.jobs.job_cluster import JobCluster, NodeUse
from nodeprep.jobs.job_model import Job, JobRole
from nodeprep.jobs.obstacles import Obstacle
from nodeprep.jobs.pod_template import PodDemand, Unclaimed
from nodeprep.values import Value, replace


class RoleAnswer(Value):
    """What a cluster says to one role. `able` are the Nodes that can take a pod of it now, by name with how many.

    `refused` are the other Nodes with all their obstacles. `fit` is how many of its pods the job's plan places.
    Without pods read, `able` holds Nodes without regard to what is taken, each with 0, and `fit` is None.
    """

    role: JobRole
    able: Mapping[str, int]
    refused: Mapping[str, tuple[Obstacle, ...]]
    fit: int | None

    @property
    def alone(self) -> int:
        """How many pods of it fit if nothing else is placed."""
        return sum(self.able.values())


class JobAnswer(Value):
    """What a cluster says to a job. `placed` of the `wanted` pods fit; None if pods could not be read.

    `exact`: no other plan places more, where it falls short; else it was found by first fit.
    """

    job: Job
    roles: tuple[RoleAnswer, ...]
    placed: int | None
    wanted: int
    exact: bool

    @property
    def starts(self) -> bool | None:
        """Whether enough pods fit, as far as it is claimed; None if that is not known."""
        if any(not one.able for one in self.roles if one.role.replicas and _needed(one.role, self.job)):
            return False
        return None if self.placed is None else self._fits

    @property
    def _fits(self) -> bool:
        least = all((one.fit or 0) >= one.role.minimum for one in self.roles if one.role.minimum is not None)
        return least and (self.placed or 0) >= self.wanted

    @property
    def unclaimed(self) -> tuple[Unclaimed, ...]:
        """What of it preflight does not claim to judge, each once."""
        told = [
            replace(one, words=f"{role.name}: {one.words}")
            for role in self.job.roles
            if role.replicas
            for one in role.pod.unclaimed
        ]
        return tuple(dict.fromkeys((*self.job.unclaimed, *told)))


def ask(jobs: Iterable[Job], cluster: JobCluster) -> tuple[JobAnswer, ...]:
    """Which Nodes can take each role now, all obstacles on the others, and whether enough pods fit.

    Each job is judged on what the jobs before it leave.
    """
    answers: list[JobAnswer] = []
    left = cluster
    for job in jobs:
        answer, left = _ask(job, left)
        answers.append(answer)
    return tuple(answers)


def after(jobs: Iterable[Job], cluster: JobCluster) -> JobCluster:
    """The cluster once these jobs are placed as far as they fit."""
    left = cluster
    for job in jobs:
        _, left = _ask(job, left)
    return left


def without_pods(cluster: JobCluster) -> JobCluster:
    """The same Nodes, empty, open and without taints: the most that the cluster could ever take."""
    nodes = {name: replace(node, taints=(), unschedulable=False) for name, node in cluster.nodes.items()}
    return JobCluster(nodes, {name: NodeUse() for name in nodes})


def _ask(job: Job, cluster: JobCluster) -> tuple[JobAnswer, JobCluster]:
    able = [_able(role, cluster) for role in job.roles]
    refused = [_refused(role, nodes, cluster) for role, nodes in zip(job.roles, able, strict=True)]
    plan: list[int] | list[None] = [None] * len(job.roles)
    placed: int | None = None
    left = cluster
    if cluster.used is not None:
        used = {name: use.copy() for name, use in cluster.used.items()}
        plan = counts = _first_fit(job, able, cluster, used)
        placed, left = sum(counts), replace(cluster, used=used)
    roles = tuple(map(RoleAnswer, job.roles, able, refused, plan))
    judged = replace(job, unclaimed=(*job.unclaimed, *_repelled(job, cluster)))
    return JobAnswer(judged, roles, placed, job.minimum, _is_exact(job, roles)), left


def _repelled(job: Job, cluster: JobCluster) -> Iterator[Unclaimed]:
    """Pods that are there and want none of these beside them: which Nodes they close is not judged."""
    for pod in cluster.repelling:
        for role in job.roles:
            if any(one.selects(job.namespace, role.pod.labels) for one in pod.repels):
                yield Unclaimed(f"{role.name}: pod {pod.namespace}/{pod.name} keeps it away by its anti-affinity")


def _is_exact(job: Job, roles: tuple[RoleAnswer, ...]) -> bool:
    """Whether no other plan could place more: the pods are alike, or one role alone is too few."""
    alike = len(_kinds(job)) <= 1
    return alike or any(job.pods - one.role.replicas + min(one.alone, one.role.replicas) < job.minimum for one in roles)


def _needed(role: JobRole, job: Job) -> bool:
    """Whether the job cannot do without a pod of this role."""
    return bool(role.minimum) or job.pods - role.replicas < job.minimum


def _able(role: JobRole, cluster: JobCluster) -> dict[str, int]:
    """The Nodes that can take a pod of a role, with how many of them."""
    demand = role.pod.demand
    if cluster.used is None:
        return {name: 0 for name, node in cluster.nodes.items() if not obstacles.obstacles(demand, node, None)}
    counts = {
        name: obstacles.copies(demand, node, cluster.used[name])
        for name, node in cluster.nodes.items()
        if obstacles.admits(demand, node)
    }
    return {name: count for name, count in counts.items() if count}


def _refused(role: JobRole, able: Mapping[str, int], cluster: JobCluster) -> dict[str, tuple[Obstacle, ...]]:
    used = cluster.used or {}
    return {
        name: obstacles.obstacles(role.pod.demand, node, used.get(name))
        for name, node in cluster.nodes.items()
        if name not in able
    }


def _kinds(job: Job) -> list[PodDemand]:
    """The demands of its pods, each once: roles that ask for the same count as one."""
    found: list[PodDemand] = []
    for role in job.roles:
        if role.replicas and role.pod.demand not in found:
            found.append(role.pod.demand)
    return found


def _first_fit(job: Job, able: list[dict[str, int]], cluster: JobCluster, used: dict[str, NodeUse]) -> list[int]:
    """How many pods of each role are placed: first what each role needs at least, the scarcest role before others."""
    placed = [0] * len(job.roles)
    scarce = sorted(range(len(job.roles)), key=lambda index: sum(able[index].values()) - job.roles[index].replicas)
    for only_least in (True, False):
        for index in scarce:
            role = job.roles[index]
            least = role.replicas if role.minimum is None else min(role.minimum, role.replicas)
            wanted = (least if only_least else role.replicas) - placed[index]
            placed[index] += _place(role.pod.demand, wanted, able[index], cluster, used)
    return placed


def _place(
    demand: PodDemand, wanted: int, able: Mapping[str, int], cluster: JobCluster, used: dict[str, NodeUse]
) -> int:
    """Put so many pods on the first Nodes that take them; how many were placed."""
    left = wanted
    for name in able:
        if left <= 0:
            break
        count = min(left, obstacles.copies(demand, cluster.nodes[name], used[name]))
        if count > 0:
            used[name].take(demand.requests, demand.ports, count)
            left -= count
    return wanted - left
