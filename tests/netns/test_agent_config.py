"""A running agent's configuration: read anew when it changes, by signal and by itself; a bad one changes nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rigs.agent import CONFIGURATION, OPEN, PROFILE, Agent, at
from tests.rigs.netns_check import ETH1_UP, Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

OBSERVE = CONFIGURATION.replace("mode: gate", "mode: observe")
BAD = CONFIGURATION.replace("mode: gate", "mode: gates")
DOWN = "ip link set eth1 down"

SOON = 4.0  # seconds; without being asked the loop looks at something every 10


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def replaced(agent: Agent, text: str) -> None:
    agent.configure(text)


def rewritten(agent: Agent, text: str) -> None:
    agent.config.write_text(text)


def appended(agent: Agent, text: str) -> None:
    """As an editor that keeps the file does: emptied first, then written."""
    with agent.config.open("w") as file:
        for line in text.splitlines(keepends=True):
            file.write(line)
            file.flush()


@pytest.mark.parametrize("change", [replaced, rewritten, appended])
def test_a_new_file_holds_at_once(here: Checked, tmp_path: Path, change: Callable[[Agent, str], None]) -> None:
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        change(agent, OBSERVE)
        assert "mode" in agent.wait("configuration-read")["changes"]
        agent.wait("mode", to="observe")
        assert agent.gates() == OPEN


def test_sighup_reads_it_where_no_event_source_can_hear_of_it(here: Checked, tmp_path: Path) -> None:
    agent = Agent(tmp_path, here.node)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.yaml").write_text(CONFIGURATION)
    agent.config.unlink()
    agent.config.symlink_to(elsewhere / "config.yaml")
    with agent:
        agent.ready()
        # Where this machine stands still for a moment, once proves nothing.
        assert any(longest(agent, elsewhere / "config.yaml", number) < SOON for number in (1, 2, 3))
        assert agent.lines("configuration-read")


def longest(agent: Agent, file: Path, number: int) -> float:
    """Seconds that one of three changes took from the signal to the line that tells of it, the `number`th such line."""
    took = []
    for text, event, fields in (
        (OBSERVE, "mode", {"to": "observe"}),
        (BAD, "config-trouble", {}),
        (CONFIGURATION, "config-fine-again", {}),
    ):
        file.write_text(text)
        hung_up = time.time()
        agent.signal(signal.SIGHUP)
        took.append(at(agent.wait(event, number, **fields)) - hung_up)
    return max(took)


def test_a_configmap_that_is_swapped_holds_at_once(here: Checked, tmp_path: Path) -> None:
    """As the kubelet does it: files are links through `..data`, which is renamed."""
    volume = tmp_path / "volume"

    def publish(version: str, text: str) -> None:
        directory = volume / version
        directory.mkdir(parents=True)
        for name, content in (("config.yaml", text), ("mine.yaml", PROFILE)):
            (directory / name).write_text(content)
            if not (volume / name).is_symlink():
                (volume / name).symlink_to(f"..data/{name}")
        (volume / "..data_tmp").symlink_to(version)
        (volume / "..data_tmp").rename(volume / "..data")

    publish("..first", CONFIGURATION)
    agent = Agent(tmp_path, here.node)
    agent.config = volume / "config.yaml"
    with agent:
        agent.ready()
        publish("..second", OBSERVE)
        agent.wait("mode", to="observe")
        publish("..third", CONFIGURATION)
        agent.wait("mode", number=2, to="gate")


def test_a_bad_file_keeps_the_old_one_and_says_so_until_it_is_mended(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node, 9001) as agent:
        agent.ready()
        assert agent.metrics()["nodeprep_config_ok"] == 1
        agent.configure(BAD)
        told = agent.wait("config-trouble")["message"]
        assert told.startswith(f"{agent.config}:3: mode: found 'gates', wanted")
        until(lambda: "; " in agent.condition()["message"], "condition that says so")
        assert agent.metrics()["nodeprep_config_ok"] == 0
        assert agent.report()["agent"]["configurationTrouble"] == told
        assert agent.report()["agent"]["mode"] == "gate"
        assert agent.gates() == OPEN
        agent.configure(CONFIGURATION)
        agent.wait("config-fine-again")
        assert agent.metrics()["nodeprep_config_ok"] == 1
        assert "; " not in agent.condition()["message"]
        assert agent.lines("configuration-read") == []


def test_what_leaves_mode_gate_takes_its_taint_along(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        with here.fault(DOWN, ETH1_UP):
            agent.wait("state", to="Unhealthy")
            assert [one["key"] for one in agent.report()["agent"]["taints"]] == ["nodeprep.io/unhealthy"]
            agent.configure(OBSERVE)
            agent.wait("mode", to="observe")
            assert agent.report()["agent"]["taints"] == []
            assert agent.gates() == set(), "a gate file is no taint: what waits on the node goes on waiting"
            assert agent.condition()["status"] == "False"


def test_another_profile_opens_when_all_of_it_is_proven(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        demand(agent, "terway.socket")
        agent.wait("profile-gone", profile="mine")
        until(lambda: agent.gates() == {"other.device", "other.ready"}, "gate file of what is proven")
        demand(agent, "imds.identity", name="third")
        told = agent.wait("profile-device-ready", profile="third")
        assert told["why"].startswith("imds.identity could not look: ")
        until(lambda: agent.gates() == {"third.device"}, "closed gate")


def test_a_gate_that_comes_to_an_open_profile_is_given_time_to_pass(here: Checked, tmp_path: Path) -> None:
    """One that cannot look closes nothing."""
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        demand(agent, "terway.socket")
        until(lambda: agent.gates() == {"other.device", "other.ready"}, "gate file of what is proven")
        for gate, reason in (("imds.identity", "GatesToPass"), ("cni.directory", "Ready")):
            demand(agent, gate)
            until(lambda: agent.condition()["reason"] == reason, reason)  # noqa: B023 - it is asked for at once
            assert (gate in agent.condition()["message"]) is (reason == "GatesToPass")
        assert agent.gates() == {"other.device", "other.ready"}
        assert len(agent.lines("profile-closed", profile="other")) == 1, "before anything was proven"


def test_another_profile_that_fails_never_opens_by_what_passed_before(here: Checked, tmp_path: Path) -> None:
    """Where a profile asks for no port, every check of ports passes: that proves nothing for one that does."""
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        ports = PROFILE.replace("name: mine", "name: ports").replace("gates: [", "gates: [port.present, ")
        (agent.config.parent / "ports.yaml").write_text(f"{ports}expect: {{ports: {{at-least: 8}}}}\n")
        agent.configure(CONFIGURATION.replace("mine.yaml", "ports.yaml"))
        agent.wait("convicted", check="port.present")
        assert not agent.lines("profile-ready", profile="ports")
        assert not any(one.startswith("ports.") for one in agent.gates())


def demand(agent: Agent, gate: str, name: str = "other") -> None:
    """Assign another profile, with one gate more."""
    text = PROFILE.replace("name: mine", f"name: {name}").replace("gates: [", f"gates: [{gate}, ")
    (agent.config.parent / f"{name}.yaml").write_text(text)
    agent.configure(CONFIGURATION.replace("mine.yaml", f"{name}.yaml"))
