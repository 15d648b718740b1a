"""Does traffic still flow where a process uses an ACTIVE RDMA port?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.expected import inventory
from nodeprep.facts.rdma.counters import Counters
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict
from nodeprep.values import Value

# Received and sent packets by driver: the standard counters, rxe, efa.
RECEIVED_COUNTERS = ("port_rcv_packets", "rcvd_pkts", "rx_pkts")
SENT_COUNTERS = ("port_xmit_packets", "sent_pkts", "tx_pkts")
# Only in need does a queue pair move these: answers do not come.
RETRIES = (
    "local_ack_timeout_err",
    "roce_adp_retrans_to",
    "req_transport_retries_exceeded",
    "completer_retry_err",
    "retry_exceeded_err",
    "retrans_timeout_events",
    "unresponsive_remote_events",
)


class Want(Value):
    """When silence counts as a stall."""

    over: Annotated[
        float,
        "seconds that must lie between the two looks; a job that only computes is silent for less, and does not retry.",
    ] = 60
    exclude: Annotated[tuple[str, ...], "counters that are not judged, by name."] = ()


def judge(seen: Seen) -> Iterator[Verdict]:
    if seen.before is not None and seen.seconds >= seen[Want].over:
        before = seen.before
        yield from seen.each(filter(inventory.is_active, seen[Rdma].ports), lambda port: verdict(port, seen, before))


def verdict(port: Port, seen: Seen, before: Seen) -> Verdict | None:
    now, then = seen[Counters].of(port), before[Counters].of(port)
    if now is None or then is None:
        return None
    if not (seen[RdmaNetlink].in_use(now.device) and before[RdmaNetlink].in_use(then.device)):
        return None
    grown = {name: events for name, events in now.since(then).items() if name not in seen[Want].exclude}
    still = [name for name in (*RECEIVED_COUNTERS, *SENT_COUNTERS) if grown.get(name) == 0]
    retried = [f"{name} +{grown[name]}" for name in RETRIES if grown.get(name)]
    window = f"in {seen.seconds:.0f} s"
    if still and retried:
        message = (
            f"{port.where} is ACTIVE and in use, {', '.join(still)} stood still {window} and {', '.join(retried)}: "
            "traffic is stalled, by the fabric or by the remote node; see the job, the switch port and rdma resource"
        )
        return Verdict(port.subject, Status.WARN, "Stalled", message, observed=", ".join(retried), expected="packets")
    if not any(name in grown for name in (*RECEIVED_COUNTERS, *SENT_COUNTERS)):
        return None
    return Verdict(port.subject, Status.OK, "Flowing", f"{port.where} is in use; nothing is stalled {window}")


CHECK = Check(
    id="counter.stalled",
    question="Does traffic still flow where a process uses an ACTIVE RDMA port?",
    why="The worst fault is grey: link up, port ACTIVE, nothing gets through, and every rank of the job waits.",
    fix="Take the node out of the job; compare the switch port's counters with a good rail; then cable and card.",
    reasons=(
        Reason("Stalled", Status.WARN),
        Reason("Flowing", Status.OK),
    ),
    source="rxe under netem loss 100 %: state ACTIVE while completer_retry_err climbs; NVIDIA/NVSentinel",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Counters, Rdma, RdmaNetlink),
    judge=judge,
    want=Want,
    rates=True,
    window=lambda want: want.over,
)
