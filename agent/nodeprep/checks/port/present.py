"""Is every RDMA port there that this node is expected to have?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected import kinds
from nodeprep.facts.expected.inventory import Expected, MissingDevice, Shortage
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import (
    NODE,
    SEVERAL,
    Check,
    Confirmation,
    Lack,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    raw,
)


def judge(seen: Seen) -> Iterator[Verdict]:
    expected, have = seen[Expected], len(seen[Rdma].ports)
    for absent in expected.missing_ports:
        yield missing(absent, have, instead(absent, seen))
    if expected.shortage:
        others = [port for port in seen[Rdma].ports if expected.of(port) is None]
        counted = tuple(sorted({key.rpartition("/")[0] for key in expected.counted}))
        bare = sorted(expected.counted.keys() - {port.subject.key for port in seen[Rdma].ports})
        yield short(expected.shortage, counted, others, without_device(seen, counted), bare)
    elif expected.slower_counted:
        yield slower(expected)
    elif have and not expected.missing_ports:
        yield Verdict(NODE, Status.OK, "Present", f"{number(have)}, none of the expected ones missing")


def missing(absent: MissingDevice, have: int, there: str) -> Verdict:
    name, see = absent.subject.name, "see whether the NIC is on the bus (lspci -nn) and what its driver said (dmesg)"
    if there:
        shows = f"{name} is there as another model, {there}: {absent.by} wants a {absent.id}"
        message = f"{shows}; see whether a board was changed (lspci -nn)"
        return Verdict(absent.subject, Status.FAIL, "Missing", message, observed=there, expected=absent.id or "")
    message = f"{name} is not there: {absent.by} wants it, the node shows {number(have)}; {see}"
    return Verdict(absent.subject, Status.FAIL, "Missing", message, observed="absent", expected="present")


def instead(absent: MissingDevice, seen: Seen) -> str:
    """The model of what is there under this address or name, "" if nothing is there or its model cannot be read."""
    place, pci = absent.subject.place, seen.get(Pci)
    device = next((one for one in seen[Rdma].devices if place in (one.place, one.name)), None)
    nic = pci.at_address(place) if pci is not None else None
    shown: list[object] = [raw(nic)["id"]] if nic is not None else []
    shown += [raw(device)["id"], raw(device)["hca_type"]] if device is not None else []
    wanted = absent.id or ""
    # A PCI id cannot be compared with the name of a chip.
    known = [one for one in shown if isinstance(one, str) and one and (":" in one) == (":" in wanted)]
    return known[0] if known and wanted and wanted not in known else ""


def without_device(seen: Seen, counted: tuple[str, ...]) -> list[str]:
    """NICs on the bus that are made for RDMA, carry no RDMA device and do not count."""
    pci, rdma = seen.explaining(Pci), seen[Rdma]
    nics = [nic for nic in (pci.nics if pci else ()) if not nic.virtual_function and nic.address not in counted]
    silent = [nic for nic in nics if not nic.rdma and not rdma.at_address(nic.address)]
    return [nic.label for nic in silent if nic.offers_rdma or kinds.carries_rdma(nic)]


def short(
    shortage: Shortage, counted: tuple[str, ...], others: list[Port], silent: list[str], bare: list[str]
) -> Verdict:
    """The ports that are there and do not count are named: they are down, slower or of another kind.

    `bare` are those that count, because their NIC is there, and show no RDMA port.
    """
    beside = f", and {len(bare)} without an RDMA device: {', '.join(bare)}" if bare else ""
    beside += f"; not counted: {', '.join(shows(port) for port in others)}" if others else ""
    beside += f"; on the bus without an RDMA device: {', '.join(silent)}" if silent else ""
    there = shortage.have - len(bare)
    message = (
        f"{there} of at least {shortage.want} {shortage.of} are there{beside}; wanted by {shortage.by}; "
        "compare ls /sys/class/infiniband with lspci -nn"
    )
    seen, wanted = str(there), f"at least {shortage.want}"
    lack = Lack(shortage.want - shortage.have, counted)
    return Verdict(SEVERAL, Status.FAIL, "TooFewPorts", message, observed=seen, expected=wanted, lack=lack)


def slower(expected: Expected) -> Verdict:
    """Enough ports are there, and some are slower than the rails: they may hide that rails are gone."""
    found, counted = expected.slower_counted, len(expected.counting)
    fast = max(filter(None, (expected.kinds.speeds[one.kind] for one in expected.kinds.rails)), default=0.0)
    slow = [rate for one in found if (rate := expected.kinds.speeds[one.kind])]
    whose = next((by for one in found if (by := expected.counted.get(one.key))), expected.by)
    message = (
        f"{number(counted)} count, {len(found)} of them slower than the {fast:g} Gb/s of the others: "
        f"{kinds.names(found)}; wanted by {whose}, which states no rate: if faster ports are gone, nothing here says so"
    )
    args = {"rate": f"{min(slow, default=fast):g}"}
    return Verdict(NODE, Status.WARN, "SlowerCounted", message, observed=str(counted), args=args)


def shows(port: Port) -> str:
    """A port with what of it decides whether it counts."""
    told = {name: value for name, value in raw(port).items() if not isinstance(value, Unreadable)}
    rate = f"{told['rate']:g} Gb/s" if "rate" in told else ""
    words = (str(told.get("state", "")).partition(": ")[2], rate, str(told.get("layer", "")))
    return f"{port.name} ({', '.join(filter(None, words))})"


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
            "pci.rdma-driver). NIC gone: rescan the bus, then power-cycle. Ports at less than half of the rails' rate "
            "count only where the profile states a rate: expect.ports.rate.",
        ),
        Reason(
            "SlowerCounted",
            Status.WARN,
            "See with lspci -nn whether a faster NIC is gone. If these are meant, state the rate that is enough in the "
            "profile: expect.ports.rate: {rate}.",
        ),
    ),
    source="NVIDIA/NVSentinel missed enumerations; leptonai/gpud expected port counts; /sys/class/infiniband",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Rdma, Expected),
    uses=(Pci,),
    after=("pci.rdma-driver",),
    judge=judge,
)
