"""A field that could not be read raises when it is read, and only then."""

from __future__ import annotations

import pytest

from nodeprep.facts.machine.pci import Pci
from nodeprep.model import (
    NODE,
    CannotLook,
    Seen,
    Shown,
    Status,
    Unreadable,
    Verdict,
    Why,
    derived,
    failing_anyway,
    raw,
    shown,
    signs,
    stands_for_all,
)
from nodeprep.shown import supposing
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


@shown
class Lamp(Shown):
    """A thing with two fields that may be supposed, and one that may not."""

    colour: str
    watts: int
    place: str

    possible = stands_for_all(colour=("red", "green"), watts=lambda lamp: (len(raw(lamp)["place"]),))

    @derived
    def is_red(self) -> bool:
        return self.colour == "red"


LAMP = Lamp(DENIED, 40, "desk")  # type: ignore[arg-type]


def fault(lamp: Lamp) -> Verdict:
    return Verdict(NODE, Status.FAIL, "Dim", f"{lamp.colour!r} {lamp.watts}", observed=lamp.colour)


def unlike(colour: str) -> list[Verdict]:
    """The fault of a lamp that has another colour."""
    return [] if LAMP.colour == colour else [fault(LAMP)]


@pytest.mark.parametrize(("colour", "fails"), [("blue", True), ("red", False), ("green", False)])
def test_what_fails_with_each_possible_value_fails(colour: str, fails: bool) -> None:
    with pytest.raises(CannotLook) as caught:
        unlike(colour)
    found = failing_anyway(lambda: unlike(colour), caught.value)
    assert [one.message for one in found] == [f"unreadable 40; could not look at {DENIED}"] * fails
    assert [one.observed for one in found] == ["unreadable"] * fails


def test_a_field_without_possible_values_is_never_supposed() -> None:
    lamp = Lamp("red", 40, DENIED)  # type: ignore[arg-type]
    with pytest.raises(CannotLook) as caught:
        _ = lamp.place
    assert failing_anyway(lambda: [fault(lamp)], caught.value) == ()


def test_several_unreadable_fields_are_supposed_together() -> None:
    other = Unreadable(Why.IO_ERROR, "/sys/y", 5)
    lamp = Lamp(DENIED, other, "desk")  # type: ignore[arg-type]
    with pytest.raises(CannotLook) as caught:
        _ = lamp.colour
    (found,) = failing_anyway(lambda: [fault(lamp)] if lamp.watts == len("desk") else [], caught.value)
    assert str(DENIED) in found.message
    assert str(other) in found.message


def test_what_is_derived_of_a_supposed_value_is_not_kept() -> None:
    with pytest.raises(CannotLook) as caught:
        _ = LAMP.is_red
    answers = []
    for value in caught.value.possible:
        with supposing(caught.value, value):
            answers.append(LAMP.is_red)
    assert answers == [True, False]
    with pytest.raises(CannotLook):
        _ = LAMP.is_red


def test_signs_are_judged_each_alone() -> None:
    def blind() -> Verdict:
        raise CannotLook(DENIED)

    fine, bad = Verdict(NODE, Status.OK, "Fine", ""), Verdict(NODE, Status.FAIL, "Bad", "")
    assert signs(blind, lambda: None, lambda: bad) is bad
    assert signs(lambda: fine, lambda: bad) is bad
    assert signs(lambda: None, lambda: fine) is fine
    assert signs(lambda: None) is None
    with pytest.raises(CannotLook):
        signs(lambda: fine, blind)


def test_a_fact_that_only_explains_may_be_unreadable() -> None:
    assert Seen({Pci: DENIED}).explaining(Pci) is None
    assert Seen({}).explaining(Pci) is None
