"""Agents that tell a real API server of Nodes that no kubelet has: each by its own account, behind its own proxy.

They run on a node of the netns rig, whose links tests take down, so what they judge is real. Several may stand on one:
each has a Node object of its own, and all see the same faults.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from nodeprep.decide.conditions import PREFIX, TRAINING_READY
from tests.cluster import accounts
from tests.rigs.agent import OPEN, PROGRAM, Agent
from tests.rigs.api_proxy import Proxy, Request
from tests.rigs.cluster import Cluster
from tests.rigs.netns import Node
from tests.rigs.netns_check import ETH1_UP
from tests.rigs.relay import Relay
from tests.rigs.waiting import until

Object = dict[str, Any]

NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/nodeprep/leases"
ADMISSION = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"  # and how it ends
UNHEALTHY, BOOTSTRAP = f"{PREFIX}/unhealthy", f"{PREFIX}/bootstrap"
STATE = f"{PREFIX}/state"
RESET, RESET_DONE, RELEASED, HELD = (
    f"{PREFIX}/reset",
    f"agent.{PREFIX}/reset",
    f"{PREFIX}/released",
    f"agent.{PREFIX}/profiles",
)
CHECK = 66.0  # seconds until what others did to the Node is seen: a minute and a tenth
RENEWED = 88.0  # seconds until its agent has renewed its Lease: 80, and a tenth
BUSY = 240.0  # seconds that a busy machine may take longer: 62 were seen for the start of a process
GATE_FILE = 10.0  # seconds until a gate file is gone: two looks half a second apart, on a busy machine
DOWN = "ip link set eth1 down"
UP = ETH1_UP
# The label and the Lease by which an agent tries an admission policy.
FOREIGN, FOREIGN_LEASE = "policy-test.example.com/nodeprep", "policy-test.example.com"
OF_LEASE = "request.resource.resource == 'leases'"
# Rules of policies by their messages: nobody writes the Node; an admission policy; one that keeps the agent from its
# own Lease too.
UNWRITABLE = {"nodeprep:taints": OF_LEASE}
FENCED = {
    "nodeprep:labels": f"{OF_LEASE} || !('{FOREIGN}' in object.metadata.?labels.orValue({{}}))",
    "nodeprep:own-lease": f"!({OF_LEASE}) || object.metadata.name != '{FOREIGN_LEASE}'",
}
SILENCED = {**FENCED, "nodeprep:own-lease": f"!({OF_LEASE})"}
BOOT_ID = "/proc/sys/kernel/random/boot_id"
ACCOUNTS = "system:serviceaccount:default:"  # and the name of the Node
ACCOUNT = Path(__file__).resolve().parents[2] / "daemonset/base/account.yaml"
SHIPPED = [rule for one in yaml.safe_load_all(ACCOUNT.read_text()) for rule in one.get("rules", [])]
FOREIGN_TAINT = {"key": "example.com/theirs", "value": "a", "effect": "NoSchedule"}
FOREIGN_CONDITION = {
    "type": "example.com/Theirs",
    "status": "True",
    "reason": "Said",
    "message": "by somebody else",
    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def configuration(mode: str = "gate", *, profile: str = "default: mine.yaml", span: float = 1.0) -> str:
    """Less patience than the defaults: a node is ready after `span` seconds of passes, and links may flap for ever."""
    return f"""\
apiVersion: nodeprep.io/v1
kind: Config
mode: {mode}
{profile}
gate: {{profiles: ["*"]}}
confirmation: {{passes: 2, pass-span: {span:g}, pass-every: 0.5, flap-window: 1}}
"""


@dataclass(slots=True)
class Published:
    """A Node object, the proxy before its API server, and the agent that writes to it."""

    cluster: Cluster
    name: str
    proxy: Proxy
    agent: Agent

    @property
    def path(self) -> str:
        return f"{NODES}/{self.name}"

    def object(self) -> Object:
        code, told = self.cluster.call("GET", self.path)
        assert code == 200, told
        return told

    def taints(self) -> dict[str, Object]:
        return {one["key"]: one for one in self.object()["spec"].get("taints", [])}

    def labels(self) -> Mapping[str, str]:
        return dict(self.object()["metadata"].get("labels", {}))

    def annotations(self) -> Mapping[str, str]:
        return dict(self.object()["metadata"].get("annotations", {}))

    def conditions(self) -> dict[str, Object]:
        return {one["type"]: one for one in self.object().get("status", {}).get("conditions", [])}

    def says(self) -> str:
        """What our condition says, "" where there is none: status and reason."""
        found = self.conditions().get(TRAINING_READY)
        return f"{found['status']} {found['reason']}" if found else ""

    def is_open(self) -> bool:
        """Whether Node and status say that jobs may land here."""
        told = self.object()
        keys = {one["key"] for one in told["spec"].get("taints", [])}
        labels = told["metadata"].get("labels", {})
        return not keys & {UNHEALTHY, BOOTSTRAP} and labels.get(STATE) == "Ready" and self.says().startswith("True ")

    def is_closed(self) -> bool:
        """Whether Node and status say, in mode gate, that a fault keeps jobs away."""
        told = self.object()
        keys = {one["key"] for one in told["spec"].get("taints", [])}
        labels = told["metadata"].get("labels", {})
        return UNHEALTHY in keys and labels.get(STATE) == "Unhealthy" and self.says().startswith("False ")

    def ready(self) -> None:
        """Returns when the gate is open in the cluster and on the node."""
        until(lambda: self.is_open() and self.agent.gates() == OPEN, f"open gate of {self.name}")

    def closed(self) -> None:
        until(lambda: self.is_closed() and not self.agent.gates(), f"closed gate of {self.name}")

    def patch(self, body: Object, part: str = "") -> Object:
        """As somebody else, in a merge patch of the Node or its "status"."""
        code, told = self.cluster.call("PATCH", f"{self.path}/{part}".rstrip("/"), body)
        assert code == 200, told
        return told

    def annotate(self, key: str, value: str | None) -> None:
        self.patch({"metadata": {"annotations": {key: value}}})

    def events(self) -> list[Object]:
        return events_of(self.cluster, self.name)

    def reasons(self) -> list[str]:
        return [one["reason"] for one in self.events()]

    def lease(self) -> Object | None:
        code, told = self.cluster.call("GET", f"{LEASES}/agent-{self.name}")
        return told if code == 200 else None

    def writes(self, since: float = 0.0) -> list[Request]:
        """The writes to the Node and its status that the agent asked for; the test of an admission policy is none."""
        return [one for one in self.proxy.asked("PATCH", NODES, since) if "dryRun" not in one.path]

    def audited(self) -> list[str]:
        """All that its agent asked for, from the API server's own log."""
        return self.cluster.requests(f"{ACCOUNTS}{self.name}")


