"""`nodeprep nodes release` and `reset` against a real kube-apiserver."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from tests.cluster.accounts import account
from tests.cluster.fleet import NODES, POOL, RULES, TAINT, cells, few_nodes, later, nodes
from tests.rigs.cluster import Cluster


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[Cluster]:
    with few_nodes(cluster):
        yield cluster


def writing(cluster: Cluster, name: str, over: Event) -> Thread:
    """Somebody else writes to the Node without a pause: each of our writes may lose a race."""

    def write() -> None:
        count = 0
        while not over.is_set():
            count += 1
            cluster.call("PATCH", f"{NODES}/{name}", {"metadata": {"labels": {"theirs": str(count)}}})

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


def test_release_takes_off_what_an_agent_was_just_writing(fleet: Cluster) -> None:
    patch = {"metadata": {"labels": {"nodeprep.io/state": "Unhealthy"}}}

    def agent() -> None:
        for _ in range(100):
            told = fleet.call("GET", f"{NODES}/fleet-2")[1]
            if "nodeprep.io/state" not in told["metadata"]["labels"]:
                break
            signal.sigtimedwait((), 0.1)
        assert fleet.call("PATCH", f"{NODES}/fleet-2", patch)[0] == 200

    thread = later(agent, 0.1)
    done = nodes(fleet, "release", "-l", f"pool={POOL},nodeprep.io/state=Unhealthy")
    thread.join()
    assert done.returncode == 0, done.stderr
    assert "nodeprep.io/state" not in fleet.call("GET", f"{NODES}/fleet-2")[1]["metadata"]["labels"]


def test_who_may_not_write_is_told_so(fleet: Cluster) -> None:
    file = fleet.kubeconfig({"token": account(fleet, "nodes-reads-all", [*RULES])})
    for command in ("release", "reset"):
        done = nodes(fleet, command, "fleet-2", file=file)
        assert done.returncode == 1
        assert "HTTP 403" in done.stderr
    assert fleet.call("GET", f"{NODES}/fleet-2")[1]["spec"]["taints"][0]["key"] == TAINT["key"]


def test_reset_waits_for_the_agent(fleet: Cluster) -> None:
    wishes: list[str] = []

    def agent() -> None:
        for _ in range(100):
            told = fleet.call("GET", f"{NODES}/fleet-1")[1]
            wishes.append(told["metadata"].get("annotations", {}).get("nodeprep.io/reset", ""))
            if wishes[-1]:
                break
            signal.sigtimedwait((), 0.3)
        done = {"metadata": {"annotations": {"agent.nodeprep.io/reset": wishes[-1]}}}
        fleet.call("PATCH", f"{NODES}/fleet-1", done)

    thread = later(agent)
    done = nodes(fleet, "reset", "fleet-1", "--inventory", "--timeout", "30s")
    thread.join()
    assert wishes[-1].endswith("Z inventory")
    assert (done.returncode, done.stdout) == (0, "fleet-1: reset\n"), done.stderr


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
    assert nodes(fleet, "reset", name, "--no-wait").returncode == 0
