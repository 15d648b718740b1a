"""What netfilter does with forwarded packets that none of its rules decides about: the policies of its chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.door_values import Chain
from nodeprep.model import Fact, Shown, Unreadable, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

NF_TABLES = "/sys/module/nf_tables"  # only where it is a module: one that is built in is not looked for
LEGACY = "/proc/net/ip_tables_names"
FILTER = "filter"


@shown
class Netfilter(Shown):
    """`forward` are the chains at the forward hook, of nf_tables and of legacy iptables; empty where none is loaded."""

    at: float
    forward: tuple[Chain, ...]


def observe(host: Host) -> Netfilter | Unreadable:
    names = host.files.text(LEGACY)
    if isinstance(names, Unreadable):
        return names
    told = host.forward_chains(modern=host.files.exists(NF_TABLES), legacy=FILTER in (names or "").split())
    if isinstance(told, Unreadable):
        return told
    return Netfilter(host.now(), told)


FACT = Fact(Netfilter, observe, live=True, doors=("nodeprep.doors.netlink.nftables",))
