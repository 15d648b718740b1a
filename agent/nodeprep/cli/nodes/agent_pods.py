"""Stops the agents of a cluster, and finds those that still run: no agent may write to a released Node again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import quote

from nodeprep.cli import terminal
from nodeprep.cli.nodes import fleet_reader, node_writes
from nodeprep.cli.nodes.fleet_reader import OUTAGE_LIMIT_SECONDS, PODS, CannotSee, Fleet
from nodeprep.cli.nodes.names_in_force import DAEMON_SET
from nodeprep.cli.nodes.node_writes import MISSING, NODE_WRITES_TIMEOUT_SECONDS
from nodeprep.cli.usage import UsageError
from nodeprep.decide import kubernetes_text
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import Object
from nodeprep.doors.kube.watch import ApiLists
from nodeprep.doors.kube.writer import ApiWriter
from nodeprep.model import Unreadable
from nodeprep.publish import agent_lease, fleet_rows
from nodeprep.publish.node_object import RELEASED
from nodeprep.values import Value

AGENTS = "app.kubernetes.io/name=nodeprep,app.kubernetes.io/component=agent"
LEASES = "/apis/coordination.k8s.io/v1/leases"  # of all namespaces
PODS_END_TIMEOUT_SECONDS = 90.0  # seconds until the pods have ended: a kubelet gives them 30
GARBAGE_COLLECTION_SECONDS = (
    20.0  # seconds in which the pods of a DaemonSet that was deleted are told to end; others are orphans
)
LEASE_RENEWAL_SECONDS = (
    100.0  # seconds in which a living agent renews its Lease once: agent_lease.RENEW_SECONDS, a tenth, a slow server
)
PODS_POLL_SECONDS = 1.0  # seconds between two looks at them


class AgentSigns(Value):
    """The agents of a namespace.

    `pods`: the Nodes on which one is; `renewed`: when each Lease was renewed, by Node, in seconds since 1970 as `now`.
    """

    pods: frozenset[str]
    renewed: Mapping[str, float]
    now: float

    def __bool__(self) -> bool:
        return bool(self.pods or self.renewed)

    @property
    def fresh(self) -> dict[str, float]:
        """Of the Leases that have not fallen silent."""
        # A Lease of the future counts here: its agent may live with a wrong clock.
        return {node: at for node, at in self.renewed.items() if at > self.now or agent_lease.is_fresh(at, self.now)}


def signs(fleet: Fleet) -> AgentSigns:
    """Raises CannotSee."""
    return AgentSigns(frozenset(_pods(fleet)), *_leases(fleet))


def refuse_elsewhere(fleet: Fleet, nodes: Collection[str]) -> None:
    """Raise UsageError where there is no DaemonSet in this namespace, and agents of these Nodes are in another one.

    Call it for a namespace without any sign of agents: it may be mistyped, or all was deleted. Raises CannotSee.
    """
    with ApiLists(fleet.access) as api:
        here = api.get("apps/v1", "daemonsets", DAEMON_SET, fleet.namespace)
        pods = api.listed(PODS, "pods", _namespace, may="list pods --all-namespaces", labelSelector=AGENTS)
        leases = api.listed(
            LEASES,
            "leases",
            lambda lease: _namespace(lease) if _leased(lease) in nodes else None,
            may="list leases --all-namespaces",
        )
    if isinstance(here, Unreadable) or isinstance(pods, Unreadable) or isinstance(leases, Unreadable):
        trouble = next(one for one in (here, pods, leases) if isinstance(one, Unreadable))
        raise CannotSee(f"cannot tell where the agents are: {trouble}")
    found = sorted({*pods.items, *leases.items})
    if here is None and found:
        lacks = (
            f"neither a DaemonSet {DAEMON_SET} nor an agent's pod or Lease there, but in {kubernetes_text.few(found)}"
        )
        raise UsageError(f"--namespace {fleet.namespace}: found {lacks}, wanted the agents' namespace")


def stop(fleet: Fleet) -> bool:
    """Make the DaemonSet's pods end on all Nodes; whether there is a DaemonSet. Raises CannotSee."""
    return _select_nodes(fleet, "true")


def start(fleet: Fleet) -> bool:
    """Let the DaemonSet run pods again; whether there is one. Raises CannotSee."""
    return _select_nodes(fleet, None)


