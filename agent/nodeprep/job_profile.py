"""What a kind of job needs of a node: gates, expected inventory, numbers of single checks. Opens no file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nodeprep import typed_yaml
from nodeprep.link_layers import LAYERS
from nodeprep.pattern import Pattern
from nodeprep.typed_yaml import MAPPING, TEXT, InvalidValueError, Keys, Table, ValueKind
from nodeprep.values import Value, field, replace

API_VERSION = "nodeprep.io/v1"

EXPECTED_NIC, PORT_GATES = "pci.expected-nic", ("port.present", "port.state")  # who says that what is named is there
PORT_BOND, EXPECTED_GPU = "port.bond", "gpu.expected"
# k8s.io/kubernetes pkg/apis/core/v1/helper, IsExtendedResourceName: a name with a domain.
RESOURCE = Pattern(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
ADDRESS = Pattern(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")  # a PCI function as the kernel writes it


class DeviceWant(Value):
    """One expected NIC, by PCI address (or by RDMA device name where the captured tree had no PCI addresses).

    `rdma` is the RDMA device's name, `software` the link type that provides it ("rxe"). `width` is in lanes, `speed` in
    GT/s.
    """

    id: str | None = None
    rdma: str | None = None
    software: str | None = None
    driver: str | None = None
    firmware: str | None = None
    board: str | None = None
    width: int | None = None
    speed: float | None = None


class PortWant(Value):
    """One port by `address/number`; `rate` is in Gb/s.

    A port that is not `required` may be down. Of the `bonded` ports, all but one may be down. In a captured profile
    `bonds` says which bond that is.
    """

    rate: float | None = None
    layer: str | None = None
    netdev: str | None = None
    mtu: int | None = None
    gid: bool | None = None
    required: bool = True
    bonded: bool | None = None


class BondWant(Value):
    """One bond under RDMA ports. The operator chose its name, so it is found again by its legs.

    `legs` are the PCI functions of its legs, or their netdevs where no address was shown. `carrier`: at least one leg
    must have a carrier. `mtu` is in bytes. `gid`: one of its ports has a routable GID. `lag`: one RDMA device carries
    all legs (RoCE LAG).
    """

    legs: tuple[str, ...] = ()
    carrier: bool | None = None
    mtu: int | None = None
    gid: bool | None = None
    lag: bool | None = None


class GpuWant(Value):
    """One expected GPU, by PCI address; `id` is its vendor and device, such as "10de:2330"."""

    id: str | None = None


class GpuCount(Value):
    """At least `count` GPUs; of this model, if `id` says one."""

    count: int
    id: str | None = None


class AtLeast(Value):
    """At least `count` ACTIVE ports of this layer, each with at least this rate (Gb/s).

    `suggested`: the hardware chose the profile, and nobody asked for this count.
    """

    count: int
    layer: str | None = None
    rate: float | None = None
    suggested: bool | None = None


class Expectation(Value):
    """What should be on the node. `modules` are kernel modules; `verbs`: user space must reach the devices.

    `any_slot`: on a sibling whose firmware numbers its buses in another way the devices lie at other addresses.
    `resources` are extended resources that the node must offer to pods, with how many: ("nvidia.com/gpu", 8).
    """

    devices: Mapping[str, DeviceWant] = field(default_factory=dict)
    ports: Mapping[str, PortWant] = field(default_factory=dict)
    at_least: AtLeast | None = None
    modules: tuple[str, ...] = ()
    verbs: bool | None = None
    bonds: Mapping[str, BondWant] = field(default_factory=dict)
    any_slot: bool = False
    resources: Mapping[str, int] = field(default_factory=dict)
    gpus: Mapping[str, GpuWant] = field(default_factory=dict)
    gpu_count: GpuCount | None = None


class Profile(Value):
    """A named set of demands.

    `gates` are the checks that may close the gate; `want` holds numbers by check and key; `exclude` are patterns of
    paths that must not be read; `description` says which jobs need it. `rests_on` are gates without which it says
    nothing of a node (docs/adr/0033). `want_by` says who states a number of `want`, if it is not this profile: one that
    it extends, or the configuration. `expect_by` says who states what `expect` names, "" for the profile itself.
    `excused` are patterns of devices of which an operator waived something here: a dead one tells nothing about the
    others. These three are not written in a profile.
    """

    name: str
    extends: str | None = None
    description: str = ""
    gates: tuple[str, ...] = ()
    expect: Expectation = field(default_factory=Expectation)
    want: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    rests_on: tuple[str, ...] = ()
    want_by: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    excused: tuple[str, ...] = ()
    expect_by: str = ""

    @property
    def inventory_by(self) -> str:
        """Who wants the devices and ports, for messages: the profile, and where another file or entry states them."""
        return f"profile {self.name} ({self.expect_by})" if self.expect_by else f"profile {self.name}"

    @property
    def needed_gates(self) -> tuple[str, ...]:
        """The gates without which it says nothing of a node: `rests_on`, and those of what it names by address."""
        names = [EXPECTED_NIC] if any(ADDRESS.fullmatch(at) for at in self.expect.devices) else []
        names += PORT_GATES if any(want.required or want.bonded for want in self.expect.ports.values()) else []
        names += [PORT_BOND] if self.expect.bonds else []
        names += [EXPECTED_GPU] if self.expect.gpus or self.expect.gpu_count else []
        return tuple(gate for gate in dict.fromkeys((*self.rests_on, *names)) if gate in self.gates)


NO_PROFILE = Profile("none")


def stated_by(profile: Profile, check: str) -> dict[str, str]:
    """Who states each number of a check, by key: `profile NAME`, or a file of the configuration."""
    known = profile.want_by.get(check, {})
    return {key: known.get(key, f"profile {profile.name}") for key in profile.want.get(check, {})}


def extend(child: Profile, parent: Profile) -> Profile:
    """The child; what it does not state comes from the parent. Gates and exclusions of both count.

    `rests_on` of the child replaces the parent's: a child may be about other hardware.
    """
    own, its = child.expect, parent.expect
    counts = bool(own.ports or own.at_least)  # if the child names or counts ports, the parent's ports do not count
    counts_gpus = bool(own.gpus or own.gpu_count)
    expect = Expectation(
        devices=own.devices or its.devices,
        ports=own.ports if counts else its.ports,
        at_least=own.at_least if counts else its.at_least,
        modules=tuple(dict.fromkeys(its.modules + own.modules)),
        verbs=its.verbs if own.verbs is None else own.verbs,
        bonds=own.bonds or its.bonds,
        any_slot=own.any_slot if own.devices or own.ports or own.gpus else its.any_slot,
        resources={**its.resources, **own.resources},
        gpus=own.gpus if counts_gpus else its.gpus,
        gpu_count=own.gpu_count if counts_gpus else its.gpu_count,
    )
    checks = dict.fromkeys((*parent.want, *child.want))
    return replace(
        child,
        description=child.description or parent.description,
        gates=tuple(dict.fromkeys(parent.gates + child.gates)),
        expect=expect,
        want={check: {**parent.want.get(check, {}), **child.want.get(check, {})} for check in checks},
        exclude=tuple(dict.fromkeys(parent.exclude + child.exclude)),
        rests_on=child.rests_on or parent.rests_on,
        want_by=_stated_elsewhere(child, parent),
        expect_by=child.expect_by if own.devices or counts or counts_gpus else parent.expect_by,
    )


def _stated_elsewhere(child: Profile, parent: Profile) -> dict[str, dict[str, str]]:
    """`want_by` of the child that extends the parent: who states what the child does not state itself."""
    own, found = f"profile {child.name}", {}
    for check in dict.fromkeys((*parent.want, *child.want)):
        stated = {**stated_by(parent, check), **stated_by(child, check)}
        found[check] = {key: by for key, by in stated.items() if by != own}
    return {check: stated for check, stated in found.items() if stated}


def parse(given: object) -> Profile:
    """Read a profile from plain mappings, as YAML gives them. Raises InvalidValueError."""
    return PROFILE.read(given, ())


def mapping(profile: Profile) -> dict[str, Any]:
    """The plain mapping that `parse` reads as this profile. Values that it does not state are left out."""
    expect = profile.expect
    ports = {at: _said(want, PORT) for at, want in expect.ports.items()}
    gpus = {at: _said(want, GPU) for at, want in expect.gpus.items()}
    inventory = {
        "devices": {at: _said(want, DEVICE) for at, want in expect.devices.items()},
        "ports": _said(expect.at_least, AT_LEAST) if expect.at_least else ports,
        "bonds": {name: _said(want, BOND) for name, want in expect.bonds.items()},
        "resources": dict(expect.resources),
        "gpus": _said(expect.gpu_count, GPU_COUNT) if expect.gpu_count else gpus,
        "modules": expect.modules,
        "verbs": expect.verbs,
        "any-slot": expect.any_slot or None,
    }
    said = {
        "extends": profile.extends,
        "description": profile.description,
        "gates": profile.gates,
        "rests-on": profile.rests_on,
        "expect": {key: value for key, value in inventory.items() if value not in (None, {}, ())},
        "want": {check: dict(one) for check, one in profile.want.items()},
        "exclude": profile.exclude,
    }
    stated = {key: value for key, value in said.items() if value not in (None, "", {}, ())}
    return {"apiVersion": API_VERSION, "kind": "Profile", "name": profile.name} | stated


def _expectation(value: object, here: Keys) -> Expectation:
    stated = EXPECTATION.read(value, here)
    gpus, at = stated.pop("gpus", {}), (*here, "gpus")
    if gpus.get("at-least") is not None:
        stated["gpu_count"] = COUNTED_GPUS.read(gpus, at)
    else:
        stated["gpus"] = NAMED_GPUS.read(gpus, at)
    ports, at = stated.pop("ports", {}), (*here, "ports")
    if ports.get("at-least") is not None:
        return Expectation(at_least=COUNTED_PORTS.read(ports, at), **stated)
    return Expectation(ports=NAMED_PORTS.read(ports, at), **stated)


def _port_place(value: object, here: Keys) -> str:
    place, slash, number = str(value).rpartition("/")
    if not (place and slash and re.fullmatch("[1-9][0-9]{0,2}", number)):
        raise InvalidValueError(here, value, 'a port such as "0000:5c:00.0/1", or at-least for a count')
    _place(place, here)
    return str(value)


def _gpu_place(value: object, here: Keys) -> str:
    if not ADDRESS.fullmatch(str(value)):
        raise InvalidValueError(here, value, 'a PCI address such as "0000:1b:00.0", or at-least for a count')
    return str(value)


def _place(value: object, here: Keys) -> str:
    place = str(value)
    if re.fullmatch("[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", place) and not ADDRESS.fullmatch(place):
        raise InvalidValueError(here, place, 'a PCI address as the kernel writes it, such as "0000:5c:00.0"')
    return place


def _resource(value: object, here: Keys) -> str:
    if not RESOURCE.fullmatch(str(value)):
        raise InvalidValueError(here, value, 'an extended resource such as "nvidia.com/gpu"')
    return str(value)


def _said(want: object, table: Table) -> dict[str, Any]:
    said = {key: one for key, (name, _) in table.items() if (one := getattr(want, name)) not in (None, ())}
    return {key: int(one) if isinstance(one, float) and one.is_integer() else one for key, one in said.items()}


COUNT = typed_yaml.whole_number(0, typed_yaml.INTEGER_MAX)
AMOUNT = typed_yaml.number(0, 1e9)  # Gb/s or GT/s, with room for future NICs
NAME = typed_yaml.not_empty(TEXT, "a name")
TEXTS = typed_yaml.list_of(TEXT, "words")
# Numbers of single checks by check and key. config/wants.py knows which keys each check has.
NUMBERS: ValueKind[dict[str, Mapping[str, Any]]] = typed_yaml.mapping_of(MAPPING)

DEVICE: Table = {
    "id": ("id", TEXT),
    "rdma": ("rdma", TEXT),
    "software": ("software", TEXT),
    "driver": ("driver", TEXT),
    "firmware": ("firmware", TEXT),
    "board": ("board", TEXT),
    "pcie-width": ("width", COUNT),
    "pcie-speed": ("speed", AMOUNT),
}
PORT: Table = {
    "link-layer": ("layer", typed_yaml.one_of(*LAYERS)),
    "rate": ("rate", AMOUNT),
    "netdev": ("netdev", TEXT),
    "mtu": ("mtu", COUNT),
    "gid": ("gid", typed_yaml.TRUTH),
    "required": ("required", typed_yaml.TRUTH),
    "bonded": ("bonded", typed_yaml.TRUTH),
}
BOND: Table = {
    "legs": ("legs", typed_yaml.list_of(ValueKind("a device", _place), "devices")),
    "carrier": ("carrier", typed_yaml.TRUTH),
    "mtu": ("mtu", COUNT),
    "gid": ("gid", typed_yaml.TRUTH),
    "lag": ("lag", typed_yaml.TRUTH),
}
AT_LEAST: Table = {
    "link-layer": PORT["link-layer"],
    "rate": PORT["rate"],
    "at-least": ("count", COUNT),
    "suggested": ("suggested", typed_yaml.TRUTH),
}
GPU: Table = {"id": ("id", TEXT)}
GPU_COUNT: Table = {"at-least": ("count", COUNT), "id": GPU["id"]}
COUNTED_GPUS = typed_yaml.record(GpuCount, GPU_COUNT)
NAMED_GPUS = typed_yaml.mapping_of(typed_yaml.record(GpuWant, GPU), key=ValueKind("a GPU", _gpu_place))
COUNTED_PORTS = typed_yaml.record(AtLeast, AT_LEAST)
NAMED_PORTS = typed_yaml.mapping_of(typed_yaml.record(PortWant, PORT), key=ValueKind("a port", _port_place))
DEVICES = typed_yaml.mapping_of(typed_yaml.record(DeviceWant, DEVICE), key=ValueKind("a device", _place))
BONDS = typed_yaml.mapping_of(typed_yaml.record(BondWant, BOND), key=NAME)
RESOURCES = typed_yaml.mapping_of(COUNT, key=ValueKind("an extended resource", _resource))
EXPECTATION = typed_yaml.fields_of(
    {
        "devices": ("devices", DEVICES),
        "ports": ("ports", MAPPING),  # named or counted
        "bonds": ("bonds", BONDS),
        "resources": ("resources", RESOURCES),
        "gpus": ("gpus", MAPPING),  # named or counted
        "modules": ("modules", TEXTS),
        "verbs": ("verbs", typed_yaml.TRUTH),
        "any-slot": ("any_slot", typed_yaml.TRUTH),
    }
)
PROFILE = typed_yaml.record(
    Profile,
    {
        "apiVersion": ("", typed_yaml.only(API_VERSION)),
        "kind": ("", typed_yaml.only("Profile")),
        "name": ("name", NAME),
        "extends": ("extends", TEXT),
        "description": ("description", typed_yaml.PROSE),
        "gates": ("gates", TEXTS),
        "rests-on": ("rests_on", TEXTS),
        "expect": ("expect", ValueKind("keys with values", _expectation)),
        "want": ("want", NUMBERS),
        "exclude": ("exclude", TEXTS),
    },
)
