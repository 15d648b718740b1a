"""A running agent's history: what it kept of faults, restarts and configurations, and what can be told from it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nodeprep.history.node_record import NAME
from tests.rigs.agent import CONFIGURATION, OPEN, Agent, at
from tests.rigs.netns_check import ETH1_UP, Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/history.schema.json").read_text())
DOWN = "ip link set eth1 down"


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def history(agent: Agent, *words: str) -> tuple[int, Any]:
    done = agent.do("nodeprep", "history", *words, "-o", "json", check=False)
    assert done.stderr == ""
    said = json.loads(done.stdout)
    jsonschema.validate(said, SCHEMA, cls=jsonschema.Draft202012Validator)
    return done.returncode, said


def utc(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def test_a_fault_is_an_incident_and_can_be_asked_for(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        opened = at(agent.wait("profile-ready"))
        time.sleep(2.5)
        with here.fault(DOWN, ETH1_UP):
            convicted = at(agent.wait("convicted", check="eni.up"))
            until(lambda: not agent.gates(), "closed gates")
        agent.wait("profile-ready", 2)
        until(lambda: agent.gates() == OPEN, "open gates")
        until(lambda: "gate open" in agent.do("nodeprep", "history").stdout, "the timeline has the end")
        (line,) = (one for one in agent.do("nodeprep", "history").stdout.splitlines() if " -> " in one)
        assert line.startswith(f"{utc(convicted)[:10]} {utc(convicted)[11:19]}  eni.up ")
        words = [step.rsplit(" ", 1)[0] for step in line.partition(" -> ")[2].split(" (")[0].split(" -> ")]
        assert words == ["gate closed", "passes", "gate open"]
        assert history(agent, "--at", utc(opened + 1))[1]["verdict"] == "ready"
        code, then = history(agent, "--at", utc(convicted + 1))
        assert (code, then["verdict"], [one["check"] for one in then["open"]]) == (1, "not-ready", ["eni.up"])
        assert history(agent, "--at", utc(opened - 3600))[0] == 3
        assert history(agent)[1]["now"]["aliveAt"] is not None


def test_an_agent_that_was_killed_was_alive_until_then(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        time.sleep(1.5)
        agent.kill()
        killed = time.time()
        time.sleep(2.1)
        assert history(agent, "--at", utc(killed + 2))[0] == 3, "nobody ran"
        time.sleep(13)
        agent.start()
        agent.ready()
        code, then = history(agent, "--at", utc(killed + 13))
        assert (code, then["unknown"].startswith("the agent was last known to run at ")) == (3, True)
        agent.stop()
        code, then = history(agent, "--at", "0s")
        assert code == 3
        assert "(SIGTERM) and has not started since" in then["unknown"]


def test_which_keys_changed_is_kept_and_no_value(here: Checked, tmp_path: Path) -> None:
    secret, until_day = "the-word-that-must-not-be-kept", utc(time.time() + 30 * 86400)[:10]
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        agent.configure(CONFIGURATION + f"waivers: [{{check: eni.up, until: {until_day}, reason: {secret}}}]\n")
        agent.wait("configuration-read")
        until(lambda: "waivers changed" in agent.do("nodeprep", "history").stdout, "a configuration in the history")
        agent.stop()
        agent.configure(CONFIGURATION)
        agent.start()
        agent.ready()
        until(
            lambda: agent.do("nodeprep", "history").stdout.count("waivers changed") == 2, "a change between two starts"
        )
        agent.stop()
        agent.start()
        agent.ready()
        told = agent.do("nodeprep", "history").stdout
        assert told.count(" changed") == 2
        kept = (agent.state / NAME).read_bytes()
        assert secret.encode() not in kept
        assert (agent.state / NAME).stat().st_mode & 0o777 == 0o600


def test_a_steady_node_writes_nothing(here: Checked, tmp_path: Path) -> None:
    with Agent(tmp_path, here.node) as agent:
        agent.ready()
        time.sleep(1)
        before = (agent.state / NAME).stat()
        time.sleep(12)
        after = (agent.state / NAME).stat()
        assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
