"""How Terway routes the pods of shared ENIs: a table for each ENI, two rules for each pod."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.door_values import Instance
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.kubernetes.cluster import Cluster, TerwayNode
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.network.routes import MAIN, Route, Routes
from nodeprep.model import NODE, CannotLook, Seen, Shown, Subject, Unreadable, raw
from nodeprep.values import Value

# Terway plugin/datapath/policy_route_linux.go and plugin/driver/utils/utils_linux.go (GetRouteTableID)
TO_POD, FROM_POD = 512, 2048  # priorities
FIRST, LAST = 1000, 1999  # tables; the number of an ENI's is 1000 + ifindex


class EniTables(Value):
    """What is needed to tell which ENI a pod's address or a table belongs to, as far as this look shows it.

    `no_links`, `no_instance` and `no_records` say why one of these could not be read, None where it could, where this
    look has none, or where nobody gave an access to it.
    """

    routes: Routes
    links: Links | None
    instance: Instance | None
    records: TerwayNode | None
    no_links: Unreadable | None = None
    no_instance: Unreadable | None = None
    no_records: Unreadable | None = None

    def link_of_table(self, table: int) -> Link | None:
        """The interface whose table this is."""
        found = self.links.links if self.links else ()
        return next((link for link in found if link.index == table - FIRST), None)

    def table_of(self, address: str) -> int | None:
        """The table that the pod's rule names, None if there is no such rule."""
        rules = self.routes.from_pod(address, FROM_POD)
        return rules[0].table if rules else None

    def mac_of(self, address: str) -> str | None:
        """The ENI that has this address, by what the cloud or Terway says."""
        for record in self.records.enis if self.records else ():
            if any(one.address == address for one in record.addresses):
                return record.mac
        for interface in self.instance.interfaces if self.instance else ():
            known = raw(interface)["addresses"]
            if not isinstance(known, Unreadable) and address in known:
                return interface.mac
        return None

    @property
    def no_addresses(self) -> Unreadable | None:
        """Why it is not known which addresses an ENI has, None where that is known of each."""
        known = (raw(interface)["addresses"] for interface in (self.instance.interfaces if self.instance else ()))
        return next((one for one in known if isinstance(one, Unreadable)), None)

    def cannot_tell(self, address: str) -> Unreadable | None:
        """Why it is not known which ENI has this address: what was not read may say so. None where that is all known.

        A rule alone does not tell: what leaves by another ENI than its own may do so by a wrong rule.
        """
        return self.no_links if self.mac_of(address) else self.no_instance or self.no_addresses or self.no_records

    def link_of(self, address: str) -> Link | None:
        """The interface of the ENI that has this address, by what the cloud or Terway says."""
        mac = self.mac_of(address)
        found = self.links.links if self.links and mac else ()
        return next((link for link in found if link.physical and link.own_mac == mac), None)

    def subject(self, address: str, table: int | None) -> Subject:
        """The ENI that a pod's address belongs to, else the one whose table its rule names, else the node."""
        mac, link = self.mac_of(address), self.link_of(address)
        if link is None and mac is None and table is not None:
            link = self.link_of_table(table)
        return of(link) if link else Subject(mac, None, f"ENI {mac}") if mac else NODE


def of(link: Link) -> Subject:
    return Subject(link.own_mac or link.name, None, f"{link.name} ({link.own_mac})" if link.own_mac else link.name)


def astray(routes: Routes, links: Links | None) -> Iterator[tuple[str, Route | None]]:
    """Addresses that have both of Terway's rules and no route to a pod: no host route, or one to a NIC or to nowhere.

    Such a pod is not among those that `Routes` asks the kernel about: those are found by their host routes.
    """
    here = [route for route in routes.table(MAIN) if route.family == "inet" and route.destination.endswith("/32")]
    first: dict[str, Route] = {}
    for route in sorted(here, key=lambda route: route.metric):
        first.setdefault(route.destination, route)
    physical = {link.name for link in links.links if link.physical} if links else set()
    inward = {rule.destination for rule in routes.rules if rule.priority == TO_POD and rule.family == "inet"}
    outward = {rule.source for rule in routes.rules if rule.priority == FROM_POD and rule.family == "inet"}
    for prefix in sorted(one for one in inward & outward if one.endswith("/32")):
        way = first.get(prefix)
        if way is None or way.kind != "unicast" or way.oif in physical:
            yield prefix.removesuffix("/32"), way


def eni_tables(seen: Seen) -> EniTables:
    """Records that could not be read are left out and named."""
    instance, no_instance = _shown(seen, Imds, "instance")
    records, no_records = _shown(seen, Cluster, "terway")
    links, no_links = _shown(seen, Links)
    return EniTables(
        routes=seen[Routes],
        links=links if isinstance(links, Links) else None,
        instance=instance if isinstance(instance, Instance) else None,
        records=records if isinstance(records, TerwayNode) else None,
        no_links=no_links,
        no_instance=no_instance,
        no_records=no_records,
    )


def _shown(seen: Seen, kind: type, field: str = "") -> tuple[object, Unreadable | None]:
    """A fact, or a field of it, and why it could not be read."""
    try:
        fact: object = seen.get(kind)
    except CannotLook as cannot:
        return None, _failed(cannot.blind)
    value = raw(fact)[field] if isinstance(fact, Shown) and field else fact
    return (None, _failed(value)) if isinstance(value, Unreadable) else (value, None)


def _failed(blind: Unreadable) -> Unreadable | None:
    return None if blind.not_recorded or blind.not_asked else blind