@contextmanager
def published(
    cluster: Cluster,
    node: Node,
    directory: Path,
    name: str,
    *,
    config: str = "",
    taints: list[Object] | None = None,
    port: int = 0,
    start: bool = True,
) -> Iterator[Published]:
    """A new Node with these taints, and its agent, started unless it is told not to be.

    It serves its pages on `port` of its node, which serves none at 0. In the end all of it is deleted: a worker that
    takes a test of another one's file makes the fixtures of that file a second time.
    """
    create(cluster, name, taints)
    cluster.namespace("nodeprep")
    token = accounts.account(cluster, name, [*accounts.RULES, *SHIPPED])
    place = directory / name
    place.mkdir()
    with Proxy(cluster) as proxy, Relay(node.pid, proxy.port):
        file = cluster.kubeconfig({"token": token}, {"server": proxy.url})
        program = (*PROGRAM, "--kubeconfig", str(file), "--node", name)
        agent = Agent(place, node, port, program)
        agent.configure(config or configuration())
        try:
            if start:
                agent.start()
            yield Published(cluster, name, proxy, agent)
        except BaseException as error:
            agent.__exit__(type(error), error, error.__traceback__)
            raise
        else:
            agent.__exit__(None, None, None)
        finally:
            cluster.call("DELETE", f"{NODES}/{name}")
            cluster.call("DELETE", f"{LEASES}/agent-{name}")
            accounts.remove(cluster, name)


@contextmanager
def boot_id_file(node: Node, file: Path) -> Iterator[Path]:
    """A file in which the kernel of `node` tells its boot id: one who writes to it has rebooted the node."""
    file.write_text(f"{uuid4()}\n")
    node.run("mount", "--bind", str(file), BOOT_ID)
    try:
        yield file
    finally:
        node.run("umount", BOOT_ID)


def create(cluster: Cluster, name: str, taints: list[Object] | None = None) -> None:
    """The Node as one registers it; the taint that Kubernetes gives to each new one is gone, as once it is Ready."""
    cluster.create(NODES, {"metadata": {"name": name}})
    code, told = cluster.call("PATCH", f"{NODES}/{name}", {"spec": {"taints": taints or None}})
    assert code == 200, told


@contextmanager
def denying(cluster: Cluster, name: str, rules: Mapping[str, str]) -> Iterator[None]:
    """As long as it lasts, what `deny` does."""
    try:
        deny(cluster, name, rules)
        yield
    finally:
        allow(cluster, name)


def deny(cluster: Cluster, name: str, rules: Mapping[str, str]) -> None:
    """A policy: each CEL expression has to hold, by its message, for labels and taints of this Node, and its Leases.

    It is in force then. Its Leases are those that the account of the same name makes or renews.
    """
    mine = f"{OF_LEASE} ? request.userInfo.username == '{ACCOUNTS}{name}' : object.metadata.name == '{name}'"
    resources = (("", "nodes"), ("coordination.k8s.io", "leases"))
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [kind]}
                for group, kind in resources
            ]
        },
        "matchConditions": [{"name": "mine", "expression": mine}],
        "validations": [{"expression": says, "message": message} for message, says in rules.items()],
    }
    cluster.create(f"{ADMISSION}ies", {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    cluster.create(f"{ADMISSION}ybindings", {"metadata": {"name": name}, "spec": binding})
    until(lambda: denies(cluster, name), "policy in force")


def allow(cluster: Cluster, name: str) -> None:
    """The policy is no more."""
    for kind in ("ybindings", "ies"):
        cluster.call("DELETE", f"{ADMISSION}{kind}/{name}")
    until(lambda: not denies(cluster, name), "end of the policy")


def denies(cluster: Cluster, name: str) -> bool:
    """Whether it is in force, by a write that is not meant: the one by which an agent tries an admission policy."""
    body = {"metadata": {"labels": {FOREIGN: "denied"}}}
    return cluster.call("PATCH", f"{NODES}/{name}?dryRun=All", body)[0] == 422


def events_of(cluster: Cluster, name: str) -> list[Object]:
    """Those that nodeprep posted about this Node, the oldest first. The server lists them by their names."""
    found = cluster.call("GET", f"{EVENTS}?fieldSelector=involvedObject.name={name}")[1]["items"]
    ours = [one for one in found if one["source"].get("component") == "nodeprep"]
    return sorted(ours, key=lambda one: int(one["metadata"]["resourceVersion"]))


def seconds(begun: float) -> float:
    """Since a time.monotonic()."""
    return time.monotonic() - begun
