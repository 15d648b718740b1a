"""The agent on a Terway node whose links really go down: when it says so, when it opens again, what never stops it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeprep.decide.confirmation_policy import RULES
from nodeprep.decide.look_schedule import CALM_SECONDS, EVENT_STORM_SECONDS
from nodeprep.model import Confirmation
from tests.rigs.absent import cannot_start
from tests.rigs.agent import CONFIGURATION, DEAF, OPEN, SOONER, SPAN, Agent, at
from tests.rigs.ending import ending
from tests.rigs.netns_check import Checked, brought_up, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

DOWN = "ip link set eth2 down"
FAULT: dict[str, Any] = {"check": "eni.up", "place": "00:16:3e:aa:bb:02", "reason": "AdministrativelyDown"}
ASKED = " C8646464:0050 01 "  # /proc/net/tcp: a connection to 100.100.100.200, port 80
GIVES_UP = 1.9  # seconds; doors/http/imds waits a moment longer for an answer
STEADY = 30.0  # seconds without a line
POLLED = CONFIGURATION + "every: {links: 2, routes: 2}\n"
FLAPPING = CONFIGURATION.replace("passes: ", "flap-window: 1, passes: ")  # a fault may come and go for ever
TRIES = 10  # at most


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent on a node of its own that nothing happens to while the other tests run."""
    with checked() as here, Agent(tmp_path_factory.mktemp("steady"), here.node, 9842) as one:
        yield one


@pytest.fixture(scope="module")
def here(steady: Agent) -> Iterator[Checked]:
    assert steady.pid
    with checked(Shape(enis=3, pods=4)) as one:
        yield one


def up(here: Checked) -> str:
    return brought_up("eth2", here.node.table(2))


def test_it_is_ready_after_its_passes_and_not_sooner(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node, 9001) as agent:
        started = agent.wait("started")
        agent.wait("state", to="Bootstrap")
        assert agent.gates() == set()
        assert at(agent.ready()) - at(started) >= SPAN
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        for stage in ("device", "ready"):
            told = json.loads((agent.run / f"mine.{stage}").read_text())
            assert (told["profile"], told["stage"], told["boot_id"]) == ("mine", stage, boot_id)
        assert agent.condition()["status"] == "True"
        assert agent.report()["agent"]["taints"] == []
        told = agent.metrics()
        assert (told['nodeprep_ready{profile="mine"}'], told['nodeprep_state{state="Ready"}']) == (1, 1)
        assert agent.page("/readyz")[0] == agent.page("/healthz")[0] == 200
        assert agent.stop() == 0
        assert agent.gates() == OPEN, "an agent that is updated takes nobody's gate away"


def test_a_link_that_goes_down_closes_and_one_that_comes_up_opens_after_its_passes(
    here: Checked, tmp_path: Path
) -> None:
    with Agent(tmp_path, here.node, 9001) as agent:
        agent.ready()
        before = len(agent.lines())
        with here.fault(DOWN, up(here)):
            down = time.time()
            closed = agent.wait("state", to="Unhealthy")
            assert at(closed) - down < SOONER, "by an event source and not by its period"
            until(lambda: not agent.gates(), "closed gate")
            words = "eth2 is down and carries 1 pod address"
            assert closed["why"] == "a gate check fails: eni.up AdministrativelyDown"
            assert words in agent.lines("convicted")[0]["message"]
            condition = agent.condition()
            assert (condition["status"], words in condition["message"]) == ("False", True)
            (taint,) = agent.report()["agent"]["taints"]
            assert (taint["key"], taint["effect"]) == ("nodeprep.io/unhealthy", "NoSchedule")
            metrics = agent.metrics()
            assert metrics['nodeprep_ready{profile="mine"}'] == 0
            assert metrics['nodeprep_check_status{check="eni.up",status="fail"}'] == 1
            assert metrics["nodeprep_detection_seconds_count"] == 1
            still_down = time.time()
        assert at(agent.wait("state", to="Ready", number=2)) - still_down >= SPAN
        until(lambda: agent.gates() == OPEN, "open gate")
        told = [line["event"] for line in agent.lines()[before:]]
        assert told == ["convicted", "state", "profile-closed", "released", "state", "profile-ready"], (
            "one line per transition, the cause first"
        )


