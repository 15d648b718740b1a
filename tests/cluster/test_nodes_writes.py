"""`nodeprep nodes release` and `reset` against a real kube-apiserver."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from threading import Event, Thread

import pytest

from tests.cluster.accounts import account
from tests.cluster.fleet import LEASES, NODES, POOL, RULES, TAINT, ago, asked, cells, few_nodes, later, nodes, say
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

SELDOM = 8.0  # times that others wait for as long as a write takes: each of our writes loses with a chance of a half


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[Cluster]:
    with few_nodes(cluster):
        yield cluster


def writing(cluster: Cluster, name: str, over: Event) -> Thread:
    """Somebody else writes to the Node again and again: each of our writes may lose a race, and no five in a row."""

    def write() -> None:
        count, took = 0, 0.0
        while not over.wait(0.02 + SELDOM * took):  # on a busy machine our writes take as long as theirs
            count += 1
            began = time.monotonic()
            cluster.call("PATCH", f"{NODES}/{name}", {"metadata": {"labels": {"theirs": str(count)}}})
            took = time.monotonic() - began

    thread = Thread(target=write)
    thread.start()
    return thread


def test_release_takes_ours_and_leaves_theirs(fleet: Cluster) -> None:
    theirs = {"key": "example.com/theirs", "effect": "NoSchedule"}
    more = {"metadata": {"annotations": {"agent.nodeprep.io/profiles": "x", "nodeprep.io/pause": "us"}}}
    taints = [theirs, TAINT, {"key": "nodeprep.io/bootstrap", "effect": "NoSchedule"}]
    cordoned = {"spec": {"unschedulable": True, "taints": taints}}
    assert fleet.call("PATCH", f"{NODES}/fleet-2", {**more, **cordoned})[0] == 200
    shown = nodes(fleet, "release", "fleet-2", "--dry-run")
    assert "taint nodeprep.io/unhealthy nodeprep.io/bootstrap, label nodeprep.io/state" in shown.stdout
    over = Event()
    threads = [writing(fleet, "fleet-2", over) for _ in range(3)]
    try:
        done = nodes(fleet, "release", "fleet-2")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert done.returncode == 0, done.stderr
    assert "HTTP 409" not in done.stderr  # a race that is lost is no news
    told = fleet.call("GET", f"{NODES}/fleet-2")[1]
    assert {key for key in told["metadata"]["annotations"] if "nodeprep" in key} == {
        "nodeprep.io/released",
        "nodeprep.io/pause",
    }
    assert sorted(told["metadata"]["labels"]) == ["pool", "theirs"]
    assert theirs in told["spec"]["taints"]
    assert not [one for one in told["spec"]["taints"] if "nodeprep" in one["key"]]
    assert told["spec"]["unschedulable"] is True
    assert [one["type"] for one in told["status"]["conditions"]] == ["Ready"]
    (row,) = cells(nodes(fleet, "fleet-2").stdout)
    assert row[1] == "Released,Cordoned"
    assert nodes(fleet, "release", "fleet-2", "--undo").returncode == 0
    assert "nodeprep.io/released" not in fleet.call("GET", f"{NODES}/fleet-2")[1]["metadata"]["annotations"]


def labelled(fleet: Cluster) -> None:
    patch = {"metadata": {"labels": {"nodeprep.io/state": "Unhealthy"}}}
    assert fleet.call("PATCH", f"{NODES}/fleet-2", patch)[0] == 200


# By a condition alone, the Node would not be found again by the label that it had.
BACK = [labelled, lambda fleet: say(fleet, "fleet-2", "False", "NoSignal")]


@pytest.mark.parametrize("writes_back", BACK)
def test_release_takes_off_what_an_agent_was_just_writing(
    fleet: Cluster, writes_back: Callable[[Cluster], None]
) -> None:
    def agent() -> None:
        at = f"{NODES}/fleet-2"
        until(lambda: "nodeprep.io/state" not in fleet.call("GET", at)[1]["metadata"]["labels"], "the label is off")
        signal.sigtimedwait((), 1.0)
        writes_back(fleet)

    thread = later(agent, 0.1)
    done = nodes(fleet, "release", "-l", f"pool={POOL},nodeprep.io/state=Unhealthy")
    thread.join()
    assert done.returncode == 0, done.stderr
    told = fleet.call("GET", f"{NODES}/fleet-2")[1]
    assert "nodeprep.io/state" not in told["metadata"]["labels"]
    assert [one["type"] for one in told["status"]["conditions"]] == ["Ready"]


@pytest.mark.parametrize("words", [(), ("--dry-run",), ("--undo",)])
def test_a_selector_that_fits_nobody_may_be_mistyped(fleet: Cluster, words: tuple[str, ...]) -> None:
    done = nodes(fleet, "release", "-l", "typo=x", *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no Node matches --selector 'typo=x'\n")


def test_who_may_not_write_is_told_so(fleet: Cluster) -> None:
    file = fleet.kubeconfig({"token": account(fleet, "nodes-reads-all", [*RULES])})
    for command in ("release", "reset"):
        done = nodes(fleet, command, "fleet-2", file=file)
        assert done.returncode == 1
        assert "HTTP 403" in done.stderr
    assert fleet.call("GET", f"{NODES}/fleet-2")[1]["spec"]["taints"][0]["key"] == TAINT["key"]


def test_reset_waits_for_the_agent(fleet: Cluster) -> None:
    reset_requests: list[str] = []

    def agent() -> None:
        reset_requests.append(asked(fleet, "fleet-1"))
        annotate(fleet, "fleet-1", done=reset_requests[-1])

    thread = later(agent)
    done = nodes(fleet, "reset", "fleet-1", "--inventory", "--timeout", "30s")
    thread.join()
    assert [wish.partition(" ")[2] for wish in reset_requests] == ["inventory"]
    assert (done.returncode, done.stdout) == (0, "fleet-1: reset\n"), done.stderr


def annotate(fleet: Cluster, name: str, **values: str | None) -> None:
    """Annotations by the words after the slash; `done` is the agent's answer."""
    keys = {"reset": "nodeprep.io/reset", "released": "nodeprep.io/released", "done": "agent.nodeprep.io/reset"}
    patch = {"metadata": {"annotations": {keys[word]: value for word, value in values.items()}}}
    assert fleet.call("PATCH", f"{NODES}/{name}", patch)[0] == 200


