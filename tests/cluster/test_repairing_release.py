"""A bad release that takes what is right for a fault, on three nodes at once or on the first one: it repairs nothing.

The nodes serve, with a healthy memory of the former release. Both programs run from the bad one then, a copy of this
checkout in which one check is the wrong way round.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from math import ceil
from pathlib import Path

import pytest

import nodeprep
from nodeprep.decide.fleet_holds import NODES_LIMIT
from nodeprep.decide.rule_change import RULE_HOLD_SECONDS
from tests.cluster import release_tree, repaired_node
from tests.cluster.published_node import UNHEALTHY
from tests.cluster.release_tree import MISTAKEN, REWORDED
from tests.cluster.repaired_node import Repaired
from tests.rigs.cluster import Cluster
from tests.rigs.netns import Node
from tests.rigs.waiting import until

BAD = f"{nodeprep.__version__}+bad"
PORT = 9001
LOOK_SECONDS = 4.0  # in which an agent that could repair would have begun


@pytest.fixture(scope="module")
def cluster(apart: Cluster) -> Cluster:
    return apart


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Node]]:
    with repaired_node.terway_nodes(NODES_LIMIT) as made:
        yield made


@pytest.fixture
def ones(cluster: Cluster, nodes: list[Node], tmp_path: Path) -> Iterator[list[Repaired]]:
    """Nodes that are Ready by our release."""
    with repaired_node.fleet(cluster) as fleet, ExitStack() as together:
        made = [
            fleet.enter_context(repaired_node.repaired(cluster, node, tmp_path, f"release-{time.monotonic_ns()}"))
            for node in nodes
        ]
        for one in made:
            together.push(one.agent)  # two that are left would no longer be too many, and would repair
        yield made


def replace(ones: list[Repaired], release: Path | None) -> None:
    """Both programs are of this release from now on."""
    for one in ones:
        one.agent.port = PORT
        one.replace_remediator(release)
        one.replace_agent(release)


def sees_a_fault(one: Repaired) -> bool:
    return "eni.up" in {case["check"] for case in one.agent.report()["agent"]["cases"]}


def is_unready(one: Repaired) -> bool:
    """Whether the rollout would wait for it."""
    return one.agent.page("/readyz")[0] == 503


def is_tainted(one: Repaired) -> bool:
    return UNHEALTHY in one.taints()


def tells_of_a_fault(one: Repaired) -> bool:
    return "faults" in one.note()


def is_held_back(one: Repaired, reason: str) -> bool:
    return one.suppressed() == {"eni.up": reason}


def says_why(one: Repaired, reason: str) -> None:
    """Returns when an Event and a metric say so, too."""
    said = f"link_up for eni.up does not run ({reason})"
    until(lambda: said in [message.partition(":")[0] for _, message in one.told()], f"an Event of {one.name}")
    assert one.agent.metrics()[f'nodeprep_repair_suppressed_total{{reason="{reason}"}}'] > 0


def repair_nothing(ones: list[Repaired]) -> None:
    """Nothing was repaired, and nothing is for some seconds in which the agents have much to do."""
    end = time.monotonic() + LOOK_SECONDS
    while time.monotonic() < end:
        for one in ones:
            one.agent.signal(signal.SIGHUP)
        time.sleep(0.5)
        assert [one.records() for one in ones] == [[]] * len(ones)
        assert [one.outcomes() for one in ones] == [[]] * len(ones)


def test_a_fault_that_only_a_new_release_sees_is_disputed(ones: list[Repaired], tmp_path: Path) -> None:
    """Ten minutes long the nodes stay open. Then they close, and a human says which release is right."""
    replace(ones, release_tree.release(tmp_path / "bad", BAD, MISTAKEN))
    for one in ones:
        until(partial(sees_a_fault, one), f"{one.name} sees a fault")
        until(partial(is_unready, one), f"{one.name} stops the rollout")
    repair_nothing(ones)
    assert all(one.is_open() for one in ones)
    for one in ones:
        one.leap(ceil(RULE_HOLD_SECONDS) + 1)
    for one in ones:
        until(partial(is_held_back, one, "disputed"), f"{one.name} holds back")
        says_why(one, "disputed")
        until(partial(is_tainted, one), f"{one.name} is closed")
    repair_nothing(ones)
    replace(ones, None)
    for one in ones:
        until(one.is_open, f"{one.name} is open by the former release")
    repair_nothing(ones)


def test_a_release_with_other_words_mends_nothing_where_it_is_the_first(ones: list[Repaired], tmp_path: Path) -> None:
    """Nobody can tell that the former release saw the same. A rollout begins with one node, so no fault is of many."""
    first, others = ones[0], ones[1:]
    replace([first], release_tree.release(tmp_path / "bad", BAD, REWORDED))
    until(partial(tells_of_a_fault, first), "it tells of a fault")
    until(partial(is_held_back, first, "disputed"), "it holds back")
    says_why(first, "disputed")
    assert is_unready(first)
    until(partial(is_tainted, first), "it is closed")
    repair_nothing(ones)
    assert all(one.is_open() for one in others)
    first.leap(ceil(RULE_HOLD_SECONDS) + 1)
    until(partial(is_held_back, first, "disputed"), "it holds back, also after the ten minutes")
    repair_nothing(ones)
    replace([first], None)
    until(first.is_open, "it is open by the former release")
    repair_nothing(ones)
