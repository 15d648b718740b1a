"""A node that joins a cluster in mode gate: nobody but the operator knows what belongs on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodeprep.agent_state import NodeState
from nodeprep.config import configuration
from nodeprep.config.configuration import Settings
from nodeprep.facts.kubernetes.cluster import Cluster
from tests.agent.test_reconciler import Node, failing, unplug
from tests.cli.program import nodeprep
from tests.cluster_values import cluster, node_object
from tests.rigs import trees

ROOT = Path(__file__).resolve().parents[2]
COMPONENT = (ROOT / "daemonset/components/gate/config.yaml").read_text()
TYPE = {"node.kubernetes.io/instance-type": "ecs.ebmgn8v.48xlarge"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return trees.build("h100-roce", tmp_path / "tree")


def documented() -> str:
    """The rules that install-ack.md says to write before a gate."""
    page = (ROOT / "docs/install-ack.md").read_text()
    (found,) = re.findall(r"```yaml\n(# into config\.yaml.*?)```", page, re.DOTALL)
    return str(found)


def in_component() -> str:
    """The rule that the component has as a comment."""
    (line,) = re.findall(r"^# (assign: .*)$", COMPONENT, re.MULTILINE)
    return f"{line}\n"


def told(root: Path, directory: Path, more: str = "") -> Settings:
    """The shipped configuration of a gate, with `more`, beside what a good node has."""
    done = nodeprep("profile", "capture", "--root", str(root), "-o", str(directory / "h100.yaml"))
    assert done.returncode == 0, done.stderr
    file = directory / "config.yaml"
    file.write_text(COMPONENT + more)
    return configuration.load_settings(str(file), None)


def joining(root: Path, memory: Path, settings: Settings) -> Node:
    """A node without a memory, of the type that the rules are about."""
    node = Node(root, memory, settings)
    node.asked[Cluster] = cluster(node=node_object(labels=TYPE))
    return node


def test_what_ships_opens_no_gate_by_hardware_alone(root: Path, tmp_path: Path) -> None:
    status = joining(root, tmp_path / "memory", told(root, tmp_path)).sees_often(8)
    assert status.agent_state.state is not NodeState.READY
    (profile,) = status.desired.profiles
    assert profile.refusal.startswith("rdma-roce was chosen by hardware and nothing says what belongs here")
    assert status.desired.taints, "and it is kept away from jobs"


@pytest.mark.parametrize("rules", [documented(), in_component()])
def test_what_the_documents_say_to_write_opens_it_and_misses_a_lost_nic(root: Path, tmp_path: Path, rules: str) -> None:
    node = joining(root, tmp_path / "memory", told(root, tmp_path, rules))
    status = node.sees_often(8)
    assert status.agent_state.state is NodeState.READY, status.agent_state.why
    assert not status.desired.taints
    lost = min((root / "sys/class/infiniband").iterdir()).resolve().parent.parent.name
    unplug(root, lost)
    status = node.sees_often(2)
    assert "pci.expected-nic" in failing(status)
    assert status.agent_state.state is not NodeState.READY
    assert status.desired.taints


POOLS = """
assign:
  - {match: {pool: a}, use: [rdma-roce], expect: h100.yaml}
  - {match: {pool: b}, use: [rdma-roce], expect: h100.yaml}
"""


def test_a_report_says_who_chose_the_profile_now(root: Path, tmp_path: Path) -> None:
    """Another rule chooses the same profile for the same devices: no check says anything else, and the report does."""
    node = joining(root, tmp_path / "memory", told(root, tmp_path, POOLS))
    node.asked[Cluster] = cluster(node=node_object(labels={"pool": "a"}))
    assert node.sees_often(8).agent_state.state is NodeState.READY
    said = []
    for number in range(8):
        node.asked[Cluster] = cluster(node=node_object(labels={"pool": "ab"[number % 2]}))
        said.append(node.sees().report.chosen_by.partition(" ")[0])
    assert said == [f"assign[{number % 2}]" for number in range(8)]
