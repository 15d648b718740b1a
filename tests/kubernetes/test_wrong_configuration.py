"""A wrong number in the ConfigMap of ten nodes, for an hour: one node closes at most, and a human goes back.

`make prove-rollout`; its output is kept in proofs/rollout.txt. test_rollout has the same on two nodes, until it halts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes import shipped
from tests.kubernetes.rollout import first_replaced, replaced
from tests.kubernetes.shipped import UNHEALTHY, agents, condition, configuration, overlay, taints
from tests.rigs import started
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

NODES = 10
MINUTES = float(os.environ.get("NODEPREP_ROLLOUT_MINUTES", "60"))
WRONG = "want: {fs.mounts: {mounts: [/nobody-mounts-this]}}"
HOLD = 600.0  # seconds; decide/rule_change
LOOK_SECONDS = 5.0

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def ten() -> Iterator[Cluster]:
    with started.cluster(nodes=NODES) as made:
        yield made


def closed(cluster: Cluster) -> set[str]:
    """The Nodes that are not ready or have our taint."""
    items = cluster.call("GET", "/api/v1/nodes")[1]["items"]
    return {one["metadata"]["name"] for one in items if condition(one)["status"] != "True" or UNHEALTHY in taints(one)}


@pytest.mark.timeout(3 * 3600)
def test_a_wrong_number_closes_one_node_of_ten_at_most(
    ten: Cluster, image: Callable[[str], Path], tmp_path: Path
) -> None:
    directory = tmp_path / "own"
    shipped.load(ten, image("good"))
    ten.apply(overlay(directory, {"config.yaml": configuration()}))
    shipped.settle_for(ten, shipped.MIN_READY)  # as shipped
    shipped.rolled_out(ten, 900.0)
    until(lambda: not closed(ten), "all Nodes are open", 600.0)
    before = agents(ten)
    began = time.monotonic()
    manifests = overlay(directory, {"config.yaml": configuration(WRONG)})
    text = (
        (manifests / "kustomization.yaml")
        .read_text()
        .replace(f"value: {shipped.SETTLE}", f"value: {shipped.MIN_READY}")
    )
    (manifests / "kustomization.yaml").write_text(text)
    ten.apply(manifests)
    name = first_replaced(ten, before)
    said: set[str] = set()
    most: set[str] = set()
    while (at := time.monotonic() - began) < MINUTES * 60:
        now, pods = closed(ten), agents(ten)
        changed = replaced(pods, before)
        if now - said:
            print(f"{at:6.0f} s: closed {sorted(now)}, agents replaced on {sorted(changed)}", flush=True)
        said |= now
        most |= now
        assert changed == {name}
        assert most <= {name}
        time.sleep(LOOK_SECONDS)
    told = condition(ten.nodes[name].object())
    never = f"{NODES - len(most)} of {NODES} never closed"
    print(f"after {MINUTES:g} minutes: {never}; {name} is {told['status']} {told['reason']}")
    if MINUTES * 60 > HOLD + 120:
        assert most == {name}, "the new configuration may be right: after ten minutes it is believed there"
    ten.apply(overlay(directory, {"config.yaml": configuration()}))
    shipped.settle_for(ten, shipped.SETTLE)
    shipped.rolled_out(ten, 300.0)
    until(lambda: not closed(ten), "all Nodes are open again", 300.0)
    print(f"the former configuration applied again: all {NODES} nodes are open")
