"""What others do to a Node while its agent runs is right again within a minute, and theirs stays as it is.

All of it is done at once, to a Node each, for that minute is the same for all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import pytest

from tests.cluster.published_node import (
    BOOTSTRAP,
    BUSY,
    CHECK,
    DOWN,
    FENCED,
    FOREIGN_CONDITION,
    FOREIGN_TAINT,
    HELD,
    NODES,
    RELEASED,
    RENEWED,
    RESET,
    RESET_DONE,
    STATE,
    UNHEALTHY,
    Object,
    Published,
    configuration,
    create,
    denying,
    published,
    seconds,
)
from tests.rigs.agent import OPEN, at
from tests.rigs.api_proxy import Request
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

RDMA = "feature.node.kubernetes.io/network-rdma.capable"
THEIRS = {"feature.node.kubernetes.io/cpu-model.vendor_id": "Intel", "example.com/theirs": "b"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
DRY_RUN, TRIED = "?dryRun=All", {"PATCH", "POST"}
LEAST = 54.0  # seconds between two looks at the Node, or two dry runs: a minute less a tenth
UP = ("quiet", "forged", "feature-discovery", "made-anew", "reset")
DEAD = ("untainted", "released")  # a link of theirs is down


@dataclass(slots=True)
class Tampered:
    """Since when, the nodes by name, and what their Nodes said before."""

    at: float
    nodes: Mapping[str, Published]
    before: Mapping[str, Object]

    def right_again(self, name: str) -> None:
        """Returns when labels, taints and conditions are as they were before."""
        one, before = self.nodes[name], self.before[name]
        until(lambda: words(one.object()) == words(before), f"Node {name} as it was", CHECK + BUSY)
        print(f"{name}: right again after {seconds(self.at):.1f} s")


def words(node: Object) -> Object:
    """What a Node says, without the times at which it was said."""
    times = ("lastHeartbeatTime", "lastTransitionTime")
    conditions = node.get("status", {}).get("conditions", [])
    return {
        "labels": node["metadata"].get("labels", {}),
        "taints": node["spec"].get("taints", []),
        "conditions": {
            one["type"]: {key: value for key, value in one.items() if key not in times} for one in conditions
        },
    }


@pytest.fixture(scope="module")
def tampered(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tampered]:
    with ExitStack() as stack:
        here, dead = (stack.enter_context(checked(Shape(enis=1, pods=1))) for _ in range(2))
        directory = tmp_path_factory.mktemp("minute")
        nodes = {}
        for name in (*UP, *DEAD):
            on = (dead if name in DEAD else here).node
            nodes[name] = stack.enter_context(published(cluster, on, directory, name, start=False))
            stack.enter_context(denying(cluster, name, FENCED))
            nodes[name].agent.start()
        for one in nodes.values():
            one.ready()
            one.patch({"metadata": {"labels": THEIRS, "annotations": THEIRS}, "spec": {"taints": [FOREIGN_TAINT]}})
            one.patch({"status": {"conditions": [*one.conditions().values(), FOREIGN_CONDITION]}}, "status")
        dead.do(DOWN)
        for name in DEAD:
            nodes[name].closed()
        for one in nodes.values():
            until(partial(everything_told, one), f"the last Event and Lease of {one.name}", BUSY)
        # A busy machine tells Bootstrap before so many passes are over. Its test gives it a short span then.
        nodes["made-anew"].agent.configure(configuration(span=120.0))
        nodes["made-anew"].agent.wait("configuration-read")
        before = {name: one.object() for name, one in nodes.items()}
        begun = time.monotonic()
        tamper(nodes)
        yield Tampered(begun, nodes, before)


def everything_told(one: Published) -> bool:
    """Whether Lease and Event are written too, which come after the Node."""
    return one.lease() is not None and one.reasons()[-1:] == one.says().split()[1:]


def tamper(nodes: Mapping[str, Published]) -> None:
    forged = {"type": "nodeprep.io/TrainingReady", "status": "False", "reason": "Forged", "message": "by a human"}
    one = nodes["forged"]
    one.patch({"metadata": {"labels": {STATE: None, "nodeprep.io/profile.mine": "never", RDMA: "true"}}})
    one.patch({"status": {"conditions": [*others(one), forged]}}, "status")

    # One that owns the labels of its prefix, writes them all anew, and removes what it did not find.
    rewritten = {"feature.node.kubernetes.io/cpu-model.vendor_id": "AMD", RDMA: "true", STATE: "Unhealthy"}
    nodes["feature-discovery"].patch({"metadata": {"labels": {**rewritten, "nodeprep.io/profile.mine": None}}})
    nodes["feature-discovery"].patch({"status": {"conditions": others(nodes["feature-discovery"])}}, "status")

    nodes["untainted"].patch({"spec": {"unschedulable": True, "taints": [FOREIGN_TAINT, CORDON]}})
    nodes["reset"].annotate(RESET, "monday")
    nodes["released"].annotate(RELEASED, "for the week-end")

    name = "made-anew"
    code, _ = nodes[name].cluster.call("DELETE", f"{NODES}/{name}")
    assert code == 200
    create(nodes[name].cluster, name, [{"key": BOOTSTRAP, "effect": "NoSchedule"}])


def others(one: Published) -> list[Object]:
    return [told for kind, told in one.conditions().items() if not kind.startswith("nodeprep.io/")]


def test_labels_and_a_condition_that_somebody_forged(tampered: Tampered) -> None:
    tampered.right_again("forged")


def test_a_second_writer_who_owns_a_prefix(tampered: Tampered) -> None:
    """Like NFD: what it wrote of its own stays, also where our label has its prefix."""
    one = tampered.nodes["feature-discovery"]
    labels = tampered.before["feature-discovery"]["metadata"]["labels"]
    labels["feature.node.kubernetes.io/cpu-model.vendor_id"] = "AMD"
    tampered.right_again("feature-discovery")
    assert RDMA not in one.labels()


def test_a_taint_that_a_human_removed_beside_a_cordon(tampered: Tampered) -> None:
    one = tampered.nodes["untainted"]
    until(lambda: UNHEALTHY in one.taints(), "taint", CHECK + BUSY)
    print(f"untainted: tainted again after {seconds(tampered.at):.1f} s")
    told = one.object()["spec"]
    assert told["unschedulable"] is True
    assert [taint["key"] for taint in told["taints"]] == ["example.com/theirs", CORDON["key"], UNHEALTHY]


def test_a_node_that_was_deleted_and_made_anew(tampered: Tampered) -> None:
    """It has proven nothing: gates close, and open again when it has."""
    one, old = tampered.nodes["made-anew"], tampered.before["made-anew"]["metadata"]["uid"]
    new = one.object()["metadata"]["uid"]
    noticed = at(one.agent.wait("node", uid=new)) - (time.time() - seconds(tampered.at))
    assert one.agent.wait("state", 2, to="Bootstrap")
    assert one.agent.wait("profile-closed", number=2)
    until(lambda: [event["reason"] for event in about(one, new)][:1] == ["Bootstrap"], "Event of the new Node")
    one.agent.configure(configuration())
    one.ready()
    print(f"made-anew: noticed after {noticed:.1f} s, ready {seconds(tampered.at) - noticed:.1f} s later")
    assert noticed < CHECK + BUSY
    assert one.taints() == {}
    until(lambda: [event["reason"] for event in about(one, new)] == ["Bootstrap", "Ready"], "Events of the new Node")
    assert about(one, old) != []
    until(lambda: owner(one) == new, "Lease of the new Node", CHECK + BUSY)


def about(one: Published, uid: str) -> list[Object]:
    return [event for event in one.events() if event["involvedObject"]["uid"] == uid]


def owner(one: Published) -> str:
    lease = one.lease()
    return lease["metadata"]["ownerReferences"][0]["uid"] if lease else ""


def test_a_reset_by_annotation(tampered: Tampered) -> None:
    """Once for each value, whatever becomes of the agent."""
    one = tampered.nodes["reset"]
    until(lambda: one.annotations().get(RESET_DONE) == "monday", "answer", CHECK + BUSY)
    print(f"reset: answered after {seconds(tampered.at):.1f} s")
    one.ready()
    assert [line["inventory"] for line in one.agent.lines("reset")] == [False]
    assert one.agent.lines("state", to="Bootstrap", **{"from": "Ready"})

    one.agent.kill()
    one.agent.start()
    one.agent.ready()
    until(one.lease, "Lease")
    assert one.agent.lines("reset") == [], "again after a restart"

    one.agent.kill()
    one.annotate(RESET, "tuesday inventory")
    one.agent.start()
    until(lambda: one.annotations().get(RESET_DONE) == "tuesday inventory", "answer")
    assert [line["inventory"] for line in one.agent.lines("reset")] == [True]
    one.ready()
    assert len(one.agent.lines("reset")) == 1


def test_a_node_that_is_given_back(tampered: Tampered) -> None:
    """Nothing of ours is left but the Lease, and theirs is as it was; all comes back with the annotation's end."""
    one = tampered.nodes["released"]
    until(lambda: not ours(one), "Node without ours", CHECK + BUSY)
    print(f"released: given back after {seconds(tampered.at):.1f} s")
    assert list(one.taints().values()) == [FOREIGN_TAINT]
    assert one.labels().items() >= THEIRS.items()
    assert one.annotations().items() >= THEIRS.items()
    assert one.conditions() == {"example.com/Theirs": FOREIGN_CONDITION}
    assert one.agent.gates() == set()
    lease, since, version = one.lease(), time.monotonic(), one.object()["metadata"]["resourceVersion"]
    assert lease
    until(lambda: (one.lease() or lease)["spec"]["renewTime"] > lease["spec"]["renewTime"], "Lease", RENEWED + BUSY)
    assert one.writes(since) == []
    assert one.object()["metadata"]["resourceVersion"] == version
    one.annotate(RELEASED, None)
    back = time.monotonic()
    until(one.is_closed, "all that stood there before", CHECK + BUSY)
    print(f"released: back after {seconds(back):.1f} s")


