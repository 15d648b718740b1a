"""The answers of the metadata service as values. It writes words, addresses and lists in several forms."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import TypeVar

from nodeprep.door_values import Instance, Interface
from nodeprep.model import Unreadable, Why, guarded
from nodeprep.pattern import Pattern

T = TypeVar("T", bound=ipaddress.IPv4Address | ipaddress.IPv6Address)
Tree = Mapping[str, object]
MAC = Pattern(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
WORD = Pattern(r"[!-~]{1,128}")  # identifiers, types and zones, without control characters
MOST_INTERFACES, MOST_ADDRESSES = 128, 1024  # limits for wrong answers; every quota is far below
HERE = "metadata"  # the path of a key, for people


def instance(tree: Tree, *, token_required: bool) -> Instance | Unreadable:
    """The instance that a tree of metadata describes.

    Records are compared by MAC. So without a valid MAC of each interface all of it is Unreadable.
    """
    primary = mac_of(tree.get("mac"), "mac")
    if isinstance(primary, Unreadable):
        return primary
    macs = under(tree, "network", "interfaces", "macs")
    if not macs:
        return Unreadable(Why.MALFORMED, f"{HERE} network/interfaces/macs", detail="lists no interface")
    interfaces: list[Interface] = []
    for name, entry in macs.items():
        mac = mac_of(name, "network/interfaces/macs")
        if isinstance(mac, Unreadable) or not isinstance(entry, Mapping) or len(interfaces) == MOST_INTERFACES:
            strange = Unreadable(
                Why.MALFORMED, f"{HERE} network/interfaces/macs", detail="an entry that is no interface"
            )
            return mac if isinstance(mac, Unreadable) else strange
        interfaces.append(_interface(mac, entry))
    return Instance(
        id=guarded(_word(tree.get("instance-id"), "instance-id")),
        type=guarded(_word((under(tree, "instance") or {}).get("instance-type"), "instance/instance-type")),
        region=guarded(_word(tree.get("region-id"), "region-id")),
        zone=guarded(_word(tree.get("zone-id"), "zone-id")),
        primary_mac=primary,
        token_required=token_required,
        interfaces=tuple(interfaces),
    )


def _interface(mac: str, entry: Tree) -> Interface:
    at = f"network/interfaces/macs/{mac}"
    return Interface(
        mac=mac,
        eni=guarded(_word(entry.get("network-interface-id"), f"{at}/network-interface-id")),
        primary_address=guarded(_address(entry.get("primary-ip-address"), f"{at}/primary-ip-address")),
        addresses=guarded(_addresses(entry.get("private-ipv4s"), f"{at}/private-ipv4s")),
        ipv6_addresses=guarded(_ipv6_addresses(entry.get("ipv6s"), f"{at}/ipv6s")),
        prefix=guarded(_prefix(entry.get("netmask"), f"{at}/netmask")),
        gateway=guarded(_address(entry.get("gateway"), f"{at}/gateway")),
        vswitch=guarded(_word(entry.get("vswitch-id"), f"{at}/vswitch-id")),
        vswitch_cidr=guarded(_word(entry.get("vswitch-cidr-block"), f"{at}/vswitch-cidr-block")),
    )


def under(tree: Tree, *keys: str) -> Tree | None:
    """The part of the tree below these keys; None if there is none."""
    here: object = tree
    for key in keys:
        here = here.get(key) if isinstance(here, Mapping) else None
    return here if isinstance(here, Mapping) else None


def first_line(text: str) -> str:
    """A value as Terway reads it: its first line without slashes at the ends."""
    return text.partition("\n")[0].strip().strip("/")


def mac_of(value: object, key: str) -> str | Unreadable:
    """A MAC in lower case. In lists it has a slash at its end."""
    mac = first_line(value).lower() if isinstance(value, str) else ""
    return mac if MAC.fullmatch(mac) else _not_meant(value, key, "a MAC address")


def _word(value: object, key: str) -> str | Unreadable:
    word = first_line(value) if isinstance(value, str) else ""
    return word if WORD.fullmatch(word) else _not_meant(value, key, "a word")


def _address(value: object, key: str) -> str | Unreadable:
    text = first_line(value) if isinstance(value, str) else ""
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        return _not_meant(value, key, "an IPv4 address")


def _addresses(value: object, key: str) -> tuple[str, ...] | Unreadable:
    """A list, or its text in JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return _not_meant(value, key, "a list in JSON")
    if not isinstance(value, list) or not value:
        return _not_meant(value, key, "a list of addresses")
    return _all_of(value, ipaddress.IPv4Address, key, "IPv4 addresses")


def _ipv6_addresses(value: object, key: str) -> tuple[str, ...] | Unreadable:
    """`[fd00::1,fd00::2]`, which is not JSON. Without addresses there is no such key."""
    if isinstance(value, str):
        inner = first_line(value).removeprefix("[").removesuffix("]")
        value = [one.strip(" \"'") for one in inner.split(",") if one.strip()]
    if value is None:
        return ()
    if not isinstance(value, list):
        return _not_meant(value, key, "a list of addresses")
    return _all_of(value, ipaddress.IPv6Address, key, "IPv6 addresses")


def _all_of(values: list[object], kind: type[T], key: str, wanted: str) -> tuple[str, ...] | Unreadable:
    if len(values) > MOST_ADDRESSES:
        return Unreadable(Why.MALFORMED, f"{HERE} {key}", detail=f"lists {len(values)} {wanted}")
    try:
        # The library also reads numbers as addresses. Here only text is an address.
        return tuple(str(kind(value if isinstance(value, str) else "")) for value in values)
    except ValueError:
        return _not_meant(values, key, wanted)


def _prefix(value: object, key: str) -> int | None | Unreadable:
    """The length of a netmask such as 255.255.255.0."""
    if value is None:
        return None
    mask = _address(value, key)
    if isinstance(mask, Unreadable):
        return mask
    bits = f"{int(ipaddress.IPv4Address(mask)):032b}"
    return _not_meant(value, key, "a netmask") if "01" in bits else bits.count("1")


def _not_meant(value: object, key: str, wanted: str) -> Unreadable:
    if value is None:
        return Unreadable(Why.MISSING, f"{HERE} {key}", detail="not told")
    return Unreadable(Why.MALFORMED, f"{HERE} {key}", detail=f"{value!a:.60} is not {wanted}")
