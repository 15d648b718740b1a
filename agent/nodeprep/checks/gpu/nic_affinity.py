"""Has every GPU an RDMA NIC as near as most others have?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from nodeprep.facts.expected import kinds
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.kinds import HANDING_ON
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict, raw
from nodeprep.values import Value

LEAST_PAIRS = 3  # fewer have no majority that says how a node is laid out


class Nearness(Value):
    """How near a GPU and a NIC are: how many bridges both are below, then whether they share a NUMA node.

    `same_node` is None where the firmware does not say it of both, and below a common bridge, where it adds nothing.
    """

    bridges: int
    same_node: bool | None = None

    @property
    def rank(self) -> tuple[int, int]:
        return self.bridges, {True: 2, None: 1, False: 0}[self.same_node]

    def __str__(self) -> str:
        if self.bridges:
            return f"below {self.bridges} common PCIe bridge{'' if self.bridges == 1 else 's'}"
        if self.same_node is None:
            return "at a distance that nothing shows"
        return "on the same NUMA node" if self.same_node else "on another NUMA node"


class Pair(Value):
    """A GPU with the NIC that it shares with as few others as possible."""

    gpu: PciDevice
    nic: PciDevice
    near: Nearness


def judge(seen: Seen) -> Iterator[Verdict]:
    if seen[Expected].missing_devices:
        return  # the GPU beside a NIC that is gone has none near it: pci.expected-nic says which
    gpus = [gpu for gpu in seen[Pci].gpus if gpu.driver not in HANDING_ON]
    found = pairs(gpus, rails(seen[Pci], seen[Expected]))
    told = [pair.near for pair in found if pair.near.bridges or pair.near.same_node is not None]
    usual, count = next(iter(Counter(told).most_common(1)), (None, 0))
    if len(found) < LEAST_PAIRS or usual is None:
        return
    majority = usual if 2 * count > len(found) else None
    yield from seen.each(found, lambda pair: verdict(pair, majority, count), lambda pair: pair.gpu.subject)


def rails(pci: Pci, expected: Expected) -> list[PciDevice]:
    """The NICs whose ports somebody wants up; where nobody wants one, all that carry RDMA, with a driver or without."""
    physical = [nic for nic in pci.nics if not nic.virtual_function and nic.driver not in HANDING_ON]
    able = [nic for nic in physical if nic.offers_rdma or kinds.carries_rdma(nic)]
    wanted = {key.rpartition("/")[0] for key in (*expected.rails, *expected.counted)}
    wanted |= {key.rpartition("/")[0] for key, want in expected.firm.items() if want.required}
    return [nic for nic in able if nic.address in wanted] or able


def pairs(gpus: list[PciDevice], nics: list[PciDevice]) -> list[Pair]:
    """Each GPU with a NIC, the nearest pairs first. A NIC is taken by as many GPUs as there must be for each."""
    if not gpus or not nics:
        return []
    most = -(-len(gpus) // len(nics))
    every = [Pair(gpu, nic, nearness(gpu, nic)) for gpu in gpus for nic in nics]
    taken: Counter[str] = Counter()
    found: dict[str, Pair] = {}
    for pair in sorted(every, key=lambda one: (*(-part for part in one.near.rank), one.gpu.address, one.nic.address)):
        if pair.gpu.address not in found and taken[pair.nic.address] < most:
            found[pair.gpu.address] = pair
            taken[pair.nic.address] += 1
    return [found[gpu.address] for gpu in gpus]


def nearness(gpu: PciDevice, nic: PciDevice) -> Nearness:
    bridges = common(gpu.bridges, nic.bridges)
    if bridges:
        return Nearness(bridges)
    nodes = [raw(one)["numa"] for one in (gpu, nic)]
    return Nearness(0, nodes[0] == nodes[1] if all(isinstance(node, int) for node in nodes) else None)


def common(one: Iterable[str], other: Iterable[str]) -> int:
    """How many bridges two functions have in common, from the root down."""
    count = 0
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            break
        count += 1
    return count


def verdict(pair: Pair, usual: Nearness | None, count: int) -> Verdict | None:
    gpu, nic, near = pair.gpu, pair.nic, pair.near
    if not near.bridges and None in (gpu.numa, nic.numa):
        return None
    shows = f"{gpu.label} has {nic.label} {near}"
    if usual is None or near.rank >= usual.rank:
        return Verdict(gpu.subject, Status.OK, "NicNear", shows, None, str(near), str(usual or near))
    message = f"{shows}, while {count} of its like have one {usual}: its traffic takes a longer way"
    return Verdict(gpu.subject, Status.WARN, "NicFar", message, None, str(near), str(usual))


CHECK = Check(
    id="gpu.nic-affinity",
    question="Has every GPU an RDMA NIC as near as most others have?",
    why="A GPU whose NIC is below another PCIe switch or socket sends through the processors: its rail is slow, and "
    "the whole job waits for it.",
    fix="lspci -tv and nvidia-smi topo -m beside those of a good sibling: is a board in another slot, or a NIC gone?",
    reasons=(
        Reason("NicNear", Status.OK),
        Reason("NicFar", Status.WARN, against_likes=True),
    ),
    source="NCCL topology search (PIX, PXB, NODE, SYS); Linux sysfs-bus-pci (numa_node; -1 is unknown)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Pci, Expected),
    after=("gpu.expected",),
    judge=judge,
)