def test_a_link_that_goes_down_on_a_node_without_pods_is_seen_in_a_few_rounds(tmp_path: Path) -> None:
    """Of the facts that eni.up rests on only one changes. No look counted, and the agent looked without a pause."""
    with checked(Shape(enis=2, pods=0)) as alone:
        table = str(alone.node.table(1))
        alone.node.ip("rule", "add", "from", "192.168.7.0/24", "lookup", table, "priority", "2048")
        with Agent(tmp_path, alone.node, 9001) as agent:
            agent.ready()
            before = agent.report()["agent"]["rounds"]
            alone.node.ip("link", "set", "eth1", "down")
            agent.wait("state", to="Unhealthy")
            assert agent.report()["agent"]["rounds"] - before < 100


def test_three_turns_latch_and_only_a_human_frees(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node, 9001) as agent:
        agent.ready()
        for turn in (1, 2, 3):
            with here.fault(DOWN, up(here)):
                agent.wait("convicted", number=turn, **FAULT)
            if turn < 3:
                agent.wait("released", number=turn, **FAULT)
        agent.wait("latched", check="eni.up", place=FAULT["place"])
        assert agent.gates() == set()
        same(agent)
        table = agent.do("nodeprep", "check", check=False)
        assert table.returncode == 1
        said = " ".join(table.stdout.split())
        for words in ("AwaitingHuman for", f"pid {agent.pid}", "[not seen now; latched: ", "nodeprep reset clears it]"):
            assert words in said
        asked = time.time()
        assert agent.do("nodeprep", "reset").returncode == 0
        agent.wait("state", to="Bootstrap", why="reset by a human")
        proven = at(agent.wait("state", to="Ready", number=4)) - asked
        assert SPAN <= proven < SPAN + SOONER, "everything is looked at anew, and not by its period"
        until(lambda: agent.gates() == OPEN, "open gate")
        assert agent.report()["report"]["verdict"] == "ready"


def damaged(file: str) -> tuple[str, str]:
    """What damages a file that begins with a brace, and what mends it."""
    return f"sed -i 's/^{{/{{{{/' {file}", f"sed -i 's/^{{{{/{{/' {file}"


CONFLIST = "/etc/cni/net.d/10-terway.conflist"
SEEN = [
    # what is done                              undone                                      said
    ("true", "true", None),
    (DOWN, "{up}", "eni.up"),
    (*damaged(CONFLIST), "cni.parse"),
    ("order daemon stopped", "order daemon listening", "terway.socket"),
]


@pytest.mark.parametrize(("make", "undo", "check"), SEEN, ids=[str(row[2]) for row in SEEN])
def test_check_says_what_the_agent_says(here: Checked, tmp_path: Path, make: str, undo: str, check: str | None) -> None:
    agent = Agent(tmp_path, here.node, 9001)
    agent.configure(CONFIGURATION + "every: {terway: 1, imds: 15}\n")
    with agent, here.fault(make, undo.format(up=up(here)) if check == "eni.up" else undo):
        agent.report()
        said = same(agent)
        assert {one[0] for one in said if one[1] == "fail" and one[-1] is None} == ({check} if check else set())
        until(lambda: says_the_state(agent), "state that both agree on")


def says_the_state(agent: Agent) -> bool:
    told = " ".join(agent.do("nodeprep", "check", check=False).stdout.split())
    return f"agent {agent.report()['agent']['state']} for " in told


def same(agent: Agent) -> set[tuple[Any, ...]]:
    """The findings of both, once they are the same: facts that no event announces are looked at by their periods."""

    def agreed() -> set[tuple[Any, ...]]:
        told = findings(json.loads(agent.do("nodeprep", "check", "-o", "json", check=False).stdout))
        return told if told == findings(agent.report()["report"]) else set()

    return until(agreed, "report that both agree on")


def findings(report: dict[str, Any]) -> set[tuple[Any, ...]]:
    """What is said of what; messages, and what metadata took to answer, hold times."""
    return {
        (
            *(one["check"], one["status"], one["reason"], *one["subject"].values()),
            one["observed"] if one["check"] != "imds.reachable" else "",
            one["root"],
        )
        for one in report["findings"]
    }


