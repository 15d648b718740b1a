"""The ENI ledger: a row for each MAC address, and what each source says about it.

The sources are the instance metadata, the kernel's links, Terway's Node record, the ENIs that pods hold, the
ErdmaDevice record and the GUIDs of RDMA devices. Links are matched by MAC address only, never by name.
"""

from __future__ import annotations

from functools import cached_property

from nodeprep.door_values import Instance, Interface
from nodeprep.facts.alibaba import erdma
from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster, EniRecord, ErdmaDevice, PodEni, TerwayNode
from nodeprep.facts.network.links import Address, Link, Links
from nodeprep.facts.network.routes import Routes
from nodeprep.facts.rdma.rdma import Rdma, RdmaDevice
from nodeprep.model import CannotLook, Seen, Subject, raw
from nodeprep.pattern import Pattern
from nodeprep.values import Value

ENI_MACS = "00:16:3e:"  # the OUI of every ENI in Alibaba Cloud's documents and in Terway's and cloud-init's sources
BOUND_PHASE = "Bind"  # ENIPhaseBind (terway pkg/apis/network.alibabacloud.com/v1beta1)
MEMBER_TYPE = "Member"  # a VLAN of a trunk ENI: it has no link of its own
HIGH_PERFORMANCE = "HighPerformance"  # NetworkInterfaceTrafficMode of an ERI
# terway plugin/driver/utils: an exclusive ENI comes back from its pod under a random name
RETURNED_LINK = Pattern(r"veth[0-9a-f]{8}")
TABLES = 1000  # terway plugin/datapath: the table of an ENI is 1000 + the index of its link


class EniRow(Value, dict=True):
    """One ENI. Each source is read when its property is read. CannotLook is raised there and not before."""

    mac: str
    metadata: Interface | None
    link: Link | None
    books: Ledger

    @property
    def eni(self) -> str:
        """Its id, "" where the metadata does not tell it: a message about an ENI must not fail because of its name."""
        said = raw(self.metadata)["eni"] if self.metadata else ""
        return said if isinstance(said, str) else ""

    @property
    def name(self) -> str:
        """What people call it: its ENI id, else its link."""
        return self.eni or (self.link.name if self.link else self.mac)

    @property
    def subject(self) -> Subject:
        return Subject(self.mac, None, self.name)

    @property
    def where(self) -> str:
        """Its ENI id, MAC address, link and PCI address, as far as it has them."""
        at = f" at {self.link.bdf}" if self.link and self.link.bdf else ""
        link = f" {self.link.name}{at}" if self.link else ""
        return f"{self.eni or 'the ENI'} ({self.mac}){link}"

    @property
    def is_primary(self) -> bool:
        return self.mac == self.books.instance.primary_mac

    @property
    def record(self) -> EniRecord | None:
        return self.books.record(self.mac)

    @property
    def holder(self) -> PodEni | None:
        return self.books.holder(self.mac)

    @property
    def eri(self) -> ErdmaDevice | None:
        return self.books.eri(self.mac)

    @property
    def device(self) -> RdmaDevice | None:
        return self.books.device(self.mac)

    @property
    def is_eri(self) -> bool:
        """Whether it is an elastic RDMA interface; the metadata has no word for that."""
        if self.device is not None or self.eri is not None:
            return True
        return self.record is not None and self.record.traffic_mode == HIGH_PERFORMANCE

    @property
    def is_returned(self) -> bool:
        """Whether it waits for the next pod that gets a whole ENI: its link is down and has no address."""
        return self.link is not None and RETURNED_LINK.fullmatch(self.link.name) is not None

    @property
    def is_for_pods(self) -> bool:
        """Whether pods get addresses of it: a secondary ENI, no ERI, and in Terway's record where there is one."""
        if self.metadata is None or self.is_primary or self.is_returned or not self.books.has_terway:
            return False
        try:
            eri = self.is_eri
        except CannotLook:  # one record may not be read: an ERI that works shows its RDMA device
            eri = False
        if eri:
            return False
        return self.books.terway is None or self.record is not None

    def addresses(self) -> tuple[Address, ...]:
        """The addresses on its link that others can reach."""
        found = self.books.links.on(self.link.name) if self.link else None
        return tuple(address for address in found or () if address.scope == "global")

    def pods(self) -> tuple[str, ...]:
        """Who uses its link: source addresses that rules send to its table, else pods in Terway's record."""
        routes = self.books.seen.get(Routes)
        table = TABLES + self.link.index if self.link and self.link.index is not None else None
        rules = routes.rules if routes else ()
        sent = tuple(rule.source for rule in rules if rule.source and rule.table == table)
        if sent or self.record is None:
            return sent
        return tuple(address.pod for address in self.record.addresses if address.pod)


