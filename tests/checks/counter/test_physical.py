"""counter.physical: growth between two looks against its limits."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.counter import physical, transport
from nodeprep.checks.counter.physical import CHECK, Want
from nodeprep.facts.rdma.counters import Counters, PortCounters
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Status, Unreadable, Why
from tests.values import link, links, port, rdma, say, verdicts, wanted

PORT = port()
NONE: Any = 0
THEN: Any = 7  # how high counters stood before
GONE = Unreadable(Why.MALFORMED, "/sys/class/infiniband/mlx5_3/ports/1/state")
HERE = "/sys/class/infiniband/mlx5_3/ports/1/counters"


def counters(*unread: str, saturated: tuple[str, ...] = (), **values: Any) -> Counters:
    blind = tuple(Unreadable(Why.IO_ERROR, f"{HERE}/{name}".rstrip("/"), 5) for name in unread)
    return Counters(0.0, (PortCounters("mlx5_3", 1, PORT.bdf, tuple(sorted(values.items())), blind, saturated),))


def grown(events: dict[str, Any], by: str | None = "profile", seconds: float = 10.0, want: Want | None = None) -> str:
    """What is said when these counters, at THEN before, grew by so much."""
    then, now = (
        counters(**dict.fromkeys(events, THEN)),
        counters(**{name: THEN + more for name, more in events.items()}),
    )
    return between(then, now, by, seconds=seconds, want=want)


def between(then: Counters, now: Counters, by: str | None = "profile", **look: Any) -> str:
    seen = (rdma(PORT), wanted(PORT, by))
    return say(CHECK, *seen, now, before=(*seen, then), **look)


ROWS = [
    # counter                          events  seconds  says
    ("local_link_integrity_errors", 0, 10, "ok Quiet"),
    ("local_link_integrity_errors", 1, 10, "fail LinkIntegrityLost"),
    ("excessive_buffer_overrun_errors", 1, 10, "ok Quiet"),
    ("excessive_buffer_overrun_errors", 5, 60, "ok Quiet"),
    ("excessive_buffer_overrun_errors", 6, 60, "warn BufferOverrun"),
    ("excessive_buffer_overrun_errors", 15, 10, "warn BufferOverrun"),
    ("symbol_error", 1, 10, "ok Quiet"),  # one event in ten seconds is no rate of 360 an hour
    ("symbol_error", 2, 10, "warn SymbolErrorsSeen"),
    ("symbol_error", 2, 60, "ok Quiet"),
    ("symbol_error", 3, 60, "warn SymbolErrorsSeen"),
    ("symbol_error", 120, 10, "warn SymbolErrorsSeen"),
    ("symbol_error", 121, 10, "fail SymbolErrors"),
    ("symbol_error", 120, 3600, "ok Quiet"),
    ("symbol_error", 121, 3600, "fail SymbolErrors"),
    ("symbol_error", 240, 7200, "ok Quiet"),
    ("symbol_error", 241, 7200, "fail SymbolErrors"),
    ("symbol_error", 120_000, 3_600_000, "ok Quiet"),
    ("symbol_error", 120_001, 3_600_000, "fail SymbolErrors"),
    ("link_error_recovery", 5, 60, "ok Quiet"),
    ("link_error_recovery", 6, 60, "warn LinkRetrains"),
    ("link_error_recovery", 1, 1, "ok Quiet"),
    ("port_rcv_errors", 100, 10, "ok Quiet"),
    ("port_rcv_errors", 101, 10, "warn ReceiveErrors"),
    ("port_xmit_discards", 1000, 10, "ok Quiet"),
    ("port_xmit_discards", 1001, 10, "warn TransmitDiscards"),
]


@pytest.mark.parametrize(("name", "events", "seconds", "says"), ROWS)
def test_says(name: str, events: int, seconds: float, says: str) -> None:
    assert grown({name: events}, seconds=seconds) == says


OWN = [
    (Want(symbol_errors_per_hour=60), {"symbol_error": 61}, "fail SymbolErrors"),
    (Want(symbol_errors_per_hour=3600), {"symbol_error": 10}, "ok Quiet"),
    (Want(recoveries_per_minute=60), {"link_error_recovery": 10}, "ok Quiet"),
    (Want(overruns_per_minute=1), {"excessive_buffer_overrun_errors": 2}, "warn BufferOverrun"),
    (Want(receive_errors_per_second=0.1), {"port_rcv_errors": 2}, "warn ReceiveErrors"),
    (Want(discards_per_second=1), {"port_xmit_discards": 11}, "warn TransmitDiscards"),
    (Want(exclude=("symbol_error",)), {"symbol_error": 999}, "absent Nothing"),
    (Want(exclude=("symbol_error",)), {"symbol_error": 999, "port_rcv_errors": 0}, "ok Quiet"),
]


@pytest.mark.parametrize(("want", "events", "says"), OWN)
def test_says_by_an_operators_numbers(want: Want, events: dict[str, Any], says: str) -> None:
    assert grown(events, want=want) == says


def test_link_downed_is_port_flaps() -> None:
    assert grown({"link_downed": 9}) == "absent Nothing"


def test_the_gravest_comes_first_and_all_are_told() -> None:
    seen = (rdma(PORT), wanted(PORT, "profile rails"))
    then, now = counters(port_rcv_errors=0, symbol_error=0), counters(port_rcv_errors=500, symbol_error=200)
    (verdict,) = verdicts(CHECK, *seen, now, before=(*seen, then))
    assert (verdict.status, verdict.reason, verdict.observed) == ("fail", "SymbolErrors", "+200")
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0: symbol_error +200 in 10 s, at most 120 at once wanted by default "
        "(symbol-errors-per-hour); port_rcv_errors +500 in 10 s, at most 10 a second wanted by default "
        "(receive-errors-per-second); the port is wanted by profile rails; "
        "cat /sys/class/infiniband/mlx5_3/ports/*/*counters/*"
    )


def test_a_port_that_nobody_wants_may_have_errors() -> None:
    assert grown({"local_link_integrity_errors": 1}, by=None) == "ok NotNeeded"
    assert grown({"local_link_integrity_errors": 0}, by=None) == "ok Quiet"


STUCK = {"saturated": ("excessive_buffer_overrun_errors",), "excessive_buffer_overrun_errors": 15}


def test_a_counter_at_its_maximum_is_no_information_and_no_alarm() -> None:
    full: Any = STUCK
    assert between(counters(**full), counters(**full)) == "ok Saturated"
    assert between(counters(symbol_error=0, **full), counters(symbol_error=5, **full)) == "warn SymbolErrorsSeen"
    seen = (rdma(PORT), wanted(PORT, "profile"))
    (verdict,) = verdicts(CHECK, *seen, counters(**full), before=(*seen, counters(**full)))
    assert verdict.message.endswith(
        "excessive_buffer_overrun_errors stopped at the highest value and count no further: perfquery -R resets them"
    )


def test_the_step_to_the_maximum_still_counts() -> None:
    full: Any = STUCK
    assert between(counters(excessive_buffer_overrun_errors=9), counters(**full)) == "warn BufferOverrun"


def test_a_counter_that_was_reset_says_nothing() -> None:
    assert between(counters(symbol_error=500), counters(symbol_error=200)) == "absent Nothing"
    full: Any = STUCK
    assert between(counters(**full), counters(excessive_buffer_overrun_errors=1)) == "ok Saturated"


UNREAD = [
    # unread               others                    wanted by  says
    (("symbol_error",), {}, "profile", "unknown CannotLook"),
    (("symbol_error",), {}, None, "absent Nothing"),
    (("symbol_error",), {"port_rcv_errors": 0}, "profile", "ok Quiet"),
    (("symbol_error",), {"port_rcv_errors": 500}, "profile", "warn ReceiveErrors"),
    (("rx_drops",), {}, "profile", "absent Nothing"),
    (("link_downed",), {}, "profile", "absent Nothing"),
    (("",), {}, "profile", "unknown CannotLook"),  # the directory itself
]


@pytest.mark.parametrize(("unread", "events", "by", "says"), UNREAD)
def test_an_unread_counter_hides_no_other(
    unread: tuple[str, ...], events: dict[str, Any], by: str | None, says: str
) -> None:
    assert between(counters(**dict.fromkeys(events, NONE)), counters(*unread, **events), by) == says


def test_what_could_not_be_read_is_told_with_the_rest() -> None:
    seen = (rdma(PORT), wanted(PORT, "profile"))
    now, then = counters("symbol_error", port_rcv_errors=1), counters(port_rcv_errors=1)
    (verdict,) = verdicts(CHECK, *seen, now, before=(*seen, then))
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0: no counter grew too fast in 10 s; could not look at symbol_error"
    )


def test_a_port_that_was_not_there_before_has_not_grown() -> None:
    assert between(Counters(0.0, ()), counters(symbol_error=900)) == "absent Nothing"
    assert between(counters(symbol_error=900), Counters(0.0, ())) == "absent Nothing"


def test_compares_two_looks_only() -> None:
    assert CHECK.rates
    assert say(CHECK, rdma(PORT), wanted(PORT, "profile"), counters(symbol_error=900)) == "absent Nothing"


def test_what_convicts_has_a_source_that_is_not_ours() -> None:
    """The reason, and who says that it is a fault."""
    limits = (*physical.limits(Want(), 60.0), *transport.limits(transport.Want()))
    convicting = {limit.counter: limit.source for limit in limits if limit.status is Status.FAIL}
    assert {name: source.partition(" ")[0] for name, source in convicting.items()} == {
        "local_link_integrity_errors": "IBTA",
        "symbol_error": "IBTA",
        "retry_rnr_exceeded_err": "IBTA",
    }
    assert all("NVSentinel" in source for source in convicting.values())
    assert all(limit.source for limit in limits)


EVERY = {"local_link_integrity_errors": 15, "symbol_error": 5000, "excessive_buffer_overrun_errors": 12}
UNSETTLED = [
    # what the look before and this one show beside the counters    says
    ((), (), "fail LinkIntegrityLost"),
    ({"state": "1: DOWN", "physical": "2: Polling"}, {}, "ok Unsettled"),
    ({"state": "2: INIT"}, {}, "ok Unsettled"),
    ({}, {"state": "1: DOWN"}, "ok Unsettled"),
    ({"state": GONE}, {}, "fail LinkIntegrityLost"),  # one sign that cannot be read excuses nothing
]


@pytest.mark.parametrize(("then", "now", "says"), UNSETTLED)
def test_a_link_that_comes_up_convicts_nobody(then: Any, now: Any, says: str) -> None:
    old, new = port(**dict(then)), port(**dict(now))
    before = (rdma(old), wanted(PORT, "profile"), counters(**dict.fromkeys(EVERY, NONE)))
    seen: Any = EVERY
    assert say(CHECK, rdma(new), wanted(PORT, "profile"), counters(**seen), before=before, seconds=60.0) == says


LOST = [
    # link_downed  netdev before     netdev now           says
    (0, {}, {}, "fail LinkIntegrityLost"),
    (1, {}, {}, "ok Unsettled"),
    (0, {"downs": 4}, {"downs": 4}, "fail LinkIntegrityLost"),
    (0, {"downs": 4}, {"downs": 5}, "ok Unsettled"),
    (0, {"carrier": False}, {}, "ok Unsettled"),
    (0, {"carrier": False}, {"carrier": False}, "fail LinkIntegrityLost"),  # nothing came up
    (0, {"index": 9}, {}, "ok Unsettled"),  # its driver was bound again
    (0, {"downs": GONE}, {"downs": 5}, "fail LinkIntegrityLost"),
]


@pytest.mark.parametrize(("downed", "then", "now", "says"), LOST)
def test_nor_does_one_that_was_lost(downed: int, then: dict[str, Any], now: dict[str, Any], says: str) -> None:
    more: Any = EVERY | {"link_downed": downed}
    before = (rdma(PORT), wanted(PORT, "profile"), counters(**dict.fromkeys(more, NONE)), links(link(**then)))
    seen = (rdma(PORT), wanted(PORT, "profile"), counters(**more), links(link(**now)))
    assert say(CHECK, *seen, before=before, seconds=60.0) == says


def test_an_ipoib_interface_has_no_part_in_it() -> None:
    rail = port(layer="InfiniBand", netdev="ib0")
    more: Any = EVERY
    ends = [link(name="ib0", up=False, carrier=carrier, downs=downs) for carrier, downs in ((False, 0), (True, 1))]
    before = (rdma(rail), wanted(rail, "profile"), counters(**dict.fromkeys(EVERY, NONE)), links(ends[0]))
    seen = (rdma(rail), wanted(rail, "profile"), counters(**more), links(ends[1]))
    assert say(CHECK, *seen, before=before, seconds=60.0) == "fail LinkIntegrityLost"


BOOTS = [
    (1.0, "ok Unsettled"),
    (179.9, "ok Unsettled"),
    (180.0, "fail LinkIntegrityLost"),
    (0.0, "fail LinkIntegrityLost"),
]


@pytest.mark.parametrize(("at", "says"), BOOTS)
def test_nor_does_a_node_that_boots(at: float, says: str) -> None:
    seen: Any = EVERY
    before = (Rdma(at, (), (PORT,)), wanted(PORT, "profile"), counters(**dict.fromkeys(EVERY, NONE)))
    now = (Rdma(at + 60, (), (PORT,)), wanted(PORT, "profile"), counters(**seen))
    assert say(CHECK, *now, before=before, seconds=60.0) == says


def test_the_message_says_why_nothing_is_held_against_it() -> None:
    before = (rdma(port(state="1: DOWN")), wanted(PORT, "profile"), counters(symbol_error=0))
    (verdict,) = verdicts(CHECK, rdma(PORT), wanted(PORT, "profile"), counters(symbol_error=900), before=before)
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0: symbol_error +900 in 10 s, at most 120 at once wanted by default "
        "(symbol-errors-per-hour); its link was not up before, which moves counters without a fault"
    )
