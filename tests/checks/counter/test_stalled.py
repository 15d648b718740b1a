"""counter.stalled: a port in use through which nothing gets."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.counter.stalled import CHECK, RETRIES, Want
from nodeprep.facts.rdma.counters import Counters, PortCounters
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from tests.values import port, rdma, say, verdicts

PORT = port()
THEN: Any = 7  # how high counters stood before


def users(count: int, device: str = "mlx5_3") -> RdmaNetlink:
    return RdmaNetlink(0.0, True, (device,), (), (), (), ((device, count),), (), None, ())


IN_USE, IDLE = users(1), users(0)


def counters(device: str = "mlx5_3", saturated: tuple[str, ...] = (), **values: Any) -> Counters:
    return Counters(0.0, (PortCounters(device, 1, PORT.bdf, tuple(sorted(values.items())), (), saturated),))


def between(events: dict[str, Any], seconds: float = 60.0, **look: Any) -> str:
    """What is said of an ACTIVE port in use whose counters, at THEN before, grew by so much."""
    then = counters(**dict.fromkeys(events, THEN))
    now = counters(**{name: THEN + more for name, more in events.items()})
    seen = (rdma(PORT), IN_USE)
    return say(CHECK, *seen, now, before=(*seen, then), seconds=seconds, **look)


RXE = {"sent_pkts": 12, "rcvd_pkts": 0, "completer_retry_err": 4}
ROWS = [
    (RXE, "warn Stalled"),  # a black hole: it sends again and again
    (RXE | {"rcvd_pkts": 1}, "ok Flowing"),
    (RXE | {"completer_retry_err": 0}, "ok Flowing"),
    ({"port_xmit_packets": 0, "port_rcv_packets": 7, "local_ack_timeout_err": 1}, "warn Stalled"),
    ({"port_xmit_packets": 9, "port_rcv_packets": 0, "local_ack_timeout_err": 1}, "warn Stalled"),
    ({"port_xmit_packets": 0, "port_rcv_packets": 0, "local_ack_timeout_err": 0}, "ok Flowing"),
    ({"tx_pkts": 0, "rx_pkts": 5, "retrans_timeout_events": 2}, "warn Stalled"),
    ({"tx_pkts": 4, "rx_pkts": 0, "retrans_timeout_events": 2}, "warn Stalled"),
    ({"tx_pkts": 4, "rx_pkts": 5, "retrans_timeout_events": 2}, "ok Flowing"),
    ({"sent_pkts": 0, "retry_exceeded_err": 1}, "warn Stalled"),
    ({"local_ack_timeout_err": 9}, "absent Nothing"),
    ({}, "absent Nothing"),
]


@pytest.mark.parametrize(("events", "says"), ROWS)
def test_says(events: dict[str, Any], says: str) -> None:
    assert between(events) == says


@pytest.mark.parametrize("retry", RETRIES)
def test_any_counter_of_retries_tells(retry: str) -> None:
    assert between({"rcvd_pkts": 0, retry: 1}) == "warn Stalled"


def test_a_short_silence_is_no_stall() -> None:
    assert between(RXE, seconds=59.9) == "absent Nothing"
    assert between(RXE, seconds=9.0, want=Want(over=9)) == "warn Stalled"
    assert between(RXE, seconds=8.9, want=Want(over=9)) == "absent Nothing"


def test_an_excluded_counter_is_not_judged() -> None:
    assert between(RXE, want=Want(exclude=("completer_retry_err",))) == "ok Flowing"
    assert between(RXE, want=Want(exclude=("rcvd_pkts",))) == "ok Flowing"


USE = [
    (IN_USE, IN_USE, "warn Stalled"),
    (IDLE, IN_USE, "absent Nothing"),
    (IN_USE, IDLE, "absent Nothing"),
    (IN_USE, users(3, "mlx5_9"), "absent Nothing"),
]


@pytest.mark.parametrize(("then", "now", "says"), USE)
def test_only_a_port_in_use_can_stall(then: RdmaNetlink, now: RdmaNetlink, says: str) -> None:
    old, new = counters(rcvd_pkts=5, retry_exceeded_err=0), counters(rcvd_pkts=5, retry_exceeded_err=3)
    assert say(CHECK, rdma(PORT), now, new, before=(rdma(PORT), then, old), seconds=60.0) == says


def test_a_device_that_was_renamed_meanwhile_is_the_same() -> None:
    old, new = counters("rocep92s0", rcvd_pkts=5, retry_exceeded_err=0), counters(rcvd_pkts=5, retry_exceeded_err=3)
    before = (rdma(port(device="rocep92s0")), users(1, "rocep92s0"), old)
    assert say(CHECK, rdma(PORT), IN_USE, new, before=before, seconds=60.0) == "warn Stalled"


@pytest.mark.parametrize("state", ["1: DOWN", "2: INIT"])
def test_of_a_port_that_is_not_active_port_state_speaks(state: str) -> None:
    down = rdma(port(state=state))
    old, new = counters(rcvd_pkts=5, retry_exceeded_err=0), counters(rcvd_pkts=5, retry_exceeded_err=3)
    assert say(CHECK, down, IN_USE, new, before=(down, IN_USE, old), seconds=60.0) == "absent Nothing"


def test_a_packet_counter_that_reached_its_maximum_stands_still_for_that() -> None:
    full = counters(saturated=("port_rcv_packets",), port_rcv_packets=(1 << 32) - 1, local_ack_timeout_err=0)
    more = counters(saturated=("port_rcv_packets",), port_rcv_packets=(1 << 32) - 1, local_ack_timeout_err=5)
    seen = (rdma(PORT), IN_USE)
    assert say(CHECK, *seen, more, before=(*seen, full), seconds=60.0) == "absent Nothing"


def test_a_port_that_was_not_there_before_cannot_stall() -> None:
    seen = (rdma(PORT), IN_USE)
    now = counters(rcvd_pkts=5, retry_exceeded_err=3)
    assert say(CHECK, *seen, now, before=(*seen, Counters(0.0, ())), seconds=60.0) == "absent Nothing"
    assert say(CHECK, *seen, Counters(0.0, ()), before=(*seen, now), seconds=60.0) == "absent Nothing"


def test_message() -> None:
    seen = (rdma(PORT), IN_USE)
    old = counters(rcvd_pkts=5, sent_pkts=1, completer_retry_err=0)
    new = counters(rcvd_pkts=5, sent_pkts=9, completer_retry_err=8)
    (verdict,) = verdicts(CHECK, *seen, new, before=(*seen, old), seconds=60.0)
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0 is ACTIVE and in use, rcvd_pkts stood still in 60 s and completer_retry_err +8: "
        "traffic is stalled, by the fabric or by the remote node; see the job, the switch port and rdma resource"
    )