def test_reset_says_that_a_clock_is_wrong(fleet: Cluster) -> None:
    assert fleet.call("PATCH", f"{LEASES}/agent-fleet-1", {"spec": {"renewTime": ago(-3600)}})[0] == 200
    done = nodes(fleet, "reset", "fleet-1", "--timeout", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "in the future, so its clock is wrong; see kubectl -n nodeprep get pods" in done.stderr


def test_reset_by_a_label_that_the_reset_changes(fleet: Cluster) -> None:
    def agent() -> None:
        wish = asked(fleet, "fleet-2")
        body = {"metadata": {"labels": {"nodeprep.io/state": "Bootstrap"}}}
        assert fleet.call("PATCH", f"{NODES}/fleet-2", body)[0] == 200
        signal.sigtimedwait((), 1.5)
        annotate(fleet, "fleet-2", done=wish)

    thread = later(agent, 0.1)
    done = nodes(fleet, "reset", "-l", f"pool={POOL},nodeprep.io/state=Unhealthy", "--timeout", "30s")
    thread.join()
    assert (done.returncode, done.stdout) == (0, "fleet-2: reset\n"), done.stderr


def test_a_node_that_goes_while_it_is_reset_is_named(fleet: Cluster) -> None:
    def other() -> None:
        annotate(fleet, "fleet-1", done=asked(fleet, "fleet-1"))
        asked(fleet, "fleet-2")
        assert fleet.call("DELETE", f"{NODES}/fleet-2")[0] == 200

    thread = later(other, 0.1)
    done = nodes(fleet, "reset", "fleet-1", "fleet-2", "--timeout", "30s")
    thread.join()
    assert (done.returncode, done.stdout) == (1, "fleet-1: reset\n")
    assert done.stderr == "fleet-2: not reset: the Node no longer exists\n"


def test_a_released_node_is_refused_at_once_and_the_others_are_reset(fleet: Cluster) -> None:
    annotate(fleet, "fleet-2", released="2026-11-22T03:00:00Z")
    alone = nodes(fleet, "reset", "fleet-2", "--timeout", "1h")
    assert (alone.returncode, alone.stdout) == (1, "")
    says = "fleet-2: not asked: it is released, so no agent answers; nodeprep nodes release --undo fleet-2 ends that"
    assert says in alone.stderr
    thread = later(lambda: annotate(fleet, "fleet-1", done=asked(fleet, "fleet-1")), 0.1)
    both = nodes(fleet, "reset", "fleet-1", "fleet-2", "--timeout", "30s")
    thread.join()
    assert (both.returncode, both.stdout) == (1, "fleet-1: reset\n")
    assert says in both.stderr
    assert nodes(fleet, "reset", "fleet-1", "fleet-2", "--no-wait").returncode == 1
    assert "nodeprep.io/reset" not in fleet.call("GET", f"{NODES}/fleet-2")[1]["metadata"]["annotations"]


SECOND, SECOND_INVENTORY = "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z inventory"
TWO_HUMANS = [
    # ours, what the second one writes, whether our wish is fulfilled when the agent answers the second
    ((), SECOND, True),
    ((), SECOND_INVENTORY, True),
    (("--inventory",), SECOND_INVENTORY, True),
    (("--inventory",), SECOND, False),
]


@pytest.mark.parametrize(("words", "second", "good"), TWO_HUMANS)
def test_two_humans_at_once(fleet: Cluster, words: tuple[str, ...], second: str, *, good: bool) -> None:
    def other() -> None:
        asked(fleet, "fleet-1")
        annotate(fleet, "fleet-1", reset=second)
        signal.sigtimedwait((), 1.5)
        annotate(fleet, "fleet-1", done=second)

    thread = later(other, 0.1)
    done = nodes(fleet, "reset", "fleet-1", *words, "--timeout", "30s")
    thread.join()
    if good:
        says = f"fleet-1: reset, by somebody else who asked for {second!r} after us\n"
        assert (done.returncode, done.stdout) == (0, says), done.stderr
    else:
        says = f"fleet-1: reset, but with its inventory: somebody else asked for {second!r} after us; run it again"
        assert (done.returncode, done.stdout) == (1, "")
        assert says in done.stderr


def test_the_agent_may_have_read_ours_before_the_second_came(fleet: Cluster) -> None:
    def other() -> None:
        wish = asked(fleet, "fleet-1")
        annotate(fleet, "fleet-1", reset=SECOND, done=wish)

    thread = later(other, 0.1)
    done = nodes(fleet, "reset", "fleet-1", "--timeout", "30s")
    thread.join()
    assert (done.returncode, done.stdout) == (0, "fleet-1: reset\n"), done.stderr


MEANWHILE: list[tuple[dict[str, str | None], str]] = [
    ({"reset": SECOND}, f"somebody else asked for {SECOND!r} after us; its agent lives"),
    ({"reset": "before"}, "somebody else asked for 'before' after us; its agent lives"),  # which it did long ago
    ({"reset": None}, "somebody removed nodeprep.io/reset before its agent read it; run it again"),
    ({"released": "now"}, "it was released since; nodeprep nodes release --undo fleet-1 ends that"),
]


@pytest.mark.parametrize(("written", "why"), MEANWHILE)
def test_what_others_did_meanwhile_is_no_fault_of_the_agent(
    fleet: Cluster, written: dict[str, str | None], why: str
) -> None:
    annotate(fleet, "fleet-1", reset="before", done="before")

    def other() -> None:
        asked(fleet, "fleet-1", "before")
        annotate(fleet, "fleet-1", **written)

    thread = later(other, 0.1)
    done = nodes(fleet, "reset", "fleet-1", "--timeout", "4s")
    thread.join()
    assert (done.returncode, done.stdout) == (1, "")
    assert f"fleet-1: not reset in 4 s: {why}" in done.stderr


LATE = [
    ("fleet-1", "its agent lives (Lease "),
    ("fleet-3", "its agent is silent for 10m"),
    ("fleet-4", "there is no Lease of an agent"),
]


@pytest.mark.parametrize(("name", "why"), LATE)
def test_reset_says_what_to_look_at(fleet: Cluster, name: str, why: str) -> None:
    done = nodes(fleet, "reset", name, "--timeout", "0")
    assert done.returncode == 1
    assert f"{name}: not reset in 0 s: {why}" in done.stderr
    done = nodes(fleet, "reset", name, "--no-wait")
    assert done.returncode == 0
    assert done.stdout.startswith("asked the agents of 1 Node: nodeprep.io/reset=")
