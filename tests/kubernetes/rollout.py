"""How far a rollout of the agent comes: which node it begins with, and that a bad release goes no further."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.kubernetes.shipped import Object, agents, container
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import SECONDS, until

AGENTS = "/apis/apps/v1/namespaces/nodeprep/daemonsets/nodeprep"
MARGIN = 10.0  # seconds that a good agent may take until it is Ready


def settling(cluster: Cluster) -> float:
    """For how many seconds an agent must be Ready before a rollout goes on to the next."""
    return float(cluster.call("GET", AGENTS)[1]["spec"]["minReadySeconds"])


def replaced(pods: dict[str, Object], before: dict[str, Object]) -> set[str]:
    """The nodes whose agent's pod is another than before."""
    return {name for name, pod in pods.items() if pod["metadata"]["uid"] != before[name]["metadata"]["uid"]}


def first_replaced(cluster: Cluster, before: dict[str, Object], seconds: float = SECONDS) -> str:
    """The node where a rollout began, as soon as the new agent has run there."""

    def ran() -> str:
        pods = agents(cluster)
        return next((name for name in replaced(pods, before) if "containerID" in container(pods[name])), "")

    return until(ran, "a new agent has run", seconds)


def halted(cluster: Cluster, before: dict[str, Object], name: str) -> Iterator[None]:
    """At each look the new agent of a node is not ready, and all others are ready and the former ones.

    It goes on for longer than a rollout waits for an agent that is ready, so the next one would have changed meanwhile;
    at its end the user's `kubectl rollout status` still waits.
    """
    end = time.monotonic() + settling(cluster) + MARGIN
    while time.monotonic() < end:
        # The controller may sleep for as long again before it looks who is ready; it looks at once at a changed object.
        cluster.call("PATCH", AGENTS, {"metadata": {"annotations": {"nodeprep.test/look": str(time.monotonic())}}})
        pods = agents(cluster)
        assert pods.keys() == before.keys()
        assert replaced(pods, before) == {name}
        assert {one for one, pod in pods.items() if not container(pod).get("ready")} == {name}
        yield
        time.sleep(0.5)
    with pytest.raises(RuntimeError, match="timed out"):
        cluster.kubectl("-n", "nodeprep", "rollout", "status", "daemonset/nodeprep", "--timeout=1s")
