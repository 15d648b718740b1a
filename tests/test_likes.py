"""A WARN that only the likes of a device give is declared as one, so that no such device becomes a model for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nodeprep import check_round, facts, profile_selection
from nodeprep.checks import CHECKS
from nodeprep.config.configuration import Settings
from nodeprep.doors.node_host import Host
from nodeprep.facts.expected.kinds import Role
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.look import Look
from nodeprep.model import Finding, Status, Unreadable, Why, raw
from nodeprep.observer import Observer
from nodeprep.values import replace
from tests.rigs import trees
from tests.values import changed

pytestmark = pytest.mark.slow


class Worse(NamedTuple):
    """What one device of a kind may show otherwise than its likes: the fact, its tuple of things, a field, a value."""

    fact: type
    things: str
    field: str
    value: Any


# Not here: what closes the gate alone (state, driver, address), whatever the likes show.
WORSE = (
    Worse(Rdma, "ports", "rate", 100.0),
    Worse(Rdma, "devices", "firmware", "1.0.0"),
    Worse(Pci, "devices", "width", 8),
    Worse(Pci, "devices", "speed", 16.0),
    Worse(Pci, "devices", "numa", 7),
    Worse(Links, "links", "mtu", 1280),
    Worse(Links, "links", "carrier", False),
    Worse(Links, "links", "operstate", "down"),
)
NODES = ("h100-ib", "h100-roce", "roce-bonds", "iwarp")


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Look]:
    at = tmp_path_factory.mktemp("nodes")
    return {name: look_at(trees.build(name, at / name)) for name in NODES}


def look_at(root: Path) -> Look:
    """A look in which no fact was late, as one can be on a busy machine."""
    for _ in range(10):
        look = Observer(Host(str(root), live=False)).look(facts.ALL)
        if not any(isinstance(fact, Unreadable) and fact.kind is Why.TIMEOUT for fact in look.facts.values()):
            return look
    pytest.fail("some fact was late ten times")


def warnings(look: Look) -> set[tuple[str, str, str]]:
    """Check, place and reason of each WARN, by the profile that the hardware chooses."""
    chosen = profile_selection.select(Settings(), look).profile
    found = check_round.judge(CHECKS.values(), look, None, chosen, {}).findings
    return {(one.check, one.subject.place, one.verdict.reason) for one in found if is_warning(one)}


def is_warning(one: Finding) -> bool:
    return one.status is Status.WARN and one.root is None


def things(look: Look, worse: Worse) -> tuple[Any, ...]:
    shown: tuple[Any, ...] = raw(look.facts[worse.fact])[worse.things]  # type: ignore[arg-type]
    return shown


def with_worse(look: Look, worse: Worse, which: set[int]) -> Look:
    """The look in which some things of a fact show the worse value."""
    shown = enumerate(things(look, worse))
    changes = tuple(changed(one, **{worse.field: worse.value}) if index in which else one for index, one in shown)
    return replace(look, facts={**look.facts, worse.fact: changed(look.facts[worse.fact], **{worse.things: changes})})


def held_against_likes(look: Look, worse: Worse) -> Iterator[tuple[str, str, str]]:
    """The warnings of one worse device that no device has where all are as bad as it: its likes alone say so."""
    count = len(things(look, worse))
    healthy = warnings(look)
    all_bad = {(check, reason) for check, _, reason in warnings(with_worse(look, worse, {*range(count)}))}
    for index in range(count):
        one_bad = with_worse(look, worse, {index})
        for check, place, reason in warnings(one_bad) - healthy:
            if (check, reason) not in all_bad and (declared(check, reason) or not is_of_a_spare(one_bad, place)):
                yield check, place, reason


def is_of_a_spare(look: Look, place: str) -> bool:
    """Whether the fault only warns because another port of the card stands in: its likes say nothing of it."""
    expected = check_round.expect(look, profile_selection.select(Settings(), look).profile)
    assert not isinstance(expected, Unreadable)
    return any(one.role is Role.SPARE for one in expected.kinds.at(place))


@pytest.mark.parametrize("node", NODES)
def test_a_warning_that_only_likes_give_is_declared_as_one(looks: dict[str, Look], node: str) -> None:
    undeclared = [
        (worse.field, *said)
        for worse in WORSE
        for said in held_against_likes(looks[node], worse)
        if not declared(said[0], said[2])
    ]
    assert undeclared == []


def declared(check: str, reason: str) -> bool:
    reasons = CHECKS[check].reasons
    return any(one.against_likes for one in reasons if one.name == reason and one.status is Status.WARN)


def test_each_check_that_compares_devices_of_a_kind_is_seen_to_do_so(looks: dict[str, Look]) -> None:
    """Of what is declared, eni.mtu needs metadata, port.layer other cards, and pci.numa a node without NICs."""
    seen = {
        check
        for node in NODES
        for worse in WORSE
        for check, _, reason in held_against_likes(looks[node], worse)
        if declared(check, reason)
    }
    assert seen | {"eni.mtu", "port.layer", "pci.numa"} == {
        check.id for check in CHECKS.values() if any(one.against_likes for one in check.reasons)
    }


def test_only_a_warning_is_held_against_likes() -> None:
    """A FAIL stands against a capture anyway, and what is fine never does."""
    marked = [one for check in CHECKS.values() for one in check.reasons if one.against_likes]
    assert {one.status for one in marked} == {Status.WARN}
