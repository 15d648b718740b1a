"""The order of the netdevs of one PCI function: those of its hardware first, and never by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files

# phys_port_name of a representor (include/net/devlink.h): it stands for the port of a virtual function or subfunction.
REPRESENTOR = Pattern(r"(?:c\d+)?pf\d+(?:vf|sf)\d+")


def by_parent(files: Files, home: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The netdevs in the directory `home`: each parent before its children, then in the order of their creation.

    IPoIB children (`ip link add link ib0 ... type ipoib pkey`) and representors lie in the same directory as the netdev
    of the port, with the same dev_port. A single one is not asked.
    """
    if len(names) < 2:
        return names
    return tuple(sorted(names, key=lambda name: (_is_child(files, f"{home}/{name}"), _index(files, f"{home}/{name}"))))


def of_port(files: Files, home: str, names: tuple[str, ...]) -> str | None:
    """Which of these, which have the same dev_port, is the netdev of the port. None if nothing tells."""
    own = [name for name in by_parent(files, home, names) if not _is_child(files, f"{home}/{name}")]
    known = [name for name in own if _index(files, f"{home}/{name}") < NO_INDEX]
    # Several parents are not expected. The first that was made is the driver's own.
    return own[0] if len(own) == 1 else next(iter(known), None)


NO_INDEX = 1 << 32  # higher than any ifindex


def _is_child(files: Files, netdev: str) -> bool:
    """By IFLA_LINK, which is the parent's index (ipoib_get_iflink), or by what only a child has."""
    link, index = files.number(f"{netdev}/iflink"), files.number(f"{netdev}/ifindex")
    linked = isinstance(link, int) and isinstance(index, int) and link != index
    port = files.text(f"{netdev}/phys_port_name")
    represents = isinstance(port, str) and REPRESENTOR.fullmatch(port) is not None
    return linked or represents or files.exists(f"{netdev}/parent")


def _index(files: Files, netdev: str) -> int:
    index = files.number(f"{netdev}/ifindex")
    return index if isinstance(index, int) else NO_INDEX
