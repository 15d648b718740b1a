"""The boards' queries, asked of a real Prometheus that scrapes real agents: one is good, one has a fault, one dies."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.dashboards import asked, live_tree, targets
from tests.rigs import prometheus_server
from tests.rigs.agent import Agent
from tests.rigs.prometheus_server import Server
from tests.rigs.waiting import until

NODES = {"good": "h100-ib", "bad": "rail-without-signal", "dies": "h100-ib"}
POOLS = {"good": "np-a", "bad": "np-b", "dies": "np-a"}
SCRAPE_SECONDS = 1.0
# A tree of files has no ENIs, no Node object and no API server; nothing fails but the rail of one.
ON_ANY = {"ENIs", "Errors of rails", "Resources", "What is wrong with the agent"}
# They have data if Prometheus knew an agent before it convicted the rail, or opened its gate: a matter of a second.
OF_THE_BEGINNING = {"From fault to conviction", "How long gates were closed, by phase"}
EMPTY = {
    "nodeprep-fleet": {
        "Nodes of which nothing is known",
        "Devices that fail again and again",
    },
    # These agents are in mode gate: they repair nothing.
    "nodeprep-repairs": {
        "Helped",
        "On its way now, and where it stands",
        "Held back now, and why",
        "A human is to look",
        "Held back, by reason",
        "Outcomes by remedy",
        "How long a repair takes",
    },
    "nodeprep-rollout": {"API requests", "Event sources", "Who holds it up", "Trouble of agents"},
    "good": {*ON_ANY, "Why not? More by: nodeprep check"},
    "bad": ON_ANY,
    "dies": {*ON_ANY, "Why not? More by: nodeprep check"},
}


class Fleet:
    """Agents by the name of their node, and the Prometheus that scrapes them."""

    def __init__(self, agents: dict[str, Agent], server: Server) -> None:
        self.agents, self.server = agents, server

    def panel(self, board: str, title: str, **variables: str) -> list[prometheus_server.Vector]:
        return [self.server.ask(one) for one in asked.expressions(asked.panel(board, title), **variables)]

    def number(self, title: str) -> float:
        """What a number of the fleet's board shows now; NaN before the first scrape."""
        (found,) = self.panel("nodeprep-fleet", title)
        return found[0][1] if found else math.nan


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    prometheus_server.needed(prometheus_server.BINARY)
    place = tmp_path_factory.mktemp("fleet")
    agents, listed = {}, []
    with ExitStack() as stack:
        for name, tree in NODES.items():
            (place / name).mkdir()
            agent = Agent(
                place / name,
                port=prometheus_server.free_port(),
                program=on(live_tree.build(tree, place / name / "host")),
            )
            (agent.config.parent / "rails.yaml").write_text(live_tree.PROFILE)
            agent.configure(live_tree.configuration())
            agents[name] = stack.enter_context(agent)
            address = f"127.0.0.1:{agent.port}"
            labels = targets.relabelled(targets.discovered(name, POOLS[name], address), targets.shipped_scrape_config())
            assert labels is not None
            listed.append({"targets": [address], "labels": labels})
        config = {
            "global": {"scrape_interval": f"{SCRAPE_SECONDS:g}s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "nodeprep", "static_configs": listed}],
        }
        server = stack.enter_context(prometheus_server.serving(place / "prometheus", config))
        found = Fleet(agents, server)
        until(lambda: found.number("Can take a job") == 2, "two nodes can take a job")
        until(
            lambda: "port.state" in str(found.panel("nodeprep-fleet", "Why not: nodes by reason")), "the rail's fault"
        )
        until(lambda: len(server.ask("count_over_time(process_cpu_seconds_total[5m]) >= 3")) == 3, "enough for a rate")
        yield found


def on(tree: Path) -> tuple[str, ...]:
    return "-m", "nodeprep", "agent", "--host-root", str(tree)


def test_which_panels_are_empty_is_known_and_each_says_when(fleet: Fleet) -> None:
    """No data where nothing is wrong, or where a tree of files has no such thing; any other panel has data."""
    shown: dict[str, set[str]] = {}
    for name, board in asked.BOARDS.items():
        for node in NODES if name == "nodeprep-node" else ("",):
            for panel in board["panels"]:
                found = [fleet.server.ask(one) for one in asked.expressions(panel, **({"node": node} if node else {}))]
                assert not any(math.isnan(value) for one in found for _, value in one), panel["title"]
                if not all(found) and panel["title"] not in OF_THE_BEGINNING:
                    assert re.search(r'Empty: |"No data"', panel["description"]), panel["title"]
                    shown.setdefault(node or name, set()).add(panel["title"])
    assert shown == EMPTY


def test_numbers_add_up_and_say_why(fleet: Fleet) -> None:
    shown = [fleet.number(title) for title in ("Can take a job", "Cannot", "Unknown: agent silent")]
    assert shown == [2, 1, 0]
    (reasons,) = fleet.panel("nodeprep-fleet", "Why not: nodes by reason")
    ((labels, nodes),) = reasons
    assert (labels["check"], labels["pool"], nodes) == ("port.state", "np-b", 1)
    ((row, _),) = fleet.panel("nodeprep-fleet", "Nodes that cannot take a job")[0]
    assert (row["node"], row["pool"], row["reason"]) == ("bad", "np-b", labels["reason"])


def test_variables_are_not_empty(fleet: Fleet) -> None:
    """`cluster` has only "All" where Prometheus gives no such label, as here."""
    for board in asked.BOARDS.values():
        for one in board["templating"]["list"][1:]:
            match = re.fullmatch(r"label_values\((.*), (\w+)\)", one["query"])
            assert match
            found = {labels.get(match[2]) for labels, _ in fleet.server.ask(asked.substituted(match[1]))} - {None}
            assert found or match[2] == "cluster", one["name"]


def test_a_rail_that_is_down_shows_on_its_node(fleet: Fleet) -> None:
    active, rates = (
        {labels["device"]: value for labels, value in one} for one in fleet.panel("nodeprep-node", "Rails", node="bad")
    )
    assert (active["mlx5_5"], active["mlx5_4"]) == (0, 1)
    assert (rates["mlx5_5"], rates["mlx5_4"]) == (10e9, 400e9)  # bits per second
    (checks,) = fleet.panel("nodeprep-node", "Checks", node="bad")
    assert ("port.state", "fail") in {(labels["check"], labels["status"]) for labels, _ in checks}


def test_a_dead_agent_makes_the_fleet_look_worse_with_the_first_scrape_that_fails(fleet: Fleet) -> None:
    agent = fleet.agents["dies"]
    agent.kill()
    until(lambda: fleet.server.ask('up{node="dies"} == 0'), "a scrape that fails")
    shown = [fleet.number(title) for title in ("Can take a job", "Cannot", "Unknown: agent silent")]
    assert shown == [1, 1, 1]
    ((row, value),) = fleet.panel("nodeprep-fleet", "Nodes of which nothing is known")[0]
    assert (row["node"], value) == ("dies", 0)
    agent.start()
    until(lambda: fleet.number("Can take a job") == 2, "it can take a job again")
    assert fleet.number("Unknown: agent silent") == 0


def test_one_that_hangs_is_unknown_too(fleet: Fleet) -> None:
    """A stopped process does not answer. Its last word must not count, however long Prometheus looks back."""
    agent = fleet.agents["dies"]
    agent.signal(signal.SIGSTOP)
    try:
        until(lambda: fleet.number("Unknown: agent silent") == 1, "the agent that hangs")
        assert fleet.number("Can take a job") == 1
    finally:
        agent.signal(signal.SIGCONT)
    until(lambda: fleet.number("Can take a job") == 2, "it goes on")
