"""GIDs of an RDMA port: the addresses that its packets carry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.door_values import EMPTY_GID
from nodeprep.model import Shown, Unreadable, Why, guarded, raw, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files

ROCE_V2 = "RoCE v2"  # gid_attrs/types (drivers/infiniband/core/cache.c)
FULL_GID = Pattern(r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}")
IPV4 = "0000:0000:0000:0000:0000:ffff:"
IPV4_LINK_LOCAL = IPV4 + "a9fe:"  # 169.254.0.0/16 (RFC 3927)
LINK_LOCAL = Pattern(r"fe[89ab]")  # fe80::/10 (RFC 4291)
GAP = 16  # empty entries in a row after which the rest of the table (1,024 for rxe) is taken for empty


@shown
class Gid(Shown):
    """A populated entry of a port's GID table. `kind` is "RoCE v2" or "IB/RoCE v1", None where types are not shown."""

    index: int
    value: str
    kind: str | None
    netdev: str | None

    @property
    def link_local(self) -> bool:
        return bool(LINK_LOCAL.match(self.value)) or self.value.startswith(IPV4_LINK_LOCAL)

    @property
    def ipv4(self) -> bool:
        return self.value.startswith(IPV4)

    @property
    def routable(self) -> bool:
        """Whether routers carry it: made of an IPv4 or IPv6 address that is not link-local."""
        return not self.link_local and (self.ipv4 or not self.value.startswith("0000:"))

    @property
    def readable(self) -> bool:
        return not isinstance(raw(self)["value"], Unreadable)

    @property
    def address(self) -> str:
        """The IP address that the GID was made of: dotted for IPv4, else all eight groups."""
        if not self.ipv4:
            return self.value
        packed = bytes.fromhex(self.value.removeprefix(IPV4).replace(":", ""))
        return ".".join(map(str, packed))


def table(files: Files, port: str) -> tuple[Gid, ...] | None | Unreadable:
    """The populated entries of the port at this path, None where no table is shown."""
    names = files.names(f"{port}/gids")
    if isinstance(names, Unreadable):
        return names
    indices = sorted(int(name) for name in names if name.isdecimal()) if isinstance(names, tuple) else []
    found: list[Gid] = []
    empty = 0
    for index in indices:
        value = _value(files, f"{port}/gids/{index}")
        if value is None:
            empty += 1
            if empty >= GAP:
                break
            continue
        empty = 0
        kind = _text(files, f"{port}/gid_attrs/types/{index}")
        netdev = _text(files, f"{port}/gid_attrs/ndevs/{index}")
        found.append(Gid(index, guarded(value), kind, netdev))
    return tuple(found) if indices else None


def _value(files: Files, path: str) -> str | None | Unreadable:
    text = files.text(path)
    if text is None or text == EMPTY_GID:
        return None
    if isinstance(text, Unreadable) or FULL_GID.fullmatch(text):
        return text
    return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no GID")


def _text(files: Files, path: str) -> str | None:
    """EINVAL is how the kernel says "nothing here" for GID attributes."""
    text = files.text(path)
    return text if isinstance(text, str) else None
