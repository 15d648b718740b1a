"""What `check` takes over from the agent of its node: from a real memory and a real server on its socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodeprep import assessment, job_profile, state_file
from nodeprep.agent_state import AgentState, Case, NodeState
from nodeprep.assessment import Assessment
from nodeprep.checks.klog.nic import CHECK as NIC
from nodeprep.checks.port.state import CHECK as STATE
from nodeprep.cli.check import agent_knowledge, assessments, json_report
from nodeprep.cli.check.agent_knowledge import AgentKnowledge
from nodeprep.cli.check.choices import FailOn
from nodeprep.cli.daemon import agent_socket
from nodeprep.cli.place import NodePlace
from nodeprep.config import profile_files
from nodeprep.config.configuration import Settings
from nodeprep.doors import clock
from nodeprep.doors.files.host_root import BOOT_ID
from nodeprep.doors.files.state_store import Store
from nodeprep.model import Finding, Remedy, Severity, Status, Subject, Unreadable, Verdict, Why
from nodeprep.publish import web
from nodeprep.publish.web import LocalPages
from nodeprep.values import replace
from tests.agent_state_values import finding
from tests.cli.reports import report

HERE = NodePlace("/", live=True)
BOOT = Path(BOOT_ID).read_text().strip()
TODAY = "2026-11-21"


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The agent's directories, as the environment names them."""
    for name in ("state", "run", "socket"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"NODEPREP_{name.upper()}_DIR", str(tmp_path / name))
    return tmp_path


def store(where: Path) -> Store:
    return Store(str(where / "state"), str(where / "socket"))


def agent_state(**different: Any) -> AgentState:
    usual: dict[str, Any] = {
        "boot_id": BOOT,
        "version": "0.1.0",
        "state": NodeState.UNHEALTHY,
        "since": clock.now() - 7200.0,
        "why": "port.state NotActive",
        "profile": job_profile.mapping(profile_files.effective("rdma-roce")),
        "chosen_by": "the default of /etc/nodeprep/config.yaml",
    }
    return AgentState(**(usual | different))


def found(where: Path, memory: AgentState | None) -> AgentKnowledge:
    if memory is not None:
        assert state_file.save(store(where), memory) == ""
    return agent_knowledge.agent_knowledge(HERE)


def test_no_agent_is_no_word(where: Path) -> None:
    assert found(where, None) == AgentKnowledge()


def test_a_dead_tree_has_no_agent(where: Path) -> None:
    assert state_file.save(store(where), agent_state()) == ""
    assert agent_knowledge.agent_knowledge(NodePlace(str(where), live=False)) == AgentKnowledge()


def test_an_agent_that_runs_is_named(where: Path) -> None:
    agent = store(where)
    agent.hold()
    try:
        words = found(where, agent_state()).words
    finally:
        agent.release()
    assert words.startswith("Unhealthy for 2 h: port.state NotActive; nodeprep 0.1.0, pid ")


def test_one_that_does_not_is_told_of(where: Path) -> None:
    assert "does not run; its state file is 0 s old" in found(where, agent_state()).words


def test_the_memory_of_another_boot_says_nothing_of_this_one(where: Path) -> None:
    said = found(where, agent_state(boot_id="another"))
    assert said.agent_state is None
    assert said.words == "its state file is of another boot"


def test_a_damaged_memory_is_named(where: Path) -> None:
    (where / "state" / "memory.json").write_text("{")
    said = found(where, None)
    assert said.agent_state is None
    assert str(where / "state" / "memory.json") in said.words


@pytest.mark.parametrize(
    ("profile", "own_file", "different", "expected"),
    [
        pytest.param(None, False, {}, "rdma-roce", id="the agent's where nobody else speaks"),
        pytest.param("base", False, {}, "base", id="the operator's before the agent's"),
        pytest.param("auto", False, {}, None, id="hardware where the operator says so"),
        pytest.param(None, True, {}, None, id="a file of the operator's before the agent's"),
        pytest.param(None, False, {"profile": {}}, None, id="an agent that has not chosen yet"),
        pytest.param(None, False, {"profile": {"name": "none"}}, None, id="an agent that has none"),
        pytest.param(None, False, {"profile": {"name": 7}}, None, id="an agent that holds nonsense"),
    ],
)
def test_whose_profile_holds(
    tmp_path: Path, profile: str | None, different: dict[str, Any], expected: str | None, *, own_file: bool
) -> None:
    (tmp_path / "own.yaml").write_text("apiVersion: nodeprep.io/v1\nkind: Config\n")
    config = str(tmp_path / "own.yaml") if own_file else None
    own = assessments.of_node(profile, config, TODAY)
    agreed = assessments.with_agent(own, agent_state(**different), profile, config)
    assert (agreed.selection.profile.name if agreed.selection else None) == expected