def ours(one: Published) -> list[str]:
    told = [*one.labels(), *one.taints(), *one.conditions(), *one.annotations()]
    return [key for key in told if "nodeprep.io/" in key and key != RELEASED]


def answered(one: Published, since: float) -> list[Request]:
    """What its agent asked for, up to the last that has its answer."""
    asked = one.proxy.asked(since=since)
    return asked[: max((number for number, each in enumerate(asked, 1) if each.status), default=0)]


def tried_by(words: list[str]) -> list[str]:
    """The dry runs of the admission policies: PATCH tries a label, POST a Lease."""
    return [word.partition(" ")[0] for word in words if word.endswith(DRY_RUN)]


def test_a_minute_in_which_nothing_happens(tampered: Tampered) -> None:
    """By the server's own log: a read of the Node from its cache, a renewal of the Lease, a dry run of a policy.

    A dry run a minute tries label and Lease by turns, so it waits for one of each.
    Other agents of this machine have faults meanwhile. For them this one may look at what Kubernetes keeps, once a
    minute: what it read before that counts no more.
    """
    one = tampered.nodes["quiet"]
    reads, renewals = f"GET {one.path}?resourceVersion=0", "PATCH /apis/coordination.k8s.io"

    def a_minute_is_over() -> bool:
        """Where this test is a worker's first of this module, nothing else has waited."""
        words = [str(each) for each in answered(one, tampered.at)]
        return seconds(tampered.at) > LEAST and reads in words and set(tried_by(words)) == TRIED

    until(a_minute_is_over, "a read of the Node, and a dry run of a label and of a Lease", 2 * CHECK + BUSY)
    passed = seconds(tampered.at)
    before, asked = sum(each.at < tampered.at for each in one.proxy.requests), answered(one, tampered.at)
    words = [str(one) for one in asked]
    verbs = {"GET /api/v1/pods": "list /api/v1/pods", "GET": "get", "PATCH": "patch", "POST": "create"}
    logged = [next(word.replace(verb, verbs[verb], 1) for verb in verbs if word.startswith(verb)) for word in words]
    until(lambda: one.audited()[before : before + len(asked)] == logged, f"{logged} in the server's log", BUSY)
    looks = [f"GET {one.path}", "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dquiet&resourceVersion=0"]
    print(f"quiet: {len(asked)} requests in {passed:.0f} s")
    dry_runs = [word for word in words if word.endswith(DRY_RUN)]
    renewed = [word for word in words if word.startswith(renewals)]
    others = [word for word in words if word not in (reads, *dry_runs, *renewed)]
    assert others == looks * (len(others) // len(looks))
    looked = [each.at for each in asked if str(each) == looks[0]]
    assert all(then - one > LEAST for one, then in pairwise(looked)), looked
    for each in (words.count(reads), len(dry_runs)):
        assert 1 <= each <= passed / LEAST + 1, "design 3.5: each about once a minute"
    assert (passed > RENEWED + BUSY) <= len(renewed) <= passed / (RENEWED * 0.9) + 1, "design 3.5: each 80 s"
    assert all(one != then for one, then in pairwise(tried_by(words))), "label and Lease by turns"
    ran = [each.at for each in asked if str(each).endswith(DRY_RUN)]
    assert all(then - one > LEAST for one, then in pairwise(ran)), ran
    assert one.agent.gates() == OPEN
    assert HELD not in one.annotations(), "nothing was chosen by hardware"
