"""The publisher alone, in this process, before a real API server that fails now and then: what it asks, when, and what
that costs. A minute is two seconds here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from nodeprep.decide.desired import TRAINING_READY, Condition, Desired, GatePolicy, Taint
from nodeprep.doors.kube import Access
from nodeprep.doors.kube_http import Peer
from nodeprep.facts.past import State
from nodeprep.publish.publisher import NodeSays, Publisher
from nodeprep.publish.status import UNFENCED
from tests.cluster import accounts
from tests.cluster.published_node import EVENTS, FENCED, LEASES, NODES, SHIPPED, UNHEALTHY, create, denying
from tests.rigs.agent import until
from tests.rigs.api_proxy import Proxy, Request, cuts, loses, refuses
from tests.rigs.cluster import Cluster

NAMES = GatePolicy()
MINUTE = 2.0
STATUS, LEASE = "/status$", f"{LEASES}/agent-"


def desired(*, good: bool, reason: str = "PortDown", names: GatePolicy = NAMES) -> Desired:
    if good:
        conditions = (Condition(TRAINING_READY, "True", "Ready", "every gate check passes"),)
        return Desired(State.READY, conditions=conditions, labels={"nodeprep.io/state": "Ready"})
    conditions = (Condition(TRAINING_READY, "False", reason, "mlx5_0/1 is down"),)
    taints = (Taint(names.unhealthy_taint, reason, "NoSchedule"),)
    return Desired(State.UNHEALTHY, conditions=conditions, labels={"nodeprep.io/state": "Unhealthy"}, taints=taints)


@dataclass
class Rig:
    cluster: Cluster
    proxy: Proxy
    publisher: Publisher
    name: str
    uid: str
    alive: bool = True
    heard: list[NodeSays] = field(default_factory=list)

    def tell(self, told: Desired, names: GatePolicy = NAMES, *, opening: bool = False) -> float:
        self.publisher.tell(told, names, self.uid, opening=opening)
        return time.monotonic()

    def node(self) -> dict[str, Any]:
        return self.cluster.call("GET", f"{NODES}/{self.name}")[1]

    def tainted(self, key: str = UNHEALTHY) -> bool:
        return any(one["key"] == key for one in self.node()["spec"].get("taints", []))

    def condition(self) -> dict[str, str]:
        found = self.node()["status"].get("conditions", [])
        return next((one for one in found if one["type"] == TRAINING_READY), {})

    def reasons(self) -> list[str]:
        items = self.cluster.call("GET", f"{EVENTS}?fieldSelector=involvedObject.name={self.name}")[1]["items"]
        return [one["reason"] for one in items if one["source"].get("component") == "nodeprep"]

    def settled(self) -> None:
        until(lambda: self.condition().get("status") == "True" and self.reasons()[-1:] == ["Ready"], "settled")

    def asked(self, method: str = "", path: str = "", since: float = 0.0) -> list[Request]:
        return self.proxy.asked(method, path, since)


@contextmanager
def rig(cluster: Cluster, name: str, *, start: bool = True, refresh: float | None = None) -> Iterator[Rig]:
    create(cluster, name)
    code, told = cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": "nodeprep"}})
    assert code in (201, 409), told
    token = accounts.account(cluster, name, [*accounts.RULES, *SHIPPED])
    with Proxy(cluster) as proxy:
        who = partial(dict[str, str], Authorization=f"Bearer {token}")
        access = Access(name, Peer(proxy.url, authority=str(cluster.authority)), who)
        publisher = Publisher(access, minute=MINUTE, refresh=refresh)
        uid = cluster.call("GET", f"{NODES}/{name}")[1]["metadata"]["uid"]
        made = Rig(cluster, proxy, publisher, name, uid)
        publisher.is_alive, publisher.hear = lambda: made.alive, made.heard.append
        made.tell(desired(good=True))
        try:
            if start:
                publisher.start()
                made.settled()
            yield made
        finally:
            publisher.stop()


@contextmanager
def cheap(seconds: float, share: float = 0.08) -> Iterator[None]:
    """While it lasts, this process takes at most this share of a core: a thread that spins takes half of one."""
    began, spent = time.monotonic(), time.process_time()
    yield
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    used = (time.process_time() - spent) / (time.monotonic() - began)
    assert used < share, f"{used:.0%} of a core"


def test_a_quiet_minute_is_one_look_and_one_renewal_in_one_connection(cluster: Cluster) -> None:
    with rig(cluster, "quiet") as made:
        time.sleep(2 * MINUTE)
        since = time.monotonic()
        with cheap(5 * MINUTE):
            pass
        looks = made.asked("GET", f"{NODES}/quiet\\?resourceVersion=0", since)
        renewals = made.asked("PATCH", LEASE, since)
        assert 4 <= len(looks) <= 6
        assert abs(len(looks) - len(renewals)) <= 1
        assert len(made.asked(since=since)) == len(looks) + len(renewals)


TROUBLES = {"node": (f"{NODES}/", "GET"), "event": (EVENTS, "POST"), "lease": (LEASES, ""), "all": ("", "")}


@pytest.mark.parametrize(("path", "method"), TROUBLES.values(), ids=TROUBLES)
def test_trouble_costs_nothing(cluster: Cluster, path: str, method: str) -> None:
    """Whatever fails and for however long: no thread spins, and requests grow rare."""
    name = f"trouble-{method.lower()}{len(path)}"
    with rig(cluster, name) as made:
        made.proxy.rule(refuses(503), method, path)
        since = time.monotonic()
        if path == EVENTS:
            made.tell(desired(good=False, reason="Other"))
        with cheap(9.0):
            pass
        failed = [one for one in made.asked(method, path, since) if one.status == 503]
        assert 3 <= len(failed) <= 16
        made.proxy.lift()
        until(lambda: len(made.asked("PATCH", LEASE, since)) > 0 and not made.publisher.published.trouble, "well again")


def test_writes_that_fail_back_off_though_reads_succeed(cluster: Cluster) -> None:
    with rig(cluster, "unwritten") as made:
        made.proxy.rule(refuses(503), "PATCH", f"{NODES}/")
        since = made.tell(desired(good=False))
        time.sleep(15.0)
        tries = [one.at for one in made.asked("PATCH", f"{NODES}/unwritten", since) if "dryRun" not in one.path]
        gaps = [later - sooner for sooner, later in pairwise(tries)]
        assert 3 <= len(tries) <= 8
        assert max(gaps[-2:]) > 2.0
        made.proxy.lift()
        until(made.tainted, "taint")


def test_a_closing_does_not_wait_behind_events(cluster: Cluster) -> None:
    with rig(cluster, "events") as made:
        made.proxy.rule(refuses(429, Retry_After="300"), "POST", EVENTS)
        for number in range(14):
            made.tell(desired(good=False, reason=f"Reason{number}"))
            until(lambda number=number: made.condition().get("reason") == f"Reason{number}", "written")  # type: ignore[misc]
        made.tell(desired(good=True))
        until(lambda: not made.tainted(), "open")
        time.sleep(3.0)
        made.proxy.lift()
        since = made.tell(desired(good=False))
        until(made.tainted, "taint")
        assert time.monotonic() - since < 2.0


def test_the_event_of_a_write_whose_answer_was_lost(cluster: Cluster) -> None:
    with rig(cluster, "lost-answer") as made:
        made.proxy.rule(loses, "PATCH", STATUS, times=1)
        made.tell(desired(good=False))
        until(lambda: "PortDown" in made.reasons(), "Event")
        made.proxy.rule(refuses(409), "PATCH", f"{NODES}/lost-answer$", times=1)
        made.tell(desired(good=True))
        until(lambda: made.reasons().count("Ready") == 2, "Event of the opening")


def test_a_denial_ends_with_the_names_that_were_denied(cluster: Cluster) -> None:
    other = replace(NAMES, unhealthy_taint="example.org/unhealthy")
    with rig(cluster, "other-names") as made:
        made.proxy.rule(refuses(422), "PATCH", f"{NODES}/other-names$", times=1)
        made.tell(desired(good=False, names=other), other)
        until(lambda: made.publisher.published.denied, "denied")
        made.proxy.rule(refuses(422), "PATCH", f"{NODES}/other-names$", times=1)
        made.publisher.believe_anew()
        until(lambda: len([one for one in made.asked("PATCH") if one.status == 422]) == 2, "denial of another try")
        made.tell(desired(good=False), NAMES)
        until(made.tainted, "taint")
        assert made.publisher.published.denied == ""


def test_a_cluster_without_a_fence_until_it_has_one(cluster: Cluster) -> None:
    with rig(cluster, "unfenced") as made:
        until(lambda: made.publisher.published.fenced is False, "test of the fence")
        assert made.publisher.published.lasting == UNFENCED
        assert made.publisher.published.trouble == "", "writing goes on as ever"
        with denying(cluster, "unfenced", **FENCED):
            tests = len(made.asked("PATCH", "dryRun"))
            time.sleep(MINUTE)
            assert len(made.asked("PATCH", "dryRun")) == tests, "it is not in doubt at each look"
            made.publisher.believe_anew()
            until(lambda: made.publisher.published.fenced, "fence")
            assert made.publisher.published.lasting == ""


def test_an_agent_that_stands_still_says_nothing_of_the_present(cluster: Cluster) -> None:
    with rig(cluster, "still", refresh=0.0) as made:  # every look finds the conditions too old
        until(lambda: len(made.asked("PATCH", STATUS)) >= 3, "conditions said again")
        made.alive = False
        time.sleep(MINUTE)
        since, beat = time.monotonic(), made.condition()["lastHeartbeatTime"]
        time.sleep(3 * MINUTE)
        assert not made.asked("PATCH", "", since)
        assert made.condition()["lastHeartbeatTime"] == beat
        made.alive = True
        until(lambda: made.asked("PATCH", LEASE, since), "Lease")


def test_the_lease_is_renewed_though_the_node_may_not_be_written(cluster: Cluster) -> None:
    with rig(cluster, "forbidden") as made:
        made.proxy.rule(refuses(403), "PATCH", f"{NODES}/")
        since = made.tell(desired(good=False))
        until(lambda: len(made.asked("PATCH", LEASE, since)) >= 3, "Leases")
        assert "HTTP 403" in made.publisher.published.trouble
        assert "kubectl auth can-i" in made.publisher.published.trouble


def test_opening_waits_for_the_node_and_closing_for_nobody(cluster: Cluster) -> None:
    with rig(cluster, "waits") as made:
        began = made.tell(desired(good=False))
        assert time.monotonic() - began < 0.1
        until(made.tainted, "taint")
        began = time.monotonic()
        made.tell(desired(good=True), opening=True)
        assert not made.tainted()
        made.publisher.gates_stand()
        until(lambda: made.reasons().count("Ready") == 2, "Event")
        made.tell(desired(good=False))
        until(made.tainted, "taint")
        made.proxy.rule(cuts)
        began = time.monotonic()
        made.tell(desired(good=True), opening=True)
        assert time.monotonic() - began < 1.5


def test_no_event_before_the_gate_files_stand(cluster: Cluster) -> None:
    with rig(cluster, "held-events") as made:
        made.tell(desired(good=False))
        until(lambda: "PortDown" in made.reasons(), "Event")
        made.tell(desired(good=True), opening=True)
        time.sleep(1.0)
        assert made.reasons().count("Ready") == 1
        made.publisher.gates_stand()
        until(lambda: made.reasons().count("Ready") == 2, "Event")