def test_without_any_event_source_a_fault_is_found_within_the_period(here: Checked, tmp_path: Path) -> None:
    agent = Agent(tmp_path, here.node, program=DEAF)
    agent.configure(POLLED)
    with agent:
        agent.ready()
        rounds = agent.report()["agent"]["rounds"]
        with here.fault(DOWN, up(here)):
            down = time.time()
            assert at(agent.wait("convicted", **FAULT)) - down < SOONER
            assert agent.report()["agent"]["rounds"] > rounds
        agent.wait("state", to="Ready", number=2)


def test_an_event_source_that_dies_is_opened_again_and_counted(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node, 9001) as agent:
        agent.ready()
        assert 'nodeprep_event_source_restarts_total{event_source="links"}' not in agent.metrics()
        broken(agent, here)
        died = agent.wait("event-source-died", event_source="links")
        assert died["why"] == "Input/output error"
        assert agent.wait("event-source-back", event_source="links")["restarts"] == 1
        until(
            lambda: agent.metrics()['nodeprep_event_source_up{event_source="links"}'] == 1, "event source that is alive"
        )
        assert agent.metrics()['nodeprep_event_source_restarts_total{event_source="links"}'] == 1
        with here.fault(DOWN, up(here)):
            agent.wait("convicted", **FAULT)


def broken(agent: Agent, here: Checked) -> None:
    """Let the next read of the loop's netlink socket fail: strace(1) takes its thread and no other."""
    words = ["strace", "-p", str(agent.pid), "-e", "trace=recvfrom", "-e", "inject=recvfrom:error=EIO:when=1"]
    trace = agent.directory / "trace"
    with trace.open("w") as said, ending(subprocess.Popen(words, stderr=said)) as tracer:
        try:
            until(lambda: "attached" in trace.read_text() or tracer.poll() is not None, "strace")
            if tracer.poll() is not None:
                cannot_start(trace.read_text())
            here.do("ip link set eth3 alias rung")
            until(lambda: "INJECTED" in trace.read_text(), "read that fails")
        finally:
            tracer.terminate()


def test_a_fault_just_behind_another_event_is_not_waited_out(here: Checked, tmp_path: Path) -> None:
    """Another link changes, and its look begins. Then the link goes down, and a storm of events would be put off."""
    agent = Agent(tmp_path, here.node)
    agent.configure(FLAPPING)
    with agent:
        agent.ready()
        # Where this machine stands still for a moment, once proves nothing; what is put off always is.
        assert any(convicted_behind(agent, here, number) < PUT_OFF for number in range(1, 1 + TRIES))


BEHIND = """
import socket, struct, sys, time
kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
def send(name, change, attribute):
    body = struct.pack("=BBHiII", 0, 0, 0, socket.if_nametoindex(name), 0, change) + attribute
    kernel.send(struct.pack("=IHHII", 16 + len(body), 16, 1, 0, 0) + body)
print(time.time())
send("eth3", 0, struct.pack("=HHI", 8, 13, 200 + int(sys.argv[1])))  # IFLA_TXQLEN: one notice
time.sleep(0.05)
send("eth2", 1, b"")  # without IFF_UP
"""
PUT_OFF = EVENT_STORM_SECONDS + RULES[Confirmation.FAST].least_span - 0.1  # seconds; sooner than after a whole second


def convicted_behind(agent: Agent, here: Checked, number: int) -> float:
    """Seconds from an event of another link, right before the fault, to the `number`th conviction."""
    if number > 1:
        agent.wait("released", number - 1, **FAULT)
    until(lambda: agent.gates() == OPEN, "open gates")
    time.sleep(CALM_SECONDS + 0.5)
    with here.fault("true", up(here)):
        began = float(agent.do("python", "-c", BEHIND, str(number)).stdout)  # in one process: right behind
        return at(agent.wait("convicted", number, **FAULT)) - began


STORM = """
import socket, struct, sys, time
index, times = socket.if_nametoindex("eth3"), int(sys.argv[1])
kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
end = time.monotonic() + float(sys.argv[2])
for turn in range(times):
    body = struct.pack("=BBHiIIHHI", 0, 0, 0, index, 0, 0, 8, 13, 100 + turn % 2)  # IFLA_TXQLEN: one notice
    kernel.send(struct.pack("=IHHII", 16 + len(body), 16, 1, turn, 0) + body)
    if turn % 50 == 0:
        time.sleep(max(0.0, (end - time.monotonic()) / (times - turn) * 50 - 0.001))
"""
STORM_EVENTS, STORM_SECONDS = 30_000, 4.0


