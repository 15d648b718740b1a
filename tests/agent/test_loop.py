"""What a round tells of gate files that cannot be removed or written, and what a configuration that is read anew."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodeprep import __version__, state_file
from nodeprep.agent.loop import GATE_FILES_PERIOD_SECONDS, Agent, AgentParts
from nodeprep.agent.reconciler import Reconciler
from nodeprep.agent.state_writer import StateWriter
from nodeprep.agent_state import AgentState
from nodeprep.config.configuration import Settings
from nodeprep.config.document import ConfigError
from nodeprep.doors.events.kernel_events import LinkEvents
from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.files.state_store import Store
from nodeprep.doors.node_host import Host
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.network.links import Links
from nodeprep.model import Topic
from nodeprep.publish.gate_files import GateFiles
from nodeprep.publish.node_status import NodeStatus
from tests.agent_state_values import attempt
from tests.status_values import standing, status

OPEN = {"rdma-roce.device", "rdma-roce.ready"}
CLOSED = (standing(device=False, ready=False),)


class Rounds:
    """An agent whose rounds are given to it, a second apart, and what its listeners heard of gate files."""

    def __init__(self, run: Path, state: Path) -> None:
        self.run = run
        self.bad: ConfigError | None = None
        self.heard: list[NodeStatus] = []
        store, settings = Store(str(state), str(state)), Settings()
        means = AgentParts(
            lambda *_: Host("/"),
            lambda: self.read(settings),
            EventSources(sources=()),
            store,
            str(run),
            {},
            (self.heard.append,),
        )
        self.agent = Agent(means, settings)
        self.agent._gates = GateFiles(str(run))
        self.agent._reconciler = Reconciler(settings, StateWriter(store), status().agent_state, frozenset())

    def read(self, settings: Settings) -> Settings:
        if self.bad is not None:
            raise self.bad
        return settings

    def tell(self, **different: Any) -> str:
        self.agent._tell(status(at=1000.0 + len(self.heard), **different))
        return self.heard[-1].gate_trouble

    @property
    def next(self) -> str:
        """What the reconciler knows for the condition of the next round."""
        return self.agent._reconciler.gate_trouble

    def gates(self) -> set[str]:
        return {one.name for one in self.run.iterdir() if one.is_file()}


def test_a_gate_file_that_cannot_be_written_is_tried_at_every_round_and_told_until_it_is_there(tmp_path: Path) -> None:
    in_the_way = tmp_path / "run/rdma-roce.ready"
    in_the_way.mkdir(parents=True)
    rounds = Rounds(in_the_way.parent, tmp_path)
    assert rounds.tell() == "", "it is written last"
    assert f"{in_the_way} cannot be written" in rounds.next
    assert [rounds.tell() for _ in range(3)] == [rounds.next] * 3
    assert rounds.agent._told is rounds.heard[-1]
    in_the_way.rmdir()
    assert len(rounds.heard) < GATE_FILES_PERIOD_SECONDS
    rounds.tell()
    assert (rounds.gates(), rounds.next) == (OPEN, "")
    assert rounds.tell() == ""


def test_one_that_is_wanted_no_more_is_no_trouble(tmp_path: Path) -> None:
    in_the_way = tmp_path / "run/rdma-roce.ready"
    in_the_way.mkdir(parents=True)
    rounds = Rounds(in_the_way.parent, tmp_path)
    rounds.tell()
    assert rounds.next
    rounds.tell(profiles=CLOSED)
    assert (rounds.next, rounds.gates()) == ("", set())


def test_gate_files_that_cannot_be_removed_are_told_at_once_and_beside_those_that_cannot_be_written(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    run.symlink_to(run)
    rounds = Rounds(run, tmp_path)
    first = rounds.tell(profiles=CLOSED)
    assert first.startswith(f"{run} cannot be read")
    assert first.count("; see findmnt") == 1
    rounds.tell()
    assert rounds.next.startswith(first)
    assert f"{run}/rdma-roce.device cannot be written" in rounds.next
    assert rounds.tell() == rounds.next
    run.unlink()
    run.mkdir()
    rounds.tell()
    assert (rounds.next, rounds.gates()) == ("", OPEN)


def test_it_polls_by_the_event_sources_that_work_now(tmp_path: Path) -> None:
    root, run, state = (tmp_path / name for name in ("root", "run", "state"))
    for directory in (root, run, state):
        directory.mkdir()
    sources = EventSources(sources=(LinkEvents(),))
    means = AgentParts(lambda *_: Host(str(root)), Settings, sources, Store(str(state), str(state)), str(run))
    agent = Agent(means, Settings())
    agent._begin()
    agent.turn(frozenset())
    links = next(fact for fact in FACTS if fact.kind is Links)
    assert (agent._schedule.heard, agent._schedule._period(links)) == (frozenset({Topic.LINK}), links.every_heard)
    sources.close()
    agent.turn(frozenset())
    assert (agent._schedule.heard, agent._schedule._period(links)) == (frozenset(), links.every)


class Heard(logging.Handler):
    """What was logged, as event and fields."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), record.__dict__["fields"]))


@contextmanager
def listening() -> Iterator[list[tuple[str, object]]]:
    logger, heard = logging.getLogger("nodeprep"), Heard()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(heard)
    try:
        yield heard.lines
    finally:
        logger.removeHandler(heard)
        logger.setLevel(level)


def test_a_configuration_that_changes_nothing_is_told_to_who_asked_for_it_alone(tmp_path: Path) -> None:
    agent = Rounds(tmp_path, tmp_path).agent
    with listening() as lines:
        agent._reload()
        assert lines == []
        agent.reload()
        agent._reload()
        agent._reload()
    assert lines == [("configuration-read", {"changes": "none"})]


def test_a_bad_one_says_which_holds(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path, tmp_path)
    rounds.bad = ConfigError.at("c.yaml", 3, "mode", "'gates'", "'gate'")
    rounds.agent.reload()
    with listening() as lines:
        rounds.agent._reload()
    said = rounds.agent._reconciler.config_trouble
    assert said == "c.yaml:3: mode: found 'gates', wanted 'gate'; the former configuration holds"
    assert lines == [], "the round after it tells"
    rounds.bad = None
    rounds.agent._reload()
    assert rounds.agent._reconciler.config_trouble == ""


def test_a_start_tells_of_an_attempt_that_a_reboot_ended(tmp_path: Path) -> None:
    """Once: the next start does not. No other life of an agent could."""
    root, run, state = (tmp_path / name for name in ("root", "run", "state"))
    for directory in (root, run, state):
        directory.mkdir()
    store = Store(str(state), str(state))
    known = AgentState("another boot", "uid-1", version=__version__, attempt=attempt(boot_id="another boot"))
    state_file.save(store, known)
    for told in (["cut-off"], []):
        with listening() as lines:
            means = AgentParts(lambda *_: Host(str(root)), Settings, EventSources(sources=()), store, str(run))
            agent = Agent(means, Settings())
            agent._begin()
            agent.turn(frozenset())
        assert [one["outcome"] for event, one in lines if event == "repair-ended" and isinstance(one, dict)] == told
