"""`nodeprep repair` on a node in namespaces: real interfaces and settings, real playbooks, and our checks as proof."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.rigs import terminal
from tests.rigs.netns import ENVIRONMENT, NODE_PROCESS, REPOSITORY, Node
from tests.rigs.waiting import until

FILTER = "net.ipv4.conf.all.rp_filter"
BOOT = "/etc/sysctl.d/zz-nodeprep-terway.conf"
HISTORY = "/var/lib/nodeprep-repair/history.jsonl"
HOLD = """
import sys
from nodeprep.repair.repair_lock import RepairLock
with RepairLock("/var/lib/nodeprep-repair", "nodeprep drill"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def node(node_to_mend: Node) -> Node:
    return node_to_mend


def repair(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    return node.run("python", "-m", "nodeprep", "repair", *words, check=False, text="")


def value(node: Node, key: str) -> str:
    return node.run("sysctl", "-n", key).stdout.strip()


@contextmanager
def down(node: Node, link: str) -> Iterator[None]:
    node.ip("link", "set", link, "down")
    try:
        yield
    finally:
        node.ip("link", "set", link, "up")


def is_up(node: Node, link: str) -> bool:
    return "UP" in json.loads(node.ip("-j", "link", "show", link))[0]["flags"]


def test_an_interface_that_was_set_down(node: Node) -> None:
    """The playbook sets it up, our own check says so, and a second run has nothing to do."""
    with down(node, "eth1"):
        dry = repair(node, "eni.up", "--dry-run")
        assert dry.returncode == 0, dry.stdout + dry.stderr
        assert "would change" in dry.stdout
        assert not is_up(node, "eth1")
        done = repair(node, "eni.up", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.rstrip().endswith("OK eni.up")
        assert is_up(node, "eth1")
        again = repair(node, "eni.up", "--yes")
        assert (again.returncode, again.stdout.splitlines()[0]) == (0, "nothing to do: no finding has a remedy of ours")
    dry = repair(node, "eni.up", "--dry-run")
    assert (dry.returncode, dry.stdout) == (0, "nothing to do: no finding has a remedy of ours\n")
    told = json.loads(repair(node, "history", "-o", "json").stdout)[-1]
    assert (told["remedy"], told["args"], told["state"], told["changed"]) == (
        "link_up",
        {"interface": "eth1"},
        "done",
        1,
    )
    assert told["checks"] == ["eni.up"]


def test_a_setting_now_and_at_boot(node: Node) -> None:
    node.sysctl(FILTER, 1)
    done = repair(node, "sysctl.rp-filter", "route.reverse-path", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert value(node, FILTER) == "0"
    assert f"{FILTER} = 0" in node.run("cat", BOOT).stdout
    written = node.run("stat", "-c", "%Y %i", BOOT).stdout
    again = repair(node, "sysctl.rp-filter", "--yes")
    assert again.returncode == 0, again.stdout
    assert node.run("stat", "-c", "%Y %i", BOOT).stdout == written


def test_what_belongs_to_a_bond_or_bridge_is_refused(node: Node) -> None:
    """Even a remedy that is safe while jobs run: who set the leg of a bond down may have meant it."""
    node.ip("link", "add", "br9", "type", "bridge")
    try:
        with down(node, "eth1"):
            node.ip("link", "set", "eth1", "master", "br9")
            done = repair(node, "eni.up", "--yes")
            assert done.returncode == 1, done.stdout + done.stderr
            assert "in use" in done.stdout
            assert "br9" in done.stdout
            assert not is_up(node, "eth1")
            node.ip("link", "set", "eth1", "nomaster")
    finally:
        node.ip("link", "del", "br9")
    assert json.loads(repair(node, "history", "-o", "json").stdout)[-1]["state"] == "refused"


def test_a_doubt_is_exit_code_3_and_nothing_is_done(node: Node) -> None:
    """There is a kubelet, and nothing tells the way to its API server."""
    node.run("mv", "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/kubelet.conf.away")
    try:
        with down(node, "eth1"):
            done = repair(node, "eni.up", "--yes")
            assert done.returncode == 3, done.stdout + done.stderr
            assert "api-route could not be asked" in done.stdout
            assert not is_up(node, "eth1")
    finally:
        node.run("mv", "/etc/kubernetes/kubelet.conf.away", "/etc/kubernetes/kubelet.conf")


@contextmanager
def another_ip(node: Node, script: str) -> Iterator[None]:
    """`ip` of this node is that script."""
    ip = node.run("sh", "-c", "readlink -f $(command -v ip)").stdout.strip()
    node.run("sh", "-c", f"printf '#!/bin/sh\\n{script}\\n' > /run/ip; chmod +x /run/ip")
    node.run("mount", "--bind", "/run/ip", ip)
    try:
        yield
    finally:
        node.run("umount", ip)


def test_a_playbook_that_lies_is_told_with_both_facts(node: Node) -> None:
    """`ip` of this node says that all went well, and does nothing."""
    with down(node, "eth1"):
        with another_ip(node, "exit 0"):
            done = repair(node, "eni.up", "--yes", "--recheck", "1")
        assert done.returncode == 1, done.stdout + done.stderr
        words = " ".join(done.stdout.split())
        assert "link_up ended with 1 changed, and eni.up still says AdministrativelyDown" in words
        assert "FAIL eni.up: AdministrativelyDown" in words
        told = json.loads(repair(node, "history", "-o", "json").stdout)[-1]
        assert (told["state"], told["still"]) == ("done", ["eni.up"])


def test_a_task_that_fails_is_told_once_and_with_its_reason(node: Node) -> None:
    with down(node, "eth1"):
        with another_ip(node, "echo RTNETLINK says no >&2; exit 2"):
            done = repair(node, "eni.up", "--yes", "--recheck", "0")
        assert done.returncode == 1, done.stdout + done.stderr
        words = " ".join(done.stdout.split())
        assert words.count("Set the interface up") == 1
        assert "failed Set the interface up: " in words
        assert "RTNETLINK says no" in words


def test_in_a_terminal_it_asks_and_what_follows_is_asked_for_again(node: Node) -> None:
    """After the interface its table is empty: Terway is to write it again, and no Terway runs here."""
    with down(node, "eth1"):
        code, told = answered(node, b"n\n")
        assert code == 1
        assert told.rstrip().endswith("Run this remedy? [y/N] n\nnothing was done: you did not agree")
        assert not is_up(node, "eth1")
        code, told = answered(node, b"y\n")
        assert code == 1
        assert told.count("Run this remedy? [y/N] y") == 2
        assert told.index("step 1") < told.index("step 2")
        assert "no container of Terway runs here" in told
        assert is_up(node, "eth1")


def answered(node: Node, answer: bytes) -> tuple[int, str]:
    """Exit code and output of `nodeprep repair` in a terminal, with this answer to each question."""
    enter = ("nsenter", "-t", str(node.pid), "-n", "-m", f"--wd={REPOSITORY}")
    environment = {**os.environ, **ENVIRONMENT, NODE_PROCESS: str(node.pid), "NO_COLOR": "1"}
    return terminal.answered((*enter, sys.executable, "-m", "nodeprep", "repair"), environment, answer)


def started(node: Node, *words: str) -> subprocess.Popen[str]:
    """`nodeprep repair eni.up` that goes on beside the test."""
    return node.start("python", "-m", "nodeprep", "repair", "eni.up", "--yes", *words)


def heard(process: subprocess.Popen[str], words: str) -> str:
    """What it says, until these words."""
    assert process.stdout is not None
    told = ""
    for line in process.stdout:
        told += line
        if words in line:
            return told
    raise AssertionError(f"it never said {words!r}: {told}")


def test_it_waits_until_nobody_uses_the_interface(node: Node) -> None:
    node.ip("link", "add", "br9", "type", "bridge")
    try:
        with down(node, "eth1"):
            node.ip("link", "set", "eth1", "master", "br9")
            process = started(node, "--wait-idle", "5m")
            heard(process, "waits")
            assert not is_up(node, "eth1")
            node.ip("link", "set", "eth1", "nomaster")
            rest, _ = process.communicate(timeout=300)
            assert (process.returncode, is_up(node, "eth1")) == (0, True), rest
    finally:
        node.ip("link", "del", "br9")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_who_is_interrupted_leaves_nothing_and_says_so(node: Node, number: signal.Signals) -> None:
    """In the middle of a play: `ip` of this node hangs."""
    ip = node.run("sh", "-c", "readlink -f $(command -v ip)").stdout.strip()
    node.run("sh", "-c", "printf '#!/bin/sh\\nexec sleep 86411\\n' > /run/ip; chmod +x /run/ip")
    with down(node, "eth1"):
        node.run("mount", "--bind", "/run/ip", ip)
        try:
            process = started(node)
            heard(process, "Refuse what is no interface")
            until(sleeps, "the play is under way")
            os.kill(process.pid, number)
            process.communicate(timeout=300)
        finally:
            node.run("umount", ip)
        assert process.returncode == 130
        assert not sleeps()
        told = json.loads(repair(node, "history", "-o", "json").stdout)[-1]
        assert (told["remedy"], told["state"]) == ("link_up", "interrupted")


def sleeps() -> bool:
    """Whether the `ip` that hangs runs."""
    return subprocess.run(["pgrep", "-fx", "sleep 86411"], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_one_repair_at_a_time(node: Node) -> None:
    holder = node.start("python", "-c", HOLD)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        done = repair(node, "--yes")
    finally:
        holder.communicate()
    assert holder.returncode == 0
    assert done.returncode == 1
    assert "nodeprep repair: nodeprep drill (pid " in done.stderr
    assert done.stderr.rstrip().endswith("wait until it has ended")


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_wrong_use_is_one_line(node: Node) -> None:
    python = node.run("python", "-c", "import sys; print(sys.executable)").stdout.strip()
    asked = node.run("unshare", "--user", python, "-m", "nodeprep", "repair", "--yes", check=False)
    assert (asked.returncode, lines(asked)) == (
        2,
        ["nodeprep repair: found user 65534, wanted root: sudo nodeprep ..."],
    )
    silent = repair(node, "eni.up")
    assert silent.returncode == 2
    assert lines(silent) == ["nodeprep repair: stdin is no terminal, so nobody can be asked: wanted --yes"]
    for wrong, says in ((("--wait-idle", "soon"), "--wait-idle: found 'soon'"), (("no.such",), "'no.such'")):
        done = repair(node, *wrong, "--yes")
        assert done.returncode == 2
        assert says in lines(done)[0]
        assert len(lines(done)) == 1


def test_without_a_place_for_the_history_nothing_is_changed(node: Node) -> None:
    with down(node, "eth1"):
        away = ("env", "NODEPREP_REPAIR_DIR=/proc/nowhere")
        python = node.run("python", "-c", "import sys; print(sys.executable)").stdout.strip()
        done = node.run(*away, python, "-m", "nodeprep", "repair", "eni.up", "--yes", check=False)
        assert done.returncode == 2
        assert "wanted a place for the history of repairs: nothing is changed without a trace" in done.stderr
        assert not is_up(node, "eth1")
