"""Do queue pairs on an RDMA port get through without retries and timeouts?"""

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
from nodeprep.values import Value, asdict

SENTINEL = "NVIDIA/NVSentinel NIC monitor defaults"
KUBERNETES = "aws/eks-node-monitoring-agent, rules for EFA"
OURS = "ours"
RETRIES_ENDED = f"IBTA RNR NAK retry counter: at its end the queue pair fails (IBV_WC_RNR_RETRY_EXC_ERR); {SENTINEL}"
# rxe counts queue pairs that gave up (rxe_comp.c). mlx5's rnr_nak_retry_err counts NAKs, "the QP retry limit was not
# exceeded" (NVIDIA, Understanding mlx5 Linux Counters): NVSentinel takes it for the former.
RECEIVER_NOT_READY = ("retry_rnr_exceeded_err",)
GAVE_UP = ("retry_exceeded_err", "req_transport_retries_exceeded", "roce_adp_retrans_to")
OUT_OF_SEQUENCE = ("out_of_sequence", "packet_seq_err")
SOFTWARE_SEQUENCE = ("rcvd_seq_err", "out_of_seq_request")
EFA_EVENTS = (
    "rx_drops",
    "rdma_write_wr_err",
    "rdma_read_wr_err",
    "unresponsive_remote_events",
    "unresponsive_remote_err",
    "impaired_remote_conn_events",
    "impaired_remote_conn_err",
    "retrans_timeout_events",
)


class Want(Value):
    """How fast transport errors may grow on a port that is needed; all per second and all warnings."""

    local_ack_timeouts_per_second: Annotated[
        float,
        "no answer in time; a remote rank that died does this too (NVIDIA/NVSentinel).",
    ] = 1
    not_ready_per_second: Annotated[
        float,
        "answers that the receiver was not ready, after which it was tried again (nodeprep's own).",
    ] = 1
    slow_restarts_per_second: Annotated[float, "RoCE's recovery from loss (NVIDIA/NVSentinel)."] = 10
    out_of_sequence_per_second: Annotated[
        float,
        "packets lost or reordered on the way; adaptive routing reorders a few (nodeprep's own).",
    ] = 100
    software_sequence_errors_per_second: Annotated[
        float,
        "the same for rxe, which only loss moves (measured with netem).",
    ] = 1
    efa_events_per_second: Annotated[
        float,
        "drops, retransmission timeouts, peers that do not answer (EKS node monitoring agent).",
    ] = 100
    retransmitted_packets_per_second: Annotated[float, "of EFA (EKS node monitoring agent)."] = 1000
    retransmitted_bytes_per_second: Annotated[float, "of EFA (EKS node monitoring agent)."] = 1_000_000
    exclude: Annotated[tuple[str, ...], "counters that are not judged, by name."] = ()


def judge(seen: Seen) -> Iterator[Verdict]:
    want = seen[Want]
    yield from limit.weigh(seen, limits(want), want.exclude)


def limits(want: Want) -> tuple[Limit, ...]:
    """Without np_cnp_sent, rp_cnp_handled and *_flush_error, which healthy jobs move (NVIDIA/NVSentinel)."""
    rates = (
        (("rnr_nak_retry_err",), "not_ready", "ReceiverNotReady", OURS),
        (("local_ack_timeout_err",), "local_ack_timeouts", "AckTimeouts", SENTINEL),
        (("roce_slow_restart",), "slow_restarts", "SlowRestarts", SENTINEL),
        (OUT_OF_SEQUENCE, "out_of_sequence", "OutOfSequence", OURS),
        (SOFTWARE_SEQUENCE, "software_sequence_errors", "OutOfSequence", OURS),
        (EFA_EVENTS, "efa_events", "EfaErrors", KUBERNETES),
        (("retrans_pkts",), "retransmitted_packets", "Retransmissions", KUBERNETES),
        (("retrans_bytes",), "retransmitted_bytes", "Retransmissions", KUBERNETES),
    )
    numbers = asdict(want)
    return (
        *(Limit(name, 0, None, Status.FAIL, "ReceiverNotReady", RETRIES_ENDED) for name in RECEIVER_NOT_READY),
        *(Limit(name, 0, None, Status.WARN, "RetriesExceeded", OURS) for name in GAVE_UP),
        *(
            Limit(name, numbers[f"{what}_per_second"], 1.0, Status.WARN, reason, source, key(what))
            for names, what, reason, source in rates
            for name in names
        ),
    )


def key(what: str) -> str:
    """The key of a number of the Want."""
    return f"{what}_per_second".replace("_", "-")


CHECK = Check(
    id="counter.transport",
    question="Do queue pairs on an RDMA port get through without retries and timeouts?",
    why="Loss on a fabric that must not lose anything shows here first: every link is up and the job crawls.",
    fix="Compare the rails: one rail means its cable, switch port or PFC setting; all of them mean a remote node.",
    reasons=(
        Reason("AckTimeouts", Status.WARN),
        Reason("SlowRestarts", Status.WARN),
        Reason("OutOfSequence", Status.WARN),
        Reason("EfaErrors", Status.WARN),
        Reason("Retransmissions", Status.WARN),
        Reason(
            "ReceiverNotReady",
            Status.FAIL,
            "See the job on this node: a receiver posts no buffers (rdma resource show qp); then end it and start it "
            "again.",
        ),
        Reason(
            "ReceiverNotReady",
            Status.WARN,
            "See the job on this node and its peers: a receiver posts its buffers late (rdma resource show qp).",
        ),
        Reason("RetriesExceeded", Status.WARN),
        Reason("NotNeeded", Status.OK),
        Reason("Unsettled", Status.OK),
        Reason("Quiet", Status.OK),
    ),
    source=f"ReceiverNotReady (fail): {RETRIES_ENDED}. Warnings: {SENTINEL}; {KUBERNETES}; NVIDIA, Understanding mlx5 "
    "Linux Counters; rxe hw_counters",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Counters, Rdma, Expected),
    uses=(Links,),
    judge=judge,
    want=Want,
    rates=True,
)