def test_a_storm_costs_a_round_a_second_and_the_last_state_is_told(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node, 9001) as agent:
        agent.ready()
        time.sleep(1.0)
        before, began = agent.metrics(), time.monotonic()
        agent.do("python", "-c", STORM, str(STORM_EVENTS), str(STORM_SECONDS))
        after, seconds = agent.metrics(), time.monotonic() - began
        rounds = after["nodeprep_rounds_total"] - before["nodeprep_rounds_total"]
        spent = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
        # One a second. On a busy machine facts come one by one, and each makes one; events are 200 a second or more.
        assert 1 <= rounds <= 8 * seconds + 4
        assert spent < 0.5 * seconds
        with here.fault(DOWN, up(here)):
            agent.wait("convicted", **FAULT)
        agent.wait("state", to="Ready", number=2)


def test_a_fact_that_hangs_keeps_no_other_waiting(here: Checked, tmp_path: Path) -> None:
    """The metadata service takes a request and says nothing; meanwhile somebody damages the CNI's configuration."""
    agent = Agent(tmp_path, here.node)
    agent.configure(FLAPPING + "every: {imds: 15}\n")
    with agent:
        agent.ready()
        # Where this machine stands still for a moment, once proves nothing; who waits for the metadata always does.
        assert any(convicted_beside_it(agent, here, number) < GIVES_UP for number in range(1, 1 + TRIES))


def convicted_beside_it(agent: Agent, here: Checked, number: int) -> float:
    """Seconds from a fault that comes while the metadata service is asked, to its `number`th conviction."""
    make, undo = damaged(CONFLIST)
    if number > 1:
        agent.wait("released", number - 1, check="cni.parse")
    with here.fault("order metadata hang", "order metadata as-ever"):
        connections = Path(f"/proc/{agent.pid}/net/tcp")
        until(lambda: ASKED in connections.read_text(), "request to the metadata service")
        with here.fault(make, undo):
            broke = time.time()
            took = at(agent.wait("convicted", number, check="cni.parse")) - broke
            until(lambda: reason(agent, "imds.reachable") == "NoAnswer", "metadata that does not answer")
    return took


def test_without_metadata_a_link_that_is_down_still_closes(here: Checked, tmp_path: Path) -> None:
    """Which ENI a link is cannot be known then; that the kernel routes pods elsewhere can."""
    agent = Agent(tmp_path, here.node)
    agent.configure(CONFIGURATION.replace("passes: ", "records: {apart: 1}, passes: ") + "every: {imds: 15}\n")
    with agent:
        agent.ready()
        with here.fault("order metadata hang", "order metadata as-ever"):
            until(lambda: reason(agent, "imds.reachable") == "NoAnswer", "metadata that does not answer")
            assert agent.gates() == OPEN, "who cannot look convicts nobody"
            with here.fault(DOWN, up(here)):
                agent.wait("convicted", check="route.out", place=FAULT["place"])
                until(lambda: agent.gates() == {"mine.device"}, "closed gate")
                assert reason(agent, "eni.up") == "CannotLook"


def reason(agent: Agent, check: str) -> str:
    """Of the first thing that it says."""
    return next(str(one["reason"]) for one in agent.report()["report"]["findings"] if one["check"] == check)


def test_a_process_that_stood_still_convicts_nobody(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node, 9001) as agent:
        agent.ready()
        told, rounds = len(agent.lines()), agent.metrics()["nodeprep_rounds_total"]
        agent.signal(signal.SIGSTOP)
        with here.fault(DOWN, up(here)):
            time.sleep(5.0)
        agent.signal(signal.SIGCONT)
        until(lambda: agent.metrics()["nodeprep_rounds_total"] > rounds, "round after it goes on")
        time.sleep(SPAN)
        assert agent.lines()[told:] == []
        assert agent.gates() == OPEN


def test_at_steady_state_there_is_no_line(steady: Agent) -> None:
    ready = steady.ready()
    left = at(ready) + STEADY - time.time()
    if left > 0:
        time.sleep(left)
    told = steady.lines()
    after = [line["event"] for line in told[told.index(ready) + 1 :]]
    assert after == ["profile-ready"], "what is ready is told with it"
    assert steady.report()["agent"]["rounds"] > 3
