"""A release whose port.state always fails, on a node with a real RoCE port: nobody is kept away, and it ends there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kubernetes.rollout import first_replaced, halted
from tests.kubernetes.shipped import (
    ASK,
    PORT,
    UNHEALTHY,
    agents,
    condition,
    container,
    kill_agent,
    load,
    overlay,
    rolled_out,
    set_image,
    taints,
)
from tests.kubernetes.training import LONG, announced, labelled, open_to_training
from tests.rigs import lab
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster, until
from tests.rigs.guest import Guest

pytestmark = pytest.mark.timeout(1800)  # in software emulation
NAME = "guest"
CONFIGURATION = """\
apiVersion: nodeprep.io/v1
kind: Config
mode: gate
assign: [{match: {kubernetes.io/hostname: guest}, use: [rdma-roce]}]
damping: {passes: 2, pass-span: 2, pass-every: 1, turns: 100}
every: {pci: 5}
"""
GATES = "rdma-roce.device\nrdma-roce.ready\n"


@pytest.fixture
def guest(image: Callable[[str], Path], tmp_path: Path) -> Iterator[Guest]:
    """A node whose agent has proven its RoCE port, beside one without any; both have the bad release at hand."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(Cluster(nodes=1))
            made = stack.enter_context(Guest(cluster, NAME))
        except (CannotStart, lab.CannotStart) as reason:
            cannot_start(reason)
        for kind in ("good", "failing"):
            made.import_image(image(kind))
            load(cluster, image(kind))
        cluster.apply(overlay(tmp_path / "own", {"config.yaml": CONFIGURATION}))
        until(lambda: open_to_training(made.object()), "the guest is ready for training", LONG)
        rolled_out(cluster, LONG)
        yield made


def test_a_release_whose_port_state_always_fails(guest: Guest) -> None:
    cluster = guest.cluster
    with announced(cluster, "/api/v1/nodes", NAME) as said:
        kill_agent(cluster, guest)  # rollouts begin where an agent is not ready
        until(lambda: not container(agents(cluster)[NAME])["ready"], "its agent is not ready", LONG)
        before = agents(cluster)
        set_image(cluster, "failing")
        assert first_replaced(cluster, before, LONG) == NAME
        said.when(lambda node: condition(node)["reason"] == "VerdictChangedByUpgrade", "it says so")
        until(lambda: not container(agents(cluster)[NAME])["ready"], "the rollout has to wait", LONG)
        for _ in halted(cluster, before, NAME):
            why = guest.run("python3", "-c", ASK, f"http://127.0.0.1:{PORT}/readyz")
            assert why.startswith("503")
            assert "port.state" in why
            assert guest.run("ls", "/run/nodeprep") == GATES
        cluster.kubectl("-n", "nodeprep", "rollout", "undo", "daemonset/nodeprep")
        until(lambda: condition(guest.object())["reason"] == "Ready", "the former version finds no fault", LONG)
        rolled_out(cluster, LONG)
    seen = [node for _, node in said.seen]
    assert all(labelled(node) and UNHEALTHY not in taints(node) for node in seen)
    assert {condition(node)["status"] for node in seen} == {"True"}
    assert guest.run("ls", "/run/nodeprep") == GATES
