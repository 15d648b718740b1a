"""What an API server, or what lies before it, may do to an agent: judging goes on in time, and the end is right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest

from nodeprep.publish.publisher import OPENING_TIMEOUT_SECONDS
from tests.cluster.published_node import (
    BUSY,
    CHECK,
    DOWN,
    GATE_FILE,
    NODES,
    STATE,
    UNHEALTHY,
    UNWRITABLE,
    UP,
    Published,
    allow,
    configuration,
    denying,
    published,
    seconds,
)
from tests.rigs.agent import OPEN
from tests.rigs.api_proxy import Deed, cuts, delays, drips, holds, loses, refuses
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

LASTS = 15.0  # seconds
BACK = 120.0  # seconds after it: a back-off of 30 s at most, the pace, a busy machine
LEFT_ALONE = 12  # seconds, as the server says
LATE = OPENING_TIMEOUT_SECONDS / 2
NEARLY = 0.9  # of it: times of files are some milliseconds coarse
FLAPS = 20  # at most
PORT = 9911


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to requests of a method and a path, and the most requests that may be made while it lasts."""

    name: str
    deed: Deed
    method: str = ""
    path: str = ""
    times: float = inf
    most: int = 16


# Backing off, one that gets no answer asks in the second 0, 0.1 to 1, then up to 2, 4 and 8 later. The checks look at
# the Node and the plugins' pods once, where the machine is so slow that the minute's end falls into the fault.
FAULTS = [
    Fault("conflict", refuses(409), "PATCH", NODES, most=60),  # five tries of three requests, then a back-off
    Fault("busy", refuses(429, Retry_After=str(LEFT_ALONE)), "PATCH", most=12),
    Fault("broken", refuses(500)),
    Fault("broken-writes", refuses(503), "PATCH", most=30),  # closing, the status is tried after the Node
    Fault("hanging", holds(done=False)),
    Fault("hanging-writes", holds(done=True), "PATCH", most=20),
    Fault("dripping", drips(0.2)),
    Fault("cut", cuts),
    Fault("lost", loses, "PATCH", most=20),
    Fault("not-allowed", refuses(403), "PATCH", most=24),  # of the Node and of the Lease, three tries are soon
    Fault("gone", refuses(404), "GET"),
]


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def test_each_while_a_link_goes_down(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    with ExitStack() as stack:
        every = {
            fault: stack.enter_context(published(cluster, here.node, tmp_path, f"proxy-{fault.name}"))
            for fault in FAULTS
        }
        for one in every.values():
            one.ready()
        for fault, one in every.items():
            one.proxy.rule(fault.deed, fault.method, fault.path, fault.times)
        begun = time.monotonic()
        with here.fault(DOWN, UP):
            until(lambda: not any(one.agent.gates() for one in every.values()), "gate files that are gone")
            judged = seconds(begun)
            time.sleep(max(0.0, LASTS - seconds(begun)))
            # A busy machine needs longer until all gate files are gone. `most` is for these seconds.
            asked = {
                fault: [each for each in one.proxy.asked("", "", begun) if each.at < begun + LASTS]
                for fault, one in every.items()
            }
            lifted = time.monotonic()
            for one in every.values():
                one.proxy.lift()
            print(f"{len(every)} agents: the last gate file was gone after {judged:.2f} s")
            for fault, one in every.items():
                until(one.is_closed, f"closed gate after {fault.name}", BACK)
                print(f"{fault.name}: {len(asked[fault])} requests meanwhile, told {seconds(lifted):.1f} s later")
            assert judged < GATE_FILE + BUSY / 3
            many = {fault.name: list(map(str, asked[fault])) for fault in FAULTS if len(asked[fault]) > fault.most}
            assert many == {}
        for one in every.values():
            one.ready()
            until(partial(tells_the_end, one), f"Event of the end about {one.name}")
            # One whose writing was carried out and not answered is not told of; the link is up before its routes.
            assert one.reasons().count("AdministrativelyDown") <= 1
            assert set(one.reasons()) <= {"Bootstrap", "Ready", "AdministrativelyDown", "OtherInterface"}
        keeps_retry_after(every[FAULTS[1]], begun)


def tells_the_end(one: Published) -> bool:
    told = one.reasons()
    return told[-1] == "Ready" and told.count("Ready") > 1


def keeps_retry_after(one: Published, begun: float) -> None:
    """Of writes: what the checks read of the cluster is another's, and asks once."""
    told = one.writes(begun)
    refused = [asked for asked in told if asked.status == 429]
    assert refused
    for asked in refused:
        after = [other.at - asked.at for other in told if other.at > asked.at]
        assert min(after) >= LEFT_ALONE, "it asked before the time that the server said"


def test_gate_files_close_before_the_node_and_open_after_it(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """Also where its writing takes half of the time that an opening gate file waits.

    Where all the rest takes as long, it waits no more; so it is seen of one flap that it closes before, and of one that
    it opens after.
    """
    before = after = False
    with published(cluster, here.node, tmp_path, "in-order") as one:
        one.ready()
        one.proxy.rule(delays(LATE), "PATCH", f"{one.path}$")
        for _ in range(FLAPS):
            begun = time.monotonic()
            with here.fault(DOWN, UP):
                until(lambda: not one.agent.gates(), "gate file that is gone")
                before = before or UNHEALTHY not in one.taints()
                one.closed()
            one.ready()
            written = tries(one, begun)
            assert len(written) >= 2, "no writing was late: this proves nothing"
            after = after or opened(one) > written[-1].at + NEARLY * LATE
            if before and after:
                return
    assert before, "the gate file waited for the Node"
    assert after, "the gate file did not wait for the Node"


def opened(one: Published) -> float:
    """The time.monotonic() at which its first gate file was written."""
    written = min((one.agent.run / name).stat().st_mtime for name in OPEN)
    return written - time.time() + time.monotonic()


def test_a_write_that_a_policy_denies(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """By a rule of ours: not tried again before the configuration changes; what is allowed is said."""
    with (
        published(cluster, here.node, tmp_path, "denied", port=PORT, start=False) as one,
        denying(cluster, one.name, UNWRITABLE),
    ):
        one.agent.start()
        until(lambda: one.says().startswith("True "), "condition, which nobody denies")
        assert [write.status for write in tries(one)] == [422]
        with here.fault(DOWN, UP):
            until(lambda: one.says().startswith("False Admin"), "condition of the fault")
            assert one.agent.gates() == set()
        until(lambda: one.says().startswith("True "), "condition after it")
        assert [write.status for write in tries(one)] == [422], "once, though a link flapped"

        until(lambda: "WriteDenied" in one.reasons(), "Event of the denial, which is in no haste")
        assert one.reasons().count("WriteDenied") == 1
        until(lambda: "denied by nodeprep:taints" in message(one), "word of it in the condition", CHECK + BUSY)
        assert one.agent.metrics()["nodeprep_node_ok"] == 0
        assert one.agent.report()["agent"]["publishTrouble"]

        one.agent.configure(configuration(span=1.5))
        until(lambda: len(tries(one)) > 1, "try under another configuration")
        assert [write.status for write in tries(one)] == [422, 422]
        allow(cluster, one.name)
        assert [write.status for write in tries(one)] == [422, 422]
        one.agent.configure(configuration(span=1.25))
        until(lambda: one.labels().get(STATE) == "Ready", "label")
        assert UNHEALTHY not in one.taints()
        until(lambda: one.agent.metrics()["nodeprep_node_ok"] == 1, "metric")
        until(lambda: "denied" not in one.agent.condition()["message"], "condition without it")


def message(one: Published) -> str:
    return str(one.conditions()["nodeprep.io/TrainingReady"]["message"])


def tries(one: Published, since: float = 0.0) -> list[Any]:
    """Writes to the Node itself, not to its status, that were answered."""
    return [write for write in one.writes(since) if write.status and not write.path.endswith("/status")]
