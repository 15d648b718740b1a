"""What the device of a drill may be called in findings, and whether anybody uses it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nodeprep.decide.drill_kinds import DrillForm
from nodeprep.decide.idleness import IdleDoubt, Idleness, IdleTarget
from nodeprep.doors.node_host import Host
from nodeprep.facts.network import links
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma import rdma
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Unreadable, raw
from nodeprep.repair import idle_proof


def proved(host: Host, target: IdleTarget | Unreadable, form: DrillForm, ignored: Collection[str]) -> Idleness:
    """The idle proof of a remedy of class S2. `ignored` are the daemons of `idle.ignore`."""
    if isinstance(target, Unreadable):
        return Idleness(doubts=(IdleDoubt(None, target),))
    return idle_proof.prove(host, target, form.header.safety, ignored)


def names(host: Host, known: Iterable[str]) -> tuple[str, ...]:
    """These names with the others of the same device: interface, MAC, PCI address, RDMA device."""
    host.files.forget()
    found = dict.fromkeys(known)
    devices, interfaces = rdma.observe(host), links.observe(host)
    for port in devices.ports if isinstance(devices, Rdma) else ():
        same = _of_port(port)
        if found.keys() & same:
            found |= dict.fromkeys(same)
    for link in interfaces.links if isinstance(interfaces, Links) else ():
        same = _of_link(link)
        if found.keys() & same:
            found |= dict.fromkeys(same)
    return tuple(found)


def _of_port(port: Port) -> tuple[str, ...]:
    shown = raw(port)
    return _texts(port.device, port.name, shown["bdf"], shown["netdev"])


def _of_link(link: Link) -> tuple[str, ...]:
    shown = raw(link)
    macs = [mac.lower() for mac in _texts(shown["mac"], shown["permanent_mac"])]
    return _texts(link.name, shown["bdf"], *macs)


def _texts(*given: object) -> tuple[str, ...]:
    """Those that could be read and say something."""
    return tuple(one for one in given if isinstance(one, str) and one)
