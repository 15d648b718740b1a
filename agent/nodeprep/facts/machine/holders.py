"""Which processes have device nodes of RDMA and GPUs open. Only `check -o wide` asks: it walks through /proc.

What cannot be seen is told, never left out: who repairs a node takes any doubt for "in use".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern
from nodeprep.values import Value

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

PROC = "/proc"
# drivers/infiniband/core (uverbs, umad, issm, ucma), NVIDIA's and AMD's drivers.
NODE = Pattern(
    r"/dev/(infiniband/(uverbs|umad|issm)\d+|infiniband/rdma_cm|nvidia(\d+|ctl|-uvm|-uvm-tools|-nvswitch\w+)|"
    r"nvidia-caps/\S+|kfd|dri/renderD\d+)"
)


class NodeHolder(Value):
    """A process that has a device node open. `command` is its name in the kernel, of 15 characters."""

    node: str
    pid: int
    command: str


class NodeHolders(Value):
    """Who holds which device node. `unseen` counts processes whose open files this user may not see."""

    found: tuple[NodeHolder, ...]
    unseen: int


def observe(host: Host) -> NodeHolders | Unreadable:
    """Who has a device node open now. Unreadable where no process of the node is shown."""
    if not host.live or not host.files.shows_processes:
        return Unreadable(Why.MISSING, PROC, detail="processes of the node are not shown here")
    names = host.files.names(PROC)
    if not isinstance(names, tuple):
        return names or Unreadable(Why.MISSING, PROC)
    found: list[NodeHolder] = []
    unseen = 0
    for pid in filter(str.isdecimal, names):
        nodes = _open_nodes(host.files, pid)
        if isinstance(nodes, Unreadable):
            unseen += 1
        elif nodes:
            command = host.files.text(f"{PROC}/{pid}/comm")
            found += [NodeHolder(node, int(pid), command if isinstance(command, str) else "?") for node in nodes]
    return NodeHolders(tuple(sorted(found, key=lambda one: (one.node, one.pid))), unseen)


def _open_nodes(files: Files, pid: str) -> list[str] | Unreadable:
    """The device nodes that a process has open. One that has ended has none."""
    here = f"{PROC}/{pid}/fd"
    descriptors = files.names(here)
    if not isinstance(descriptors, tuple):
        return descriptors or []
    targets = {files.link(f"{here}/{one}") or "" for one in descriptors}
    return sorted(filter(NODE.fullmatch, targets))
