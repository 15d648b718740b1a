"""The selected node: the live node that we run on, with its root mounted anywhere, or a dead tree of files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nodeprep.cli import kubernetes_access
from nodeprep.cli.kubernetes_access import NO_CLUSTER, ClusterOptions
from nodeprep.cli.usage import UsageError
from nodeprep.doors import node_host
from nodeprep.doors.node_host import METADATA, PHYSICAL_KINDS, Host
from nodeprep.values import Value

if TYPE_CHECKING:
    from nodeprep.doors.kube.reader import ApiAccess

# A copy that has none of these is not a copy of a node's root.
RECORDS = ("sys/class", "sys/bus", "sys/module", "proc/1", "proc/sys")

# Kinds of links that replace NICs in a rig that cannot make NICs (docs/architecture.md).
PHYSICAL_KINDS_TOO = "NODEPREP_PHYSICAL_KINDS"


class NodePlace(Value):
    """A node by its root. A dead tree is not `live` and has only files. `kubernetes` is access to its API server."""

    root: str
    live: bool
    kubernetes: ApiAccess | None = None

    @property
    def where(self) -> str:
        """The observed place, for people."""
        if not self.live:
            return f"{self.root} (dead tree: its files and nothing else)"
        return "/ (live)" if self.root == "/" else f"{self.root} (live)"

    def host(self, excluded: tuple[str, ...] = (), metadata: str = METADATA) -> Host:
        more = frozenset(os.environ.get(PHYSICAL_KINDS_TOO, "").split())
        return Host(
            self.root,
            live=self.live,
            excluded=excluded,
            physical_kinds=PHYSICAL_KINDS | more,
            metadata=metadata,
            kubernetes=self.kubernetes,
        )


def place(root: str | None, host_root: str | None, cluster: ClusterOptions = NO_CLUSTER) -> NodePlace:
    """The node that the options select.

    Raises UsageError for options that exclude each other, for a path that is not a directory, and if there is no access
    to Kubernetes.
    """
    if root is not None and host_root is not None:
        raise UsageError("--root is a dead tree and --host-root a live host: give one of them")
    if root is not None and cluster.given():
        raise UsageError(f"--root is a dead tree, files and nothing else: it cannot be combined with {cluster.given()}")
    if root is None:
        live = node_host.live_root(host_root)
        if not _is_directory(live):
            raise UsageError(f"{_no_directory(live)}; --host-root (NODEPREP_HOST_ROOT) needs the root of this host")
        return NodePlace(live, live=True, kubernetes=kubernetes_access.access(cluster))
    if not _is_directory(root):
        raise UsageError(_no_directory(root))
    if not os.access(root, os.R_OK | os.X_OK):
        raise UsageError(f"--root {root!r}: permission denied")
    if not any(_is_directory(f"{root}/{part}") for part in RECORDS):
        raise UsageError(f"--root {root!r} holds none of {', '.join(RECORDS)}: it is not a copy of a node's root")
    return NodePlace(root, live=False)


def _no_directory(path: str) -> str:
    return f"{path}: not a directory" if os.path.lexists(path) else f"{path}: no such directory"


def _is_directory(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises where a directory above may not be entered
