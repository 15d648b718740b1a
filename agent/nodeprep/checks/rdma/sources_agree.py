"""Do sysfs and RDMA netlink tell the same of every device?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.facts.rdma.rdma_netlink import NetlinkPort, RdmaNetlink
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Verdict,
    grouped,
    raw,
)
from nodeprep.values import Value

Key = tuple[str, int | None, str]  # device, port, what differs


class Difference(Value):
    """What the two say. `moves`: the two are read at different instants, and between them this may have changed."""

    text: str
    moves: bool = False


def judge(seen: Seen) -> Iterator[Verdict]:
    """A difference must be in both looks where there are two. In a single one, a state that differs is only told."""
    rdma, netlink = seen[Rdma], seen[RdmaNetlink]
    if not netlink.offered:
        if rdma.devices:
            message = f"sysfs shows {len(rdma.devices)} RDMA devices, and this kernel answers no RDMA netlink"
            yield Verdict(NODE, Status.WARN, "NoNetlink", message, None, "sysfs only", "both")
        return
    now, earlier = differences(seen), differences(seen.before) if seen.before is not None else None
    unseen = f"; netlink denies this user {', '.join(netlink.denied)}" if netlink.denied else ""
    subjects = {name: Subject(name, None, name) for name in netlink.devices}
    subjects |= {device.name: device.subject for device in rdma.devices}
    about = grouped(now.items(), lambda pair: pair[0][0])
    for name, subject in subjects.items():
        yield verdict(subject, dict(about.get(name, ())), earlier, unseen)


def verdict(
    subject: Subject, found: Mapping[Key, Difference], earlier: Mapping[Key, Difference] | None, unseen: str
) -> Verdict:
    told = "; ".join(difference.text for difference in found.values())
    if any(not difference.moves if earlier is None else key in earlier for key, difference in found.items()):
        return Verdict(subject, Status.WARN, "Disagree", f"{subject.name}: {told}{unseen}")
    if found:
        return Verdict(subject, Status.OK, "Moving", f"{subject.name}: {told}; another look will tell{unseen}")
    return Verdict(subject, Status.OK, "Agree", f"{subject.name}: sysfs and netlink agree{unseen}")


def differences(seen: Seen) -> dict[Key, Difference]:
    rdma, netlink, links = seen[Rdma], seen[RdmaNetlink], seen.get(Links)
    found: dict[Key, Difference] = {}
    shown = {device.name: device for device in rdma.devices}
    for name in sorted(set(shown) ^ set(netlink.devices)):
        here, there = ("sysfs", "netlink") if name in shown else ("netlink", "sysfs")
        if "GET" not in netlink.denied:
            found[name, None, "device"] = Difference(f"{here} shows it, {there} does not")
    told = dict(netlink.guids)
    for name in sorted(set(shown) & set(netlink.devices)):
        found |= guids(shown[name], told.get(name))
        ours = {port.number: port for port in rdma.ports if port.device == name}
        theirs = {port.number: port for port in netlink.ports if port.device == name}
        for number in sorted(set(ours) ^ set(theirs)):
            here, there = ("sysfs", "netlink") if number in ours else ("netlink", "sysfs")
            found[name, number, "port"] = Difference(f"{here} shows port {number}, {there} does not")
        for number in sorted(set(ours) & set(theirs)):
            found |= port(ours[number], theirs[number], links)
    return found


def guids(device: RdmaDevice, told: str | None) -> dict[Key, Difference]:
    shown = raw(device)["node_guid"]
    if not isinstance(shown, str) or told is None or shown == told:
        return {}
    return {(device.name, None, "guid"): Difference(f"node GUID {shown} in sysfs, {told} by netlink")}


def port(ours: Port, theirs: NetlinkPort, links: Links | None) -> dict[Key, Difference]:
    found: dict[Key, Difference] = {}
    for name, shown, told in (
        ("state", raw(ours)["state"], theirs.state),
        ("phys_state", raw(ours)["physical"], theirs.physical),
    ):
        # A value that one source cannot read is not a disagreement, and port.state reports it.
        if isinstance(shown, str) and told is not None and shown.partition(":")[0] != str(told):
            text = f"port {ours.number} {name} {shown!r} in sysfs, {told} by netlink"
            found[ours.device, ours.number, name] = Difference(text, moves=True)
    if ours.netdev and theirs.netdev and not same_netdev(ours.netdev, theirs.netdev, links):
        text = f"port {ours.number} netdev {ours.netdev} in sysfs, {theirs.netdev} by netlink"
        found[ours.device, ours.number, "netdev"] = Difference(text)
    return found


def same_netdev(one: str, other: str, links: Links | None) -> bool:
    """A bond and its leg are the same: GIDs name the bond, and netlink the leg that is active."""
    if one == other:
        return True
    first, second = (links.named(name) if links else None for name in (one, other))
    return (first is not None and first.master == other) or (second is not None and second.master == one)


CHECK = Check(
    id="rdma.sources-agree",
    question="Do sysfs and RDMA netlink tell the same of every device?",
    why="Both read the same kernel: where they differ, a device is half gone, or one of them is another machine's.",
    fix="Look again; if it stays, compare `rdma link show` with /sys/class/infiniband, and see the kernel log.",
    reasons=(
        Reason(
            "NoNetlink",
            Status.WARN,
            "Run a kernel with RDMA netlink (CONFIG_INFINIBAND, Linux 4.11 or later), or in a sandbox that does not "
            "keep it from us: rdma link show.",
        ),
        Reason("Disagree", Status.WARN),
        Reason("Moving", Status.OK),
        Reason("Agree", Status.OK),
    ),
    source="Linux drivers/infiniband/core: sysfs.c and nldev.c",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, RdmaNetlink),
    uses=(Links,),
    judge=judge,
)