class Ledger(Value, dict=True):
    """The sources of an ECS instance, side by side."""

    seen: Seen
    instance: Instance
    links: Links

    @cached_property
    def kernel(self) -> dict[str, Link]:
        """NICs by MAC address."""
        found: dict[str, Link] = {}
        for link in self.links.links:
            if link.physical and link.own_mac:
                found.setdefault(link.own_mac, link)
        return found

    @cached_property
    def rows(self) -> tuple[EniRow, ...]:
        """ENIs that the metadata lists, then NICs that it does not list."""
        listed = {one.mac: EniRow(one.mac, one, self.kernel.get(one.mac), self) for one in self.instance.interfaces}
        others = (EniRow(mac, None, link, self) for mac, link in self.kernel.items() if mac not in listed)
        return (*listed.values(), *others)

    @property
    def attached(self) -> tuple[EniRow, ...]:
        """ENIs that the metadata lists and that have a link."""
        return tuple(row for row in self.rows if row.metadata and row.link)

    @property
    def is_shown_kubernetes(self) -> bool:
        return self.seen.get(Cluster) is not None

    @property
    def has_terway(self) -> bool:
        """Whether Terway is this node's CNI. Files on the node say so, because the API server may be out of reach."""
        terway = self.seen.get(Terway)
        return terway is not None and terway.present

    @property
    def may_be_exclusive(self) -> bool:
        """Whether pods may hold whole ENIs: by the node's label, else by the traces that this mode leaves."""
        cluster = self.seen.get(Cluster)
        if cluster is not None:
            return cluster.node.is_exclusive
        terway = self.seen.get(Terway)
        return (terway is not None and terway.is_exclusive) or any(row.is_returned for row in self.rows)

    @property
    def terway(self) -> TerwayNode | None:
        """Terway's Node record; None without CRD IPAM, and where Kubernetes is not shown."""
        cluster = self.seen.get(Cluster)
        return cluster.terway if cluster else None

    def record(self, mac: str) -> EniRecord | None:
        return next((one for one in self.terway.enis if one.mac.lower() == mac), None) if self.terway else None

    def holder(self, mac: str) -> PodEni | None:
        """Who holds it; of several records, the one that is bound."""
        cluster = self.seen.get(Cluster)
        found = [one for one in cluster.pod_enis if one.mac.lower() == mac] if cluster else []
        return next((one for one in found if one.phase == BOUND_PHASE), found[0] if found else None)

    def eri(self, mac: str) -> ErdmaDevice | None:
        cluster = self.seen.get(Cluster)
        devices = cluster.erdma.devices if cluster and cluster.erdma else ()
        return next((one for one in devices if one.mac.lower() == mac), None)

    def device(self, mac: str) -> RdmaDevice | None:
        """The eRDMA device whose GUID is made of this MAC address."""
        rdma = self.seen.get(Rdma)
        devices = rdma.devices if rdma else ()
        return next((one for one in devices if one.id == VENDOR_DEVICE and erdma.mac_of(one.node_guid) == mac), None)


def ledger(seen: Seen) -> Ledger | None:
    """The ledger of a look. None where this is not an ECS instance."""
    instance = seen[Imds].instance
    return None if instance is None else Ledger(seen, instance, seen[Links])
