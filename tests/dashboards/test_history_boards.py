"""Twenty nodes with all series and every trouble: no panel is empty. `make prove-dashboards` asks of a thousand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dashboards import queries
from tests.dashboards import asked, history
from tests.rigs import prometheus_server
from tests.rigs.prometheus_server import Server

NODES, MINUTES = 20, 90
NOW = history.BEGIN + (MINUTES - 1) * history.STEP_SECONDS
# Behind the switch and with an old configuration; with a silent agent; without any story.
FAULTY, QUIET, GOOD = "gpu-0005", "gpu-0019", "gpu-0000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    prometheus_server.needed(prometheus_server.BINARY, prometheus_server.TOOL)
    place = tmp_path_factory.mktemp("history")
    text = place / "history.txt"
    assert history.write(text, NODES, history.page(place / "node"), range(MINUTES), MINUTES) > NODES * MINUTES * 250
    prometheus_server.backfill(place / "data", text)
    with prometheus_server.serving(place / "prometheus", data=place / "data") as found:
        yield found


@pytest.mark.parametrize("panel", asked.PANELS, ids=asked.title)
def test_every_query_has_data(server: Server, panel: dict[str, Any]) -> None:
    for expression in asked.expressions(panel, node=FAULTY):
        found = server.ask(expression, NOW)
        assert found, expression
        assert not any(math.isnan(value) for _, value in found), expression


@pytest.mark.parametrize("panel", asked.PANELS, ids=asked.title)
def test_lines_have_names_of_their_own(server: Server, panel: dict[str, Any]) -> None:
    """A legend that is the same for two lines hides one of them."""
    names: list[str] = []
    for target, expression in zip(panel["targets"], asked.expressions(panel, node=FAULTY), strict=True):
        if target.get("format") != "table":
            found = server.ask(expression, NOW)
            names += [asked.legend(target["legendFormat"], labels) for labels, _ in found]
    assert len(set(names)) == len(names)


def test_the_fleet_adds_up(server: Server) -> None:
    shown = {
        title: server.ask(asked.expressions(asked.panel("nodeprep-fleet", title))[0], NOW)[0][1]
        for title in ("Can take a job", "Cannot", "Unknown: agent silent")
    }
    assert sum(shown.values()) == NODES
    assert shown["Unknown: agent silent"] == 2  # one does not answer, one hangs
    assert shown["Cannot"] == 6  # five behind the switch, one alone; the one that hangs is in another pool


def test_a_switch_is_one_row(server: Server) -> None:
    rows = server.ask(
        asked.expressions(asked.panel("nodeprep-fleet", "Why not: nodes by reason"), profile="rdma-roce")[0], NOW
    )
    assert {(labels["reason"], labels["pool"]): value for labels, value in rows} == {
        ("NoSignal", "np-1"): 5.0,
        ("Unbound", "np-3"): 1.0,
    }


def test_a_good_node_has_empty_panels_where_they_say_so(server: Server) -> None:
    empty = {
        panel["title"]
        for panel in asked.BOARDS["nodeprep-node"]["panels"]
        if not all(server.ask(one, NOW) for one in asked.expressions(panel, node=GOOD))
    }
    assert empty == {"Why not? More by: nodeprep check", "What is wrong with the agent", "Checks", "Errors of rails"}
    assert all("Empty: " in asked.panel("nodeprep-node", title)["description"] for title in empty)


def test_hours_are_lost_once_for_each_node_also_while_its_agent_is_silent(server: Server) -> None:
    (expression,) = asked.expressions(asked.panel("nodeprep-fleet", "Node-hours lost"))
    ((_, hours),) = server.ask(asked.substituted(expression, hours=MINUTES / 60), NOW)
    end = MINUTES * history.STEP_SECONDS
    moments = range(0, end, queries.SAMPLE_MINUTES * 60)
    nodes = [history.Node(number) for number in range(NODES)]
    lost = sum(
        bool(node.fault(moment / end)) or not node.answers(moment / end) or (node.number == 7 and moment / end > 0.9)
        for node in nodes
        for moment in moments
    )
    assert hours == pytest.approx(lost * queries.SAMPLE_MINUTES / 60, rel=0.06)  # points at the edges


def test_repairs_add_up(server: Server) -> None:
    """Each node with a fault has a remedy on its way; one had its tries, and waits for a human."""
    shown = {
        title: server.ask(asked.expressions(asked.panel("nodeprep-repairs", title))[0], NOW)[0][1]
        for title in ("On their way", "Wait for a human", "No try is left", "Held remedies")
    }
    speaking = [node for node in map(history.Node, range(NODES)) if node.fault(1.0) and node.answers(1.0)]
    assert len(speaking) == 6
    assert shown == {"On their way": 6, "Wait for a human": 1, "No try is left": 1, "Held remedies": 0}
    rows = server.ask(asked.expressions(asked.panel("nodeprep-repairs", "A human is to look"))[0], NOW)
    assert [(labels["node"], labels["remedy"], value) for labels, value in rows] == [(FAULTY, "driver_bind", 0)]


def grown(counts: Sequence[float | None], place: Path, window: str = "10m") -> float:
    """What `counted` says at the last minute of a counter, of which each minute has a value or none."""
    moments = range(history.BEGIN, history.BEGIN + 60 * len(counts), 60)
    lines = [f"x {value} {moment}\n" for moment, value in zip(moments, counts, strict=True) if value is not None]
    (place / "history.txt").write_text("".join(lines) + "# EOF\n")
    prometheus_server.backfill(place / "data", place / "history.txt")
    with prometheus_server.serving(place / "prometheus", data=place / "data") as server:
        found = server.ask(queries.counted("x", window), moments[-1])
    return found[0][1] if found else 0.0


NONE = [None] * 15
COUNTS: list[tuple[str, Sequence[float | None], float]] = [
    # of ten minutes                                               counts                                       came
    ("the first one ever", [*NONE, 1, 1, 1, 1, 1], 1),
    ("two, soon after each other", [*NONE, 1, 1, 2, 2, 2], 2),
    ("one more", [1.0] * 16 + [2.0] * 4, 1),
    ("none, since long", [3.0] * 20, 0),
    ("one after a restart of the agent", [3.0] * 15 + [None] * 2 + [1.0] * 3, 1),
]


@pytest.mark.parametrize(("counts", "came"), [row[1:] for row in COUNTS], ids=[row[0] for row in COUNTS])
def test_a_counter_that_begins_with_its_first_event_loses_none(
    counts: Sequence[float | None], came: float, tmp_path: Path
) -> None:
    """increase() stretches what it saw to the whole window, by a tenth here."""
    prometheus_server.needed(prometheus_server.BINARY, prometheus_server.TOOL)
    assert grown(counts, tmp_path) == pytest.approx(came, abs=0.15)


def test_equal_addresses_of_two_clusters_are_two_nodes(tmp_path: Path) -> None:
    """The agent of one cluster is dead, and the same address lives in the other."""
    lines = [
        f'{name}{{job="nodeprep",cluster="{cluster}",instance="10.0.0.1:9842"{more}}} {value} {moment}\n'
        for moment in range(history.BEGIN, history.BEGIN + 300, 60)
        for cluster, up in (("a", 1), ("b", 0))
        for name, more, value in (
            ("up", "", up),
            *(
                [("nodeprep_last_round_timestamp_seconds", "", moment), ("nodeprep_ready", ',profile="p"', 1)]
                if up
                else []
            ),
        )
    ]
    (tmp_path / "history.txt").write_text("".join(sorted(lines, key=lambda line: line.split("}")[0])) + "# EOF\n")
    prometheus_server.backfill(tmp_path / "data", tmp_path / "history.txt")
    with prometheus_server.serving(tmp_path / "prometheus", data=tmp_path / "data") as server:
        shown = [
            server.ask(asked.expressions(asked.panel("nodeprep-fleet", title))[0], history.BEGIN + 240)
            for title in ("Can take a job", "Cannot", "Unknown: agent silent")
        ]
    assert [value for ((_, value),) in shown] == [1, 0, 1]


def test_without_any_target_nothing_is_a_number(server: Server) -> None:
    """Where Prometheus knows no agent at all, no number says 0, which would look like peace."""
    for title in ("Can take a job", "Cannot", "Unknown: agent silent"):
        assert server.ask(asked.expressions(asked.panel("nodeprep-fleet", title))[0], NOW + 86400) == []


def test_a_silent_agent_is_no_empty_board(server: Server) -> None:
    """The board of a node whose agent is silent says that it is, and not that all is well."""
    expression = asked.expressions(asked.panel("nodeprep-node", "Ready for (profiles)"), node=QUIET)[0]
    assert server.ask(expression, NOW) == [({}, 0.0)]
