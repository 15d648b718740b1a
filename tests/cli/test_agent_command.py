"""`nodeprep agent` as it is started: what cannot be meant or had is one line and exit code 2, and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeprep.agent import loop
from nodeprep.agent.loop import AgentParts
from nodeprep.cli.daemon import agent_command
from nodeprep.config.configuration import Settings
from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.files.state_store import Store
from nodeprep.doors.node_host import Host
from nodeprep.publish import probes
from tests.rigs.agent import CONFIGURATION, LONG, Agent, environment
from tests.rigs.ending import ending


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def started(agent: Agent, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        agent.argv(*more), capture_output=True, text=True, check=False, timeout=LONG, env=environment()
    )


def refused(agent: Agent, *more: str) -> str:
    """The one line that a start ends with."""
    done = started(agent, *more)
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, done.stderr
    return lines[0]


CONFIGURATIONS = [
    # the file                                                  says
    (CONFIGURATION.replace("gate\n", "gates\n"), "config.yaml:3: mode: found 'gates', wanted"),
    (CONFIGURATION + "colour: blue\n", "config.yaml:7: colour"),
    (CONFIGURATION.replace("mine.yaml", "yours.yaml"), "yours.yaml"),
    ("{", "config.yaml"),
    ("", "config.yaml"),
]


@pytest.mark.parametrize(("text", "says"), CONFIGURATIONS)
def test_a_bad_configuration_is_named(agent: Agent, text: str, says: str) -> None:
    agent.configure(text)
    assert says in refused(agent)
    assert not agent.run.exists(), "nothing was touched"


def test_a_configuration_that_is_not_there_is_named(agent: Agent) -> None:
    agent.config.unlink()
    assert str(agent.config) in refused(agent)


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_port_in_use_is_named(agent: Agent, taken: int) -> None:
    agent.port = taken
    said = refused(agent)
    assert f"cannot listen on 127.0.0.1:{taken}: Address already in use; see ss -ltnp 'sport = :{taken}'" in said
    agent.port = 0
    with agent:
        agent.wait("started")


def test_an_address_that_is_not_ours_is_named(agent: Agent) -> None:
    agent.port = 9
    assert "cannot listen on 192.0.2.1:9: Cannot assign requested address" in refused(agent, "--bind", "192.0.2.1")


@pytest.mark.parametrize("under", ["/dev/null/run", "/proc/run"])
def test_a_run_directory_that_cannot_be_made_is_named(agent: Agent, under: str) -> None:
    agent.run = Path(under)
    assert refused(agent).startswith(f"{under}: ")


WORDS = [
    # what is typed      says
    (("--colour", "b"), "no such option: --colour"),
    (("--port", "65536"), "invalid value for '--port'"),
    (("--port", "many"), "invalid value for '--port'"),
    (("more",), "unexpected extra argument"),
    (("--node", "n"), "--node"),
]


@pytest.mark.parametrize(("words", "says"), WORDS)
def test_an_option_that_cannot_be_meant_is_named(agent: Agent, words: tuple[str, ...], says: str) -> None:
    done = started(agent, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr.splitlines()[-1]
    assert not agent.run.exists()


def test_a_second_agent_names_the_first(agent: Agent) -> None:
    with agent:
        agent.wait("started")
        said = refused(agent)
        assert f"another nodeprep agent (pid {agent.pid}) runs on this node; wanted one" in said
        assert agent.report()["agent"]["pid"] == agent.pid, "its socket is its own still"


@pytest.mark.parametrize("place", ["state", "socket"])
def test_one_directory_in_common_is_the_same_node(agent: Agent, tmp_path: Path, place: str) -> None:
    (tmp_path / "other").mkdir()
    other = Agent(tmp_path / "other")
    setattr(other, place, getattr(agent, place))
    with agent:
        agent.wait("started")
        assert f"(pid {agent.pid})" in refused(other)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_told_to_and_leaves_its_memory(agent: Agent, number: signal.Signals) -> None:
    with agent:
        agent.report()
        agent.signal(number)
        assert agent.ended() == 0
    assert (agent.state / "memory.json").exists()
    assert not (agent.socket / "agent.sock").exists()
    assert agent.lines("broke") == []
    assert [agent.lines()[-1]] == agent.lines("stopped", signal=number.name)


def test_a_first_start_says_so_once(agent: Agent) -> None:
    with agent:
        why = agent.wait("started")["why"]
        assert why == f"the first start here: no memory in {agent.state}"
        assert "why" not in agent.wait("state")
        agent.kill()
        (agent.state / "memory.json").write_text("")
        agent.start()
        assert agent.wait("started")["why"] == "no memory of this node that can be read"
        assert "memory.json" in agent.wait("start-trouble")["message"]


def test_who_asks_for_the_configuration_is_answered(agent: Agent) -> None:
    with agent:
        agent.report()
        agent.signal(signal.SIGHUP)
        assert agent.wait("configuration-read")["changes"] == "none"


def test_a_log_that_nobody_reads_any_more_stops_nothing(agent: Agent) -> None:
    reads, writes = os.pipe()
    with ending(subprocess.Popen(agent.argv(), stderr=writes, env=environment())) as process:
        os.close(writes)
        os.close(reads)
        try:
            agent.report()
            agent.configure(CONFIGURATION.replace("mode: gate", "mode: observe"))
            process.send_signal(signal.SIGHUP)
            while agent.report()["agent"]["mode"] != "observe":
                assert process.poll() is None
        finally:
            process.terminate()
        assert process.wait(timeout=LONG) == 0


def test_it_can_be_asked_before_its_first_look(tmp_path: Path) -> None:
    """Its pages are there before it looks at anything."""
    place = str(tmp_path)
    event_sources = EventSources(sources=())
    means = AgentParts(
        lambda excluded, _: Host(place, live=False, excluded=excluded),
        Settings,
        event_sources,
        Store(place, place),
        place,
    )
    agent = loop.Agent(means, Settings())
    told = json.loads(agent_command.report(agent))
    assert (told["report"], told["agent"]["pid"]) == (None, os.getpid())
    assert probes.readiness(agent.status) == (False, "the first full round of this start is not done")
    event_sources.close()
