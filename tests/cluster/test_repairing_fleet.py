"""Several nodes in mode repair: few at a time, none where all have the fault, and no remedy that helps nowhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nodeprep.decide.fleet_notes import SKEW_SECONDS
from tests.cluster import fleet_watch, repaired_node
from tests.cluster.fleet_watch import FleetWatch
from tests.cluster.repaired_node import Repaired, configuration
from tests.rigs.cluster import Cluster
from tests.rigs.netns import Node
from tests.rigs.waiting import until

NODES = 4
RECORDS = "/var/lib/cni/terway"


@pytest.fixture(scope="module")
def cluster(apart: Cluster) -> Cluster:
    return apart


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Node]]:
    with repaired_node.terway_nodes(NODES) as made:
        yield made


@pytest.fixture
def some(cluster: Cluster, nodes: list[Node], tmp_path: Path) -> Iterator[Callable[..., list[Repaired]]]:
    """Makes so many nodes of a fleet."""
    with repaired_node.fleet(cluster, new=10) as fleet:

        def make(count: int, **different: Any) -> list[Repaired]:
            return [
                fleet.enter_context(
                    repaired_node.repaired(cluster, node, tmp_path, f"fleet-{time.monotonic_ns()}", **different)
                )
                for node in nodes[:count]
            ]

        yield make


def is_held_back(one: Repaired, reason: str) -> bool:
    return one.suppressed() == {"eni.up": reason}


def has_come_out(one: Repaired, *outcomes: str) -> bool:
    return one.outcomes() == list(outcomes)


def test_a_fault_of_three_nodes_is_none_of_theirs(some: Callable[..., list[Repaired]]) -> None:
    """A switch, a release or a configuration. A fourth node with it is not repaired either."""
    slow = "settled=1,conviction=10,passes=1,retry=1"
    ones = some(4, waits=slow)
    for one in ones:
        one.down()
    for one in ones:
        until(partial(is_held_back, one, "correlated"), f"{one.name} holds back")
    assert [one.calls() for one in ones] == [[]] * 4
    print(ones[0].repair()["suppressed"])


def test_of_three_nodes_one_is_in_repair_at_a_time(cluster: Cluster, some: Callable[..., list[Repaired]]) -> None:
    """Two have one fault, the third has another. No play begins before the one before it was judged.

    A watch of the API server says the same. The plays of the two are held until all others were refused the slot.
    """
    profile = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: links\ngates: [eni.up, terway.directories]\n"
    quick = "every: {terway: 1}\nconfirmation: {slow: {fails: 1, of: 1, apart: 0, span: 0}, "
    config = configuration().replace("confirmation: {", quick)
    ones = some(3, config=config, profile=profile)
    with fleet_watch.watching(cluster, f"{repaired_node.SLOT}0") as watch:
        for one in ones[:2]:
            one.waits(waits=True)
            one.down()
        first = until(partial(in_play, ones), "the first play")[0]
        ones[2].node.run("rm", "-rf", RECORDS)
        for one in ones:
            if one is not first:
                until(partial(waits_for_slot, one), f"{one.name} waits for the slot")
        until(partial(is_repairing, watch, first), "the Node says that it is in repair")
        assert repaired_node.holder(cluster) == first.name
        until(lambda: len(watch.renewals(first.name)) > 1, "its slot is renewed")
        first.waits(waits=False)
        (second,) = (one for one in ones[:2] if one is not first)
        until(partial(is_repairing, watch, second), "the second play")
        assert repaired_node.holder(cluster) == second.name
        second.waits(waits=False)
        for one in ones:
            until(partial(has_come_out, one, "released"), f"{one.name} is mended")
        until(lambda: repaired_node.holder(cluster) == "", "the slot is given back")
        watch.come_to(first.name)
    times = sorted((begun, over) for one in ones for begun, over in one.ran())
    print(times, watch.holders())
    assert len(times) == 3
    assert all(over < begun for (_, over), (begun, _) in pairwise(times))
    assert set(watch.holders()[1::2]) == {one.name for one in ones}
    assert set(watch.holders()[::2]) == {""}, "nobody takes it from another"
    assert len(watch.most_at_once()) == 1


def waits_for_slot(one: Repaired) -> bool:
    return "slot" in one.suppressed().values()


def in_play(ones: list[Repaired]) -> list[Repaired]:
    return [one for one in ones if one.calls()]


def is_repairing(watch: FleetWatch, one: Repaired) -> bool:
    return watch.state(one.name) == "Repairing"


@pytest.mark.parametrize("waits", [False, pytest.param(True, marks=pytest.mark.prove)], ids=("later", "waits"))
def test_a_slot_of_a_node_that_died_is_taken_when_its_time_is_over(
    cluster: Cluster, some: Callable[..., list[Repaired]], waits: bool
) -> None:
    """Killed in the middle of its play, and it never comes again. `waits`: seven minutes, which else are taken off."""
    short = "repair: {deadline: {safe: 90}}\n"  # and so its slot is, which is waited for in full
    dies, lives = some(2, config=configuration(more=short if waits else repaired_node.REPAIRS))
    with fleet_watch.watching(cluster, f"{repaired_node.SLOT}0") as watch:
        dies.waits(waits=True)
        dies.down()
        until(dies.calls, "the play is in its middle")
        dies.agent.kill()
        dies.remediator.end()
        lives.down()
        until(partial(waits_for_slot, lives), "the other waits for the slot")
        assert (lives.calls(), repaired_node.holder(cluster)) == ([], dies.name)
        if not waits:
            repaired_node.pass_time(cluster)
        until(lives.calls, "the slot is taken, and the play runs", 900.0)
        lives.mended()
        until(lambda: repaired_node.holder(cluster) == "", "the slot is given back")
        watch.come_to(lives.name)
    assert watch.holders()[:4] == ["", dies.name, lives.name, ""]
    assert (dies.calls(), lives.calls(), lives.outcomes()) == (["eth1"], ["eth1"], ["released"])
    last, next_one = watch.renewals(dies.name)[-1], watch.renewals(lives.name)[0]
    assert next_one.at - last.at > last.seconds + SKEW_SECONDS


def test_a_remedy_that_never_helps_stops_after_the_third_new_node(
    cluster: Cluster, some: Callable[..., list[Repaired]]
) -> None:
    """All have the fault as they join, which is the rule there. A human resumes it."""
    ones = some(4, new=True, config=configuration(more="repair: {tries: 1, deadline: {safe: 600}}\n", limit=30))
    for one in ones:
        one.lies("eth1", lies=True)
        one.down()
    for one in ones:
        one.agent.start()
    until(lambda: [one.outcomes() for one in ones].count(["unreleased"]) == 3, "three tried in vain")
    (left,) = (one for one in ones if one.outcomes() == [])
    until(partial(is_held_back, left, "held"), "the fourth holds back")
    assert left.calls() == []
    print(left.repair()["suppressed"])
    left.lies("eth1", lies=False)
    repaired_node.order(cluster, "nodeprep.io/resumed.link_up", repaired_node.now())
    until(partial(has_come_out, left, "released"), "a human resumed it")
    until(left.is_open, "the node is Ready for the first time")


def test_new_nodes_are_mended_side_by_side(cluster: Cluster, some: Callable[..., list[Repaired]]) -> None:
    """Each by a slot of its own, and none of those of nodes that serve.

    A play waits here until the last one has begun, which takes minutes on a busy machine.
    """
    ones = some(3, new=True)
    repaired_node.hold_slot(cluster, "a-node-that-serves")
    for one in ones:
        one.waits(waits=True)
        one.down()
        one.agent.start()
    for one in ones:
        until(one.calls, f"the play of {one.name}")
    slots = [f"{repaired_node.NEW_SLOT}{number}" for number in range(10)]
    assert {repaired_node.holder(cluster, slot) for slot in slots} == {"", *(one.name for one in ones)}
    for one in ones:
        one.waits(waits=False)
    for one in ones:
        until(one.is_open, f"{one.name} is Ready for the first time")
        assert (one.calls(), one.outcomes()) == (["eth1"], ["released"])
