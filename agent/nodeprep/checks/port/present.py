"""Is every RDMA port there that this node is expected to have?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected.inventory import Expected, MissingDevice, Shortage
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import NODE, SEVERAL, Check, Confirmation, Lack, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    expected, have = seen[Expected], len(seen[Rdma].ports)
    for absent in expected.missing_ports:
        yield missing(absent, have)
    if expected.shortage:
        yield short(expected.shortage, tuple(sorted({key.rpartition("/")[0] for key in expected.counted})))
    elif have and not expected.missing_ports:
        yield Verdict(NODE, Status.OK, "Present", f"{number(have)}, none of the expected ones missing")


def missing(absent: MissingDevice, have: int) -> Verdict:
    message = (
        f"{absent.subject.name} is not there: {absent.by} wants it, the node shows {number(have)}; "
        "see whether the NIC is on the bus (lspci -nn) and what its driver said (dmesg)"
    )
    return Verdict(absent.subject, Status.FAIL, "Missing", message, observed="absent", expected="present")


def short(shortage: Shortage, counted: tuple[str, ...]) -> Verdict:
    message = (
        f"{shortage.have} of at least {shortage.want} {shortage.of} are there; wanted by {shortage.by}; "
        "compare ls /sys/class/infiniband with lspci -nn"
    )
    seen, wanted = str(shortage.have), f"at least {shortage.want}"
    lack = Lack(shortage.want - shortage.have, counted)
    return Verdict(SEVERAL, Status.FAIL, "TooFewPorts", message, observed=seen, expected=wanted, lack=lack)


def number(ports: int) -> str:
    return f"{ports} RDMA port{'' if ports == 1 else 's'}"


CHECK = Check(
    id="port.present",
    question="Is every RDMA port there that this node is expected to have?",
    why="A rail that is gone is not an error to any plugin: the node still takes the job, which then runs with fewer.",
    fix="NIC on the bus: load its RDMA driver (see pci.rdma-driver). NIC gone: rescan the bus, then power-cycle.",
    reasons=(
        Reason("Present", Status.OK),
        Reason("Missing", Status.FAIL),
        Reason(
            "TooFewPorts",
            Status.FAIL,
            "Compare ls /sys/class/infiniband with lspci -nn. NIC on the bus: load its RDMA driver (see "
            "pci.rdma-driver). NIC gone: rescan the bus, then power-cycle.",
        ),
    ),
    source="NVIDIA/NVSentinel missed enumerations; leptonai/gpud expected port counts; /sys/class/infiniband",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Rdma, Expected),
    after=("pci.rdma-driver",),
    judge=judge,
)
