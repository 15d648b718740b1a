"""Random Nodes and pods over all that preflight claims to judge, as objects of the API server."""

from __future__ import annotations

from random import Random
from typing import Any

from nodeprep.jobs import node_terms
from nodeprep.jobs.node_terms import HostPort

Object = dict[str, Any]

RUNTIME_CLASS, OVERHEAD = "heavy", {"cpu": "1500m", "memory": "700Mi"}
GPU, HCA, HUGE = "nvidia.com/gpu", "rdma/hca", "hugepages-2Mi"
LABELS = {"pool": ("train", "serve", ""), "size": ("1", "7", "12", "3", "x", "007"), "disk": ("ssd",)}
TAINTS = (("nodeprep.io/unhealthy", ("NoSignal", "NoLink", "")), ("team", ("a", "b")), ("spot", ("",)))
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
CPUS, MEMORIES = ("100m", "0.25", "1", "1500m", "2"), ("64Mi", "0.5Gi", "1G", "1Gi", "1e9")


class Draw:
    """One cluster: `nodes`, pods that are `bound` to them, and `pods` to place in their order.

    `marker` is the last Node, full with the pod `marking`, which no other Node takes.
    """

    def __init__(self, chance: Random, number: int, *, volcano: bool = False) -> None:
        self.chance = chance
        self.number = number
        self.volcano = volcano
        self.theme = chance.choice(("all", "all", "ports", "labels"))  # a theme must not hide behind lack of room
        self.names = [f"d{number}-n{index}" for index in range(chance.randint(2, 5))]
        self.nodes = [self.node(name) for name in self.names]
        self.bound = [self.bound_pod(f"d{number}-b{index}") for index in range(chance.randint(0, 6))]
        _without_shared_ports(self.bound)
        self.pods = [self.new_pod(f"d{number}-p{index}") for index in range(chance.randint(3, 5))]
        self.marker = _marker(number)
        self.marking = _marking(number)
        if volcano:
            for pod in self.pods[:-1]:  # of pods that are placed, it does not count what their init containers wanted
                pod["spec"].pop("initContainers", None)
            for pod in (*self.pods, self.marking):
                pod["spec"]["schedulerName"] = "volcano"
                pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": pod["metadata"]["name"]}

    def share(self, theme: str, usually: float) -> float:
        """How often a thing comes: nearly always where it is the theme, and seldom where another one is."""
        return 0.9 if self.theme == theme else usually if self.theme == "all" else usually / 3

    def some(self, share: float) -> bool:
        return self.chance.random() < share

    def node(self, name: str) -> Object:
        labels = {key: self.chance.choice(values) for key, values in LABELS.items() if self.some(0.7)}
        labels["kubernetes.io/hostname"] = name
        taints = []
        for key, values in TAINTS:
            if self.some(0.15):
                effect = self.chance.choice(EFFECTS)
                taints.append({"key": key, "value": self.chance.choice(values), "effect": effect})
        room = {
            "cpu": self.chance.choice(("2", "3500m", "8", "16", "0.75")),
            "memory": self.chance.choice(("2Gi", "8Gi", "16Gi", "3G")),
            "ephemeral-storage": "20Gi",
            "pods": self.chance.choice(("2", "4", "110", "110")),
            GPU: self.chance.choice(("0", "2", "8")),
            HUGE: self.chance.choice(("0", "64Mi")),
        }
        if self.some(0.5):
            room[HCA] = self.chance.choice(("1", "1k"))
        if self.some(0.1):
            del room["ephemeral-storage"]
        spec: Object = {"taints": taints}
        if self.some(0.12):
            spec["unschedulable"] = True
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]},
        }

    def bound_pod(self, name: str) -> Object:
        """Running, waiting, finished, being deleted, or the mirror of a static pod."""
        kind = self.chance.choice(("Running", "Running", "Pending", "Succeeded", "Failed", "deleted", "mirror"))
        pod = self.pod(name)
        pod["spec"]["nodeName"] = self.chance.choice(self.names)
        if self.volcano:  # as above
            pod["spec"].pop("initContainers", None)
        pod["metadata"]["labels"] = {kind: "yes"}
        pod["status"] = {"phase": kind if kind[0].isupper() else "Running"}
        if kind == "deleted":
            pod["metadata"]["finalizers"] = ["example.com/keep"]
        if kind == "mirror":
            pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "abc"}
        return pod

    def new_pod(self, name: str) -> Object:
        pod = self.pod(name)
        spec = pod["spec"]
        if self.some(0.15):
            key = self.chance.choice(tuple(LABELS))
            spec["nodeSelector"] = {key: self.chance.choice(LABELS[key])}
        if self.some(self.share("labels", 0.35)):
            terms = [self.term() for _ in range(self.chance.choice((1, 1, 2)))]
            required = {"nodeSelectorTerms": terms}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        tolerations = [self.toleration() for _ in range(self.chance.choice((0, 0, 1, 2)))]
        if tolerations:
            spec["tolerations"] = tolerations
        return pod

    def pod(self, name: str) -> Object:
        containers = [self.container(f"c{index}") for index in range(self.chance.choice((1, 1, 2)))]
        init = [self.container(f"i{index}", init=True) for index in range(self.chance.choice((0, 0, 1, 2)))]
        spec: Object = {"containers": containers, "terminationGracePeriodSeconds": 0}
        if init:
            spec["initContainers"] = init
        if self.some(0.1):
            spec["hostNetwork"] = True
            for one in (*init, *containers):
                for port in one.get("ports", ()):
                    port.pop("hostPort", None)
        if self.some(0.15) and not (init and self.volcano):  # it adds no overhead to what an init container wants
            spec["runtimeClassName"], spec["overhead"] = RUNTIME_CLASS, dict(OVERHEAD)
        if self.some(0.15) and not self.volcano:  # its 1.10.0 knows no resources of a whole pod
            spec["resources"] = self.chance.choice(
                (
                    {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}},
                    {"limits": {"cpu": "6", "memory": "6Gi"}},
                    {"requests": {"cpu": "5", "memory": "5Gi"}, "limits": {"memory": "7Gi"}},
                )
            )
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": spec,
        }

    def container(self, name: str, *, init: bool = False) -> Object:
        """Requests, limits, one of them or none; extended resources have equal ones."""
        one: Object = {"name": name, "image": "x", "resources": self.resources()}
        if init and self.some(0.4):
            one["restartPolicy"] = "Always"
        sidecar = "restartPolicy" in one
        if self.some(self.share("ports", 0.3)) and not (sidecar and self.volcano):  # it does not heed ports of sidecars
            one["ports"] = [self.port()]
        return one

    def resources(self) -> Object:
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        if self.some(0.7 if self.theme != "all" else 0.0):
            return {}
        for key, values in (("cpu", CPUS), ("memory", MEMORIES), ("ephemeral-storage", ("1Gi",))):
            which = self.chance.choice(((requests,), (limits,), (requests, limits), ()))
            value = self.chance.choice(values)
            for part in which:
                part[key] = value
        if self.some(0.15):
            limits[self.chance.choice((GPU, HCA))] = self.chance.choice(("1", "2", "4"))
        if self.some(0.05) and "memory" in limits:
            limits[HUGE] = "32Mi"
        return {part: values for part, values in (("requests", requests), ("limits", limits)) if values}

    def port(self) -> Object:
        port: Object = {"containerPort": self.chance.choice((8080, 9090))}
        if self.some(0.8):
            port["hostPort"] = self.chance.choice((8080, 9090))
        if self.some(0.3):
            port["protocol"] = "UDP"
        if self.some(0.5) and "hostPort" in port:
            port["hostIP"] = self.chance.choice(("127.0.0.1", "10.0.0.1", "0.0.0.0"))
        return port

    def term(self) -> Object:
        if self.some(0.15):
            operator = self.chance.choice(("In", "NotIn"))
            field = {"key": "metadata.name", "operator": operator, "values": [self.chance.choice(self.names)]}
            return {"matchFields": [field], **({"matchExpressions": [self.expression()]} if self.some(0.4) else {})}
        return {"matchExpressions": [self.expression() for _ in range(self.chance.choice((1, 1, 2)))]}

    def expression(self) -> Object:
        operator = self.chance.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return {"key": "size", "operator": operator, "values": [self.chance.choice(("-5", "1", "7", "12"))]}
        key = self.chance.choice(tuple(LABELS))
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        count = self.chance.choice((1, 2))
        return {"key": key, "operator": operator, "values": [self.chance.choice(LABELS[key]) for _ in range(count)]}

    def toleration(self) -> Object:
        if self.some(0.2):
            return {"operator": "Exists", **({"effect": self.chance.choice(EFFECTS)} if self.some(0.5) else {})}
        if self.some(0.15):
            return {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
        key, values = self.chance.choice(TAINTS)
        one: Object = {"key": key}
        if self.some(0.4):
            one["operator"] = "Exists"
        else:
            one["value"] = self.chance.choice(values)
        if self.some(0.6):
            one["effect"] = self.chance.choice(EFFECTS)
        return one


def _without_shared_ports(pods: list[Object]) -> None:
    """Take the ports from pods that would share one with another pod of their Node.

    The scheduler never makes such a Node. On one that was made by hand it forgets a port when the first of them ends.
    """
    taken: dict[str, list[HostPort]] = {}
    for pod in pods:
        there = taken.setdefault(pod["spec"]["nodeName"], [])
        wanted = node_terms.host_ports(pod["spec"])
        if any(one.conflicts(other) for one in wanted for other in there):
            for one in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
                one.pop("ports", None)
            continue
        there += wanted


def _marker(number: int) -> Object:
    room = {"cpu": "1", "memory": "1Gi", "pods": "1"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": f"d{number}-marker", "labels": {"draw": str(number)}},
        "spec": {},
        "status": {"allocatable": room, "capacity": room, "conditions": ready},
    }


def _marking(number: int) -> Object:
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeSelector": {"draw": str(number)}}
    return {"metadata": {"name": f"d{number}-marking"}, "spec": {**spec, "terminationGracePeriodSeconds": 0}}