def remaining_pods(fleet: Fleet, *, stopped: bool) -> frozenset[str]:
    """The Nodes of the agents' pods that do not end in time. Raises CannotSee.

    Unless the DaemonSet was `stopped`, only the garbage collector can have ended them: it tells them so soon, or never.
    """
    begun = clock.now()
    end = begun + PODS_END_TIMEOUT_SECONDS
    while pods := fleet_reader.with_retries(lambda: _pods(fleet), max(end, clock.now() + OUTAGE_LIMIT_SECONDS)):
        are_ending = stopped or any(pods.values()) or clock.now() < begun + GARBAGE_COLLECTION_SECONDS
        if not are_ending or clock.now() >= end:
            break
        clock.sleep(PODS_POLL_SECONDS)
    return frozenset(pods)


def live_agents(fleet: Fleet, suspects: Collection[str], seen: Mapping[str, float]) -> frozenset[str]:
    """Those of `suspects` whose Lease is renewed after the time in `seen`: an agent lives there. Raises CannotSee."""
    waiting, living = set(suspects), set[str]()
    if waiting:
        words = f"{len(waiting)} Nodes have a fresh Lease and no pod of the DaemonSet"
        terminal.complain(f"{words}: waiting {LEASE_RENEWAL_SECONDS:g} s to see whether an agent lives there")
    end = clock.now() + LEASE_RENEWAL_SECONDS
    while waiting and clock.now() < end:
        clock.sleep(PODS_POLL_SECONDS)
        renewed, _ = fleet_reader.with_retries(lambda: _leases(fleet), max(end, clock.now() + OUTAGE_LIMIT_SECONDS))
        living |= {node for node in waiting if renewed.get(node, seen[node]) > seen[node]}
        waiting -= living
    return frozenset(living)


def _pods(fleet: Fleet) -> dict[str, bool]:
    """The Nodes on which a pod of an agent is, and whether it was told to end. Raises CannotSee."""
    path = f"/api/v1/namespaces/{quote(fleet.namespace, safe='')}/pods"
    with ApiLists(fleet.access) as api:
        answer = api.listed(
            path,
            "pods",
            lambda pod: (
                str(fleet_rows.part(pod, "spec").get("nodeName") or ""),
                "deletionTimestamp" in fleet_rows.part(pod, "metadata"),
            ),
            may=f"list pods -n {fleet.namespace}",
            labelSelector=AGENTS,
        )
    if isinstance(answer, Unreadable):
        raise CannotSee(f"cannot tell whether the agents ended: {answer}", answer)
    return {node: ending for node, ending in answer.items if node}


def _leases(fleet: Fleet) -> tuple[dict[str, float], float]:
    """When the agents renewed their Leases, by Node, and the time, both in seconds since 1970. Raises CannotSee."""
    with ApiLists(fleet.access) as api:
        answer = api.listed(
            agent_lease.path(fleet.namespace), "leases", fleet_rows.renewal, may=f"list leases -n {fleet.namespace}"
        )
        now = api.now
    if isinstance(answer, Unreadable):
        raise CannotSee(f"cannot tell which agents are alive: {answer}", answer)
    return dict(answer.items), now


def _namespace(obj: Object) -> str:
    return str(fleet_rows.part(obj, "metadata").get("namespace", ""))


def _leased(obj: Object) -> str:
    """The Node whose agent's Lease this is, "" of any other."""
    node = str(fleet_rows.part(obj, "spec").get("holderIdentity") or "")
    return node if node and fleet_rows.part(obj, "metadata").get("name") == agent_lease.name(node) else ""


def _select_nodes(fleet: Fleet, value: str | None) -> bool:
    """Make the DaemonSet select Nodes with a label that no Node has, or undo that; False if there is no DaemonSet."""
    path = f"/apis/apps/v1/namespaces/{quote(fleet.namespace, safe='')}/daemonsets/{DAEMON_SET}"
    patch = {"spec": {"template": {"spec": {"nodeSelector": {RELEASED: value}}}}}
    with ApiWriter(fleet.access, NODE_WRITES_TIMEOUT_SECONDS) as writer:
        outcome = node_writes.request(writer, "PATCH", path, patch)
    if outcome.done or outcome.status == MISSING:
        return outcome.done
    raise CannotSee(f"cannot reach the agents: {outcome.message}")
