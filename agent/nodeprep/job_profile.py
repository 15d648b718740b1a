"""What a kind of job needs of a node: gates, expected inventory, numbers of single checks. Opens no file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

API_VERSION = "nodeprep.io/v1"
LAYERS = ("InfiniBand", "Ethernet", "Unknown")

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")  # a PCI function as the kernel writes it

T = TypeVar("T")
Keys = tuple[str | int, ...]
Reader = Callable[[object, Keys], object]
Table = Mapping[str, tuple[str, Reader]]  # keys of YAML, the fields that they fill, and what may stand there


class ProfileError(Exception):
    """A key of a profile that cannot be meant: where it stands, what was found and what is allowed there."""

    def __init__(self, keys: Keys, found: object, wanted: str) -> None:
        self.keys = keys
        self.found = found
        self.wanted = wanted
        super().__init__(f"{dotted(keys)}: found {found!r}, wanted {wanted}")


def dotted(keys: Keys) -> str:
    """A key for people: `expect.ports.0000:5c:00.0/1.rate`, `gates[2]`."""
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return path.removeprefix(".") or "the file"


@dataclass(frozen=True, slots=True)
class DeviceWant:
    """One expected NIC, by PCI address (or by RDMA device name where the captured tree had no PCI addresses).

    `rdma` is the RDMA device's name, `software` the link type that provides it ("rxe"); `width` is lanes, `speed` GT/s.
    """

    id: str | None = None
    rdma: str | None = None
    software: str | None = None
    driver: str | None = None
    firmware: str | None = None
    board: str | None = None
    width: int | None = None
    speed: float | None = None


@dataclass(frozen=True, slots=True)
class PortWant:
    """One port by `address/number`; `rate` is Gb/s. Not `required` ones may be down, of `bonded` ones all but one."""

    rate: float | None = None
    layer: str | None = None
    netdev: str | None = None
    mtu: int | None = None
    gid: bool | None = None
    required: bool = True
    bonded: bool | None = None


@dataclass(frozen=True, slots=True)
class AtLeast:
    """So many ACTIVE ports of this layer and at least this rate (Gb/s); `suggested` by hardware if nobody asked."""

    count: int
    layer: str | None = None
    rate: float | None = None
    suggested: bool | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What ought to be on the node. `modules` are kernel modules, `verbs` that user space can reach the devices."""

    devices: Mapping[str, DeviceWant] = field(default_factory=dict)
    ports: Mapping[str, PortWant] = field(default_factory=dict)
    at_least: AtLeast | None = None
    modules: tuple[str, ...] = ()
    verbs: bool | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A named set of demands.

    `gates` are the checks that may close the gate; `want` holds numbers by check and key; `exclude` are patterns of
    paths that must not be read; `description` says which jobs need it.
    """

    name: str
    extends: str | None = None
    description: str = ""
    gates: tuple[str, ...] = ()
    expect: Expectation = field(default_factory=Expectation)
    want: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()


NO_PROFILE = Profile("none")


def extend(child: Profile, parent: Profile) -> Profile:
    """The child with what it does not say itself taken from its parent; gates and exclusions add up."""
    own, its = child.expect, parent.expect
    counts = bool(own.ports or own.at_least)  # ports are named or counted, and the child's way holds
    expect = Expectation(
        devices=own.devices or its.devices,
        ports=own.ports if counts else its.ports,
        at_least=own.at_least if counts else its.at_least,
        modules=tuple(dict.fromkeys(its.modules + own.modules)),
        verbs=its.verbs if own.verbs is None else own.verbs,
    )
    checks = dict.fromkeys((*parent.want, *child.want))
    return replace(
        child,
        description=child.description or parent.description,
        gates=tuple(dict.fromkeys(parent.gates + child.gates)),
        expect=expect,
        want={check: {**parent.want.get(check, {}), **child.want.get(check, {})} for check in checks},
        exclude=tuple(dict.fromkeys(parent.exclude + child.exclude)),
    )


def parse(given: object) -> Profile:
    """Read a profile from plain mappings, as YAML gives them. Raises ProfileError."""
    top = as_mapping(given, ())
    known(top, (), ("apiVersion", "kind", "name", "extends", "description", "gates", "expect", "want", "exclude"))
    exactly(top, "apiVersion", API_VERSION)
    exactly(top, "kind", "Profile")
    name = take(top, (), "name", as_text, None)
    if not name:
        raise ProfileError(("name",), top.get("name"), "a name")
    return Profile(
        name=name,
        extends=take(top, (), "extends", as_text, None),
        description=take(top, (), "description", _prose, ""),
        gates=take(top, (), "gates", as_texts, ()),
        expect=take(top, (), "expect", _expectation, Expectation()),
        want=take(top, (), "want", numbers, {}),
        exclude=take(top, (), "exclude", as_texts, ()),
    )


def mapping(profile: Profile) -> dict[str, Any]:
    """The plain mapping that `parse` reads as this profile: what it does not say is left out."""
    expect = profile.expect
    ports = {at: _said(want, PORT) for at, want in expect.ports.items()}
    inventory = {
        "devices": {at: _said(want, DEVICE) for at, want in expect.devices.items()},
        "ports": _said(expect.at_least, AT_LEAST) if expect.at_least else ports,
        "modules": expect.modules,
        "verbs": expect.verbs,
    }
    said = {
        "extends": profile.extends,
        "description": profile.description,
        "gates": profile.gates,
        "expect": {key: value for key, value in inventory.items() if value not in (None, {}, ())},
        "want": {check: dict(one) for check, one in profile.want.items()},
        "exclude": profile.exclude,
    }
    stated = {key: value for key, value in said.items() if value not in (None, "", {}, ())}
    return {"apiVersion": API_VERSION, "kind": "Profile", "name": profile.name} | stated


def numbers(value: object, here: Keys) -> dict[str, Mapping[str, Any]]:
    """Numbers of single checks by check and key; what a check takes is its own affair (config knows)."""
    return {check: as_mapping(one, (*here, check)) for check, one in as_mapping(value, here).items()}


def _expectation(value: object, here: Keys) -> Expectation:
    given = as_mapping(value, here)
    known(given, here, ("devices", "ports", "modules", "verbs"))
    ports = take(given, here, "ports", as_mapping, {})
    counted = ports.get("at-least") is not None
    return Expectation(
        devices=take(given, here, "devices", _devices, {}),
        ports={} if counted else {at: _port(one, (*here, "ports", at)) for at, one in ports.items()},
        at_least=AtLeast(**_fields(ports, (*here, "ports"), AT_LEAST)) if counted else None,
        modules=take(given, here, "modules", as_texts, ()),
        verbs=take(given, here, "verbs", _truth, None),
    )


def _devices(value: object, here: Keys) -> dict[str, DeviceWant]:
    given = as_mapping(value, here)
    return {_place(at, (*here, at)): DeviceWant(**_fields(one, (*here, at), DEVICE)) for at, one in given.items()}


def _port(value: object, here: Keys) -> PortWant:
    place, slash, number = str(here[-1]).rpartition("/")
    if not (place and slash and re.fullmatch("[1-9][0-9]{0,2}", number)):
        raise ProfileError(here, here[-1], 'a port such as "0000:5c:00.0/1", or at-least for a count')
    _place(place, here)
    return PortWant(**_fields(value, here, PORT))


def _place(place: str, here: Keys) -> str:
    if re.fullmatch("[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", place) and not ADDRESS.fullmatch(place):
        raise ProfileError(here, place, 'a PCI address as the kernel writes it, such as "0000:5c:00.0"')
    return place


def _fields(value: object, here: Keys, table: Table) -> dict[str, Any]:
    given = as_mapping(value, here)
    known(given, here, tuple(table))
    return {name: read(given[key], (*here, key)) for key, (name, read) in table.items() if given.get(key) is not None}


def _said(want: object, table: Table) -> dict[str, Any]:
    said = {key: one for key, (name, _) in table.items() if (one := getattr(want, name)) is not None}
    return {key: int(one) if isinstance(one, float) and one.is_integer() else one for key, one in said.items()}


def as_mapping(value: object, here: Keys) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ProfileError(here, value, "keys with values")
    return value


def known(given: Mapping[str, Any], here: Keys, names: tuple[str, ...]) -> None:
    """Raise ProfileError for a key that is none of `names`."""
    for key in given:
        if key not in names:
            raise ProfileError((*here, key), key, "one of " + ", ".join(names))


def exactly(given: Mapping[str, Any], key: str, wanted: str) -> None:
    if given.get(key) != wanted:
        raise ProfileError((key,), given.get(key), wanted)


def take(given: Mapping[str, Any], here: Keys, key: str, read: Callable[[object, Keys], T], default: Any) -> Any:
    """The value of a key; the default where it is not there or empty."""
    return default if given.get(key) is None else read(given[key], (*here, key))


def as_text(value: object, here: Keys) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ProfileError(here, value, "a word (quote it if it looks like a number)")
    return value


def as_texts(value: object, here: Keys) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ProfileError(here, value, "a list of words")
    return tuple(as_text(one, (*here, index)) for index, one in enumerate(value))


def _prose(value: object, here: Keys) -> str:
    """Text over several lines, as one."""
    return as_text(" ".join(value.split()) if isinstance(value, str) else value, here)


def _one(wanted: str, fits: Callable[[Any], bool]) -> Reader:
    def read(value: object, here: Keys) -> object:
        if not fits(value):
            raise ProfileError(here, value, wanted)
        return value

    return read


def _amount(value: object, here: Keys) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e9:
        raise ProfileError(here, value, "a number")
    return float(value)


_count = _one("a whole number", lambda value: type(value) is int and 0 <= value < 1 << 63)
_truth = _one("true or false", lambda value: isinstance(value, bool))
_layer = _one("one of " + ", ".join(LAYERS), lambda value: value in LAYERS)

DEVICE: Table = {
    "id": ("id", as_text),
    "rdma": ("rdma", as_text),
    "software": ("software", as_text),
    "driver": ("driver", as_text),
    "firmware": ("firmware", as_text),
    "board": ("board", as_text),
    "pcie-width": ("width", _count),
    "pcie-speed": ("speed", _amount),
}
PORT: Table = {
    "link-layer": ("layer", _layer),
    "rate": ("rate", _amount),
    "netdev": ("netdev", as_text),
    "mtu": ("mtu", _count),
    "gid": ("gid", _truth),
    "required": ("required", _truth),
    "bonded": ("bonded", _truth),
}
COUNTED: Table = {"at-least": ("count", _count), "suggested": ("suggested", _truth)}
AT_LEAST: Table = {"link-layer": PORT["link-layer"], "rate": PORT["rate"], **COUNTED}
