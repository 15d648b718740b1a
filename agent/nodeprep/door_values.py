"""Values that a door makes and a fact holds as they are."""

from __future__ import annotations

from nodeprep.shown import Shown, shown, stands_for_all
from nodeprep.values import Value

# An empty entry of a GID table stays empty until a netdev or an address changes, of which we hear too
# (the notifiers of drivers/infiniband/core/roce_gid_mgmt.c). Most entries that are read are empty.
# The number of the PID namespace of the boot: PROC_PID_INIT_INO (include/linux/proc_ns.h, uapi nsfs.h since 6.17).
FIRST_PID_NAMESPACE = 0xEFFFFFFC
EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


class RoutingRule(Value):
    """A policy rule. `source` and `destination` are prefixes such as "192.168.0.134/32", "" for any.

    `action` is the kernel's word: "lookup", "prohibit", "blackhole", "unreachable", "goto" or "nop".
    `inverted` is "not" before its conditions.
    """

    family: str
    priority: int
    source: str
    destination: str
    iif: str
    oif: str
    mark: int | None
    table: int
    action: str
    inverted: bool = False

    def __str__(self) -> str:
        """As `ip rule` shows it."""
        words = [f"{self.priority}:", "not"] if self.inverted else [f"{self.priority}:"]
        words += ["from", self.source or "all"]
        words += ["to", self.destination] if self.destination else []
        words += ["fwmark", hex(self.mark)] if self.mark else []
        words += ["iif", self.iif] if self.iif else []
        words += ["oif", self.oif] if self.oif else []
        words += ["lookup", str(self.table)] if self.action == "lookup" else [self.action]
        return " ".join(words)


class Chain(Value):
    """A chain that every forwarded IPv4 packet passes; `policy` is "drop" or "accept".

    `family` is nf_tables' word ("ip" for what iptables-nft makes, "inet"), "" for legacy iptables.
    """

    family: str
    table: str
    name: str
    policy: str

    @property
    def command(self) -> str:
        """What shows it."""
        return f"nft list chain {self.family} {self.table} {self.name}" if self.family else "iptables-legacy -S FORWARD"


class RdmaHolder(Value):
    """A process or kernel module that has objects of a kind ("ctx", "pd", "cm_id") on a device, one or more.

    Both `pid` and `kernel_user` are None for a process in another PID namespace and for a zombie.
    """

    device: str
    kind: str
    pid: int | None
    kernel_user: str | None  # "ib_core" always holds a pd, for management datagrams


class NamespaceLink(Value):
    """An interface of some network namespace. Indices hold in that namespace alone.

    `parent` is the device behind it by its name on the bus ("0000:5c:00.0"), None where the kernel does not say: before
    Linux 5.14, and of what software made. `below` is the index of the interface that it rides on or is the peer of;
    `is_below_elsewhere` is whether that one is in another namespace. `master` is the index of the bond or bridge above.
    """

    index: int
    name: str
    kind: str | None
    parent: str | None
    below: int | None
    is_below_elsewhere: bool
    master: int | None


class NetworkNamespace(Value):
    """A network namespace, and who lives in it: "process 4711 (pause)", or "/run/netns/blue" where no process does."""

    holder: str
    is_own: bool
    links: tuple[NamespaceLink, ...]


@shown
class Interface(Shown):
    """An ENI as the metadata lists it, by MAC in lower case.

    `addresses` are its private IPv4 addresses, the primary one included; `prefix` is its length of the netmask.
    """

    mac: str
    eni: str
    primary_address: str
    addresses: tuple[str, ...]
    ipv6_addresses: tuple[str, ...]
    prefix: int | None
    gateway: str
    vswitch: str
    vswitch_cidr: str

    possible = stands_for_all(prefix=(None,), gateway=("",))


@shown
class Instance(Shown):
    """An ECS instance. `primary_mac` is the MAC of its primary ENI.

    `token_required` is whether a request without a token was refused (HttpTokens=required).
    """

    id: str
    type: str
    region: str
    zone: str
    primary_mac: str
    token_required: bool
    interfaces: tuple[Interface, ...]

    def with_mac(self, mac: str | None) -> Interface | None:
        return next((one for one in self.interfaces if one.mac == mac), None)

    @property
    def primary(self) -> Interface | None:
        return self.with_mac(self.primary_mac)
