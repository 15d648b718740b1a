"""Stops the agents of a cluster, and finds those that live on: a released Node must not be written to again."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote

from nodeprep.cli import output
from nodeprep.cli.nodes_reading import CannotSee, Fleet
from nodeprep.cli.nodes_writing import MISSING, SECONDS, patient
from nodeprep.doors import clock
from nodeprep.doors.kube_watch import Lists
from nodeprep.doors.kube_write import Writer
from nodeprep.model import Unreadable
from nodeprep.publish import lease
from nodeprep.publish.fleet import part, renewal
from nodeprep.publish.node import RELEASED

DAEMON_SET = "nodeprep"
AGENTS = "app.kubernetes.io/name=nodeprep,app.kubernetes.io/component=agent"
ENDING = 90.0  # seconds for the pods to end: a kubelet gives them 30
RENEWED = 75.0  # seconds in which an agent that lives has renewed its Lease once: 60, and jitter
PAUSE = 1.0  # seconds between two looks at them


def stop(fleet: Fleet) -> frozenset[str]:
    """Stop the DaemonSet's pods on all Nodes; the Nodes of those that did not end in time. Raises CannotSee."""
    if not _select_nodes(fleet, "true"):
        output.complain(f"no DaemonSet {fleet.namespace}/{DAEMON_SET}: nothing to stop")
        return frozenset()
    end = clock.now() + ENDING
    while (nodes := agents(fleet)) and clock.now() < end:
        clock.sleep(PAUSE)
    return nodes


def start(fleet: Fleet) -> bool:
    """Let the DaemonSet run pods again; whether there is one. Raises CannotSee."""
    return _select_nodes(fleet, None)


def agents(fleet: Fleet) -> frozenset[str]:
    """The Nodes on which a pod of the DaemonSet is. Raises CannotSee."""
    path = f"/api/v1/namespaces/{quote(fleet.namespace, safe='')}/pods"
    with Lists(fleet.access) as api:
        told = api.listed(
            path,
            "pods",
            lambda pod: str(part(pod, "spec").get("nodeName") or ""),
            may=f"list pods -n {fleet.namespace}",
            labelSelector=AGENTS,
        )
    if isinstance(told, Unreadable):
        raise CannotSee(f"cannot tell whether the agents ended: {told}")
    return frozenset(filter(None, told.items))


def fresh(fleet: Fleet) -> dict[str, float]:
    """When the agents renewed their Leases that have not fallen silent, by Node. Raises CannotSee."""
    path = lease.path(fleet.namespace)
    with Lists(fleet.access) as api:
        told = api.listed(path, "leases", renewal, may=f"list leases -n {fleet.namespace}")
        now = api.now
    if isinstance(told, Unreadable):
        raise CannotSee(f"cannot tell which agents are alive: {told}")
    # Here a Lease of the future counts: its agent may well live, and has a clock that is wrong.
    return {node: at for node, at in told.items if at > now or lease.is_fresh(at, now)}


def alive(fleet: Fleet, suspects: Collection[str], seen: dict[str, float]) -> frozenset[str]:
    """Those of `suspects` whose Lease is renewed after it was `seen`: an agent lives there. Raises CannotSee."""
    waiting, living = set(suspects), set[str]()
    if waiting:
        words = f"{len(waiting)} Nodes have a fresh Lease and no pod of the DaemonSet"
        output.complain(f"{words}: waiting {RENEWED:g} s to see whether an agent lives there")
    end = clock.now() + RENEWED
    while waiting and clock.now() < end:
        clock.sleep(PAUSE)
        now = fresh(fleet)
        living |= {node for node in waiting if now.get(node, seen[node]) > seen[node]}
        waiting -= living
    return frozenset(living)


def _select_nodes(fleet: Fleet, value: str | None) -> bool:
    """Have the DaemonSet want Nodes with a label that none bears, or no longer; False where there is none."""
    path = f"/apis/apps/v1/namespaces/{quote(fleet.namespace, safe='')}/daemonsets/{DAEMON_SET}"
    patch = {"spec": {"template": {"spec": {"nodeSelector": {RELEASED: value}}}}}
    with Writer(fleet.access, SECONDS) as writer:
        outcome = patient(writer, "PATCH", path, patch)
    if outcome.done or outcome.status == MISSING:
        return outcome.done
    raise CannotSee(f"cannot reach the agents: {outcome.message}")
