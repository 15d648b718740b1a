"""Twenty nodes with all series and every trouble: no panel is empty. `make prove-dashboards` has a thousand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboards import asked, history
from tests.rigs import prometheus_server
from tests.rigs.prometheus_server import Server

NODES, MINUTES = 20, 90
NOW = history.BEGIN + (MINUTES - 1) * history.STEP_SECONDS
FAULTY, QUIET = "gpu-0005", "gpu-0019"  # behind the switch, with an old configuration; its agent is silent


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
        assert server.ask(expression, NOW), expression


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


def test_a_silent_agent_is_no_empty_board(server: Server) -> None:
    """The board of a node whose agent is silent says that it is, and not that all is well."""
    expression = asked.expressions(asked.panel("nodeprep-node", "Ready for (profiles)"), node=QUIET)[0]
    assert server.ask(expression, NOW) == [({}, 0.0)]
