"""Which containers of a node may be restarted through the container runtime: by what they mount, and by their labels.

No container is restarted because somebody names it. Who names a pod gives a hint where to look.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.facts.kubernetes import cluster, device_plugins
from nodeprep.facts.kubernetes.cri_containers import ContainerMount, RunningContainer
from nodeprep.facts.kubernetes.cri_sandboxes import PodSandbox
from nodeprep.values import Value

TERWAY_NAMESPACE, TERWAY_CONTAINER = "kube-system", "terway"
APP = "app"  # the label of Terway's DaemonSets
TERWAY_LABELS = tuple({APP: name} for name in cluster.TERWAY_APPS)


class SeenContainer(Value):
    """A container that runs, with what it mounts of the host."""

    container: RunningContainer
    mounts: tuple[ContainerMount, ...] = ()


def of_plugin(pod: str, seen: Iterable[SeenContainer]) -> tuple[RunningContainer, ...]:
    """The containers of a pod (NAMESPACE/NAME) that can serve a device plugin.

    They mount the kubelet's directory of plugins itself, to write: a plugin makes its socket there.
    """
    return tuple(
        one.container for one in seen if one.container.where == pod and any(_is_served(mount) for mount in one.mounts)
    )


def _is_served(mount: ContainerMount) -> bool:
    return not mount.is_read_only and mount.host_path.rstrip("/") == device_plugins.DIRECTORY


def of_terway(running: Iterable[RunningContainer], labelled: Iterable[PodSandbox]) -> tuple[RunningContainer, ...]:
    """Terway's daemon. `labelled` are the sandboxes of pods with one of TERWAY_LABELS, in any namespace."""
    ids = {one.id for one in labelled if one.namespace == TERWAY_NAMESPACE}
    return tuple(
        one
        for one in running
        if one.sandbox in ids and one.namespace == TERWAY_NAMESPACE and one.name == TERWAY_CONTAINER
    )
