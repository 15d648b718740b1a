"""Do the physical error counters of an RDMA port stand still?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.checks.counter import limit
from nodeprep.checks.counter.limit import Limit
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.counters import Counters
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict
from nodeprep.values import Value

HOUR_SECONDS = 3600.0
# Keys of the Want.
PER_HOUR, OVERRUNS, RECOVERIES = "symbol-errors-per-hour", "overruns-per-minute", "recoveries-per-minute"
ERRORS, DISCARDS = "receive-errors-per-second", "discards-per-second"
ABI = "Linux Documentation/ABI/stable/sysfs-class-infiniband"
SENTINEL = "NVIDIA/NVSentinel NIC monitor defaults"
INTEGRITY = f"IBTA LocalLinkIntegrityErrors: local physical errors exceeded LocalPhyErrors; {SENTINEL} (fatal, any)"
BIT_ERRORS = f"IBTA bit error rate 10^-12, 120 an hour; {SENTINEL} (fatal)"


class Want(Value):
    """How fast physical errors may grow on a port that is needed."""

    symbol_errors_per_hour: Annotated[
        float,
        "what a link at the bit error rate of 10^-12 makes (IBTA; NVIDIA/NVSentinel, fatal). A fault only where an "
        "hour's worth came between two looks: a few in seconds are a warning, for no hour was seen.",
    ] = 120
    recoveries_per_minute: Annotated[float, "link retrainings (NVIDIA/NVSentinel, warning)."] = 5
    overruns_per_minute: Annotated[
        float,
        "input buffer overruns. Healthy rails in service count up to 15 (H100 node of leptonai/gpud), and the kernel's "
        "ABI names a misconfiguration by the subnet manager first. So this is a warning. The number is nodeprep's own.",
    ] = 5
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
    rates = (
        ("symbol_error", want.symbol_errors_per_hour / 60, 60.0, "SymbolErrorsSeen", BIT_ERRORS, PER_HOUR),
        (
            "excessive_buffer_overrun_errors",
            want.overruns_per_minute,
            60.0,
            "BufferOverrun",
            ABI,
            "overruns-per-minute",
        ),
        ("link_error_recovery", want.recoveries_per_minute, 60.0, "LinkRetrains", SENTINEL, RECOVERIES),
        (
            "port_rcv_errors",
            want.receive_errors_per_second,
            1.0,
            "ReceiveErrors",
            SENTINEL,
            "receive-errors-per-second",
        ),
        ("port_xmit_discards", want.discards_per_second, 1.0, "TransmitDiscards", SENTINEL, DISCARDS),
    )
    return (
        Limit("local_link_integrity_errors", 0, None, Status.FAIL, "LinkIntegrityLost", INTEGRITY),
        Limit("symbol_error", allowance, None, Status.FAIL, "SymbolErrors", BIT_ERRORS, PER_HOUR),
        *(Limit(name, most, per, Status.WARN, *said) for name, most, per, *said in rates),
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
            Status.WARN,
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
        Reason("Unsettled", Status.OK),
        Reason("Saturated", Status.OK),
        Reason("Quiet", Status.OK),
    ),
    source=f"LinkIntegrityLost: {INTEGRITY}. SymbolErrors: {BIT_ERRORS}. Warnings: {SENTINEL}; {ABI}",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.LATCHED,
    needs=(Counters, Rdma, Expected),
    uses=(Links,),
    after=("port.flap",),
    judge=judge,
    want=Want,
    rates=True,
    window=lambda _: 60.0,  # so long after a link came up, the look before still shows it down
)
