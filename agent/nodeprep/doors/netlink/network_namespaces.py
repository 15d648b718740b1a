"""Asks rtnetlink for the interfaces of every network namespace of the node. Reads only, and only as root.

A thread of its own enters one namespace after the other (setns(2) moves the thread alone), and ends. Namespaces are
found by the processes in them, and by the mounts in /run/netns that keep one without a process.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from threading import Thread

from nodeprep.door_values import NamespaceLink, NetworkNamespace
from nodeprep.doors.netlink import nlsocket
from nodeprep.doors.netlink.interfaces import IFLA_EXT_MASK, NETLINK_ROUTE, RTEXT_FILTER_SKIP_STATS, LinkCommand
from nodeprep.doors.netlink.nlsocket import Message, Nest, NetlinkSocket

OWN_HOLDER = "this node"
CLONE_NEWNET = 0x40000000  # include/uapi/linux/sched.h
OWN_NAMESPACE = "/proc/thread-self/ns/net"
KEPT_NAMESPACES = ("/run/netns", "/proc/1/root/run/netns")  # where `ip netns add` and CNI runtimes mount them
ENDED = (errno.ENOENT, errno.ESRCH)  # a process that ended meanwhile
NamespaceId = tuple[int, int]  # device and inode


class StackedLinkMessage(Message):
    """struct ifinfomsg, with what says where a link is and what it rides on."""

    fields = (("family", "B"), ("pad", "B"), ("type", "H"), ("index", "i"), ("flags", "I"), ("change", "I"))
    nla_map = (
        (3, "name", "asciiz"),
        (5, "below", "uint32"),
        (10, "master", "uint32"),
        (18, "info", "LinkKind"),
        (37, "below_namespace", "int32"),
        (56, "parent_dev", "asciiz"),
    )

    class LinkKind(Nest):
        """IFLA_LINKINFO."""

        nla_map = ((1, "kind", "asciiz"),)


def read(root: str = "") -> tuple[NetworkNamespace, ...]:
    """Every namespace that /proc below `root` shows, the own one first.

    Raises:
        OSError: a namespace could not be found out, entered or asked. Nothing is left out silently.
    """
    own = _id(OWN_NAMESPACE)
    found = {own: {OWN_NAMESPACE: OWN_HOLDER}}
    for path, holder in (*_of_processes(root), *_kept(root)):
        with suppress(FileNotFoundError, ProcessLookupError):
            one = _id(path)
            if one[0] == own[0]:  # else it is no namespace, but a file below /run/netns
                found.setdefault(one, {})[path] = holder
    visit = _Visit(own, found)
    visit.start()
    visit.join()
    if visit.error is not None:
        raise visit.error
    return tuple(visit.seen)


def read_own() -> NetworkNamespace:
    """The namespace of this thread. Everybody may ask. Raises OSError as `read`."""
    return NetworkNamespace(OWN_HOLDER, True, _links())


class _Visit(Thread):
    """The thread that enters the namespaces. It never comes back to its first one."""

    def __init__(self, own: NamespaceId, found: Mapping[NamespaceId, Mapping[str, str]]) -> None:
        super().__init__(name="network-namespaces", daemon=True)
        self._own, self._found = own, found
        self.seen: list[NetworkNamespace] = []
        self.error: OSError | None = None

    def run(self) -> None:
        try:
            for one, places in self._found.items():
                holder = self._enter(one, places) if one != self._own else OWN_HOLDER
                if holder is not None:
                    self.seen.append(NetworkNamespace(holder, one == self._own, _links()))
        except OSError as error:
            self.error = error

    @staticmethod
    def _enter(one: NamespaceId, places: Mapping[str, str]) -> str | None:
        """Enter by the first place that still leads there. None if none does: then the namespace has ended."""
        for path, holder in places.items():
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if error.errno in ENDED:
                    continue
                raise
            try:
                if _id_of(os.fstat(descriptor)) != one:
                    continue
                if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
                    code = ctypes.get_errno()
                    raise OSError(code, f"setns to the network namespace of {holder}: {os.strerror(code)}")
            finally:
                os.close(descriptor)
            return holder
        return None


def _links() -> tuple[NamespaceLink, ...]:
    body = bytes(16) + nlsocket.attribute(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    with NetlinkSocket(NETLINK_ROUTE) as kernel:
        return tuple(_link(said) for said in kernel.dump(LinkCommand.RTM_GETLINK, StackedLinkMessage, body))


def _link(said: StackedLinkMessage) -> NamespaceLink:
    return NamespaceLink(
        index=said.field("index"),
        name=said.text("name") or "",
        kind=said.nest("info").text("kind"),
        parent=said.text("parent_dev"),
        below=said.number("below") or None,
        is_below_elsewhere=said.number("below_namespace") is not None,
        master=said.number("master"),
    )


def _of_processes(root: str) -> Iterator[tuple[str, str]]:
    for pid in sorted(filter(str.isdecimal, os.listdir(f"{root}/proc")), key=int):
        yield f"{root}/proc/{pid}/ns/net", f"process {pid} ({_command(root, pid)})"


def _command(root: str, pid: str) -> str:
    try:
        with open(f"{root}/proc/{pid}/comm", encoding="utf-8", errors="backslashreplace") as file:
            return file.read().strip()
    except OSError:
        return "?"


def _kept(root: str) -> Iterator[tuple[str, str]]:
    for directory in dict.fromkeys((f"{root}{KEPT_NAMESPACES[0]}", f"{root}{KEPT_NAMESPACES[1]}")):
        try:
            names = sorted(os.listdir(directory))
        except (FileNotFoundError, NotADirectoryError):
            continue
        yield from ((f"{directory}/{name}", f"{KEPT_NAMESPACES[0]}/{name}") for name in names)


def _id(path: str) -> NamespaceId:
    return _id_of(os.stat(path))


def _id_of(found: os.stat_result) -> NamespaceId:
    return found.st_dev, found.st_ino
