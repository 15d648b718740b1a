"""The agent on a node with a real RoCE device: it sees what happens, and `check` says the same."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from nodeprep.checks.port import flap
from tests.rigs.lab import RAIL, RDMA_DEVICE, Guest

HOME = "/run/agent-test"
# What convicts stands at its default; what releases is short, for the guest is emulated and the tests are many.
SET_UP = f"""
mkdir -p {HOME}/etc
nodeprep profile capture --force -o {HOME}/etc/lab.yaml --name lab
cat > {HOME}/etc/config.yaml <<'END'
apiVersion: nodeprep.io/v1
kind: Config
mode: gate
default: ./lab.yaml
confirmation: {{passes: 2, pass-span: 2, pass-every: 1, flap-count: 100}}
END
"""
AGENT = ("nodeprep", "agent", "--config", f"{HOME}/etc/config.yaml")
GATE = "/run/nodeprep/lab.ready"
# Without nodeprep's own client, whose imports take a second in emulation.
REPORT = """
import socket
agent = socket.socket(socket.AF_UNIX)
agent.connect("/run/nodeprep-agent/agent.sock")
agent.sendall(b"GET /report HTTP/1.1\\r\\nHost: agent\\r\\nConnection: close\\r\\n\\r\\n")
said = b""
while more := agent.recv(1 << 20):
    said += more
print(said.partition(b"\\r\\n\\r\\n")[2].decode())
"""
PAUSE = 1.0  # second between two questions: each is a process in an emulated guest, and the agent waits for it
PULLS = 3  # of the cable, until a check comes in time
LONG = 600.0  # seconds; emulation is slow, and the gate opens a minute after the agent's start


@dataclass(slots=True)
class Watched:
    """The agent in the guest, and each report of `check` beside it."""

    guest: Guest
    checks: list[dict[str, Any]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        done = self.guest.run(("python", "-I", "-S", "-c", REPORT))
        assert done.returncode == 0, done
        told: dict[str, Any] = json.loads(done.text)
        return told

    def check(self) -> dict[str, Any]:
        done = self.guest.run(("nodeprep", "check", "-o", "json"), timeout=LONG)
        assert done.returncode in (0, 1, 3), done
        self.checks.append(json.loads(done.text))
        return self.checks[-1]

    def gate_is(self, *, there: bool) -> None:
        end = time.monotonic() + LONG
        while (self.guest.run(("test", "-e", GATE)).returncode == 0) is not there:
            assert time.monotonic() < end, self.report()["agent"]
            time.sleep(PAUSE)


@pytest.fixture(scope="module")
def agent(guest: Guest) -> Iterator[Watched]:
    guest.shell(SET_UP, timeout=LONG)
    log: list[bytes] = []
    running = guest.launch(AGENT, on_output=lambda _, data: log.append(data))
    watched = Watched(guest)
    end = time.monotonic() + LONG
    while guest.run(("test", "-S", "/run/nodeprep-agent/agent.sock")).returncode:
        assert time.monotonic() < end, b"".join(log)
        time.sleep(PAUSE)
    yield watched
    guest.shell("kill $(cat /run/nodeprep-agent/lock)")
    assert running.wait(LONG).returncode == 0, b"".join(log)
    guest.shell(f"rm -rf {HOME} /run/nodeprep /run/nodeprep-agent /var/lib/nodeprep")


def words(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What is said of whom, without the figures of the moment."""
    return sorted(
        (
            one["check"],
            one["subject"]["place"],
            one["subject"]["port"] or 0,
            one["status"],
            one["reason"],
            one["root"] or "",
        )
        for one in report["findings"]
    )


def agree(watched: Watched) -> tuple[dict[str, Any], dict[str, Any]]:
    """What both say at a time when nothing changes: the agent is asked before and after, for it looks by itself."""
    end = time.monotonic() + LONG
    while True:
        before, check, after = watched.report(), watched.check(), watched.report()
        if words(before["report"]) == words(after["report"]) == words(check):
            return after, check
        assert time.monotonic() < end, set(words(after["report"])) ^ set(words(check))


def test_it_is_ready_after_its_passes_and_check_says_the_same(agent: Watched) -> None:
    agent.gate_is(there=True)
    told, check = agree(agent)
    assert told["agent"]["state"] == "Ready"
    assert check["agent"] == "Ready"
    assert check["profile"] == "lab"
    assert (check["verdict"], check["exitCode"]) == ("ready", 0)


def test_while_a_link_flaps_both_say_the_same(agent: Watched) -> None:
    """The cable is pulled and plugged in; whenever nothing changes, check and the agent agree on every finding."""
    agent.gate_is(there=True)
    for _ in range(2):
        told_of_it = any(flapped(agent) for _ in range(PULLS))
        assert told_of_it, "check saw no flap itself: it has it from the agent"


def flapped(agent: Watched) -> bool:
    """Whether a check told that the cable was pulled. On a slow guest the loss is too old for that when one looks."""
    guest = agent.guest
    agent.checks.clear()
    pulled = time.monotonic()
    guest.set_link(RAIL.id, up=False)
    agent.gate_is(there=False)
    told, check = agree(agent)
    assert check["exitCode"] == 1
    assert ("port.state", RAIL.bdf) in {(one[0], one[1]) for one in words(check) if one[3] == "fail"}
    assert [one["check"] for one in told["agent"]["cases"] if one["convictedAt"] is not None]
    guest.set_link(RAIL.id, up=True)
    agent.gate_is(there=True)
    agree(agent)
    told_of_it = [says_flapped(check) for check in agent.checks]
    assert told_of_it[-1] or time.monotonic() - pulled > flap.CHECK.window(flap.Want())
    return any(told_of_it)


def says_flapped(report: dict[str, Any]) -> bool:
    return ("port.flap", RAIL.bdf) in {(one[0], one[1]) for one in words(report) if one[3] == "warn"}


def test_a_deleted_rdma_device_closes_the_gate(agent: Watched) -> None:
    agent.gate_is(there=True)
    agent.guest.shell(f"rdma link delete {RDMA_DEVICE}")
    agent.gate_is(there=False)
    told, check = agree(agent)
    assert "pci.rdma-driver" in {one["check"] for one in check["findings"] if one["status"] == "fail"}
    assert told["agent"]["taints"][0]["key"] == "nodeprep.io/unhealthy"
    agent.guest.shell(f"rdma link add {RDMA_DEVICE} type rxe netdev {RAIL.netdev}")
    agent.gate_is(there=True)
