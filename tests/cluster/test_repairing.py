"""An agent in mode repair before a real API server: what it mends, and what holds it back."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodeprep.decide.repair_policy import RepairPolicy
from tests.cluster import repaired_node
from tests.cluster.published_node import RELEASED, UNHEALTHY
from tests.cluster.repaired_node import Repaired, configuration
from tests.rigs.api_proxy import refuses
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

PAUSE = "nodeprep.io/pause"
VALIDATION_SECONDS = int(repaired_node.LIMIT) + 1  # a little more than a remedy has to help


@pytest.fixture(scope="module")
def cluster(apart: Cluster) -> Cluster:
    return apart


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=2, pods=2)) as one:
        yield one


@pytest.fixture
def repaired(cluster: Cluster, here: Checked, tmp_path: Path) -> Iterator[Callable[..., Repaired]]:
    """Makes the Node of a test, with its agent and remediator."""
    with repaired_node.fleet(cluster) as fleet:

        def make(**different: Any) -> Repaired:
            name = f"repaired-{time.monotonic_ns()}"
            return fleet.enter_context(repaired_node.repaired(cluster, here.node, tmp_path, name, **different))

        yield make


def test_a_link_that_is_down_is_set_up_again(cluster: Cluster, repaired: Callable[..., Repaired]) -> None:
    one = repaired()
    began, legs = time.monotonic(), {}
    one.down()
    for leg, holds in (
        ("taint", lambda: UNHEALTHY in one.taints()),
        ("slot", lambda: repaired_node.holder(cluster) == one.name),
        ("play", one.is_up),
        ("gate open", one.is_open),
    ):
        until(holds, leg)
        legs[leg] = f"{time.monotonic() - began:.1f} s"
    print(legs)
    one.mended()
    until(lambda: repaired_node.holder(cluster) == "", "the slot is given back")
    assert one.calls() == ["eth1"]
    assert one.outcomes() == ["released"]
    until(lambda: [kept.outcome for kept in one.kept_by_the_node()] == ["released"], "the Node keeps what was tried")
    until(lambda: "helped" in one.note(), "it tells the others that it helped")
    events = one.told()
    told = [reason for reason, _ in events]
    # A machine that is too busy to prove within 10 s that nobody uses the link puts the remedy off. Nothing else may.
    refused = [message for reason, message in events if reason == "RepairRefused"]
    assert [message for message in refused if "no answer in" not in message] == []
    again = {"RepairRefused", "RepairSuppressed", "RepairPlanned"} if refused else set()
    assert (told[0], told[-1], set(told[1:-1]) - again) == ("RepairPlanned", "RepairHelped", {"RepairStep"})


def test_a_play_that_lies_is_tried_three_times_later_and_later(repaired: Callable[..., Repaired]) -> None:
    """Its own word is that the link is up. All numbers are as shipped, and the node's clock is put forward.

    Then a human is called for, and an hour does not change that. Another link is mended all the same.
    """
    one = repaired()
    first, second, longest = (int(seconds) for seconds in RepairPolicy().back_off)
    one.lies("eth1", lies=True)
    one.down("eth1")
    tried_in_vain(one, 1)
    until(lambda: one.suppressed() == {"eni.up": "back-off"}, "it waits")
    one.leap(first)
    tried_in_vain(one, 2)
    until(lambda: one.suppressed() == {"eni.up": "back-off"}, "it waits again")
    one.leap(first)
    until(lambda: one.suppressed() == {"eni.up": "back-off"}, "what was long enough the first time is not any more")
    assert len(one.calls()) == 2
    one.leap(second - first)
    tried_in_vain(one, 3)
    one.leap(longest)
    until(lambda: one.suppressed() == {"eni.up": "budget"}, "no try is left")
    until(lambda: one.labels()["nodeprep.io/state"] == "AwaitingHuman", "a human is called for")
    one.down("eth2")
    until(lambda: one.outcomes() == [*["unreleased"] * 3, "released"], "another link is mended")
    assert one.calls() == [*["eth1"] * 3, "eth2"]
    assert (one.is_up("eth1"), one.is_up("eth2")) == (False, True)
    assert one.suppressed() == {"eni.up": "budget"}
    one.lies("eth1", lies=False)


def tried_in_vain(one: Repaired, number: int) -> None:
    """Returns when a try, so many by now, is over: it is judged when its time is up."""
    one.step("validating")
    one.leap(VALIDATION_SECONDS)
    until(lambda: one.outcomes() == ["unreleased"] * number, f"try {number} is over")
    assert one.calls() == ["eth1"] * number


def reread(one: Repaired, config: str) -> None:
    one.agent.configure(config)
    one.agent.signal(signal.SIGHUP)


@pytest.mark.parametrize("mode", ["gate", "observe"])
def test_a_mode_that_repairs_nothing_lets_what_runs_end(repaired: Callable[..., Repaired], mode: str) -> None:
    one = repaired()
    one.waits(waits=True)
    one.down()
    until(one.calls, "the play is in its middle")
    reread(one, configuration(mode))
    one.agent.wait("mode", to=mode)
    one.waits(waits=False)
    until(lambda: one.outcomes() == ["released"], "it is judged all the same")
    one.down()
    until(lambda: one.suppressed() == {"eni.up": "mode"}, "and nothing new begins")
    assert one.calls() == ["eth1"]


def test_a_remediator_that_never_comes_again_is_awaited_for_a_while(repaired: Callable[..., Repaired]) -> None:
    """Its silence ends nothing before the deadline. Then only our own checks count."""
    # Ansible took more than 30 s to get there on a busy machine.
    one = repaired(config=configuration(more="repair: {deadline: {safe: 90}}\n"))
    one.waits(waits=True)
    one.down()
    until(one.calls, "the play is in its middle")
    one.remediator.end()
    one.waits(waits=False)
    one.step("validating")
    one.up()
    one.mended()
    assert (one.calls(), one.outcomes()) == (["eth1"], ["released"])
    one.down()
    until(lambda: one.suppressed() == {"eni.up": "remediator"}, "nobody would run it")


def nothing(one: Repaired) -> None:
    """What stands on the Node is read again each minute: a test need not wait for that."""


HOLDS: list[tuple[str, Callable[[Repaired], object], Callable[[Repaired], object]]] = [
    ("paused", lambda one: one.annotate(PAUSE, "a cable is on its way"), nothing),
    ("foreign-maintenance", lambda one: one.patch({"spec": {"unschedulable": True}}), nothing),
    ("taint", lambda one: one.annotate(RELEASED, "2026-11-27T00:00:00Z"), nothing),
    (
        "paused",
        lambda one: repaired_node.order(one.cluster, PAUSE, "an upgrade of the switches"),
        lambda one: repaired_node.order(one.cluster, PAUSE, None),
    ),
    (
        "slot",
        lambda one: repaired_node.hold_slot(one.cluster, "another-node"),
        lambda one: repaired_node.hold_slot(one.cluster, None),
    ),
    (
        "slot",
        lambda one: one.proxy.rule(refuses(403), "GET", r"/leases\?limit="),
        lambda one: one.proxy.lift(),
    ),
    (
        "idle",
        lambda one: one.proxy.rule(refuses(500), "GET", r"/api/v1/pods\?fieldSelector=[^&]*$"),
        lambda one: one.proxy.lift(),
    ),
]


@pytest.mark.parametrize(("reason", "hold", "free"), HOLDS, ids=lambda one: one if isinstance(one, str) else "")
def test_what_holds_it_back_is_said_and_nothing_runs(
    repaired: Callable[..., Repaired],
    reason: str,
    hold: Callable[[Repaired], object],
    free: Callable[[Repaired], object],
) -> None:
    one = repaired()
    hold(one)
    one.down()
    until(lambda: one.suppressed() == {"eni.up": reason}, f"it says {reason}")
    assert (one.calls(), one.outcomes(), one.is_up()) == ([], [], False)
    print(one.repair()["suppressed"])
    if free is nothing:
        return
    free(one)
    until(one.is_up, "the play")
    one.mended()
    assert (one.calls(), one.outcomes()) == (["eth1"], ["released"])


def test_where_no_profile_gates_nothing_runs_and_it_says_why_at_once(repaired: Callable[..., Repaired]) -> None:
    """Our taint would be awaited in vain, a minute each time."""
    one = repaired(config=configuration().replace("profiles: [links]", "profiles: [others]"))
    one.down()
    until(lambda: one.suppressed() == {"eni.up": "taint"}, "it says taint")
    wanted = "no profile of this node sets our taint: found links, and gate.profiles has others"
    assert [why["why"] for why in one.repair()["suppressed"]] == [wanted]
    assert one.calls() == []


@contextmanager
def without_room(one: Repaired) -> Iterator[None]:
    """Nothing can be written where the agent keeps its state."""
    one.node.run("mount", "--bind", "-o", "ro", str(one.agent.state), str(one.agent.state))
    try:
        yield
    finally:
        one.node.run("umount", str(one.agent.state))


def test_what_could_not_be_remembered_is_not_done(repaired: Callable[..., Repaired]) -> None:
    one = repaired()
    with without_room(one):
        one.down()
        until(lambda: one.suppressed() == {"eni.up": "memory"}, "it says why")
        assert (one.calls(), one.outcomes()) == ([], [])
    one.mended()
    assert one.calls() == ["eth1"]


def test_without_a_remediator_nothing_begins(repaired: Callable[..., Repaired]) -> None:
    one = repaired(serves=False)
    one.down()
    until(lambda: one.suppressed() == {"eni.up": "remediator"}, "it says why")
    assert repaired_node.holder(one.cluster) == ""
    (why,) = (told["why"] for told in one.repair()["suppressed"])
    assert "is components/repair applied" in why
    one.serve()
    one.mended()
    assert one.calls() == ["eth1"]
