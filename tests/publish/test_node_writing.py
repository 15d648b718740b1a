"""Which requests make a Node say what it should, in which order, and what each answer leads to.

The server here is a value that behaves as the API server does where it matters: a stale resourceVersion is 409, taints
are a list that is replaced, conditions merge by type. The real one is asked in tests/cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.agent_state import NodeState
from nodeprep.decide.desired import TRAINING_READY, Desired, GatePolicy, NodeCondition, Taint
from nodeprep.doors.kube.writer import LOST, MERGE, STRATEGIC, WriteOutcome
from nodeprep.publish import node_patches, node_writing
from nodeprep.publish.node_object import RELEASED
from nodeprep.publish.node_writing import NODE, RACES_LIMIT, STATUS, WriteOrder, WriteRequest, WriteResult
from nodeprep.values import replace

NAMES = GatePolicy()
NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
TAINT = Taint(NAMES.unhealthy_taint, "PortDown", "NoSchedule")
THEIRS = {"key": "theirs", "value": "", "effect": "NoSchedule"}
OPEN = Desired(
    NodeState.READY,
    conditions=(NodeCondition(TRAINING_READY, "True", "Ready", "every gate check passes"),),
    labels={"nodeprep.io/state": "Ready", NAMES.rdma_label: "true"},
    annotations={"agent.nodeprep.io/profiles": "rdma-roce"},
)
SHUT = Desired(
    NodeState.UNHEALTHY,
    conditions=(NodeCondition(TRAINING_READY, "False", "PortDown", "mlx5_0/1 is down"),),
    labels={"nodeprep.io/state": "Unhealthy"},
    taints=(TAINT,),
)
GET, PATCH_NODE, PATCH_STATUS = "GET node", "PATCH node", "PATCH status"


@dataclass
class Server:
    """One Node. `answers` are given in place of what it would do, by request; `others` happen before each PATCH."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    conditions: dict[str, dict[str, str]] = field(default_factory=dict)
    version: int = 1
    uid: str = "u1"
    asked: list[str] = field(default_factory=list)
    answers: dict[str, list[WriteOutcome]] = field(default_factory=dict)
    others: list[tuple[str, str]] = field(default_factory=list)
    connections: int = 0

    def ask(self, method: str, path: str, body: Any = None, content_type: str = MERGE, /) -> WriteOutcome:
        what = GET if method == "GET" else PATCH_STATUS if path.endswith("/status") else PATCH_NODE
        self.asked.append("cached" if "resourceVersion=0" in path else what)
        if self.answers.get(what):
            return self.answers[what].pop(0)
        if method == "PATCH":
            assert content_type == (MERGE if what == PATCH_NODE else STRATEGIC)
            self.meddle()
            wanted = body.get("metadata", {}).get("resourceVersion", str(self.version))
            if wanted != str(self.version):
                return WriteOutcome(409, message="the object has been modified")
            self.take(deepcopy(body))
            self.version += 1
        return WriteOutcome(200, self.node())

    @contextmanager
    def connect(self) -> Iterator[WriteRequest]:
        self.connections += 1
        yield self.ask

    def meddle(self) -> None:
        if not self.others:
            return
        kind, name = self.others.pop()
        if kind == "anew":
            self.uid, self.labels, self.annotations, self.taints, self.conditions = name, {}, {}, [], {}
        elif kind == "taint":
            self.taints = [*(one for one in self.taints if one["key"] != name), {"key": name, "effect": "NoSchedule"}]
        elif kind == "untaint":
            self.taints = [one for one in self.taints if one["key"] != name]
        else:
            self.labels[name] = kind
        self.version += 1

    def take(self, body: dict[str, Any]) -> None:
        metadata = body.get("metadata", {})
        for there, given_keys in (
            (self.labels, metadata.get("labels", {})),
            (self.annotations, metadata.get("annotations", {})),
        ):
            for key, value in given_keys.items():
                if value is None:
                    there.pop(key, None)
                else:
                    there[key] = value
        self.taints = body.get("spec", {}).get("taints", self.taints)
        for one in body.get("status", {}).get("conditions", []):
            if one.get("$patch") == "delete":
                self.conditions.pop(one["type"], None)
            else:
                self.conditions[one["type"]] = one

    def node(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": "n1", "uid": self.uid, "resourceVersion": str(self.version)}
        metadata |= {"labels": dict(self.labels), "annotations": dict(self.annotations)}
        spec = {"taints": deepcopy(self.taints)}
        return deepcopy({"metadata": metadata, "spec": spec, "status": {"conditions": list(self.conditions.values())}})


def order(desired: Desired, **more: Any) -> WriteOrder:
    return replace(WriteOrder("n1", "u1", desired, NAMES, refresh=600.0), **more)


def checked(server: Server, what: WriteOrder) -> WriteResult:
    """As once a minute: looked at, and written if it does not stand."""
    return node_writing.look(what, server.ask, NOW) or node_writing.write(what, server.connect, now)


def now() -> datetime:
    return NOW


def stands(server: Server, desired: Desired) -> bool:
    ours = [one for one in server.taints if one["key"] == NAMES.unhealthy_taint]
    wanted = [{"key": one.key, "value": one.value, "effect": one.effect} for one in desired.taints]
    said = {name: one["status"] for name, one in server.conditions.items()}
    labels = {key: value for key, value in server.labels.items() if "nodeprep" in key or key == NAMES.rdma_label}
    return (ours, said, labels) == (wanted, {one.type: one.status for one in desired.conditions}, desired.labels)


def test_opening_says_so_before_pods_may_come() -> None:
    server = Server()
    written = node_writing.write(order(OPEN), server.connect, now)
    assert server.asked == [GET, PATCH_STATUS, PATCH_NODE]
    assert stands(server, OPEN)
    assert (written.failure, written.denied, written.is_other_node) == (None, {}, False)
    assert server.annotations == OPEN.annotations


def test_closing_keeps_pods_away_before_it_says_why() -> None:
    server = Server()
    node_writing.write(order(OPEN), server.connect, now)
    server.asked.clear()
    written = node_writing.write(order(SHUT), server.connect, now)
    assert server.asked == [GET, PATCH_NODE, PATCH_STATUS]
    assert stands(server, SHUT)
    assert [one.reason for one in written.node_events] == ["PortDown"]
    assert server.annotations == {}


def test_a_label_that_jobs_select_goes_before_it_is_said_why() -> None:
    """Where no taint comes, as in mode observe, the label alone keeps pods away."""
    server = Server()
    node_writing.write(order(OPEN), server.connect, now)
    server.asked.clear()
    node_writing.write(order(replace(SHUT, taints=())), server.connect, now)
    assert server.asked == [GET, PATCH_NODE, PATCH_STATUS]


def test_what_stands_is_not_written_again() -> None:
    server = Server()
    node_writing.write(order(OPEN), server.connect, now)
    server.asked.clear()
    assert checked(server, order(OPEN)).node_events == ()
    assert server.asked == ["cached"]


def test_what_somebody_changed_is_read_anew_before_it_is_put_right() -> None:
    server = Server()
    node_writing.write(order(OPEN), server.connect, now)
    server.labels.pop(NAMES.rdma_label)
    server.asked.clear()
    checked(server, order(OPEN))
    assert server.asked == ["cached", GET, PATCH_NODE]
    assert stands(server, OPEN)


def test_a_lost_race_is_decided_anew() -> None:
    server = Server(taints=[THEIRS], others=[("taint", "late")])
    written = node_writing.write(order(SHUT), server.connect, now)
    assert server.asked == [GET, PATCH_NODE, PATCH_STATUS, GET, PATCH_NODE]
    assert [one["key"] for one in server.taints] == ["theirs", "late", NAMES.unhealthy_taint]
    assert written.failure is None
    assert [one.reason for one in written.node_events] == ["PortDown"]


def test_so_is_an_opening_whose_status_lost_it() -> None:
    server = Server(others=[("taint", "late")])
    assert node_writing.write(order(OPEN), server.connect, now).failure is None
    assert server.asked == [GET, PATCH_STATUS, GET, PATCH_STATUS, PATCH_NODE]
    assert stands(server, OPEN)


def test_races_without_end_are_given_up() -> None:
    server = Server(others=[("taint", f"t{number}") for number in range(99)])
    written = node_writing.write(order(SHUT), server.connect, now)
    assert server.asked.count(PATCH_NODE) == RACES_LIMIT
    assert written.failure is not None
    assert written.failure.status == 409
    assert "5 times somebody else was faster" in written.failure.message


@pytest.mark.parametrize("denied", [NODE, STATUS])
def test_what_a_policy_denies_keeps_nothing_else_from_being_written(denied: str) -> None:
    what = {NODE: PATCH_NODE, STATUS: PATCH_STATUS}[denied]
    server = Server(answers={what: [WriteOutcome(422, {"message": "x denied request: nodeprep:taints"}, "HTTP 422")]})
    written = node_writing.write(order(SHUT), server.connect, now)
    assert dict(written.denied) == {denied: "denied by nodeprep:taints: HTTP 422"}
    assert written.failure is None
    assert bool(server.taints) == (denied == STATUS)
    assert bool(server.conditions) == (denied == NODE)
    server.asked.clear()
    again = checked(server, order(SHUT, denied=frozenset({denied})))
    assert what not in server.asked
    assert again.denied == {}


def test_what_a_policy_denied_is_not_asked_again_when_a_race_is_lost() -> None:
    denial = WriteOutcome(422, {"message": "x denied request: theirs"}, "HTTP 422")
    server = Server(answers={PATCH_STATUS: [denial]}, others=[("taint", "late")])
    written = node_writing.write(order(SHUT), server.connect, now)
    assert server.asked == [GET, PATCH_NODE, PATCH_STATUS, GET, PATCH_NODE]
    assert dict(written.denied) == {STATUS: "denied: HTTP 422"}
    assert written.node_events == ()


ANSWERS = pytest.mark.parametrize(
    ("status", "lost"), [(LOST, True), (401, True), (403, False), (404, False), (429, True), (500, True), (503, True)]
)


@ANSWERS
@pytest.mark.parametrize(
    ("desired", "what"), [(SHUT, GET), (SHUT, PATCH_STATUS), (OPEN, GET), (OPEN, PATCH_STATUS), (OPEN, PATCH_NODE)]
)
def test_an_answer_that_is_none_ends_it(desired: Desired, what: str, status: int, *, lost: bool) -> None:
    server = Server(answers={what: [WriteOutcome(status, message="no")]})
    written = node_writing.write(order(desired), server.connect, now)
    assert written.failure == WriteOutcome(status, message="no")
    assert node_writing.is_lost(written.failure) is lost
    assert server.asked[-1] == what
    assert written.node_events == ()


@ANSWERS
def test_but_a_closing_is_said_by_the_status_where_the_node_cannot_be_written(status: int, *, lost: bool) -> None:
    """Without any answer no further one is waited for."""
    server = Server()
    node_writing.write(order(OPEN), server.connect, now)
    server.answers = {PATCH_NODE: [WriteOutcome(status, message="no")]}
    written = node_writing.write(order(SHUT), server.connect, now)
    assert written.failure == WriteOutcome(status, message="no"), "of the Node, so that it is tried again"
    assert node_writing.is_lost(written.failure) is lost
    assert server.conditions[TRAINING_READY]["status"] == ("True" if status == LOST else "False")
    assert written.node_events == ()
    assert [
        one.reason for one in node_writing.write(order(SHUT), server.connect, now, before=written.before).node_events
    ] == ["PortDown"]
    assert stands(server, SHUT)


def test_a_server_that_wants_to_be_left_alone_is() -> None:
    server = Server(answers={PATCH_NODE: [WriteOutcome(429, message="no", retry_after=5.0)]})
    assert node_writing.write(order(SHUT), server.connect, now).failure == WriteOutcome(
        429, message="no", retry_after=5.0
    )
    assert server.asked == [GET, PATCH_NODE]


def test_the_first_failure_of_a_closing_is_the_one_that_is_told() -> None:
    server = Server(
        answers={PATCH_NODE: [WriteOutcome(403, message="no")], PATCH_STATUS: [WriteOutcome(LOST, message="gone")]}
    )
    written = node_writing.write(order(SHUT), server.connect, now)
    assert server.asked == [GET, PATCH_NODE, PATCH_STATUS]
    assert written.failure == WriteOutcome(403, message="no")


def test_another_node_of_the_name_is_not_written_to() -> None:
    server = Server(uid="u2")
    written = node_writing.write(order(OPEN), server.connect, now)
    assert server.asked == [GET]
    assert written.is_other_node
    assert written.seen is not None
    assert written.seen.uid == "u2"


LABELLED = replace(OPEN, labels={**OPEN.labels, "nodeprep.io/profile.a": "ready"})


@pytest.mark.parametrize(("stood", "desired"), [(SHUT, OPEN), (LABELLED, OPEN)], ids=["opening", "label goes"])
def test_a_node_that_is_registered_anew_meanwhile_is_promised_nothing(stood: Desired, desired: Desired) -> None:
    server = Server()
    node_writing.write(order(stood), server.connect, now)
    server.others = [("anew", "u2")]
    server.conditions.clear()  # so that the status is written
    written = node_writing.write(order(desired), server.connect, now)
    assert written.is_other_node
    assert written.seen is not None
    assert written.seen.uid == "u2"
    assert (server.labels, server.annotations, server.conditions) == ({}, {}, {})


def test_one_that_is_registered_anew_may_be_closed_once() -> None:
    server = Server(others=[("anew", "u2")])
    written = node_writing.write(order(SHUT), server.connect, now)
    assert server.asked == [GET, PATCH_NODE, PATCH_STATUS], "and nothing more: it is judged first"
    assert (written.is_other_node, written.failure) == (True, None)
    assert written.seen is not None
    assert written.seen.uid == "u2"
    assert [one["status"] for one in server.conditions.values()] == ["False"]


def counted(times: int) -> Callable[[], bool]:
    """Yes, so many times; then no."""
    left = [True] * times
    return lambda: bool(left and left.pop())


@pytest.mark.parametrize(
    ("times", "asked"), [(0, []), (1, [GET]), (2, [GET, PATCH_STATUS]), (3, [GET, PATCH_STATUS, PATCH_NODE])]
)
def test_an_opening_ends_where_something_newer_is_wanted(times: int, asked: list[str]) -> None:
    server = Server()
    written = node_writing.write(order(OPEN), server.connect, now, still_wanted=counted(times))
    assert server.asked == asked
    assert written.is_superseded is (times < 3)
    assert written.failure is None
    assert bool(written.node_events) is (times == 3)
    assert (written.before is not None) is (times in (1, 2)), "what was there first"


@pytest.mark.parametrize("desired", [OPEN, SHUT])
def test_a_lost_race_ends_where_something_newer_is_wanted(desired: Desired) -> None:
    """A closing is not asked within one try: it is said by all that can."""
    server = Server(others=[("taint", f"t{number}") for number in range(9)])
    written = node_writing.write(order(desired), server.connect, now, still_wanted=counted(2 if desired is OPEN else 1))
    assert server.asked == ([GET, PATCH_STATUS] if desired is OPEN else [GET, PATCH_NODE, PATCH_STATUS])
    assert (written.is_superseded, written.failure) == (True, None)
    assert written.before is not None


def test_the_cached_word_of_another_node_is_not_believed() -> None:
    server = Server(uid="u2")
    assert checked(server, order(OPEN)).is_other_node
    assert server.asked == ["cached", GET]


def test_a_node_that_was_given_back_bears_nothing_of_ours() -> None:
    server = Server(taints=[THEIRS], labels={"team": "a"})
    node_writing.write(order(SHUT), server.connect, now)
    server.annotations[RELEASED] = node_patches.stamp(NOW)
    server.taints.append({"key": NAMES.bootstrap_taint, "effect": "NoSchedule"})
    checked(server, order(SHUT))
    assert (server.taints, server.labels, server.conditions) == ([THEIRS], {"team": "a"}, {})
    assert server.annotations == {RELEASED: node_patches.stamp(NOW)}


MEDDLING = st.lists(
    st.tuples(st.sampled_from(["taint", "untaint", "x", "y"]), st.sampled_from(["a", "b", "node.kubernetes.io/z"])),
    max_size=8,
)


@settings(deadline=None)
@given(steps=st.lists(st.sampled_from([OPEN, SHUT]), min_size=1, max_size=5), meddling=MEDDLING)
def test_nobody_loses_a_word_and_ours_is_the_last_of_ours(
    steps: list[Desired], meddling: list[tuple[str, str]]
) -> None:
    server, alone = Server(others=list(meddling)), Server(others=list(meddling))
    for desired in steps:
        while node_writing.write(order(desired), server.connect, now).failure is not None:
            pass
    while server.others:
        server.meddle()
    while alone.others:
        alone.meddle()
    assert node_writing.write(order(steps[-1]), server.connect, now).failure is None
    assert stands(server, steps[-1])
    assert [one for one in server.taints if one["key"] != NAMES.unhealthy_taint] == alone.taints
    assert {key: value for key, value in server.labels.items() if key in alone.labels} == alone.labels
