"""`nodeprep nodes lint`: the DaemonSets that our taints would keep away, and what to paste."""

from __future__ import annotations

from pathlib import PurePosixPath

from nodeprep.checks.plugin import tolerates_gate
from nodeprep.checks.plugin.tolerates_gate import DAEMON_SET, PLUGINS, Want
from nodeprep.cli import terminal
from nodeprep.cli.nodes import names_in_force, scope
from nodeprep.cli.nodes.fleet_reader import CannotSee
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.doors.kube.reader import Object
from nodeprep.doors.kube.watch import ApiLists
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.facts.kubernetes.cluster import Owner
from nodeprep.facts.kubernetes.cluster_objects import OddObject
from nodeprep.model import Unreadable
from nodeprep.publish import fleet_rows
from nodeprep.values import Value

DAEMON_SETS = "/apis/apps/v1/daemonsets"


class IntolerantDaemonSet(Value):
    """A DaemonSet, `namespace/name`, whose pods do not tolerate a taint of ours.

    `serves` is the host's path by which it serves a device plugin, a driver or the network, "" if none;
    `lifts_taint`: where its pods run, our taint is not set; `taints` are those that it does not tolerate;
    `tolerations` (YAML) and `command` add them.
    """

    where: str
    serves: str
    lifts_taint: bool
    taints: tuple[str, ...]
    tolerations: str
    command: str


def intolerant_daemon_set(daemon_set: Object, want: Want) -> IntolerantDaemonSet | None:
    """Whether the taints in force keep its new pods away; None if not. Raises OddObject if it is not a DaemonSet."""
    metadata, template = (
        cluster_objects.field(daemon_set, dict, "metadata"),
        cluster_objects.field(daemon_set, dict, "spec", "template"),
    )
    name = cluster_objects.field(metadata, str, "name")
    pod = cluster_objects.pod(
        {
            "metadata": {"namespace": cluster_objects.field(metadata, str, "namespace"), "name": name},
            "spec": template.get("spec") or {},
        }
    )
    missing = tolerates_gate.not_tolerated(pod, want)
    if not missing:
        return None
    served = tolerates_gate.serves(pod, tuple(map(PurePosixPath, (*PLUGINS, *tolerates_gate.networks(None)))))
    return IntolerantDaemonSet(
        where=pod.where,
        serves=served,
        lifts_taint=bool(served) and tolerates_gate.lifts_taint(missing, want),
        taints=tuple(map(tolerates_gate.named, missing)),
        tolerations=tolerates_gate.tolerations(missing),
        command=tolerates_gate.command(pod, Owner("apps/v1", DAEMON_SET, name), missing),
    )


def run(where: FleetScope) -> int:
    """List them; 0 if there are none, 1 if there are. Raises UsageError."""
    return scope.exit_code(lambda: _lint(where))


def _lint(where: FleetScope) -> int:
    fleet = where.fleet()
    with ApiLists(fleet.access) as api:
        names = names_in_force.names_in_force(api, fleet.config, fleet.namespace)
        want = Want(names.policy.unhealthy_taint, names.policy.bootstrap_taint, names.policy.effect)
        try:
            answer = api.listed(
                DAEMON_SETS,
                "daemonsets.apps",
                lambda one: (intolerant_daemon_set(one, want),),
                may="list daemonsets.apps --all-namespaces",
            )
            nodes = fleet.objects(api, lambda node: fleet_rows.fleet_node(node, names.policy))
        except OddObject as odd:
            raise CannotSee(f"a DaemonSet is not what its schema says: {odd}") from odd
    if isinstance(answer, Unreadable):
        raise CannotSee(f"cannot look at DaemonSets: {answer}")
    scope.print_notes(tuple(filter(None, (names.read_error, names.missing))))
    found = sorted((one for (one,) in answer.items if one is not None), key=_order)
    for one in found:
        terminal.put("\n".join((*_lines(one), "")))
    without_effect = tuple(sorted(fleet_rows.without_effect(nodes)))
    scope.print_notes(scope.effect_note(without_effect))
    terminal.put(_verdict(found, len(answer.items), want))
    return 1 if found else 0


def _order(one: IntolerantDaemonSet) -> tuple[bool, bool, str]:
    """DaemonSets that keep our taint away come first."""
    return not one.lifts_taint, not one.serves, one.where


def _lines(one: IntolerantDaemonSet) -> tuple[str, ...]:
    return (
        f"{one.where}: does not tolerate {' and '.join(one.taints)}",
        f"  {_why(one)}",
        f"  paste: {one.tolerations}",
        f"  or run: {one.command}",
    )


def _why(one: IntolerantDaemonSet) -> str:
    """The effect on a Node."""
    if not one.serves:
        return "serves no device, driver or network: a tainted Node that lost its pod gets no new one until it is ready"
    serves = f"serves a device plugin, a driver or the network of pods (it may write to {one.serves}): "
    if one.lifts_taint:
        return f"{serves}a Node that lost its pod would never get a new one, so our taint is not set where one runs"
    return f"{serves}a new Node needs this pod to get ready, and would not get it"


def _verdict(found: list[IntolerantDaemonSet], total: int, want: Want) -> str:
    taints = " and ".join(map(tolerates_gate.named, want.taints))
    if not found:
        return f"all {total} DaemonSets tolerate {taints}"
    lifting = sum(one.lifts_taint for one in found)
    tail = f"; our taint is not set where pods of {lifting} of them run (plugin.tolerates-gate)" if lifting else ""
    return f"{len(found)} of {total} DaemonSets would be kept away by {taints}{tail}"
