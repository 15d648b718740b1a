"""counter.transport: each driver's counters against their limits."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.counter import transport
from nodeprep.checks.counter.transport import CHECK, Want
from nodeprep.facts.rdma.counters import TRANSPORT, Counters, PortCounters
from nodeprep.model import Status
from tests.values import port, rdma, say, verdicts, wanted

PORT = port()
THEN: Any = 7  # how high counters stood before


def counters(**values: Any) -> Counters:
    return Counters(0.0, (PortCounters("mlx5_3", 1, PORT.bdf, tuple(sorted(values.items())), ()),))


def grown(events: dict[str, Any], by: str | None = "profile", want: Want | None = None) -> str:
    """What is said when these counters, at THEN before, grew by so much in ten seconds."""
    then, now = (
        counters(**dict.fromkeys(events, THEN)),
        counters(**{name: THEN + more for name, more in events.items()}),
    )
    seen = (rdma(PORT), wanted(PORT, by))
    return say(CHECK, *seen, now, before=(*seen, then), want=want)


ANY = [
    # counters of which each event counts
    ("retry_rnr_exceeded_err", "fail ReceiverNotReady"),
    ("retry_exceeded_err", "warn RetriesExceeded"),
    ("req_transport_retries_exceeded", "warn RetriesExceeded"),
    ("roce_adp_retrans_to", "warn RetriesExceeded"),
]


@pytest.mark.parametrize(("name", "says"), ANY)
def test_each_event_counts(name: str, says: str) -> None:
    assert grown({name: 0}) == "ok Quiet"
    assert grown({name: 1}) == says


RATES = [
    # counter                      most in 10 s  beyond it
    ("rnr_nak_retry_err", 10, "warn ReceiverNotReady"),  # the retry limit was not exceeded
    ("local_ack_timeout_err", 10, "warn AckTimeouts"),
    ("roce_slow_restart", 100, "warn SlowRestarts"),
    ("out_of_sequence", 1000, "warn OutOfSequence"),
    ("packet_seq_err", 1000, "warn OutOfSequence"),
    ("rcvd_seq_err", 10, "warn OutOfSequence"),
    ("out_of_seq_request", 10, "warn OutOfSequence"),
    ("rx_drops", 1000, "warn EfaErrors"),
    ("rdma_write_wr_err", 1000, "warn EfaErrors"),
    ("rdma_read_wr_err", 1000, "warn EfaErrors"),
    ("unresponsive_remote_events", 1000, "warn EfaErrors"),
    ("unresponsive_remote_err", 1000, "warn EfaErrors"),
    ("impaired_remote_conn_events", 1000, "warn EfaErrors"),
    ("impaired_remote_conn_err", 1000, "warn EfaErrors"),
    ("retrans_timeout_events", 1000, "warn EfaErrors"),
    ("retrans_pkts", 10_000, "warn Retransmissions"),
    ("retrans_bytes", 10_000_000, "warn Retransmissions"),
]


@pytest.mark.parametrize(("name", "most", "says"), RATES)
def test_a_rate_counts(name: str, most: int, says: str) -> None:
    assert grown({name: most}) == "ok Quiet"
    assert grown({name: most + 1}) == says


def test_every_counter_that_is_read_for_it_is_judged() -> None:
    """completer_retry_err moves without a fault on a slow machine: counter.stalled alone asks for it."""
    assert set(TRANSPORT) - {limit.counter for limit in transport.limits(Want())} == {"completer_retry_err"}


OWN = [
    (Want(not_ready_per_second=0.1), {"rnr_nak_retry_err": 2}, "warn ReceiverNotReady"),
    (Want(local_ack_timeouts_per_second=0.1), {"local_ack_timeout_err": 2}, "warn AckTimeouts"),
    (Want(slow_restarts_per_second=0), {"roce_slow_restart": 2}, "warn SlowRestarts"),
    (Want(slow_restarts_per_second=0), {"roce_slow_restart": 1}, "ok Quiet"),
    (Want(out_of_sequence_per_second=1), {"packet_seq_err": 11}, "warn OutOfSequence"),
    (Want(software_sequence_errors_per_second=100), {"rcvd_seq_err": 11}, "ok Quiet"),
    (Want(efa_events_per_second=1), {"rx_drops": 11}, "warn EfaErrors"),
    (Want(retransmitted_packets_per_second=1), {"retrans_pkts": 11}, "warn Retransmissions"),
    (Want(retransmitted_bytes_per_second=1), {"retrans_bytes": 11}, "warn Retransmissions"),
    (Want(exclude=("rnr_nak_retry_err",)), {"rnr_nak_retry_err": 5}, "absent Nothing"),
    (Want(exclude=("rnr_nak_retry_err",)), {"rnr_nak_retry_err": 5, "rx_drops": 0}, "ok Quiet"),
]


@pytest.mark.parametrize(("want", "events", "says"), OWN)
def test_says_by_an_operators_numbers(want: Want, events: dict[str, Any], says: str) -> None:
    assert grown(events, want=want) == says


def test_one_fault_among_warnings_is_a_fault() -> None:
    assert (
        grown({"local_ack_timeout_err": 500, "roce_adp_retrans_to": 1, "retry_rnr_exceeded_err": 1})
        == "fail ReceiverNotReady"
    )


def test_a_port_that_nobody_wants_may_have_errors() -> None:
    assert grown({"retry_rnr_exceeded_err": 5}, by=None) == "ok NotNeeded"


def test_a_link_that_comes_up_convicts_nobody() -> None:
    then, now = counters(retry_rnr_exceeded_err=0), counters(retry_rnr_exceeded_err=4)
    before = (rdma(port(state="1: DOWN")), wanted(PORT, "profile"), then)
    assert say(CHECK, rdma(PORT), wanted(PORT, "profile"), now, before=before) == "ok Unsettled"


def test_a_port_without_such_counters_is_no_question() -> None:
    assert grown({"symbol_error": 500}) == "absent Nothing"


def test_message() -> None:
    seen = (rdma(PORT), wanted(PORT, "profile rails"))
    then, now = counters(retry_rnr_exceeded_err=0), counters(retry_rnr_exceeded_err=2)
    (verdict,) = verdicts(CHECK, *seen, now, before=(*seen, then))
    assert verdict.status is Status.FAIL
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0: retry_rnr_exceeded_err +2 in 10 s, none is right; the port is wanted by profile "
        "rails; cat /sys/class/infiniband/mlx5_3/ports/*/*counters/*"
    )
