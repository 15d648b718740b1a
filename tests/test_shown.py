"""A field that could not be read raises when it is read, and only then."""

from __future__ import annotations

import pytest

from nodeprep.model import NODE, CannotLook, Seen, Status, Unreadable, Verdict, Why, raw
from tests.values import changed, port

DENIED = Unreadable(Why.DENIED, "/sys/x", 13, "Permission denied")


def test_reading_an_unreadable_field_raises_with_its_reason() -> None:
    with pytest.raises(CannotLook) as caught:
        _ = port(state=DENIED).state
    assert caught.value.blind == DENIED


def test_its_neighbours_stay_readable() -> None:
    assert port(state=DENIED).physical == "5: LinkUp"


def test_raw_gives_every_field_as_it_is() -> None:
    assert raw(port(state=DENIED)) == raw(port()) | {"state": DENIED}


def test_equality_hash_and_repr_do_not_raise() -> None:
    one, other = port(state=DENIED), port(state=DENIED)
    assert one == other
    assert hash(one) == hash(other)
    assert one != port()
    assert one != "mlx5_3/1"
    assert "Unreadable(" in repr(one)


def test_a_name_that_no_field_has_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such"):
        _ = port().no_such  # type: ignore[attr-defined]


def test_it_is_frozen() -> None:
    with pytest.raises(AttributeError):
        port().state = "1: DOWN"  # type: ignore[misc]


def test_a_copy_may_become_readable_again() -> None:
    assert changed(port(state=DENIED), state="1: DOWN").state == "1: DOWN"


def test_an_unreadable_fact_cannot_be_taken_for_its_value() -> None:
    with pytest.raises(CannotLook):
        Seen({int: DENIED})[int]
    with pytest.raises(CannotLook):
        Seen({int: DENIED}).get(int)
    assert Seen({}).get(int) is None


def test_each_spoils_only_the_verdict_of_what_was_unreadable() -> None:
    things = [port(state=DENIED), port(device="mlx5_4", bdf="0000:5d:00.0")]
    told = list(Seen({}).each(things, lambda one: Verdict(NODE, Status.OK, one.state, "")))
    assert [(verdict.status, verdict.subject.key) for verdict in told] == [
        (Status.UNKNOWN, "0000:5c:00.0/1"),
        (Status.OK, ""),
    ]


@pytest.mark.parametrize(
    ("blind", "text"),
    [
        (DENIED, "/sys/x: denied (Permission denied)"),
        (Unreadable(Why.TIMEOUT, "Rdma"), "Rdma: timeout"),
        (Unreadable(Why.IO_ERROR, "/sys/x", 5), "/sys/x: io-error (errno 5)"),
    ],
)
def test_it_says_what_it_is(blind: Unreadable, text: str) -> None:
    assert str(blind) == text
