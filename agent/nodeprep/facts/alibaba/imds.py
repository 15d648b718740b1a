"""What the ECS instance metadata service says: the instance, and the ENIs that the cloud attached to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.model import Fact, Shown, Topic, Unreadable, Why, guarded, shown

if TYPE_CHECKING:
    from nodeprep.doors.http.imds import MetadataAnswer
    from nodeprep.doors.http.imds_parse import InterfaceMetadata
    from nodeprep.doors.node_host import Host

PRODUCT = "/sys/class/dmi/id/product_name"
ECS = "Alibaba Cloud ECS"  # cloud-init, DataSourceAliYun.ALIYUN_PRODUCT


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


@shown
class Imds(Shown):
    """`instance` is None where this is no ECS instance: then nobody was asked. It is Unreadable where none answered.

    `milliseconds` is how long the answers took altogether, None where there were none.
    """

    at: float
    instance: Instance | None
    milliseconds: float | None


def observe(host: Host) -> Imds:
    """Asks on ECS instances only: elsewhere its address may be anybody's."""
    at, product = host.now(), host.files.text(PRODUCT)
    if isinstance(product, Unreadable) and product.kind is not Why.MALFORMED:
        return Imds(at, guarded(product), None)
    if product != ECS:
        return Imds(at, None, None)
    told = host.imds()
    if isinstance(told, Unreadable):
        return Imds(at, guarded(told), None)
    return Imds(at, _instance(told), told.milliseconds)


def _instance(told: MetadataAnswer) -> Instance:
    found = told.instance
    return Instance(
        id=guarded(found.id),
        type=guarded(found.type),
        region=guarded(found.region),
        zone=guarded(found.zone),
        primary_mac=found.primary_mac,
        token_required=told.token_required,
        interfaces=tuple(_interface(one) for one in found.interfaces),
    )


def _interface(found: InterfaceMetadata) -> Interface:
    return Interface(
        mac=found.mac,
        eni=guarded(found.eni),
        primary_address=guarded(found.primary_address),
        addresses=guarded(found.addresses),
        ipv6_addresses=guarded(found.ipv6_addresses),
        prefix=guarded(found.prefix),
        gateway=guarded(found.gateway),
        vswitch=guarded(found.vswitch),
        vswitch_cidr=guarded(found.vswitch_cidr),
    )


FACT = Fact(Imds, observe, frozenset({Topic.LINK}), every=300.0, deadline=5.0, live=True, rest=15.0)
