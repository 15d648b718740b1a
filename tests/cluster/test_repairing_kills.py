"""kill -9 of the agent or the remediator at each step of a repair: no run is lost, and none is doubled.

Each line of the node's `ip` is one run of the playbook. The chains run beside each other, for they wait more than they
compute. No more than two have one fleet: of three nodes with the same fault none repairs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.cluster import repaired_node
from tests.cluster.repaired_node import Repaired
from tests.rigs import started
from tests.rigs.api_proxy import delays, holds
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

# The steps of an approach at which the API server lets it wait: by which request. The first is the publisher's.
ASKS = [
    ("taint", "PATCH", r"/nodes/[^/?]+$"),
    ("pods", "GET", r"/api/v1/pods\?fieldSelector=[^&]*$"),  # the facts ask with a resourceVersion
    ("fleet", "GET", r"/leases\?limit="),
    ("slot", "PATCH", r"/leases/nodeprep-slot-\d$"),
]
GIVES_BACK = ("GET", r"/leases/nodeprep-slot-\d$")  # it looks whose it is
SLOW_SECONDS = 3.0  # for a list of the Leases: a remediator is stopped meanwhile, that was just heard
WAITS = "settled=2,conviction=1,passes=3,unknown=1,silent=2,retry=1,back_off=3,rest=1"
SLOTS = 2
MORE = f"repair: {{tries: 10, slots: {SLOTS}}}\n"
# Who is killed while its case is judged needs time to start again. Else a remedy that did not help is to end soon.
PATIENT, SHORT = (repaired_node.configuration(more=MORE, limit=limit) for limit in (600.0, 30.0))
ROUNDS = [1, pytest.param(19, marks=pytest.mark.prove)]
KILLS = 19  # of a round: the agent and the remediator at nine steps, the slot before and after it is taken


@pytest.fixture(scope="module")
def cluster(apart: Cluster) -> Cluster:
    return apart


def ready(one: Repaired) -> None:
    """Nothing is left of former kills, and the next fault has its first try."""
    one.mended()
    slots = [f"{repaired_node.SLOT}{number}" for number in range(SLOTS)]
    until(lambda: one.name not in {repaired_node.holder(one.cluster, slot) for slot in slots}, "its slot is given back")


def agent_on_its_way(one: Repaired) -> int:
    """Killed at each step before anything acts, in the play, while its case is judged, and before the slot goes."""
    before, kills = len(one.calls()), 0

    def kill() -> None:
        nonlocal kills
        one.agent.kill()
        kills += 1

    def again() -> None:
        one.lift()
        one.agent.start()

    one.waits(waits=True)
    one.proxy.rule(holds(done=False), *ASKS[0][1:])
    one.down()
    for (step, method, path), done in ((ask, done) for ask in ASKS for done in (False, True)):
        if done and step != "slot":
            continue
        one.lift()
        one.proxy.rule(holds(done=done), method, path)
        one.held()
        one.step(step)
        kill()
        again()
    one.step("settling")
    kill()
    again()
    until(lambda: len(one.calls()) > before, "the play is in its middle")
    kill()
    again()
    one.step("running")
    one.waits(waits=False)
    one.step("validating")
    one.proxy.rule(holds(done=False), *GIVES_BACK)
    kill()
    one.agent.start()
    one.held()
    kill()
    again()
    ready(one)
    assert one.calls()[before:] == ["eth1"], "it ran once"
    assert one.outcomes() == ["released"]
    return kills


def agent_before_it_asks(one: Repaired) -> int:
    """Killed when the attempt is in its ledger and nobody was asked: nobody asks again, and the next try mends it."""
    before = len(one.calls())
    with stopped_before_it_is_asked(one):
        one.agent.kill()
    one.agent.start()
    ready(one)
    assert one.calls()[before:] == ["eth1"]
    assert one.outcomes()[-2:] == ["unreleased", "released"]
    return 1


def remediator_on_its_way(one: Repaired) -> int:
    """Killed at each step before anything acts, and after the play: nobody asks it for anything then."""
    before, kills = len(one.calls()), 0

    def kill() -> None:
        nonlocal kills
        one.remediator.end()
        one.serve()
        kills += 1

    for _, method, path in ASKS:  # all at once: a kill takes longer than the agent waits, and it goes on
        one.proxy.rule(holds(done=False), method, path, times=1)
    one.down()
    one.held()
    one.step("taint")
    kill()
    one.step("settling")
    kill()
    for number in range(2, len(ASKS) + 1):
        one.held(number)
        kill()
    one.step("validating")
    one.proxy.rule(holds(done=False), *GIVES_BACK, times=1)
    kill()
    one.held(len(ASKS) + 1)
    kill()
    one.lift()
    ready(one)
    assert one.calls()[before:] == ["eth1"]
    return kills


def remediator_before_it_hears(one: Repaired) -> int:
    """Killed when it is about to be asked: nothing ran, so no try is spent."""
    before = len(one.calls())
    with stopped_before_it_is_asked(one):
        one.remediator.end()
    one.serve()
    ready(one)
    assert one.calls()[before:] == ["eth1"]
    assert one.outcomes()[-1] == "released"
    assert "unreleased" not in one.outcomes()
    return 1


def remediator_in_the_play(one: Repaired) -> int:
    """Killed in the middle of a play: that one counts as a try, and the next mends it."""
    before = len(one.calls())
    one.waits(waits=True)
    one.down()
    until(lambda: len(one.calls()) > before, "the play is in its middle")
    assert one.in_their_middle()
    one.remediator.end()
    # The kernel ends the play in its own time. One that is let go before that would still set the link up.
    until(lambda: not one.in_their_middle(), "the play is gone")
    one.waits(waits=False)
    one.serve()
    ready(one)
    assert one.calls()[before:] == ["eth1"] * 2
    assert one.outcomes()[-2:] == ["unreleased", "released"]
    return 1


@contextmanager
def stopped_before_it_is_asked(one: Repaired) -> Iterator[None]:
    """The attempt is in its ledger; the remediator's socket takes a connection, and nobody answers on it."""
    one.proxy.rule(delays(SLOW_SECONDS), *ASKS[-2][1:], times=1)
    fleet, asked = one.steps("fleet") + 1, one.steps("asked") + 1
    one.down()
    one.step("fleet", fleet)
    pid = one.remediator.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        one.step("asked", asked)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


