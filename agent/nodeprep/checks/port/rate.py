"""Does every RDMA port run at the rate that is expected of it?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict, raw


def judge(seen: Seen) -> Iterator[Verdict]:
    expected = seen[Expected]
    # The rate of a port that is not ACTIVE is not the rate of a link.
    yield from seen.each(filter(inventory.may_be_active, seen[Rdma].ports), lambda port: verdict(port, expected))


def verdict(port: Port, expected: Expected) -> Verdict | None:
    wanted = expected.rate(port)
    if wanted is None and expected.of(port) is None and isinstance(raw(port)["rate"], Unreadable):
        return None
    rate = f"{port.rate:g} Gb/s"
    shows = f"{port.where} runs at {rate}"
    if wanted is None:
        return Verdict(
            port.subject, Status.OK, "NothingExpected", f"{shows}; nobody says at what it should", observed=rate
        )
    asked = f"{wanted.value:g} Gb/s"
    if port.rate < wanted.value:
        status = Status.FAIL if wanted.firm else Status.WARN
        message = (
            f"{shows}; {asked} is wanted by {wanted.by}: cable, transceiver or switch port (ethtool, mlxlink, ibstat)"
        )
        return Verdict(port.subject, status, "BelowRate", message, observed=rate, expected=asked)
    message = f"{shows}; {asked} is wanted by {wanted.by}"
    return Verdict(port.subject, Status.OK, "Rate", message, observed=rate, expected=asked)


CHECK = Check(
    id="port.rate",
    question="Does every RDMA port run at the rate that is expected of it?",
    why="A collective goes at the speed of its slowest rail: one port at half rate halves the whole job.",
    fix="Reseat or swap cable and transceiver, see the switch port's speed and FEC; then the NIC at {place}.",
    reasons=(
        Reason("NothingExpected", Status.OK),
        Reason("BelowRate", Status.FAIL),
        Reason("BelowRate", Status.WARN, against_likes=True),
        Reason("Rate", Status.OK),
    ),
    source="Linux drivers/infiniband/core/sysfs.c rate_show; facebookresearch/gcm (critical); leptonai/gpud",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Expected),
    after=("port.state",),
    judge=judge,
)
