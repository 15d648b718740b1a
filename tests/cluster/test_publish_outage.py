"""A real API server that is frozen, and one that is killed, for a minute in which a link flaps."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from nodeprep.publish import pace
from nodeprep.publish.publisher import CONNECTION_TIMEOUT_SECONDS
from tests.cluster.published_node import (
    BUSY,
    DOWN,
    FENCED,
    NODES,
    UP,
    Published,
    deny,
    published,
    seconds,
)
from tests.rigs.absent import cannot_start
from tests.rigs.agent import OPEN
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.netns import Node
from tests.rigs.netns_check import checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

OUTAGE = 60.0  # seconds
SETTLES = 25.0  # seconds until all that follows from a link that is down is believed: books take 15
BACK = pace.BACKOFF_LIMIT_SECONDS + BUSY  # seconds from its return: back-off at most
# One that starts may refuse what it is yet to read the rights of, or the policies.
STARTED = pace.FUTILE_RETRY_SECONDS + BACK
MOST = 20  # requests to a server that does not answer: back-off doubles up to 30 s
AFTER = 12  # requests from its return until all is told; one retry of an Event and the Lease among them
# Requests of a minute in which all is due: the Node, two for what Kubernetes keeps, the Lease, two dry runs.
A_MINUTE, LEAST = 6, 54.0  # and the seconds of the shortest minute


def is_told_ready(one: Published) -> bool:
    """By an Event. One of Bootstrap is before it, unless the server was too busy to be told of that state."""
    return one.reasons()[-1:] == ["Ready"]


def all_have(nodes: Sequence[Published], gates: set[str]) -> bool:
    return all(one.agent.gates() == gates for one in nodes)


def policy_enforced(cluster: Cluster, stack: ExitStack, node: Node, directory: Path, name: str) -> Published:
    """Its agent looks for an admission policy once; where there is none it would look again and again."""
    one = stack.enter_context(published(cluster, node, directory, name, start=False))
    deny(cluster, name, FENCED)
    one.agent.start()
    return one


def test_a_minute_without_it(cluster: Cluster, tmp_path: Path) -> None:
    """Gate files follow as soon as where the server is well; when it is back the newest is written, and once."""
    with ExitStack() as stack:
        try:
            frozen, killed = (stack.enter_context(Cluster()) for _ in range(2))
        except CannotStart as reason:
            cannot_start(reason)
        here = stack.enter_context(checked(Shape(enis=1, pods=1)))
        both = [
            policy_enforced(frozen, stack, here.node, tmp_path, "frozen"),
            policy_enforced(killed, stack, here.node, tmp_path, "killed"),
        ]
        well = stack.enter_context(published(cluster, here.node, tmp_path, "well"))
        for one in (*both, well):
            one.ready()
            until(partial(is_told_ready, one), f"Event of {one.name}", BUSY)
        told = {one.name: len(one.reasons()) for one in both}
        versions = {one.name: one.object()["metadata"]["resourceVersion"] for one in both}
        begun = time.monotonic()
        frozen.signal(signal.SIGSTOP)
        killed.processes["kube-apiserver"].kill()
        killed.processes["kube-apiserver"].wait()

        late, flaps, flapped = list[float](), 0, begun
        while seconds(begun) < OUTAGE - SETTLES or not flaps % 2 or len(late) < 2:
            flaps += 1
            down = bool(flaps % 2)
            here.do(DOWN if down else UP)
            wanted = set() if down else OPEN
            until(partial(all_have, [well], wanted), "gate files of one whose server is well")
            at = time.monotonic()
            until(partial(all_have, both, wanted), "gate files")
            late += [seconds(at)] if down else []
            flapped = time.monotonic()
            time.sleep(1)
        # This machine may stand still for an agent in one of them. Who waits for the server is late by the outage.
        words = f"gate files were removed {late} s later than where the server is well"
        assert min(late) < CONNECTION_TIMEOUT_SECONDS, words
        assert late[0] < OUTAGE / 2, words
        time.sleep(max(0.0, OUTAGE - seconds(begun), SETTLES - seconds(flapped)))
        asked = {one.name: len(one.proxy.asked("", NODES, begun)) for one in both}
        for one in both:
            assert not any(write.status for write in one.writes(begun)), "it answered during its outage"
            assert 0 < asked[one.name] <= MOST * max(1.0, seconds(begun) / OUTAGE), one.proxy.requests

        returned = time.monotonic()
        frozen.signal(signal.SIGCONT)
        killed.start_server()
        for one in both:
            until(one.is_closed, "word of the last flap", STARTED if one.cluster is killed else BACK)
            print(
                f"{one.name}: {flaps} flaps, gate file {max(late):.2f} s later at most,"
                f" {asked[one.name]} requests meanwhile, told {seconds(returned):.1f} s after its return"
            )
        for one in both:
            until(lambda: len(one.reasons()) > told[one.name], f"Event of {one.name}", BUSY)  # noqa: B023 - run at once
        time.sleep(5)
        for one in both:
            written = [write for write in one.writes(returned) if write.status == 200]
            assert [write.path for write in written] == [one.path, f"{one.path}/status"], "the newest, and once"
            print(f"{one.name}: {len(one.proxy.asked(since=returned))} requests since")
            most = AFTER + A_MINUTE * seconds(returned) / LEAST
            assert len(one.proxy.asked(since=returned)) <= most, one.proxy.asked(since=returned)
            assert one.object()["metadata"]["resourceVersion"] != versions[one.name]
            assert one.reasons()[told[one.name] :] == ["AdministrativelyDown"], "of the newest alone"
