"""What the agent keeps: across kill -9, damage, another boot, a full disk and one that is read-only."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodeprep.agent.loop import GATE_FILES_PERIOD_SECONDS
from tests.rigs.agent import LONG, OPEN, SOONER, SPAN, Agent, at, environment
from tests.rigs.netns_check import ETH1_UP, Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

DOWN = "ip link set eth1 down"
FAULT: dict[str, Any] = {"check": "eni.up", "place": "00:16:3e:aa:bb:01", "reason": "AdministrativelyDown"}


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


@contextmanager
def killed(here: Checked, directory: Path) -> Iterator[Agent]:
    """An agent that was killed while its node was ready."""
    with Agent(directory, here.node) as agent:
        agent.ready()
        agent.kill()
        assert agent.gates() == OPEN, "running pods keep what they have"
        yield agent


def test_a_new_agent_goes_on_where_one_was_killed(here: Checked, tmp_path: Path) -> None:
    with killed(here, tmp_path) as agent:
        since = [(agent.run / name).read_text() for name in sorted(OPEN)]
        agent.start()
        assert agent.wait("started")["state"] == "Ready"
        assert agent.report()["agent"]["state"] == "Ready"
        assert [(agent.run / name).read_text() for name in sorted(OPEN)] == since, "nobody closed it meanwhile"
        assert [line["event"] for line in agent.lines() if line["event"] == "profile-closed"] == []


def test_a_new_agent_closes_soon_what_went_down_meanwhile(here: Checked, tmp_path: Path) -> None:
    with killed(here, tmp_path) as agent, here.fault(DOWN, ETH1_UP):
        agent.start()
        started = agent.wait("started")
        assert started["state"] == "Ready"
        assert at(agent.wait("convicted", **FAULT)) - at(started) < SOONER, "not by its period"
        until(lambda: not agent.gates(), "closed gate")


@pytest.mark.parametrize("more", [(), ("--inventory",)])
def test_what_a_reset_answered_stands_though_the_agent_is_killed_at_once(
    here: Checked, tmp_path: Path, more: tuple[str, ...]
) -> None:
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        done = agent.do("nodeprep", "reset", *more)
        agent.kill()
        assert done.returncode == 0, done.stderr
        assert agent.gates() == set()
        agent.start()
        started = agent.wait("started")
        assert (started["state"], started["why"]) == ("Bootstrap", "reset by a human")


def without_a_gate_file(agent: Agent) -> None:
    (agent.run / "mine.ready").unlink()


def of_another_boot(agent: Agent) -> None:
    file = agent.run / "mine.ready"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"boot_id": "another"}) + "\n")


def damaged_gate_file(agent: Agent) -> None:
    (agent.run / "mine.device").write_text("{}\n")


def without_memory(agent: Agent) -> None:
    (agent.state / "memory.json").unlink()


def damaged_memory(agent: Agent) -> None:
    file = agent.state / "memory.json"
    file.write_bytes(file.read_bytes()[:-1])


def memory_of_another_boot(agent: Agent) -> None:
    """As it would be kept in another one: with a checksum that is right."""
    from nodeprep.doors.files.state_store import Store

    store = Store(str(agent.state), str(agent.socket))
    text = store.load().kept[0].text
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert boot_id in text
    store.save(text.replace(boot_id, "another"))


LOST = [
    # what happened while it was dead     why
    (without_a_gate_file, "the gate file mine.ready was gone at the start"),
    (of_another_boot, "the gate file mine.ready was gone at the start"),
    (damaged_gate_file, "the gate file mine.device was gone at the start"),
    (without_memory, "no memory of this node that can be read"),
    (damaged_memory, "no memory of this node that can be read"),
    (memory_of_another_boot, "the node was booted anew"),
]


@pytest.mark.parametrize(("happen", "why"), LOST)
def test_what_nothing_vouches_for_is_closed_before_the_first_look(
    here: Checked, tmp_path: Path, happen: Callable[[Agent], None], why: str
) -> None:
    with killed(here, tmp_path) as agent:
        happen(agent)
        agent.start()
        started = agent.wait("started")
        assert (started["state"], started["why"]) == ("Bootstrap", why)
        assert agent.gates() == set(), "that line comes before the first look"
        assert at(agent.wait("state", to="Ready")) - at(started) >= SPAN
        until(lambda: agent.gates() == OPEN, "open gate")
        if happen is damaged_memory:
            assert "memory.json: torn or rotten" in agent.wait("start-trouble")["message"]


READ_ONLY = "mount --bind {run} {run}; mount -o remount,bind,ro {run}"
ROUNDS = 5
BROKEN = [
    # how the directory breaks and is mended again, and what is said
    ("dd if=/dev/zero of={state}/filler bs=4k 2> /dev/null || true", "rm {state}/filler", "No space left on device"),
    (
        "mount --bind {state} {state}; mount -o remount,bind,ro {state}",
        "umount -l {state}",
        "Read-only file system",
    ),
]


@pytest.mark.parametrize(("make", "undo", "says"), BROKEN)
def test_judging_goes_on_where_nothing_can_be_kept(
    here: Checked, tmp_path: Path, make: str, undo: str, says: str
) -> None:
    state = Path("/var/lib/nodeprep")
    here.do(f"mkdir -p {state}; mount -t tmpfs -o size=256k tmpfs {state}")
    agent = Agent(tmp_path, here.node, 9001, state=state)
    try:
        with agent:
            agent.ready()
            assert agent.metrics()["nodeprep_state_file_ok"] == 1
            with here.fault(make.format(state=state), undo.format(state=state)):
                with here.fault(DOWN, ETH1_UP):
                    agent.wait("convicted", **FAULT)
                    until(lambda: not agent.gates(), "closed gate")
                    told = agent.wait("store-trouble")["message"]
                    assert told.startswith(f"{state}: {says}; the memory is kept in {agent.socket} until the next boot")
                    until(lambda: says in agent.condition()["message"], "condition that says so")
                    assert agent.metrics()["nodeprep_state_file_ok"] == 0
                    assert (agent.socket / "memory.json").exists()
                    agent.kill()
                    agent.start()
                    assert agent.wait("started")["state"] == "Unhealthy", "what the socket's directory holds counts"
                agent.wait("state", to="Ready")
                until(lambda: agent.gates() == OPEN, "open gate")
            with here.fault(DOWN, ETH1_UP):
                agent.wait("store-fine-again")
                until(lambda: says not in agent.condition()["message"], "condition that is silent")
                assert agent.metrics()["nodeprep_state_file_ok"] == 1
                assert not (agent.socket / "memory.json").exists()
    finally:
        here.do(f"umount -l {state}")


def test_a_gate_file_that_cannot_be_removed_is_told_until_it_is_gone(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node, 9001) as agent:
        agent.ready()
        assert agent.metrics()["nodeprep_gate_files_ok"] == 1
        with here.fault(DOWN, ETH1_UP):
            here.do(READ_ONLY.format(run=agent.run))
            try:
                told = agent.wait("gate-trouble")["message"]
                assert told == (
                    f"{agent.run}/mine.device cannot be removed (Read-only file system) and 1 more: pods that wait for "
                    f"it may start; see findmnt -T {agent.run}"
                )
                until(lambda: told[:40] in agent.condition()["message"], "condition that says so")
                stays_told(agent, "gate-trouble")
                assert agent.gates() == OPEN
            finally:
                here.do(f"umount -l {agent.run}")
            agent.wait("gate-fine-again")
            assert agent.gates() == set()
            assert agent.metrics()["nodeprep_gate_files_ok"] == 1
            until(lambda: told[:40] not in agent.condition()["message"], "condition that is silent")


def test_a_gate_file_that_cannot_be_written_is_told_until_it_is_there(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node, 9001) as agent:
        agent.ready()
        with here.fault(DOWN, ETH1_UP):
            until(lambda: not agent.gates(), "closed gate")
            here.do(READ_ONLY.format(run=agent.run))
        try:
            told = agent.wait("gate-trouble")["message"]
            assert told == (
                f"{agent.run}/mine.device cannot be written (Read-only file system) and 1 more: pods that wait for it "
                f"do not start; see findmnt -T {agent.run}"
            )
            until(lambda: told[:40] in agent.condition()["message"], "condition that says so")
            stays_told(agent, "gate-trouble")
            assert agent.gates() == set()
        finally:
            here.do(f"umount -l {agent.run}")
        mended = time.monotonic()
        until(lambda: agent.gates() == OPEN, "open gate")
        assert time.monotonic() - mended < GATE_FILES_PERIOD_SECONDS / 2, "it is tried at every round"
        agent.wait("gate-fine-again")
        assert agent.metrics()["nodeprep_gate_files_ok"] == 1


def stays_told(agent: Agent, event: str) -> None:
    """Once, through rounds in which nothing else is new."""
    rounds = agent.metrics()["nodeprep_rounds_total"]
    until(lambda: agent.metrics()["nodeprep_rounds_total"] >= rounds + ROUNDS, f"{ROUNDS} rounds")
    assert [line["event"] for line in agent.lines() if line["event"].startswith("gate-")] == [event]
    assert agent.metrics()["nodeprep_gate_files_ok"] == 0


def test_a_second_agent_names_the_first(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node) as agent:
        agent.wait("started")
        begun = time.monotonic()
        done = subprocess.run(
            agent.argv(), capture_output=True, text=True, check=False, timeout=LONG, env=environment()
        )
        assert time.monotonic() - begun < LONG / 2
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert f"another nodeprep agent (pid {agent.pid}) runs on this node" in line
        agent.report()
        assert agent.stop() == 0
