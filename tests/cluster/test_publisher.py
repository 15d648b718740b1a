"""The publisher alone, in this process, before a real API server that fails now and then: what it asks, when, and what
that costs. A minute is two seconds here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from nodeprep.agent_state import NodeState
from nodeprep.decide.desired import TRAINING_READY, Desired, GatePolicy, NodeCondition, Taint
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.publish.agent_lease import RENEW_SECONDS
from nodeprep.publish.node_status import NOT_ENFORCED
from nodeprep.publish.node_writing import FIX_OTHERS, FIX_OURS
from nodeprep.publish.pace import BURST_REQUESTS, RATE_PER_SECOND
from nodeprep.publish.publisher import OPENING_TIMEOUT_SECONDS, NodeAnnotations, Publisher
from nodeprep.publish.side_writes import FIRST_RETRY_SECONDS
from nodeprep.values import replace
from tests.cluster import accounts
from tests.cluster.published_node import (
    BUSY,
    EVENTS,
    FENCED,
    LEASES,
    NODES,
    OF_LEASE,
    SHIPPED,
    SILENCED,
    UNHEALTHY,
    create,
    denying,
    events_of,
)
from tests.rigs.agent import LONG
from tests.rigs.api_proxy import Deed, Exchange, Proxy, Request, cuts, loses, passes, refuses
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

NAMES = GatePolicy()
MINUTE = 2.0
RENEWAL = MINUTE * RENEW_SECONDS / 60.0
STATUS, LEASE, LOOK = "/status$", f"{LEASES}/agent-", r"\?resourceVersion=0"


def desired(
    *, good: bool, reason: str = "PortDown", names: GatePolicy = NAMES, message: str = "mlx5_0/1 is down"
) -> Desired:
    if good:
        conditions = (NodeCondition(TRAINING_READY, "True", "Ready", "every gate check passes"),)
        return Desired(NodeState.READY, conditions=conditions, labels={"nodeprep.io/state": "Ready"})
    conditions = (NodeCondition(TRAINING_READY, "False", reason, message),)
    taints = (Taint(names.unhealthy_taint, reason, "NoSchedule"),)
    return Desired(NodeState.UNHEALTHY, conditions=conditions, labels={"nodeprep.io/state": "Unhealthy"}, taints=taints)


@dataclass
class Rig:
    cluster: Cluster
    proxy: Proxy
    publisher: Publisher
    name: str
    uid: str
    alive: bool = True
    heard: list[NodeAnnotations] = field(default_factory=list)

    def tell(self, told: Desired, names: GatePolicy = NAMES, *, opening: bool = False) -> float:
        """Returns the time.monotonic() before: all that comes of it is later."""
        began = time.monotonic()
        self.publisher.publish(told, names, self.uid, opening=opening)
        return began

    def node(self) -> dict[str, Any]:
        return self.cluster.call("GET", f"{NODES}/{self.name}")[1]

    def tainted(self, key: str = UNHEALTHY) -> bool:
        return any(one["key"] == key for one in self.node()["spec"].get("taints", []))

    def condition(self) -> dict[str, str]:
        found = self.node()["status"].get("conditions", [])
        return next((one for one in found if one["type"] == TRAINING_READY), {})

    def reasons(self) -> list[str]:
        return [one["reason"] for one in events_of(self.cluster, self.name)]

    def settled(self) -> None:
        until(lambda: self.condition().get("status") == "True" and self.reasons()[-1:] == ["Ready"], "settled")

    def asked(self, method: str = "", path: str = "", since: float = 0.0) -> list[Request]:
        return self.proxy.asked(method, path, since)


@contextmanager
def rig(
    cluster: Cluster,
    name: str,
    *,
    start: bool = True,
    refresh: float | None = None,
    policy_enforced: bool = False,
    period: float = MINUTE,
) -> Iterator[Rig]:
    """With `policy_enforced` the publisher finds an admission policy and is content; else it tests again and again."""
    create(cluster, name)
    cluster.namespace("nodeprep")
    token = accounts.account(cluster, name, [*accounts.RULES, *SHIPPED])
    with Proxy(cluster) as proxy, denying(cluster, name, FENCED) if policy_enforced else nullcontext():
        who = partial(dict[str, str], Authorization=f"Bearer {token}")
        access = ApiAccess(name, Peer(proxy.url, authority=str(cluster.authority)), who)
        publisher = Publisher(access, period=period, refresh=refresh)
        uid = cluster.call("GET", f"{NODES}/{name}")[1]["metadata"]["uid"]
        made = Rig(cluster, proxy, publisher, name, uid)
        publisher.is_alive, publisher.on_annotations = lambda: made.alive, made.heard.append
        made.tell(desired(good=True))
        others = set(threading.enumerate())
        try:
            if start:
                publisher.start()
                made.settled()
            yield made
        finally:
            publisher.stop()
            # The proxy outlives its last request: ssl leaves a socket open that is reset between connect and handshake.
            until(
                lambda: not [one for one in threading.enumerate() if one.name == "publisher" and one not in others],
                "end",
            )


@pytest.mark.parametrize("state", [NodeState.REPAIRING, NodeState.VALIDATING])
def test_a_taint_that_is_taken_away_while_a_remedy_runs_comes_back_soon(cluster: Cluster, state: NodeState) -> None:
    """By a look of its own: the next periodic one is in an hour."""
    name = f"publisher-{state.value.lower()}"
    with rig(cluster, name, period=3600.0) as made:
        made.tell(replace(desired(good=False), state=state))
        until(made.tainted, "the taint is there")
        code, told = cluster.call("PATCH", f"{NODES}/{name}", {"spec": {"taints": []}})
        assert code == 200, told
        assert not made.tainted()
        until(made.tainted, "the taint is there again")


@contextmanager
def cheap(seconds: float, share: float = 0.08) -> Iterator[None]:
    """While it lasts, this process takes at most this share of a core: a thread that spins takes half of one."""
    began, spent = time.monotonic(), time.process_time()
    yield
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    used = (time.process_time() - spent) / (time.monotonic() - began)
    assert used < share, f"{used:.0%} of a core"


def test_a_quiet_minute_is_one_look_and_three_renewals_are_four_minutes(cluster: Cluster) -> None:
    with rig(cluster, "quiet-minute", policy_enforced=True) as made:
        time.sleep(2 * MINUTE)
        since = time.monotonic()
        with cheap(5 * MINUTE):
            pass
        until(lambda: len(made.asked("GET", LOOK, since)) >= 5, "looks")
        until(lambda: len(made.asked("PATCH", LEASE, since)) >= 4, "renewals")
        asked, took = made.asked(since=since), time.monotonic() - since
        looks = [one.at for one in asked if str(one) == f"GET {NODES}/quiet-minute?resourceVersion=0"]
        renewals = [one.at for one in asked if str(one).startswith(f"PATCH {LEASE}")]
        assert len(looks) <= 1 + took / (0.9 * MINUTE)
        assert len(renewals) <= 1 + took / (0.9 * RENEWAL)
        # They are no rarer either. A machine that stands still makes single gaps longer, so the shortest one counts.
        assert min(later - sooner for sooner, later in pairwise(looks)) < 1.3 * MINUTE
        assert min(later - sooner for sooner, later in pairwise(renewals)) < 1.3 * RENEWAL
        assert len(asked) == len(looks) + len(renewals)


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
        tries = partial(made.asked, method, path, since)
        until(lambda: len([one for one in tries() if one.status == 503]) >= 3, "tries", BUSY)
        assert len(tries()) <= 16
        made.proxy.lift()
        until(
            lambda: len(made.asked("PATCH", LEASE, since)) > 0 and not made.publisher.api_status.trouble, "well again"
        )


def test_writes_that_fail_back_off_though_reads_succeed(cluster: Cluster) -> None:
    with rig(cluster, "unwritten") as made:
        made.proxy.rule(refuses(503), "PATCH", f"{NODES}/")
        since = made.tell(desired(good=False))
        time.sleep(15.0)
        tries = [one.at for one in made.asked("PATCH", f"{NODES}/unwritten$", since)]
        gaps = [later - sooner for sooner, later in pairwise(tries)]
        assert 3 <= len(tries) <= 8
        assert max(gaps[-2:]) > 2.0
        made.proxy.lift()
        until(made.tainted, "taint")


def test_a_node_that_flaps_costs_no_more_than_the_bucket_holds(cluster: Cluster) -> None:
    with rig(cluster, "flaps", policy_enforced=True) as made:
        since = time.monotonic()
        for number in range(16):
            made.tell(desired(good=False, reason=f"Reason{number}"))
            until(lambda number=number: made.condition().get("reason") == f"Reason{number}", "written")  # type: ignore[misc]
        asked, took = len(made.asked(since=since)), time.monotonic() - since
        assert asked <= BURST_REQUESTS + 5 + RATE_PER_SECOND * took, "5: what began may overdraw it"


def test_a_closing_does_not_wait_behind_events(cluster: Cluster) -> None:
    with rig(cluster, "events") as made:
        made.proxy.rule(refuses(429, Retry_After="300"), "POST", EVENTS)
        for number in range(14):
            made.tell(desired(good=False, reason=f"Reason{number}"))
            until(lambda number=number: made.condition().get("reason") == f"Reason{number}", "written")  # type: ignore[misc]
        made.tell(desired(good=True))
        until(lambda: not made.tainted(), "open")
        until(lambda: [one for one in made.asked("POST", EVENTS) if one.status == 429], "refused Event")
        made.proxy.lift()
        made.tell(desired(good=False))
        until(made.tainted, "taint", BUSY)  # behind Events it would come after their 300 s


def test_the_event_of_a_write_whose_answer_was_lost(cluster: Cluster) -> None:
    with rig(cluster, "lost-answer") as made:
        made.proxy.rule(loses, "PATCH", STATUS, times=1)
        made.tell(desired(good=False))
        until(lambda: "PortDown" in made.reasons(), "Event")
        made.proxy.rule(refuses(409), "PATCH", f"{NODES}/lost-answer$", times=1)
        made.tell(desired(good=True))
        until(lambda: made.reasons().count("Ready") == 2, "Event of the opening")


DENIES = refuses(422, "ValidatingAdmissionPolicy 'one' with binding 'one' denied request: nodeprep:taints")


def test_a_denial_ends_with_the_names_that_were_denied(cluster: Cluster) -> None:
    """Another configuration has other names: what a rule of ours denied of the former ones says nothing of these."""
    other = replace(NAMES, unhealthy_taint="example.org/unhealthy")
    with rig(cluster, "other-names") as made:
        made.proxy.rule(DENIES, "PATCH", f"{NODES}/other-names$", times=1)
        made.tell(desired(good=False, names=other), other)
        until(lambda: made.publisher.api_status.denied, "denied")
        made.proxy.rule(DENIES, "PATCH", f"{NODES}/other-names$", times=1)
        made.publisher.forget_denials()
        until(lambda: len([one for one in made.asked("PATCH") if one.status == 422]) == 2, "denial of another try")
        made.tell(desired(good=False), NAMES)
        until(made.tainted, "taint")
        until(lambda: not made.publisher.api_status.denied, "end of the denial")


def test_a_denial_by_no_rule_of_ours_ends_with_what_was_wanted(cluster: Cluster) -> None:
    """A policy of others, or a Node that is invalid: each wish is tried once, and no wish twice."""
    with rig(cluster, "others-policy") as made:
        node = f"{NODES}/others-policy$"
        made.proxy.rule(refuses(422), "PATCH", node, times=2)
        since = made.tell(desired(good=False))
        until(lambda: "PortDown" in made.reasons(), "Event of the conditions, which nobody denies")
        until(lambda: "WriteDenied" in made.reasons(), "Event")
        for number in range(30):
            made.tell(desired(good=False, message=f"+{number}"))
        until(lambda: made.condition()["message"] == "+29", "other words")
        assert [one.status for one in made.asked("PATCH", node, since)] == [422]
        told = made.publisher.api_status
        assert told.denied.startswith("denied: PATCH ")
        assert told.trouble == f"{told.denied}; {FIX_OTHERS}"
        made.tell(desired(good=False, reason="Other"))
        until(lambda: made.condition()["reason"] == "Other", "condition of the second wish")
        made.tell(desired(good=False, reason="Third"))
        until(made.tainted, "taint of the third wish")
        until(lambda: not made.publisher.api_status.denied, "end of the denial")
        assert [one.status for one in made.asked("PATCH", node, since)] == [422, 422, 200]
        until(lambda: "Third" in made.reasons(), "Event of the third wish")
        assert made.reasons().count("WriteDenied") == 1, "the same was said"


def test_one_by_a_rule_of_ours_does_not(cluster: Cluster) -> None:
    with rig(cluster, "our-policy") as made, denying(cluster, "our-policy", {"nodeprep:taints": OF_LEASE}):
        since = made.tell(desired(good=False))
        until(lambda: "WriteDenied" in made.reasons(), "Event")
        made.tell(desired(good=False, reason="Other"))
        until(lambda: made.condition()["reason"] == "Other", "condition of the second wish")
        assert [one.status for one in made.asked("PATCH", f"{NODES}/our-policy$", since)] == [422]
        assert made.publisher.api_status.denied.startswith("denied by nodeprep:taints: PATCH ")


def test_messages_alone_wait_for_the_minute(cluster: Cluster) -> None:
    """A count in a message changes at each look: one write a minute tells the newest."""
    with rig(cluster, "counts", policy_enforced=True) as made:
        made.tell(desired(good=False))
        until(lambda: "PortDown" in made.reasons(), "Event")
        until(lambda: len(made.asked("GET", LOOK)) > 0, "the minute's look")
        time.sleep(0.5)
        since = time.monotonic()
        for number in range(60):
            made.tell(desired(good=False, message=f"+{number} in 10 s"), opening=True)
        assert time.monotonic() - since < 60 * OPENING_TIMEOUT_SECONDS / 2, "what stands is not waited for"
        until(lambda: made.condition()["message"] == "+59 in 10 s", "newest message")
        asked = [one for one in made.asked("", f"{NODES}/counts", since) if "dryRun" not in one.path]
        took = time.monotonic() - since
        written = [str(one) for one in asked if one.method == "PATCH"]
        assert set(written) == {f"PATCH {NODES}/counts/status"}
        assert len(written) <= 1 + took / (0.9 * MINUTE), "one a minute"
        read = [one for one in asked if str(one) == f"GET {NODES}/counts"]
        assert len(written) <= len(read) <= 1 + took / (0.9 * MINUTE), "one before each write"


def passes_after(event: threading.Event) -> Deed:
    """It is passed on once that is set."""

    def deed(exchange: Exchange) -> None:
        event.wait(LONG)
        passes(exchange)

    return deed


def test_an_opening_that_is_no_longer_wanted_is_dropped(cluster: Cluster) -> None:
    with rig(cluster, "dropped") as made:
        made.tell(desired(good=False))
        until(lambda: "PortDown" in made.reasons(), "Event")
        node, closed = f"{NODES}/dropped", threading.Event()
        made.proxy.rule(passes_after(closed), "GET", f"{node}$", times=1)
        since = made.tell(desired(good=True))
        until(lambda: made.asked("GET", f"{node}$", since), "read of the opening")
        made.tell(desired(good=False, reason="Other"))
        closed.set()
        until(lambda: "Other" in made.reasons(), "Event")
        asked = [str(one) for one in made.asked("", f"{node}(/status)?$", since)]
        assert asked == [f"GET {node}", f"GET {node}", f"PATCH {node}/status", f"PATCH {node}"]
        assert made.reasons().count("Ready") == 1


def test_what_is_dropped_ends_no_trouble(cluster: Cluster) -> None:
    with rig(cluster, "dropped-too") as made:
        made.tell(desired(good=False))
        until(lambda: "PortDown" in made.reasons(), "Event")
        node = f"{NODES}/dropped-too"
        made.proxy.rule(refuses(503), "PATCH", node)
        made.tell(desired(good=True))
        until(lambda: made.publisher.api_status.trouble, "trouble")
        troubles: list[str] = []
        made.publisher.on_status_change = lambda: troubles.append(made.publisher.api_status.trouble)
        closed = threading.Event()
        made.proxy.rule(passes_after(closed), "GET", f"{node}$", times=1)
        since = time.monotonic()
        until(lambda: made.asked("GET", f"{node}$", since), "read of the next try")
        made.tell(desired(good=False, reason="Other"))
        closed.set()
        until(lambda: [one for one in made.asked("PATCH", node, since) if one.status == 503], "try of the newest")
        assert "" not in troubles


def test_a_closing_is_said_though_the_node_cannot_be_written(cluster: Cluster) -> None:
    """As where a webhook of others denies labels and taints otherwise than with 422."""
    with rig(cluster, "said-by-halves") as made:
        made.proxy.rule(refuses(400), "PATCH", f"{NODES}/said-by-halves$")
        made.tell(desired(good=False))
        until(lambda: made.condition()["status"] == "False", "condition")
        assert not made.tainted()
        until(lambda: "HTTP 400" in made.publisher.api_status.trouble, "trouble")


def test_a_node_that_is_registered_anew_while_it_opens_is_promised_nothing(cluster: Cluster) -> None:
    with rig(cluster, "anew") as made:
        made.tell(desired(good=False))
        until(lambda: "PortDown" in made.reasons(), "Event")

        def registers(exchange: Exchange) -> None:
            assert cluster.call("DELETE", f"{NODES}/anew")[0] == 200
            create(cluster, "anew")
            passes(exchange)

        made.proxy.rule(registers, "PATCH", STATUS, times=1)
        since = made.tell(desired(good=True))
        until(lambda: made.heard[-1].uid != made.uid, "word of it to the loop")
        assert [one.status for one in made.asked("PATCH", f"{NODES}/", since)] == [409]
        assert made.condition() == {}
        assert "nodeprep.io/state" not in made.node()["metadata"].get("labels", {})


def test_a_configuration_that_is_read_while_a_write_is_denied(cluster: Cluster) -> None:
    """What the answer to the former says of the Node holds no more."""
    with rig(cluster, "reread") as made:

        def denies(exchange: Exchange) -> None:
            made.publisher.forget_denials()
            DENIES(exchange)

        made.proxy.rule(denies, "PATCH", f"{NODES}/reread$", times=1)
        made.tell(desired(good=False))
        until(made.tainted, "taint")
        assert made.publisher.api_status.denied == ""


def test_a_lease_that_a_policy_denies(cluster: Cluster) -> None:
    """It is asked for once until what may have mended it; the Node is written as ever."""
    other = replace(NAMES, unhealthy_taint="example.org/unhealthy")
    with rig(cluster, "silenced") as made:
        until(lambda: made.asked("PATCH", LEASE), "Lease")
        with denying(cluster, "silenced", SILENCED):
            until(lambda: made.publisher.api_status.denied, "denial")
            told = made.publisher.api_status
            assert told.denied.startswith("denied by nodeprep:own-lease: PATCH ")
            assert told.trouble == f"{told.denied}; {FIX_OURS}"
            assert told.for_condition.startswith(told.denied), "for the Node's condition"
            until(lambda: "WriteDenied" in made.reasons(), "Event")
            since = made.tell(desired(good=False))
            until(made.tainted, "taint")
            until(lambda: len(made.asked("GET", LOOK, since)) >= 3, "looks")
            assert made.asked("", LEASE, since) == []
            assert made.reasons().count("WriteDenied") == 1

            made.tell(desired(good=False, names=other), other)
            until(lambda: len(denials(made)) == 2, "try under other names")
            made.publisher.forget_denials()
            until(lambda: len(denials(made)) == 3, "try under another configuration")
        made.publisher.forget_denials()
        until(lambda: made.asked("PATCH", LEASE)[-1].status == 200, "Lease")
        until(lambda: not made.publisher.api_status.trouble, "end of the trouble")


def denials(made: Rig) -> list[Request]:
    return [one for one in made.asked("PATCH", LEASE) if one.status == 422]


def test_a_cluster_without_a_admission_policy_until_it_has_one(cluster: Cluster) -> None:
    with rig(cluster, "policy-not-enforced") as made:
        until(lambda: made.publisher.api_status.policy_enforced is False, "test of the admission policy")
        assert made.publisher.api_status.for_condition == NOT_ENFORCED
        assert made.publisher.api_status.trouble == "", "writing goes on as ever"
        first = made.asked("PATCH", "dryRun")[0].at
        until(lambda: len(made.asked("GET", LOOK, first)) >= 2, "looks")
        again = made.asked("PATCH", "dryRun")[1:]
        assert all(one.at - first > 0.9 * FIRST_RETRY_SECONDS for one in again), "it is not in doubt at each look"
        with denying(cluster, "policy-not-enforced", FENCED):
            made.publisher.forget_denials()
            until(lambda: made.publisher.api_status.policy_enforced, "admission policy")
            assert made.publisher.api_status.for_condition == ""


def test_an_agent_that_stands_still_says_nothing_of_the_present(cluster: Cluster) -> None:
    with rig(cluster, "still", refresh=0.0, policy_enforced=True) as made:  # every look finds the conditions too old
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
        assert "HTTP 403" in made.publisher.api_status.trouble
        assert "kubectl auth can-i" in made.publisher.api_status.trouble


@pytest.mark.parametrize("code", [403, 404])
def test_what_a_server_refuses_that_just_started_is_tried_again_soon(cluster: Cluster, code: int) -> None:
    with rig(cluster, f"refused-{code}") as made:
        until(lambda: not made.publisher.api_status.trouble and made.reasons(), "word of the start")
        made.proxy.rule(refuses(code), "PATCH", f"{NODES}/", times=2)
        since = made.tell(desired(good=False))
        until(made.tainted, "taint", BUSY)
        statuses = [one.status for one in made.asked("PATCH", f"{NODES}/", since)]
        assert statuses.count(code) == 2


def test_opening_waits_for_the_node_and_closing_for_nobody(cluster: Cluster) -> None:
    with rig(cluster, "waits") as made:
        # Where this machine stands still for a moment, once proves nothing; who waits for the Node always does.
        took = (closes_unread(made) for _ in range(5))
        assert any(one < OPENING_TIMEOUT_SECONDS for one in took), "closing for nobody: the Node cannot be read yet"
        began = made.tell(desired(good=True), opening=True)
        waited = time.monotonic() - began
        assert not made.tainted() or waited >= OPENING_TIMEOUT_SECONDS, "it waits for the Node unless its patience ends"
        made.publisher.gates_written()
        until(lambda: made.reasons()[-1] == "Ready", "Event")
        made.tell(desired(good=False))
        until(made.tainted, "taint")
        made.proxy.rule(cuts)
        began = made.tell(desired(good=True), opening=True)
        assert time.monotonic() - began < OPENING_TIMEOUT_SECONDS + BUSY


def closes_unread(made: Rig) -> float:
    """Seconds that a closing takes while the Node cannot be read. Its Event, the last of it, is posted afterwards."""
    if made.tainted():
        made.tell(desired(good=True), opening=True)
        made.publisher.gates_written()
        until(lambda: made.reasons()[-1] == "Ready", "open again")
    told, closed = threading.Event(), made.reasons().count("PortDown")
    made.proxy.rule(passes_after(told), "GET", f"{NODES}/{made.name}$", times=1)
    began = made.tell(desired(good=False))
    took = time.monotonic() - began
    told.set()
    until(lambda: made.reasons().count("PortDown") > closed, "Event")
    return took


def test_no_event_before_the_gate_files_stand(cluster: Cluster) -> None:
    with rig(cluster, "held-events") as made:
        made.tell(desired(good=False))
        until(lambda: "PortDown" in made.reasons(), "Event")
        since = made.tell(desired(good=True), opening=True)
        until(lambda: len(made.asked("GET", LOOK, since)) >= 2, "looks, which come after an Event that is due")
        assert made.reasons().count("Ready") == 1
        made.publisher.gates_written()
        until(lambda: made.reasons().count("Ready") == 2, "Event")
