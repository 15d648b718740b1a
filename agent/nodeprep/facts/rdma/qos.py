"""Lossless-Ethernet settings of RoCE netdevs: PFC and DSCP by DCB netlink, trust and ECN by files of OFED drivers."""

from __future__ import annotations

from errno import ENODEV
from typing import TYPE_CHECKING

from nodeprep.facts.machine import pci
from nodeprep.facts.rdma.rdma import CLASS
from nodeprep.model import Fact, Shown, Unreadable, derived, guarded, shown, stands_for_all

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

NET = "/sys/class/net"
PRIORITIES = range(8)


@shown
class NetdevQos(Shown):
    """One netdev. None everywhere means that its driver does not show the setting.

    `pfc` and `ecn` hold the priorities that have it on (`ecn`: as notification and as reaction point both);
    `trust` is "pcp" or "dscp"; `dscp` maps DSCP values to priorities (APP table).
    """

    netdev: str
    bdf: str
    trust: str | None
    pfc: tuple[int, ...] | None
    ecn: tuple[int, ...] | None
    dscp: tuple[tuple[int, int], ...] | None

    possible = stands_for_all(trust=(None,), pfc=(None,), ecn=(None,), dscp=(None,))


@shown
class QosSettings(Shown):
    """The netdevs under RDMA devices. `asked` is False in a dead tree: what only drivers tell cannot be in it."""

    at: float
    asked: bool
    netdevs: tuple[NetdevQos, ...]

    def of(self, netdev: str | None) -> NetdevQos | None:
        return self._by_netdev.get(netdev)

    @derived
    def _by_netdev(self) -> dict[str | None, NetdevQos]:
        return {qos.netdev: qos for qos in reversed(self.netdevs)}


def observe(host: Host) -> QosSettings | Unreadable:
    files = host.files
    devices = files.names(CLASS)
    if isinstance(devices, Unreadable):
        return devices
    netdevs = sorted({netdev for device in devices or () for netdev in _netdevs(files, device)})
    return QosSettings(host.now(), host.live, tuple(_qos(host, netdev) for netdev in netdevs))


def _netdevs(files: Files, device: str) -> set[str]:
    """Those on the same function, under a software device, and the one that GIDs name; of a bond its legs too."""
    here = f"{CLASS}/{device}"
    own, ports = files.names(f"{here}/device/net"), files.names(f"{here}/ports")
    named = [files.text(f"{here}/parent")]
    named += [
        files.text(f"{here}/ports/{port}/gid_attrs/ndevs/0") for port in (ports if isinstance(ports, tuple) else ())
    ]
    found = {*(own if isinstance(own, tuple) else ()), *(name for name in named if isinstance(name, str) and name)}
    legs = (files.text(f"{NET}/{netdev}/bonding/slaves") for netdev in found)
    return found | {leg for text in legs if isinstance(text, str) for leg in text.split()}


def _qos(host: Host, netdev: str) -> NetdevQos:
    here = f"{NET}/{netdev}"
    pfc, dscp = _dcb(host, netdev)
    return NetdevQos(
        netdev=netdev,
        bdf=pci.address_in(host.files.place(f"{here}/device")) or "",
        trust=guarded(host.files.text(f"{here}/qos/trust")),
        pfc=guarded(pfc),
        ecn=guarded(_ecn(host.files, f"{here}/ecn")),
        dscp=guarded(dscp),
    )


Priorities = tuple[int, ...] | None | Unreadable
DscpMap = tuple[tuple[int, int], ...] | None | Unreadable


def _dcb(host: Host, netdev: str) -> tuple[Priorities, DscpMap]:
    told = host.dcb(netdev) if host.live else None
    if isinstance(told, Unreadable):
        # A netdev that moved into a pod meanwhile is not broken.
        return (None, None) if told.errno == ENODEV else (told, told)
    if told is None:
        return None, None
    pfc = None if told.pfc is None else tuple(priority for priority in PRIORITIES if told.pfc >> priority & 1)
    return pfc, tuple(sorted((app.protocol, app.priority) for app in told.apps if app.selector == "dscp"))


def _ecn(files: Files, here: str) -> Priorities:
    if files.entry(here) is None:
        return None
    shown_at_all = False
    on = []
    for priority in PRIORITIES:
        values = [files.number(f"{here}/{point}/enable/{priority}") for point in ("roce_np", "roce_rp")]
        unread = next((value for value in values if isinstance(value, Unreadable)), None)
        if unread is not None:
            return unread
        shown_at_all = shown_at_all or values != [None, None]
        if values == [1, 1]:
            on.append(priority)
    return tuple(on) if shown_at_all else None


FACT = Fact(QosSettings, observe, every=60.0, doors=("nodeprep.doors.netlink.interfaces",))
