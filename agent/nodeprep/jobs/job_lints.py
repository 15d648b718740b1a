"""Remarks about a manifest that need a look at the cluster or at the whole job: what is legal and will still hurt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from nodeprep.jobs import placement
from nodeprep.jobs.job_cluster import JobCluster
from nodeprep.jobs.job_model import Job, JobLint, JobRole
from nodeprep.jobs.node_terms import EXISTS, IN, KEEPS_AWAY, NodeTerm
from nodeprep.jobs.pod_template import DEFAULT_SCHEDULER
from nodeprep.pattern import Pattern
from nodeprep.values import Value

# Read by the Terway of 2018 alone: today it only keeps Arena from setting hostNetwork.
IGNORED_ANNOTATIONS = ("k8s.aliyun.com/eni", "k8s.aliyun.com/ENI")
POD_ENI = "k8s.aliyun.com/pod-eni"
MORE_NETWORKS = "k8s.v1.cni.cncf.io/networks"
ENI_RESOURCES = ("aliyun/eni", "aliyun/member-eni")
GPU, RDMA = "/gpu", "rdma"
NCCL, INTERFACE = "NCCL_", "NCCL_SOCKET_IFNAME"
IN_COMMAND = Pattern(r"(?s).*\bNCCL_SOCKET_IFNAME=([^\s\"']+).*")
POD_INTERFACES = ("eth0", "lo")


class GateNames(Value):
    """The names by which nodeprep keeps pods away: keys of its taints, and its labels that an agent withholds.

    The labels are globs. Of such a label the obstacles say why. Where no agent withholds it, it is not in here: then
    it may be nobody's.
    """

    taints: tuple[str, ...]
    withheld: tuple[str, ...] = ()


def lints(job: Job, cluster: JobCluster, gate: GateNames, terway: tuple[str, ...] = ()) -> tuple[JobLint, ...]:
    """All remarks about a job, its own first. `terway` are the versions of Terway in the cluster."""
    found = [*job.lints]
    for role in job.roles:
        found += _network(role, terway)
        found += _devices(job, role)
        found += _gate(role, gate)
        found += _labels(role, cluster, gate)
    return tuple(dict.fromkeys((*found, *_gang(job, cluster))))


def _network(role: JobRole, terway: tuple[str, ...]) -> Iterator[JobLint]:
    pod = role.pod
    for key in IGNORED_ANNOTATIONS:
        if key in pod.annotations:
            installed = f"Terway {', '.join(terway)}" if terway else "no Terway since 2018"
            does = "does not read it" if terway else "reads it"
            words = f"annotation {key}: {installed} {does}; a pod gets an ENI of its own by the node label"
            words += " k8s.aliyun.com/exclusive-mode-eni-type=eniOnly, or by a PodNetworking"
            yield JobLint("IgnoredAnnotation", pod.keys, words)
    wants_eni = pod.annotations.get(POD_ENI) == "true" or any(one in pod.demand.requests for one in ENI_RESOURCES)
    if pod.host_network and wants_eni:
        words = "hostNetwork and an ENI of its own: a pod on the host's network gets no ENI, and holds one idle"
        yield JobLint("HostNetworkWithEni", (*pod.keys, "hostNetwork"), words)
    named = interface(pod.environment, pod.commands)
    if named and not pod.host_network and MORE_NETWORKS not in pod.annotations and not _matches(named):
        words = f"{INTERFACE}={named}: a pod has {' and '.join(POD_INTERFACES)} unless its CNI adds others"
        yield JobLint("NoSuchInterface", pod.keys, f"{words}; NCCL would find no interface")


def interface(environment: Mapping[str, str], commands: Iterable[str]) -> str:
    """The interfaces that NCCL is told to use, as they are written; "" where it is told nothing."""
    told = environment.get(INTERFACE, "")
    if told:
        return told
    found = (IN_COMMAND.fullmatch(one) for one in commands)
    return next((match[1] for match in found if match is not None), "")


def _matches(named: str) -> bool:
    """As NCCL reads it: prefixes, with = whole names, with ^ all but these."""
    if named.startswith("^"):
        return True
    whole = named.startswith("=")
    words = [one.partition(":")[0] for one in named.removeprefix("=").split(",")]
    return any(there == word if whole else there.startswith(word) for there in POD_INTERFACES for word in words)


def _devices(job: Job, role: JobRole) -> Iterator[JobLint]:
    pod, requests = role.pod, role.pod.demand.requests
    rdma = [name for name in requests if RDMA in name]
    if rdma and not pod.locks_memory:
        words = (
            f"{rdma[0]} without the capability IPC_LOCK: registering memory fails unless the runtime's limit is high"
        )
        yield JobLint("NoIpcLock", (*pod.keys, "containers"), words)
    gpus = sum(count for name, count in requests.items() if name.endswith(GPU))
    together = gpus > 1 or any(key.startswith(NCCL) for key in pod.environment) or job.pods > 1
    if gpus and together and not pod.shared_memory:
        words = "no volume in memory at /dev/shm: the runtime gives 64 MiB, and NCCL and data loaders want more"
        yield JobLint("NoSharedMemory", (*pod.keys, "volumes"), f"{words} (emptyDir with medium: Memory)")


def _gate(role: JobRole, gate: GateNames) -> Iterator[JobLint]:
    walks = [
        one
        for one in role.pod.demand.tolerations
        if one.key in ("", *gate.taints) and one.effect in ("", *KEEPS_AWAY) and (one.operator == EXISTS or one.value)
    ]  # the taint's value is the reason of the day, so no toleration of an empty one walks
    if walks:
        which = f"key {walks[0].key}" if walks[0].key else "operator Exists without a key"
        words = f"{role.name} tolerates nodeprep's taint ({which}): it would land on a node that is not ready"
        yield JobLint("WalksThroughGate", (*role.pod.keys, "tolerations"), words)
    if role.pod.demand.node_name:
        words = (
            f"{role.name} names its node: it meets no scheduler, so neither a cordon nor a NoSchedule taint holds it"
        )
        yield JobLint("WalksThroughGate", (*role.pod.keys, "nodeName"), words)


def _labels(role: JobRole, cluster: JobCluster, gate: GateNames) -> Iterator[JobLint]:
    """Labels that no Node has at all; of a selector, or needed by each term of the affinity."""
    demand = role.pod.demand
    terms = [one for one in demand.terms or () if not one.is_empty]
    needed = set.intersection(*(_needs(one) for one in terms)) if terms else set()
    for key in (*demand.selector, *sorted(needed - set(demand.selector))):
        there = any(key in node.labels for node in cluster.nodes.values())
        if cluster.nodes and not there and not any(fnmatchcase(key, one) for one in gate.withheld):
            words = f"{role.name} selects by label {key}, and no Node has it"
            yield JobLint("LabelNobodySets", role.pod.keys, words)


def _needs(term: NodeTerm) -> set[str]:
    return {one.key for one in term.labels if one.operator in (IN, "Exists", "Gt", "Lt")}


def _gang(job: Job, cluster: JobCluster) -> Iterator[JobLint]:
    if job.gang is None or not job.roles:
        return
    by_label = job.gang.by.startswith("label ")
    if by_label and all(role.pod.scheduler == DEFAULT_SCHEDULER for role in job.roles):
        words = f"{job.gang.by} on {DEFAULT_SCHEDULER}: without scheduler-plugins' coscheduling pods start one by one"
        yield JobLint("GangWithoutScheduler", ("spec",), words)
    if job.pods < job.gang.minimum or not cluster.nodes:
        return
    most = placement.ask((job,), placement.without_pods(cluster))[0].placed
    if most is not None and most < job.gang.minimum:
        words = f"the gang wants {job.gang.minimum} pods, and {most} fit into this cluster if it were empty and open"
        yield JobLint("GangAboveCluster", ("spec",), words)