CHAINS: list[tuple[tuple[Callable[[Repaired], int], ...], str]] = [
    ((agent_on_its_way, remediator_before_it_hears), PATIENT),
    ((agent_before_it_asks,), SHORT),
    ((remediator_on_its_way,), PATIENT),
    ((remediator_in_the_play,), SHORT),
]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_kill_at_any_step_neither_doubles_nor_loses_a_run(cluster: Cluster, tmp_path: Path, rounds: int) -> None:
    kills = 0
    with ExitStack() as stack, ThreadPoolExecutor(len(CHAINS)) as threads:
        clusters = [cluster, cluster, *[stack.enter_context(started.cluster())] * 2]
        nodes = stack.enter_context(repaired_node.terway_nodes(len(CHAINS)))
        for number in range(rounds):
            with ExitStack() as fleets:
                for one in dict.fromkeys(clusters):
                    fleets.enter_context(repaired_node.fleet(one, slots=SLOTS))
                ones = [
                    fleets.enter_context(
                        repaired_node.repaired(
                            one, node, tmp_path, f"killed-{number}-{place}", config=config, waits=WAITS
                        )
                    )
                    for place, (one, node, (_, config)) in enumerate(zip(clusters, nodes, CHAINS, strict=True))
                ]
                kills += sum(threads.map(lambda chain, one: sum(part(one) for part in chain[0]), CHAINS, ones))
            print(f"{kills} kills")
    assert kills == KILLS * rounds
