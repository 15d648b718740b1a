"""`nodeprep drill` on a node in namespaces: real faults, seen by our checks and by an agent, and undone in each end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.rigs import drill_node, terminal
from tests.rigs.absent import cannot_start
from tests.rigs.drill_node import DrillNode, children
from tests.rigs.netns_node import Shape, Unavailable
from tests.rigs.waiting import until

RECORD, LOCK = "/var/lib/nodeprep-repair/drill.json", "/var/lib/nodeprep-repair/lock"
NOTICE = "/run/nodeprep-agent/drill.json"
ADDRESSES = ("10.9.9.1/32", "2001:db8:9::1/64")
HOLD = """
import sys
from nodeprep.repair.repair_lock import RepairLock
with RepairLock("/var/lib/nodeprep-repair", "nodeprep repair"):
    print("held", flush=True)
    sys.stdin.read()
"""
SOCKET = """
import socket, sys
open = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
open.bind(("10.9.9.1", 9999))
print("open", flush=True)
sys.stdin.read()
"""
ASK = """
import sys
from nodeprep.cli.daemon import agent_socket
print(agent_socket.ask("/run/nodeprep-agent/agent.sock", "GET", "/report").text)
"""
METRICS = """
import http.client
link = http.client.HTTPConnection("127.0.0.1", 9842, timeout=60)
link.request("GET", "/metrics")
print(link.getresponse().read().decode())
"""
CONFIGURATION = """apiVersion: nodeprep.io/v1
kind: Config
mode: observe
default: mine.yaml
confirmation: {passes: 2, pass-span: 2, pass-every: 0.5}
"""
PROFILE = """apiVersion: nodeprep.io/v1
kind: Profile
name: mine
gates: [eni.up, route.tables]
"""


@pytest.fixture(scope="module")
def node() -> Iterator[DrillNode]:
    """Addresses for pods are reserved on both ENIs, and no pod has one yet: nobody uses what our checks want up."""
    try:
        with DrillNode() as made:
            for eni, prefix in ((1, "192.168.7.0/24"), (2, "192.168.8.0/24")):
                made.ip("rule", "add", "from", prefix, "lookup", str(made.table(eni)), "priority", "2048")
            for address in ADDRESSES:
                made.ip("address", "add", address, "dev", "eth1", *(("nodad",) if ":" in address else ()))
            made.ip("route", "add", "10.77.0.0/16", "dev", "eth1", "metric", "77", "mtu", "1400")
            made.ip("-6", "route", "add", "2001:db8:77::/48", "via", "2001:db8:9::2", "dev", "eth1")
            yield made
    except Unavailable as reason:
        cannot_start(reason)


@pytest.fixture(autouse=True)
def _as_before(node: DrillNode) -> Iterator[None]:
    """Every test ends with the state that it began with, and nothing of a drill is left."""
    before = state(node)
    yield
    assert state(node) == before
    assert node.run("ls", RECORD, NOTICE, check=False).stdout == ""


def state(node: DrillNode) -> tuple[list[str], list[str], list[str]]:
    """Addresses and routes of eth1 and eth2, and which of them is up."""
    routes = (node.ip(f"-{family}", "route", "show", "table", "all") for family in (4, 6))
    lines = (line.strip() for one in routes for line in one.splitlines() if "dev eth" in line)
    kept = sorted(line for line in lines if "table local" not in line and "fe80::" not in line)
    told = node.ip("-o", "address", "show", "scope", "global").splitlines()
    return kept, sorted(line.partition("valid_lft")[0].replace("tentative", "") for line in told), ups(node)


def ups(node: DrillNode) -> list[str]:
    return [one["ifname"] for one in json.loads(node.ip("-j", "link", "show")) if "UP" in one["flags"]]


def last(node: DrillNode) -> dict[str, object]:
    """The newest step of the history."""
    history = node.run("python", "-m", "nodeprep", "repair", "history", "-o", "json").stdout
    found: dict[str, object] = json.loads(history)[-1]
    return found


@contextmanager
def held(node: DrillNode, device: str = "eth1") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A drill that goes on, once its fault is made: its command, and the number of that process."""
    process = node.start("python", "-m", "nodeprep", "drill", "link-down", device, "--yes", "--hold")
    try:
        assert process.stdout is not None
        told = ""
        for line in process.stdout:
            told += line
            if line.startswith("made"):
                break
        assert "made" in told, told + (process.stderr.read() if process.stderr else "")
        assert device not in ups(node)
        (command,) = children(process.pid)
        yield process, command
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_link_goes_down_is_seen_and_comes_back_with_all_that_went_with_it(node: DrillNode) -> None:
    done = node.drill("link-down", "eth1", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    words = " ".join(done.stdout.split())
    assert "FAIL eni.up: AdministrativelyDown" in words
    assert "undone it ended; the state is as before" in words
    assert "check eni.up says of eni-1 what it said before" in words
    told = last(node)
    assert (told["command"], told["remedy"], told["args"], told["state"]) == (
        *("drill", "link-down"),
        {"target": "eth1"},
        "undone",
    )


def test_a_route_is_removed_seen_and_put_back(node: DrillNode) -> None:
    done = node.drill("route-removed", "default", "--table", str(node.table(2)), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL route.tables: EmptyTable" in " ".join(done.stdout.split())


def test_kill_9_of_the_command_undoes_it(node: DrillNode) -> None:
    with held(node) as (process, command):
        os.kill(command, signal.SIGKILL)
        process.wait()
        until(lambda: "eth1" in ups(node), "the watcher sets it up again")
        until(lambda: last(node)["state"] == "undone", "it says so in the history")
    assert last(node)["why"] == "the command is gone"


def test_its_deadline_undoes_it(node: DrillNode) -> None:
    done = node.drill("link-down", "eth1", "--yes", "--hold", "--deadline", "3s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "undone    its deadline came; the state is as before" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_signal_undoes_it(node: DrillNode, number: signal.Signals) -> None:
    with held(node) as (process, command):
        os.kill(command, number)
        told, _ = process.communicate()
        assert "the state is as before" in told
        assert process.returncode == 130


def test_stop_ends_it_and_while_it_runs_no_other_drill_and_no_repair_begins(node: DrillNode) -> None:
    with held(node) as (process, _):
        shown = node.drill("list")
        assert "link-down of eth1 runs for" in shown.stdout
        running = json.loads(node.drill("list", "-o", "json").stdout)["running"]
        assert (running["name"], running["device"], running["undo"][0]) == (
            "link-down",
            "eth1",
            "ip link set dev eth1 up",
        )
        other = node.drill("route-removed", "default", "--table", str(node.table(2)), "--yes")
        repair = node.run("python", "-m", "nodeprep", "repair", "--yes", check=False)
        for refused in (other, repair):
            assert refused.returncode == 1
            assert "nodeprep drill (pid " in refused.stderr
        done = node.drill("stop")
        assert (done.returncode, done.stdout) == (0, "link-down of eth1: undone\n")
        told, _ = process.communicate()
        assert "nodeprep drill stop, or SIGTERM; the state is as before" in " ".join(told.split())
    again = node.drill("stop")
    assert (again.returncode, again.stdout) == (0, "no drill runs here\n")


def test_the_command_undoes_it_where_the_watcher_was_killed(node: DrillNode) -> None:
    with held(node) as (process, command):
        os.kill(watcher_of(node, command), signal.SIGKILL)
        told, _ = process.communicate()
        assert process.returncode == 0, told
        assert "is gone; the state is as before" in " ".join(told.split())


def test_one_that_lost_both_is_told_and_stop_undoes_it(node: DrillNode) -> None:
    """Then nobody is left who could undo it by himself."""
    with held(node) as (process, command):
        watcher = watcher_of(node, command)
        os.kill(watcher, signal.SIGSTOP)  # else it would notice
        os.kill(command, signal.SIGKILL)
        os.kill(watcher, signal.SIGKILL)
        process.wait()
    assert "eth1" not in ups(node)
    assert "link-down of eth1 was left behind, its watcher is gone" in node.drill("list").stdout
    other = node.drill("route-removed", "default", "--table", str(node.table(2)), "--yes")
    assert other.returncode == 1
    assert other.stderr.rstrip().endswith("was left behind by a watcher that is gone: nodeprep drill stop")
    done = node.drill("stop")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the state is as before" in " ".join(done.stdout.split())


def watcher_of(node: DrillNode, command: int) -> int:
    """The number of the watcher, by our numbers."""
    assert "link-down of eth1 runs" in node.drill("list").stdout
    (watcher,) = children(command)
    return watcher


def test_an_undo_that_fails_says_exactly_what_to_run(node: DrillNode) -> None:
    """`ip` of this node says that all went well, and does nothing."""
    ip = node.run("sh", "-c", "readlink -f $(command -v ip)").stdout.strip()
    node.run("sh", "-c", "printf '#!/bin/sh\\nexit 0\\n' > /run/liar; chmod +x /run/liar")
    with held(node) as (process, command):
        node.run("mount", "--bind", "/run/liar", ip)
        try:
            os.kill(command, signal.SIGINT)
            told, _ = process.communicate()
        finally:
            node.run("umount", ip)
        assert process.returncode == 130
        words = " ".join(told.split())
        assert "NOT UNDONE it ended; not back:" in words
        assert "interface eth1 is set up" in words
        assert "run ip link set dev eth1 up" in words
        assert f"run ip -4 route replace default via 192.168.0.253 dev eth1 table {node.table(1)}" in words
    assert last(node)["state"] == "not undone"
    assert node.drill("stop").returncode == 0


def test_what_nobody_looks_for_is_not_seen_and_that_is_no_success(node: DrillNode) -> None:
    done = node.drill("route-removed", "10.77.0.0/16", "--yes", "--deadline", "3s")
    assert done.returncode == 1
    assert "NOT SEEN" in done.stdout
    assert "the state is as before" in " ".join(done.stdout.split())


def test_what_is_in_use_is_refused(node: DrillNode) -> None:
    """The default route, a socket, a pod's packets, a bridge above: each by the name of the holder."""
    refused = node.drill("link-down", "eth0", "--yes")
    assert (refused.returncode, "eth0 is in use: default route" in refused.stdout) == (1, True), refused.stdout
    holder = node.start("python", "-c", SOCKET)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    refused = node.drill("link-down", "eth1", "--yes")
    holder.communicate()
    assert (refused.returncode, "eth1 is in use: " in refused.stdout) == (1, True), refused.stdout
    assert "sockets" in refused.stdout
    rule = ("from", "192.168.9.9/32", "lookup", str(node.table(2)), "priority", "2048")
    node.ip("rule", "add", *rule)
    refused = node.drill("route-removed", "default", "--table", str(node.table(2)), "--yes")
    node.ip("rule", "del", *rule)
    assert (refused.returncode, "packets of pod 192.168.9.9" in refused.stdout) == (1, True), refused.stdout
    node.ip("link", "add", "br9", "type", "bridge")
    node.ip("link", "set", "eth2", "master", "br9")
    refused = node.drill("link-down", "eth2", "--yes")
    node.ip("link", "del", "br9")
    assert (refused.returncode, "br9 (bridge) is above it" in refused.stdout) == (1, True), refused.stdout


def test_while_a_repair_runs_it_is_refused(node: DrillNode) -> None:
    holder = node.start("python", "-c", HOLD)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    done = node.drill("link-down", "eth1", "--yes")
    holder.communicate()
    assert done.returncode == 1
    assert "nodeprep repair (pid " in done.stderr


def test_wrong_use_is_one_line(node: DrillNode) -> None:
    for wrong, says in (
        (("link-down", "--yes"), "link-down: found no target, wanted INTERFACE; here: eth0, eth1, eth2"),
        (("link-down", "eth9", "--yes"), "link-down: found 'eth9', wanted INTERFACE"),
        (("route-removed", "10.1.0.0/16", "--yes"), "route-removed: found '10.1.0.0/16', wanted DESTINATION"),
        (("rdma-link-removed", "rxe0", "--yes"), "rdma-link-removed: found 'rxe0', wanted RDMA-DEVICE"),
        (("link-down", "eth1", "--yes", "--deadline", "5h"), "--deadline: found '5h', wanted 1s to 1h"),
        (("link-down", "eth1"), "stdin is no terminal, so nobody can be asked: wanted --yes"),
        (("link-up", "eth1", "--yes"), "link-up"),
    ):
        done = node.drill(*wrong)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1


def started(node: DrillNode) -> subprocess.Popen[str]:
    """An agent that has looked at everything."""
    node.run("mkdir", "-p", "/etc/nodeprep")
    for name, text in (("config.yaml", CONFIGURATION), ("mine.yaml", PROFILE)):
        node.run("sh", "-c", f"cat > /etc/nodeprep/{name} <<'END'\n{text}END\n")
    node.run("sh", "-c", "mkdir -p /run/log")
    process = node.node.start("sh", "-c", f"exec {' '.join(node.agent())} 2> /run/log/agent")
    until(lambda: agent_report(node).get("agent", {}).get("state") == "Ready", "the agent is ready")
    return process


def agent_report(node: DrillNode) -> dict[str, Any]:
    done = node.run("python", "-c", ASK, check=False)
    found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found


@pytest.fixture
def busy() -> Iterator[DrillNode]:
    try:
        with DrillNode(Shape(enis=3, pods=2)) as made:
            made.ip("rule", "add", "from", "192.168.7.0/24", "lookup", str(made.table(3)), "priority", "2048")
            yield made
    except Unavailable as reason:
        cannot_start(reason)


def test_an_agent_is_told_first_and_says_drill_wherever_it_says_the_fault(busy: DrillNode) -> None:
    """The other ENIs have pods: their routes are what its looks are about."""
    node = busy
    agent = started(node)
    try:
        with held(node, "eth3") as (process, command):
            until(lambda: agent_report(node)["agent"]["state"] == "Unhealthy", "the agent believes the fault")
            told = agent_report(node)
            made = [one for one in told["report"]["findings"] if one["drill"]]
            assert {(one["check"], one["drill"]) for one in made} >= {("eni.up", "link-down")}
            assert any("drill link-down of eth3 runs now" in one for one in told["report"]["notes"])
            (condition,) = (one for one in told["agent"]["conditions"] if one["type"] == "nodeprep.io/TrainingReady")
            assert condition["message"].startswith("Unhealthy: drill link-down of eth3: ")
            metrics = node.run("python", "-c", METRICS).stdout
            assert 'nodeprep_drill{device="eth3",drill="link-down"} 1.0' in metrics
            reasons = [line for line in metrics.splitlines() if line.startswith("nodeprep_gate_reason{")]
            assert reasons
            assert all('drill="link-down"' in line for line in reasons)
            check = node.run("python", "-m", "nodeprep", "check", check=False).stdout
            assert "drill link-down: eni-3" in check
            os.kill(command, signal.SIGINT)
            heard, _ = process.communicate()
            assert "its report has it as a drill after" in " ".join(heard.split())
        until(lambda: "nodeprep_drill{" not in node.run("python", "-c", METRICS).stdout, "the agent hears of the end")
        until(lambda: agent_report(node)["agent"]["state"] == "Ready", "the agent is ready again")
        lines = [json.loads(line) for line in node.run("cat", "/run/log/agent").stdout.splitlines()]
        events = [line["event"] for line in lines]
        assert events.index("drill-began") < events.index("convicted"), "told first"
        assert [line["drill"] for line in lines if line["event"] == "convicted"] == ["link-down"]
        assert events.count("drill-ended") == 1
    finally:
        agent.kill()
        agent.communicate()


def test_in_a_terminal_it_asks_first(node: DrillNode) -> None:
    words = node.argv("python", "-m", "nodeprep", "drill", "link-down", "eth1")
    code, told = terminal.answered(words, drill_node.environment(), b"n\n")
    assert code == 1
    assert told.rstrip().endswith("Make this fault? [y/N] n\nnothing was done: you did not agree")
    assert "UP" in json.loads(node.ip("-j", "link", "show", "eth1"))[0]["flags"]
    assert node.run("ls", RECORD, NOTICE, check=False).stdout == ""
