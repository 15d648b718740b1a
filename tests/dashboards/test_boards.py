"""The boards as Grafana gets them: current, whole by Grafana's own types, and asking only for what agents serve.

The rules are those of grafana/dashboard-linter that fit. One does not: `job` is no variable, because the PodMonitor
gives all agents the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import generate, panels, prometheus_rule, queries
from nodeprep.checks import CHECKS
from nodeprep.model import Severity
from tests.dashboards import asked

PANELS = [(name, panel) for name, board in asked.BOARDS.items() for panel in board["panels"]]
ROOT = Path(__file__).resolve().parents[2]
MOST_PANELS = 12
# Each agent that answers gives these.
NEVER_EMPTY = {
    "State over time",
    "What the agent takes",
    "Versions",
    "States",
    "Memory of agents",
    "Processor of agents",
    "By profile, zone and instance type",
}
PALETTE = {panels.GOOD, panels.BAD, panels.WARNING, panels.UNKNOWN, panels.NEUTRAL, "#56B4E9", "#CC79A7", "#F0E442"}


def each_board() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("board", asked.BOARDS.values(), ids=asked.BOARDS)


def each_panel() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "panel", [one for _, one in PANELS], ids=[f"{name}:{one['title']}" for name, one in PANELS]
    )


def expressions(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


def selectors(node: Any) -> Iterator[Any]:
    """The vector selectors of a parsed expression."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    if isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector
    for name in ("expr", "lhs", "rhs", "args"):
        below = getattr(node, name, None)
        for one in below if isinstance(below, list) else [below]:
            if one is not None:
                yield from selectors(one)


@pytest.mark.parametrize(("path", "text"), generate.texts().items(), ids=lambda one: getattr(one, "name", ""))
def test_what_is_committed_is_current(path: Any, text: str) -> None:
    assert path.read_text() == text, "run make dashboards"


def test_there_are_four() -> None:
    assert {board["uid"] for board in asked.BOARDS.values()} == {
        "nodeprep-fleet",
        "nodeprep-node",
        "nodeprep-repairs",
        "nodeprep-rollout",
    }


def test_a_node_leads_to_its_repairs_and_each_reason_to_what_it_means() -> None:
    for board, title, link in (
        ("nodeprep-fleet", "Nodes that cannot take a job", "/d/nodeprep-repairs?var-node=${__data.fields.node}&"),
        ("nodeprep-node", "Why not? More by: nodeprep check", "/d/nodeprep-repairs?${node:queryparam}&"),
    ):
        assert f'"url": "{link}' in json.dumps(asked.panel(board, title)["fieldConfig"])
    assert "node" in {one["name"] for one in asked.BOARDS["nodeprep-repairs"]["templating"]["list"]}
    reasons = asked.panel("nodeprep-repairs", "Held back now, and why")["fieldConfig"]
    assert f'"url": "{prometheus_rule.RUNBOOKS}/docs/repair-reasons.md#${{__value.raw}}"' in json.dumps(reasons)


@each_board()
def test_grafanas_own_types_lose_nothing(board: dict[str, Any]) -> None:
    """A key that Grafana does not know, such as `unitt`, does not come back."""
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    for link in again["links"]:
        del link["placement"]  # the SDK adds it
    assert again == board


@each_board()
def test_a_board_keeps_the_house_rules(board: dict[str, Any]) -> None:
    assert 1 <= len(board["panels"]) <= MOST_PANELS
    assert "id" not in board
    assert (board["editable"], board["graphTooltip"], board["refresh"]) == (False, 1, "1m")
    titles = [panel["title"] for panel in board["panels"]]
    assert len(set(titles)) == len(titles)
    assert [panel["id"] for panel in board["panels"]] == list(range(1, len(titles) + 1))
    boards, runbooks = board["links"]
    kept = (boards["type"], boards["tags"], boards["keepTime"], boards["includeVars"])
    assert kept == ("dashboards", board["tags"], True, True)
    assert (runbooks["type"], runbooks["url"]) == ("link", f"{prometheus_rule.RUNBOOKS}/docs/runbooks/README.md")


