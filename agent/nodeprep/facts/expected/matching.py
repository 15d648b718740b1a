"""Finds a profile's devices, ports and GPUs on a node: by PCI address; of a sibling by name, kind and slot order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from nodeprep.facts.machine.pci import ADDRESS, Pci
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.job_profile import DeviceWant, Expectation
from nodeprep.model import CannotLook
from nodeprep.shown import field_of
from nodeprep.values import Value


class PlaceMatch(Value):
    """Profile key to seen key for devices and ports, and what was not found."""

    devices: Mapping[str, str]
    ports: Mapping[str, str]
    missing_devices: tuple[tuple[str, DeviceWant], ...]
    missing_ports: tuple[str, ...]


class Candidate(Value):
    """A device or port that a profile entry may mean: its key, the name that people know, and its kind of hardware."""

    key: str
    name: str
    kind: str


def match(expect: Expectation, pci: Pci | None, rdma: Rdma | None) -> PlaceMatch:
    """Match what a profile names against what was seen.

    An address means what is there, and no other device stands in for it. Only of a profile that allows `any_slot`, as a
    captured one does, names and order count, where the node has other slots than the captured one. Where half of the
    addresses fit, it has not. Nor does one of many stand in: a profile that names two of eight alike means these two.
    """
    wanted = {key: (want.rdma or key, _of_kind(want.id or "", want.software)) for key, want in expect.devices.items()}
    legs = frozenset(leg for bond in expect.bonds.values() for leg in bond.legs if ":" in leg and leg not in wanted)
    devices = _pair(wanted, _seen_devices(pci, rdma), legs, any_slot=expect.any_slot)
    found = _ports(expect, devices, rdma)
    return PlaceMatch(
        devices=devices,
        ports=found,
        missing_devices=tuple(
            (key, want)
            for key, want in expect.devices.items()
            # Without a PCI listing only ports can be missed, and port.present does that.
            if key not in devices and pci is not None and ADDRESS.fullmatch(key)
        ),
        missing_ports=tuple(
            key for key, want in expect.ports.items() if key not in found and (want.required or want.bonded)
        ),
    )


def gpus(expect: Expectation, pci: Pci | None) -> Mapping[str, str]:
    """Profile key to seen address of the GPUs that a profile names, matched as devices are."""
    wanted = {key: (key, want.id or "") for key, want in expect.gpus.items()}
    seen = tuple(Candidate(gpu.address, gpu.address, _id(gpu.address, pci)) for gpu in (pci.gpus if pci else ()))
    return _pair(wanted, seen, any_slot=expect.any_slot)


def _ports(expect: Expectation, devices: Mapping[str, str], rdma: Rdma | None) -> dict[str, str]:
    """A port of a device that the profile names goes with the device; others are matched as devices are."""
    ports: tuple[Port, ...] = rdma.ports if rdma else ()
    keys = {port.subject.key for port in ports}
    held, alone = {}, {}
    for key in expect.ports:
        place, _, number = key.rpartition("/")
        if place not in expect.devices:
            alone[key] = (key, "")
        elif place in devices and f"{devices[place]}/{number}" in keys:
            held[key] = f"{devices[place]}/{number}"
    taken = set(held.values())
    free = tuple(Candidate(port.subject.key, port.name, "") for port in ports if port.subject.key not in taken)
    return held | _pair(alone, free, any_slot=expect.any_slot)


def _pair(
    wanted: Mapping[str, tuple[str, str]],
    seen: tuple[Candidate, ...],
    beside: frozenset[str] = frozenset(),
    *,
    any_slot: bool,
) -> dict[str, str]:
    """What was seen, by what is wanted. `beside` are more addresses of the captured node."""
    kinds = {candidate.key: candidate.kind for candidate in seen}
    # A name, which stands for a device where no address is shown, may be another kind's on a sibling: numbering shifts.
    pairs = {
        key: key for key, (_, kind) in wanted.items() if key in kinds and (":" in key or _compatible(kind, kinds[key]))
    }
    fit = len(pairs) + len(beside & kinds.keys())
    placed = {key: want for key, want in wanted.items() if ":" in key}
    if placed and (fit * 2 >= len(wanted) + len(beside) or _are_others(pairs, wanted, seen)):
        return pairs
    others = [one for one in seen if one.key not in beside]  # a leg at its own address stands in for no other device
    searches = [(wanted, others)]
    if not any_slot:
        # A device whose address is not shown may lie there; another one lies elsewhere.
        named = {key: want for key, want in wanted.items() if key not in placed}
        searches = [(placed, [one for one in others if ":" not in one.key]), (named, others)]
    for wants, among in searches:
        _extend(pairs, wants, among, lambda name, kind, one: name == one.name and _compatible(kind, one.kind))
        _extend(pairs, wants, among, lambda _, kind, one: bool(kind) and kind == one.kind)
    return pairs


def _are_others(pairs: Mapping[str, str], wanted: Mapping[str, tuple[str, str]], seen: Iterable[Candidate]) -> bool:
    """Whether there are more devices of a missing kind than are missing: then the profile means some of many.

    A sibling with other slots has as many as the profile names.
    """
    missing = Counter(kind for key, (_, kind) in wanted.items() if key not in pairs and kind)
    free = Counter(one.kind for one in seen if one.key not in pairs.values())
    return any(free[kind] > count for kind, count in missing.items())


def _compatible(kind: str, other: str) -> bool:
    """Whether nothing says that they differ. A PCI id cannot be compared with the name of a chip."""
    return kind == other or not kind or not other or (":" in kind) != (":" in other)


def _extend(
    pairs: dict[str, str],
    wanted: Mapping[str, tuple[str, str]],
    seen: Iterable[Candidate],
    fits: Callable[[str, str, Candidate], bool],
) -> None:
    taken = set(pairs.values())
    free = {candidate.key: candidate for candidate in seen if candidate.key not in taken}
    for key, (name, kind) in wanted.items():
        found = next((one for one in free.values() if fits(name, kind, one)), None) if key not in pairs else None
        if found is not None:
            pairs[key] = found.key
            del free[found.key]


def _seen_devices(pci: Pci | None, rdma: Rdma | None) -> tuple[Candidate, ...]:
    """PCI NICs without virtual functions, which are never expected; RDMA devices where no PCI address is shown."""
    names = {device.place: device.name for device in (rdma.devices if rdma else ())}
    software = {device.place: field_of(device, "parent") for device in (rdma.devices if rdma else ())}
    found = {}
    for nic in pci.nics if pci else ():
        if not nic.virtual_function:
            kind = _of_kind(_id(nic.address, pci), software.get(nic.address))
            found[nic.address] = Candidate(nic.address, names.get(nic.address, nic.address), kind)
    for device in rdma.devices if rdma else ():
        if device.place not in found and not device.virtual_function:
            found[device.place] = Candidate(device.place, device.name, device.id or _chip(device.name, rdma))
    return tuple(found[key] for key in sorted(found))


def _of_kind(identity: str, software: object) -> str:
    """The kind of a NIC. A NIC with a software device is of another kind than one without."""
    return f"{identity} software" if software else identity


def _id(address: str, pci: Pci | None) -> str:
    device = pci.at_address(address) if pci else None
    try:
        return device.id if device else ""
    except CannotLook:
        return ""


def _chip(name: str, rdma: Rdma | None) -> str:
    device = rdma.device(name) if rdma else None
    try:
        return (device.hca_type or "") if device else ""
    except CannotLook:
        return ""
