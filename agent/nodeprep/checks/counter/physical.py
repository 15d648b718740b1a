"""Do the physical error counters of an RDMA port stand still?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.checks.counter import limit
from nodeprep.checks.counter.limit import Limit
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.rdma.counters import Counters
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict
from nodeprep.values import Value

HOUR_SECONDS = 3600.0


class Want(Value):
    """How fast physical errors may grow on a port that is needed."""

    symbol_errors_per_hour: Annotated[
        float,
        "what a link at the bit error rate of 10^-12 makes (IBTA; NVIDIA/NVSentinel, fatal). A fault only where an "
        "hour's worth came between two looks: a few in seconds are a warning, for no hour was seen.",
    ] = 120
    recoveries_per_minute: Annotated[float, "link retrainings (NVIDIA/NVSentinel, warning)."] = 5
    receive_errors_per_second: Annotated[float, "packets with errors (NVIDIA/NVSentinel, warning)."] = 10
    discards_per_second: Annotated[
        float,
        "packets dropped for congestion or a link that was down (NVIDIA/NVSentinel, warning).",
    ] = 100
    exclude: Annotated[tuple[str, ...], "counters that are not judged, by name."] = ()


def judge(seen: Seen) -> Iterator[Verdict]:
    want = seen[Want]
    yield from limit.weigh(seen, limits(want, seen.seconds), want.exclude)


def limits(want: Want, seconds: float) -> tuple[Limit, ...]:
    """Without link_downed, which is port.flap's."""
    allowance = want.symbol_errors_per_hour * max(seconds, HOUR_SECONDS) / HOUR_SECONDS
    return (
        Limit("local_link_integrity_errors", 0, None, Status.FAIL, "LinkIntegrityLost"),
        Limit("excessive_buffer_overrun_errors", 0, None, Status.FAIL, "BufferOverrun"),
        Limit("symbol_error", allowance, None, Status.FAIL, "SymbolErrors"),
        Limit("symbol_error", want.symbol_errors_per_hour / 60, 60.0, Status.WARN, "SymbolErrorsSeen"),
        Limit("link_error_recovery", want.recoveries_per_minute, 60.0, Status.WARN, "LinkRetrains"),
        Limit("port_rcv_errors", want.receive_errors_per_second, 1.0, Status.WARN, "ReceiveErrors"),
        Limit("port_xmit_discards", want.discards_per_second, 1.0, Status.WARN, "TransmitDiscards"),
    )


CHECK = Check(
    id="counter.physical",
    question="Do the physical error counters of an RDMA port stand still?",
    why="A dirty connector or a dying transceiver first shows as errors that the link corrects, later as a dead rail.",
    fix="Clean, reseat or swap cable and transceiver; if the errors move with the card, replace the card.",
    reasons=(
        Reason("LinkIntegrityLost", Status.FAIL),
        Reason(
            "BufferOverrun",
            Status.FAIL,
            "See flow control: PFC and buffers of switch port and card (mlnx_qos, ethtool -a); then cable and "
            "transceiver; if the errors move with the card, replace the card.",
        ),
        Reason("SymbolErrors", Status.FAIL),
        Reason("SymbolErrorsSeen", Status.WARN),
        Reason("LinkRetrains", Status.WARN),
        Reason("ReceiveErrors", Status.WARN),
        Reason(
            "TransmitDiscards",
            Status.WARN,
            "See the switch port and its congestion, and whether the link was down (port.flap); then clean, reseat or "
            "swap cable and transceiver.",
        ),
        Reason("NotNeeded", Status.OK),
        Reason("Saturated", Status.OK),
        Reason("Quiet", Status.OK),
    ),
    source="NVIDIA/NVSentinel NIC monitor defaults; IBTA PortCounters; linux-rdma infiniband-diags error_thresholds",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.LATCHED,
    needs=(Counters, Rdma, Expected),
    after=("port.flap",),
    judge=judge,
    want=Want,
    rates=True,
)
