"""Of a node that lacks ports, the conditions name the shortage, and not a fault that explains only a part of it."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from nodeprep.agent_state import NodeState
from nodeprep.config import profile_files
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.configuration import Settings
from nodeprep.config.waiver_rules import Waiver
from nodeprep.decide.conditions import RDMA_READY, TRAINING_READY
from nodeprep.doors import clock
from nodeprep.model import Status
from nodeprep.publish.node_status import NodeStatus
from nodeprep.values import replace
from tests.agent.test_reconciler import Node
from tests.rigs import faults, trees

pytestmark = pytest.mark.slow

PROFILE = """apiVersion: nodeprep.io/v1
kind: Profile
name: eight-rails
extends: rdma-roce
expect: {ports: {link-layer: Ethernet, at-least: 8, rate: 400}}
"""
UNBOUND, ANOTHER = "0000:3b:00.0", "0000:9b:00.0"
LEFT = ("0000:4c:00.0", "0000:5d:00.0", "0000:bb:00.0", "0000:cb:00.0")
UNTIL = date.fromisoformat(clock.today()) + timedelta(days=30)
WAIVER = Waiver("pci.driver-bound", UNTIL.isoformat(), "spare card", device=UNBOUND)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Ready once, with its eight rails."""
    (tmp_path / "eight-rails.yaml").write_text(PROFILE)
    profile = profile_files.named(str(tmp_path / "eight-rails.yaml"))
    made = Node(
        trees.build("h100-roce", tmp_path / "tree"),
        tmp_path / "memory",
        Settings(default=str(tmp_path / "eight-rails.yaml"), default_profile=profile, agent_part=AgentSettings()),
    )
    assert made.sees_often(6).agent_state.state is NodeState.READY
    return made


def waive(node: Node) -> None:
    node.reconciler.follow(replace(node.reconciler.settings, waivers=(WAIVER,)))


def told(status: NodeStatus) -> dict[str, tuple[str, str, str]]:
    """Status, reason, and the check that the message names first."""
    return {
        one.type: (one.status, one.reason, one.message.removeprefix("Unhealthy: ").partition(" ")[0])
        for one in status.desired.conditions
        if one.type in (TRAINING_READY, RDMA_READY)
    }


SHORT = ("False", "TooFewPorts", "port.present")
NOT_BOUND = ("False", "NotBound", "pci.driver-bound")


@pytest.mark.parametrize("seen", [True, False], ids=["convicted before", "never seen without"])
def test_a_waived_fault_is_not_named_before_the_shortage(node: Node, *, seen: bool) -> None:
    """Also not in the half minute in which the conviction from before the waiver is released."""
    if not seen:
        waive(node)
    faults.unbind(node.root, UNBOUND)
    status = node.sees_often(3)
    assert (told(status)[TRAINING_READY] == NOT_BOUND) is seen
    waive(node)
    for address in LEFT:
        faults.pull(node.root, address)
    node.sees()  # the first failure convicts nothing
    for _ in range(8):
        assert told(node.sees(after=1.0)) == {TRAINING_READY: SHORT, RDMA_READY: SHORT}


def test_one_of_five_is_explained_and_the_shortage_counts_beside_it(node: Node) -> None:
    faults.unbind(node.root, UNBOUND)
    for address in LEFT:
        faults.pull(node.root, address)
    status = node.sees_often(3)
    assert told(status)[TRAINING_READY] == NOT_BOUND
    faults_of = {one.check for one in status.report.findings if one.counts and one.status is Status.FAIL}
    assert {"pci.driver-bound", "port.present"} <= faults_of


def test_as_many_faults_as_are_missing_explain_it(node: Node) -> None:
    for address in (UNBOUND, ANOTHER):
        faults.unbind(node.root, address)
    status = node.sees_often(3)
    assert told(status)[TRAINING_READY] == NOT_BOUND
    counted = {one.check for one in status.report.findings if one.counts and one.status is Status.FAIL}
    assert "port.present" not in counted


def test_a_waiver_that_begins_or_ends_with_a_day_judges_anew(node: Node) -> None:
    """Without any new fact: what a dead card tells about the others hangs on it."""
    judged = node.reconciler.latest.expected
    node.sees_often(1)
    assert node.reconciler.latest.expected is judged
    for waivers in ((WAIVER,), ()):
        node.reconciler.settings = replace(node.reconciler.settings, waivers=waivers)  # as at midnight, not by a reload
        node.sees_often(1)
        assert node.reconciler.latest.expected is not judged
        judged = node.reconciler.latest.expected
