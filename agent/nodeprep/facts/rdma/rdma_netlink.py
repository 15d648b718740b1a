"""RDMA devices as the kernel tells them over netlink: the second source beside sysfs, and the only one for users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.door_values import RdmaHolder
from nodeprep.model import Fact, Shown, Topic, Unreadable, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host


@shown
class NetlinkPort(Shown):
    """A port by netlink. `state` and `physical` are the kernel's numbers; counters are None where none are offered."""

    device: str
    number: int
    state: int | None
    physical: int | None
    netdev: str | None


@shown
class RdmaNetlink(Shown):
    """`offered` is False where this kernel has no RDMA netlink. `contexts` counts open user contexts by device.

    `protocols` and `guids` are by device name; `denied` names what the kernel would not tell this user.
    """

    at: float
    offered: bool
    devices: tuple[str, ...]
    protocols: tuple[tuple[str, str], ...]
    guids: tuple[tuple[str, str], ...]
    ports: tuple[NetlinkPort, ...]
    contexts: tuple[tuple[str, int], ...]
    holders: tuple[RdmaHolder, ...]
    netns_mode: str | None
    denied: tuple[str, ...]

    def in_use(self, device: str) -> bool:
        """Whether a user process has this device open."""
        return any(count > 0 for name, count in self.contexts if name == device)


def observe(host: Host) -> RdmaNetlink | Unreadable:
    told = host.rdma_netlink()
    if isinstance(told, Unreadable):
        return told
    if told is None:
        return RdmaNetlink(host.now(), False, (), (), (), (), (), (), None, ())
    summaries = {summary.device: dict(summary.counts) for summary in told.resources}
    return RdmaNetlink(
        at=host.now(),
        offered=True,
        devices=tuple(device.name for device in told.devices),
        protocols=tuple((device.name, device.protocol) for device in told.devices if device.protocol),
        guids=tuple((device.name, device.node_guid) for device in told.devices if device.node_guid),
        ports=tuple(
            NetlinkPort(device.name, port.number, port.state, port.physical, port.netdev)
            for device in told.devices
            for port in device.ports
        ),
        contexts=tuple((name, counts.get("ctx", 0)) for name, counts in sorted(summaries.items())),
        holders=told.holders,
        netns_mode=told.netns_mode,
        denied=told.denied,
    )


FACT = Fact(
    RdmaNetlink,
    observe,
    woken_by=frozenset({Topic.RDMA, Topic.LINK}),
    live=True,
    doors=("nodeprep.doors.netlink.nldev",),
    every_heard=60.0,
)
