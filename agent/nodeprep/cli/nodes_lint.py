"""`nodeprep nodes lint`: whom our taints would keep away, and what to paste."""

from __future__ import annotations

from nodeprep.checks.plugin.tolerates_gate import NO_SCHEDULE, Want
from nodeprep.cli import output
from nodeprep.cli.nodes_names import names_in_force
from nodeprep.cli.nodes_reading import CannotSee
from nodeprep.cli.nodes_where import Where, say, seen
from nodeprep.decide.desired import GatePolicy
from nodeprep.doors.kube_watch import Lists
from nodeprep.facts.cluster_objects import Odd
from nodeprep.model import Unreadable
from nodeprep.publish.locked_out import LockedOut, locked_out

DAEMON_SETS = "/apis/apps/v1/daemonsets"


def run(where: Where) -> int:
    """List them; 0 if there are none, 1 if there are. Raises UsageError."""
    return seen(lambda: _lint(where))


def _lint(where: Where) -> int:
    fleet = where.fleet()
    with Lists(fleet.access) as api:
        policy, note = names_in_force(api, fleet.config, fleet.namespace)
        want = _want(policy)
        try:
            told = api.listed(
                DAEMON_SETS,
                "daemonsets.apps",
                lambda one: (locked_out(one, want),),
                may="list daemonsets.apps --all-namespaces",
            )
        except Odd as odd:
            raise CannotSee(f"a DaemonSet is not what its schema says: {odd}") from odd
    if isinstance(told, Unreadable):
        raise CannotSee(f"cannot look at DaemonSets: {told}")
    say((note,) if note else ())
    found = sorted((one for (one,) in told.items if one is not None), key=lambda one: (not one.serves, one.where))
    for one in found:
        output.put("\n".join((*_lines(one), "")))
    output.put(_verdict(found, len(told.items), want))
    return 1 if found else 0


def _want(policy: GatePolicy) -> Want:
    hard = policy.effect == NO_SCHEDULE
    return Want(policy.unhealthy_taint, policy.bootstrap_taint, "NoSchedule" if hard else "PreferNoSchedule")


def _lines(one: LockedOut) -> tuple[str, ...]:
    why = (
        f"serves a device plugin or the network of pods (it may write to {one.serves}): a Node that lost its pod "
        "would stay without"
        if one.serves
        else "serves neither devices nor the network: a tainted Node that lost its pod does without until it is ready"
    )
    return (
        f"{one.where}: does not tolerate {' and '.join(one.taints)}",
        f"  {why}",
        f"  paste: {one.tolerations}",
        f"  or run: {one.command}",
    )


def _verdict(found: list[LockedOut], total: int, want: Want) -> str:
    taints = " and ".join(f"{key}:{NO_SCHEDULE}" for key in want.taints)
    if not found:
        return f"all {total} DaemonSets tolerate {taints}"
    serving = sum(bool(one.serves) for one in found)
    tail = f"; where pods of {serving} of them run, no taint is set (plugin.tolerates-gate)" if serving else ""
    return f"{len(found)} of {total} DaemonSets would be kept away by {taints}{tail}"
