"""Do RDMA devices and their netdevs carry the names that the profile knows them by?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected.inventory import Expectancy, Expected
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    expected, rdma = seen[Expected], seen[Rdma]
    if expected.missing_devices or expected.missing_ports:
        return  # the kernel counts without gaps: a lost device changes every later name
    devices = {device.name: device.bdf for device in rdma.devices}
    for device in rdma.devices:
        name = expected.device(device, lambda want: want.rdma)
        if name is not None and is_comparable(device, expected):
            yield verdict(device, device.name, name, devices.get(name.value, ""))
    links = seen.get(Links)
    netdevs = {port.netdev: port.bdf for port in rdma.ports}
    for port in rdma.ports:
        netdev = expected.port(port, lambda want: want.netdev)
        if netdev is None or not port.netdev or not is_comparable(port, expected):
            continue
        # Which leg's port a bond's netdev shows up on changes with every fail-over.
        if links is None or not (links.bond_of(port.netdev, port.bdf) or links.bond_of(netdev.value, "")):
            yield verdict(port, port.netdev, netdev, netdevs.get(netdev.value, ""))


def is_comparable(thing: RdmaDevice | Port, expected: Expected) -> bool:
    """Whether the profile means this slot. A node with other slots may count its devices in another order."""
    return bool(thing.bdf) and thing.bdf not in expected.moved


def verdict(thing: RdmaDevice | Port, name: str, wanted: Expectancy[str], carrier: str) -> Verdict:
    if name == wanted.value:
        return Verdict(thing.subject, Status.OK, "AsNamed", f"{name} is at {thing.bdf}, as {wanted.by} has it")
    if carrier in ("", thing.bdf):
        message = f"{thing.bdf} is called {name} now, {wanted.value} in {wanted.by}; nothing else took that name"
        return Verdict(thing.subject, Status.OK, "Renamed", message)
    message = (
        f"{name} at {thing.bdf} is {wanted.value} in {wanted.by}, and {wanted.value} is at {carrier} now: names are "
        "crossed, a job that names its rails takes the wrong ones; see udev rules and ls -l /sys/class/infiniband"
    )
    return Verdict(thing.subject, Status.FAIL, "NamesCrossed", message, observed=name, expected=wanted.value)


CHECK = Check(
    id="port.names",
    question="Do RDMA devices and their netdevs carry the names that the profile knows them by?",
    why="NCCL_IB_HCA and topology files name devices: where two names are crossed, GPUs talk through far NICs.",
    fix="Set the udev rule that names the devices (rdma_rename, 70-persistent-*), so that {place} is {expected}, then "
    "reboot.",
    reasons=(
        Reason("AsNamed", Status.OK),
        Reason("Renamed", Status.OK),
        Reason("NamesCrossed", Status.FAIL),
    ),
    source="facebookresearch/gcm check_iblink (misbind); rdma-core kernel-boot/rdma-persistent-naming.rules",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Expected),
    uses=(Links,),
    after=("port.present",),
    judge=judge,
)