def test_the_agents_waivers_hold_where_there_is_no_file() -> None:
    waiver = {"check": "port.state", "until": "2026-12-01", "reason": "RMA", "device": "*", "nodes": ("*",)}
    own = assessments.of_node(None, None, TODAY)
    agreed = assessments.with_agent(own, agent_state(waivers=(waiver,)), None, None)
    (known,), _ = agreed.waived((finding(),), {})
    assert known.waived is not None
    assert known.waived.reason == "RMA"


CASE = Case(
    "klog.nic", "0000:5c:00.0", None, "mlx5_0", "DeviceFailed", "mlx5_0: the kernel said so", latched="held at once"
)


@pytest.mark.parametrize(
    ("seen", "case", "expected"),
    [
        pytest.param(Status.OK, CASE, Status.FAIL, id="what is latched fails though it is not seen now"),
        pytest.param(Status.FAIL, CASE, Status.FAIL, id="what is seen now speaks for itself"),
        pytest.param(
            Status.OK, replace(CASE, latched="", convicted_at=1.0), Status.OK, id="what is not latched is not"
        ),
    ],
)
def test_latches(seen: Status, case: Case, expected: Status) -> None:
    subject = Subject("0000:5c:00.0", None, "mlx5_0")
    now = Finding("klog.nic", Severity.GATE, Verdict(subject, seen, "Now", "as seen now"))
    (told,) = assessment.latched((now,), agent_state(cases=(case,)), [NIC.id])
    assert told.status is expected
    unseen = seen is Status.OK and expected is Status.FAIL
    assert ("not seen now" in told.verdict.message) == unseen
    assert told.fix == (NIC.fix if unseen else "")


def test_a_latch_of_a_check_that_was_not_asked_for_is_not_told() -> None:
    assert assessment.latched((), agent_state(cases=(CASE,)), [STATE.id]) == ()


FULL = Finding(
    "port.flap",
    Severity.GATE,
    Verdict(
        Subject("0000:5c:00.0", 1, "mlx5_0/1"),
        Status.WARN,
        "LinkLost",
        "it lost its link",
        Remedy("link_up", {"interface": "eth2"}),
        "1",
        "0",
        Unreadable(Why.DENIED, "/x", 13, "no"),
    ),
    fix="swap the cable of mlx5_0/1",
)


@contextmanager
def agent_saying(where: Path, text: str) -> Iterator[str]:
    path = where / "socket" / "agent.sock"
    with web.serve_local(path, LocalPages(lambda: text, lambda: None)):
        yield str(path)


def said(at: float, *some: Finding) -> str:
    told = json_report.document(replace(report({}), findings=some), FailOn.FAIL, time="2026-11-28T03:00:00Z")
    return json.dumps({"agent": {"at": at}, "report": told})


def test_rates_are_the_agents_who_has_looked_for_longer(where: Path) -> None:
    with agent_saying(where, said(clock.now(), FULL, finding())) as path:
        assert agent_socket.findings(path, frozenset({"port.flap"})) == (FULL,)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("{}", id="another's"),
        pytest.param('{"agent": null}', id="no agent"),
        pytest.param('{"agent": {"at": 1e18}, "report": null}', id="before the first round"),
        pytest.param('{"agent": {"at": 1e18}, "report": {"findings": [{"check": "port.flap"}]}}', id="half a finding"),
        pytest.param(said(clock.now() - 120.0, FULL), id="of two minutes ago"),
    ],
)
def test_what_an_agent_says_that_is_of_no_use_is_passed_over(where: Path, text: str) -> None:
    with agent_saying(where, text) as path:
        assert agent_socket.findings(path, frozenset({"port.flap"})) == ()


def test_no_agent_to_ask(where: Path) -> None:
    assert agent_socket.findings(str(where / "socket" / "agent.sock"), frozenset({"port.flap"})) == ()


def test_what_the_agent_says_is_not_judged_twice() -> None:
    from nodeprep.job_profile import NO_PROFILE
    from nodeprep.look import Look
    from nodeprep.profile_selection import ProfileSelection

    assessment = Assessment(("port.flap",), (), Settings(), TODAY, agent_findings=lambda: (FULL,))
    told = assessment.report(Look(0.0, live=True, facts={}), None, ProfileSelection(NO_PROFILE, "nobody"))
    assert told.findings == (FULL,)
    assert told.skipped == ()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0 s"), (59.0, "59 s"), (60.0, "1 min"), (7200.0, "2 h"), (200_000.0, "2 d"), (-5.0, "0 s")],
)
def test_age(seconds: float, words: str) -> None:
    assert agent_knowledge.age(seconds) == words
