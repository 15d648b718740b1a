"""What a scrape says of a repair: while it runs, when it is over, and where nobody runs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import repaired_node
from tests.cluster.repaired_node import Repaired
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

PORT = 9001


@pytest.fixture(scope="module")
def cluster(apart: Cluster) -> Cluster:
    return apart


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=2, pods=2)) as one:
        yield one


def served(one: Repaired) -> None:
    """Start its agent again, so that it serves its pages."""
    one.agent.kill()
    one.agent.port = PORT
    one.agent.start().report()
    until(lambda: one.agent.metrics().get('nodeprep_state{state="Ready"}') == 1, "it is ready again")


def of_repairs(one: Repaired) -> dict[str, float]:
    return {name: value for name, value in one.agent.metrics().items() if name.startswith("nodeprep_repair_")}


def test_a_repair_is_shown_while_it_runs_and_counted_when_it_is_over(
    cluster: Cluster, here: Checked, tmp_path: Path
) -> None:
    name = f"seen-{time.monotonic_ns()}"
    with repaired_node.fleet(cluster), repaired_node.repaired(cluster, here.node, tmp_path, name) as one:
        served(one)
        assert one.agent.metrics()['nodeprep_gate_closed_seconds_count{phase="repair"}'] == 0
        one.waits(waits=True)
        one.down()
        until(lambda: any('step="running"' in series for series in of_repairs(one)), "the play")
        while_it_runs = one.agent.metrics()
        one.waits(waits=False)
        one.mended()
        until(lambda: one.agent.metrics()['nodeprep_gate_closed_seconds_count{phase="repair"}'] == 1, "it is counted")
        told = of_repairs(one)
    print({name: value for name, value in while_it_runs.items() if name.startswith("nodeprep_repair_")}, told)
    assert while_it_runs['nodeprep_state{state="Repairing"}'] == 1
    (remedy,) = {name.split('remedy="')[1].split('"')[0] for name in while_it_runs if "repair_step" in name}
    assert while_it_runs[f'nodeprep_repair_step{{check="eni.up",remedy="{remedy}",step="running"}}'] == 1
    assert while_it_runs[f'nodeprep_repair_tries_left{{check="eni.up",remedy="{remedy}"}}'] == 3
    assert told[f'nodeprep_repair_runs_total{{outcome="released",remedy="{remedy}"}}'] == 1
    assert told["nodeprep_repair_seconds_count"] == 1
    assert told["nodeprep_repair_seconds_sum"] > 1  # seconds of passes
    assert not [name for name in told if name.startswith(("nodeprep_repair_step", "nodeprep_repair_suppressed_now"))]


def test_where_nobody_runs_remedies_that_is_said(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    name = f"seen-{time.monotonic_ns()}"
    with (
        repaired_node.fleet(cluster),
        repaired_node.repaired(cluster, here.node, tmp_path, name, serves=False) as one,
    ):
        served(one)
        one.down()
        until(lambda: any('reason="remediator"' in series for series in of_repairs(one)), "why it does not run")
        told = of_repairs(one)
        assert told['nodeprep_repair_suppressed_total{reason="remediator"}'] == 1
        assert not [name for name in told if "runs_total" in name]