@each_board()
def test_rows_of_panels_fill_the_grid(board: dict[str, Any]) -> None:
    """No panel lies over another, and no row has a hole."""
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    height = max(y for _, y in cells) + 1
    assert len(cells) == panels.WIDTH * height


@each_board()
def test_variables_are_the_data_source_first_and_each_is_used(board: dict[str, Any]) -> None:
    first, *others = board["templating"]["list"]
    assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")
    assert others[0]["name"] == "cluster"
    text = json.dumps([expressions(panel) for panel in board["panels"]])
    for one in others:
        assert f"${one['name']}" in text
        assert one["datasource"]["uid"] == "${datasource}"
        assert one["refresh"] == 2  # when the time changes
        assert one.get("allValue", ".*") == ".*"  # a series without the label counts too
    names = {one["name"] for one in board["templating"]["list"]}
    assert set(re.findall(r"\$([a-z]\w*)", text)) <= names
    for one in others:
        match = re.fullmatch(r"label_values\((\w+)\{(.*)\}, (\w+)\)", one["query"])
        assert match
        assert match[3] in queries.KNOWN[match[1]] | set(queries.TARGET_LABELS)


@each_panel()
def test_a_panel_says_what_it_is(panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 20
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["type"] in {"stat", "timeseries", "table"}  # what can be drawn here


@each_panel()
def test_a_panel_that_may_be_empty_says_when(panel: dict[str, Any]) -> None:
    """A number of nodes is 0 and not empty; what may be empty says what that means."""
    counts = all(re.search(r"or count\(up\{[^}]*\}\) \* 0$", expression) for expression in expressions(panel))
    always = panel["title"] in NEVER_EMPTY
    assert counts or always or re.search(r'Empty: |"No data"', panel["description"])


@each_panel()
def test_queries_ask_for_what_agents_serve(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        found = list(selectors(promql_parser.parse(asked.substituted(target["expr"]))))
        assert found
        for one in found:
            matchers = {matcher.name: matcher.value for matcher in one.matchers.matchers}
            assert one.name in queries.KNOWN
            assert matchers["job"] == queries.JOB
            assert "cluster" in matchers
            assert set(matchers) <= queries.KNOWN[one.name] | set(queries.TARGET_LABELS)


@each_panel()
def test_rates_fit_any_scrape_interval(panel: dict[str, Any]) -> None:
    for expression in expressions(panel):
        assert all(window == "[$__rate_interval]" for window in re.findall(r"rate\([^\[]*(\[[^\]]*\])", expression))


@each_panel()
def test_colours_are_told_apart_by_anyone(panel: dict[str, Any]) -> None:
    assert set(re.findall(r"#[0-9A-Fa-f]{6}", json.dumps(panel["fieldConfig"]))) <= PALETTE


def test_a_metric_that_no_agent_serves_cannot_be_asked_for() -> None:
    with pytest.raises(KeyError):
        queries.FLEET("nodeprep_redy")
    with pytest.raises(ValueError, match="nodeprep_ready has no label profil: it has profile"):
        queries.FLEET("nodeprep_ready", profil="x")


def test_a_check_that_closes_a_gate_leads_to_its_runbook() -> None:
    """The link has the family of the check in it, and each family that can close a gate has such a page."""
    leading = [panel for _, panel in PANELS if "runbook" in json.dumps(panel.get("transformations", []))]
    assert len(leading) == 3
    for panel in leading:
        assert f'"url": "{prometheus_rule.RUNBOOKS}/docs/runbooks/${{__value.raw}}.md"' in json.dumps(
            panel["fieldConfig"]
        )
        assert all('"runbook", "$1", "check", "([a-z]+)[.].*"' in expression for expression in expressions(panel))
    for check in CHECKS.values():
        if check.severity is Severity.GATE:
            assert (ROOT / "docs" / "runbooks" / f"{check.family}.md").exists()
