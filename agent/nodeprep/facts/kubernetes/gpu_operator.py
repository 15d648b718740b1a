"""What NVIDIA's GPU operator runs on a node."""

from __future__ import annotations

from pathlib import PurePosixPath

from nodeprep.facts.kubernetes.cluster import Cluster, Pod
from nodeprep.facts.machine.gpu import CONTAINER
from nodeprep.model import raw
from nodeprep.pattern import Pattern

# The driver containers, by the names that it gives their pods. Its toolkit writes to the same directory.
DRIVER_PODS = Pattern(r"nvidia-(gpu-)?driver-")
PLACE = PurePosixPath(CONTAINER)


def driver_pod(cluster: Cluster | None) -> Pod | None:
    """The pod of NVIDIA's driver container here that has a network of its own: Fabric Manager listens in it."""
    pods = raw(cluster)["pods"] if cluster is not None else ()
    found = pods if isinstance(pods, tuple) else ()
    own = (pod for pod in found if not (pod.finished or pod.host_network) and any(map(_is_driver_root, pod.writes)))
    return next((pod for pod in own if DRIVER_PODS.match(pod.name)), None)


def _is_driver_root(path: str) -> bool:
    return PurePosixPath(path) in (PLACE, PLACE.parent)
