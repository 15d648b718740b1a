"""The character devices through which user space reaches RDMA: class entries, and the nodes under /dev."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.model import Fact, Shown, Topic, Unreadable, Why, guarded, shown, stands_for_all
from nodeprep.pattern import Pattern
from nodeprep.shown import unreadable_fields

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

VERBS = "/sys/class/infiniband_verbs"
MAD = "/sys/class/infiniband_mad"
RDMA_CM = "/sys/class/misc/rdma_cm"
CLASS = "/sys/class/infiniband"
NODES = "/dev/infiniband"
NUMBER = Pattern(r"\d{1,4}:\d{1,7}")  # print_dev_t: 12 bits, 20 bits


@shown
class ClassEntry(Shown):
    """A class entry, such as uverbs0 of one RDMA device; `number` is the major:minor that its node must have.

    `device` and `number` are None where a copied tree kept the entry's name only; only umad entries have a `port`.
    """

    name: str
    device: str | None
    port: int | None
    number: str | None

    possible = stands_for_all(number=(None,))


@shown
class DevNode(Shown):
    """A file under /dev/infiniband.

    `number` is major:minor, "" for any other file, None in a copied tree, which keeps no devices.
    """

    name: str
    number: str | None
    mode: int | None

    possible = stands_for_all(mode=(None,))


@shown
class DevNodes(Shown):
    """`verbs` and `mads` are None where the class is not there at all, `nodes` in a dead tree without the directory.

    `live` is False for a dead tree: what is not in it may only not have been copied. `rdma_cm` is the major:minor that
    the connection manager's node must have, None where there is none.
    """

    at: float
    live: bool
    verbs: tuple[ClassEntry, ...] | None
    verbs_abi: str | None
    mads: tuple[ClassEntry, ...] | None
    rdma_cm: str | None
    nodes: tuple[DevNode, ...] | None

    possible = stands_for_all(mads=(None,), rdma_cm=(None,), verbs_abi=(None,))


def observe(host: Host) -> DevNodes:
    files = host.files
    return DevNodes(
        at=host.now(),
        live=host.live,
        verbs=guarded(_entries(files, VERBS, "uverbs", ported=False)),
        verbs_abi=guarded(files.text(f"{VERBS}/abi_version")),
        mads=guarded(_entries(files, MAD, "umad", ported=True)),
        rdma_cm=guarded(_number(files, f"{RDMA_CM}/dev")),
        nodes=guarded(_nodes(host)),
    )


def _entries(files: Files, directory: str, prefix: str, *, ported: bool) -> tuple[ClassEntry, ...] | None | Unreadable:
    """An entry stays as it is as long as its device, so between events each class is read once."""
    names = files.names(directory)
    if not isinstance(names, tuple):
        return names
    own = [name for name in names if name.startswith(prefix)]
    return files.kept(
        (_entries, directory),
        (names, files.names(CLASS)),
        lambda: tuple(_entry(files, f"{directory}/{name}", name, ported=ported) for name in own),
        lambda entries: not any(map(unreadable_fields, entries)),
    )


def _entry(files: Files, here: str, name: str, *, ported: bool) -> ClassEntry:
    return ClassEntry(
        name=name,
        device=guarded(_owner(files, f"{here}/ibdev")),
        port=guarded(files.number(f"{here}/port")) if ported else None,
        number=guarded(_number(files, f"{here}/dev")),
    )


def _owner(files: Files, path: str) -> str | None | Unreadable:
    """The RDMA device of a class entry. A name that no device has is damage."""
    name = files.text(path)
    if not isinstance(name, str) or (name and files.exists(f"{CLASS}/{name}")) or not files.exists(CLASS):
        return name
    return Unreadable(Why.MALFORMED, path, detail=f"{name[:40]!r} is no RDMA device here")


def _number(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if not isinstance(text, str) or NUMBER.fullmatch(text):
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no device number")


def _nodes(host: Host) -> tuple[DevNode, ...] | None | Unreadable:
    names = host.files.names(NODES)
    if isinstance(names, Unreadable):
        return names
    if names is None:
        return () if host.live else None
    return tuple(node for name in names if (node := _node(host, name)) is not None)


def _node(host: Host, name: str) -> DevNode | None:
    found = host.files.node(f"{NODES}/{name}")
    if found is None:
        return None
    if not isinstance(found, Unreadable):
        return DevNode(name, f"{found.major}:{found.minor}" if found.kind == "c" else "", found.mode)
    entry = host.files.entry(f"{NODES}/{name}")
    if entry is not None and not isinstance(entry, Unreadable) and entry.is_directory:
        return None  # newer udev rules keep directories of links beside the nodes (by-path, by-ibdev)
    if not host.live:
        return DevNode(name, None, None)
    if found.kind is Why.MALFORMED:
        return DevNode(name, "", None)
    return DevNode(name, guarded(found), guarded(found))


FACT = Fact(DevNodes, observe, woken_by=frozenset({Topic.RDMA, Topic.DEVICE}), every_heard=60.0)
