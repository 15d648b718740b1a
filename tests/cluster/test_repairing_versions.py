"""Agent and remediator of different versions: nothing begins, and what ran before is awaited and judged.

The other release is a copy of this one with a version of its own, so both programs run from it as from any release. A
rollout replaces one of the two and then the other, in either order, and so does its rollback.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from math import ceil
from pathlib import Path

import pytest

import nodeprep
from nodeprep.decide.rule_change import RULE_HOLD_SECONDS
from tests.cluster import release_tree, repaired_node
from tests.cluster.published_node import UNHEALTHY
from tests.cluster.repaired_node import Repaired
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

VERSION = nodeprep.__version__
NEXT = f"{VERSION}+next"
ASKED_AGAIN_SECONDS = 61  # a little more than until the remediator is asked again that was of another version
NO_DOUBT_SECONDS = ceil(RULE_HOLD_SECONDS) + 1
CONFIGURATION = repaired_node.configuration(more="repair: {tries: 10, deadline: {safe: 600}}\n")
Replace = Callable[[Repaired, Path | None], None]
# Either has a newer agent beside an older remediator at one time, and the reverse at another.
ORDERS = [
    (Repaired.replace_agent, Repaired.replace_remediator),
    pytest.param(Repaired.replace_remediator, Repaired.replace_agent, marks=pytest.mark.prove),
]


@pytest.fixture(scope="module")
def cluster(apart: Cluster) -> Cluster:
    return apart


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def is_newer(first: Replace, release: Path | None) -> bool:
    """Whether the agent is the newer of the two, once the first was replaced."""
    return (first is Repaired.replace_agent) == (release is not None)


def judged(one: Repaired) -> list[str]:
    """How its attempts came out, but for those that the remediator refused."""
    return [outcome for outcome in one.outcomes() if outcome != "refused"]


def has_run(one: Repaired, times: int) -> bool:
    return len(one.calls()) == times


def has_helped(one: Repaired, times: int) -> bool:
    return judged(one) == ["released"] * times


def says_which(one: Repaired, found: str, wanted: str) -> None:
    """The agent's pages and an Event name both versions."""
    (why,) = (told["why"] for told in one.repair()["suppressed"])
    both = f"found a remediator of version '{found}', wanted {wanted}: give both pods one version"
    assert both in why
    told = "RepairSuppressed", "link_up for eni.up does not run (remediator)", True
    until(lambda: told in [(name, said.partition(":")[0], both in said) for name, said in one.told()], "an Event")


@pytest.mark.parametrize(("first", "second"), ORDERS, ids=("agent-first", "remediator-first"))
def test_a_pair_of_two_versions_begins_nothing_and_ends_what_it_began(
    cluster: Cluster, here: Checked, tmp_path: Path, first: Replace, second: Replace
) -> None:
    release = release_tree.release(tmp_path / "next", NEXT)
    name = f"versions-{time.monotonic_ns()}"
    with (
        repaired_node.fleet(cluster),
        repaired_node.repaired(cluster, here.node, tmp_path, name, config=CONFIGURATION) as one,
    ):
        one.waits(waits=True)
        one.down()
        for runs, to in ((1, release), (2, None)):  # a rollout, and its rollback
            until(partial(has_run, one, runs), "the play is in its middle")
            first(one, to)
            one.waits(waits=False)
            if first is Repaired.replace_remediator:
                one.up()  # its play ended with it
            until(partial(has_helped, one, runs), "what began before is judged")
            one.leap(NO_DOUBT_SECONDS)  # a fault right after another agent might be that agent's
            one.waits(waits=True)
            one.down()
            until(lambda: one.suppressed() == {"eni.up": "remediator"}, "nothing begins")
            says_which(one, *((VERSION, NEXT) if is_newer(first, to) else (NEXT, VERSION)))
            assert (len(one.calls()), len(one.records())) == (runs, 2 * runs)
            assert UNHEALTHY in one.taints()
            second(one, to)
            one.leap(ASKED_AGAIN_SECONDS)
            assert one.agent.report()["agent"]["version"] == (VERSION if to is None else NEXT)
        until(partial(has_run, one, 3), "the last play")
        one.waits(waits=False)
        until(one.is_up, "what it mends")
