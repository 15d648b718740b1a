"""Whom our taints would keep away from a Node: DaemonSets whose pods tolerate them not, and what to paste."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from nodeprep.checks.plugin import tolerates_gate
from nodeprep.checks.plugin.tolerates_gate import DAEMON_SET, PLUGINS, Want
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.facts.kubernetes.cluster import Owner
from nodeprep.values import Value

Object = Mapping[str, Any]


class LockedOut(Value):
    """A DaemonSet that a taint of ours keeps away, `namespace/name`.

    `serves` is the host's path by which it serves a device plugin or the network, "" where it does neither;
    `lifts_taint`: where its pods run, our taint is not set; `taints` are those that it does not tolerate;
    `tolerations` (YAML) and `command` add them.
    """

    where: str
    serves: str
    lifts_taint: bool
    taints: tuple[str, ...]
    tolerations: str
    command: str


def locked_out(daemon_set: Object, want: Want) -> LockedOut | None:
    """Whether the taints in force keep its new pods away; None if not. Raises Odd where it is no DaemonSet."""
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
    return LockedOut(
        where=pod.where,
        serves=served,
        lifts_taint=bool(served) and tolerates_gate.lifts_taint(missing, want),
        taints=tuple(map(tolerates_gate.named, missing)),
        tolerations=tolerates_gate.tolerations(missing),
        command=tolerates_gate.command(pod, Owner("apps/v1", DAEMON_SET, name), missing),
    )
