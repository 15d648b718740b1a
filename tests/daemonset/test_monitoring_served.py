"""A real API server with Prometheus Operator's own kinds takes what components/prometheus and /grafana make."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.daemonset.manifests import ROOT, Object, combined, of
from tests.daemonset.test_manifests_served import PLURALS, taken, tried
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

CRDS = Path(__file__).with_name("monitoring_crds")
KINDS = {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}
PLURALS.update(KINDS)


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Cluster:
    cluster.namespace("nodeprep")
    for file in sorted(CRDS.glob("*.yaml")):
        cluster.kubectl("apply", "--server-side", "-f", str(file))
    for plural in KINDS.values():
        path = f"/apis/monitoring.coreos.com/v1/{plural}"
        until(lambda path=path: cluster.call("GET", path)[0] == 200, path)  # type: ignore[misc]
    return cluster


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def objects(directory: Path) -> list[Object]:
    """What a user's own kustomization gives with both components."""
    return combined(directory, [ROOT / "overlays/ack"], "prometheus", "grafana")


def test_the_api_server_takes_every_object(served: Cluster, objects: list[Object]) -> None:
    assert {one["kind"] for one in objects} >= set(KINDS)
    taken(served, objects)


def test_kubectl_applies_it_in_one_command(served: Cluster, objects: list[Object], directory: Path) -> None:
    told = served.kubectl("apply", "--dry-run=server", "-k", str(directory))
    for kind in KINDS.values():
        assert f"{kind.removesuffix('s')}.monitoring.coreos.com/nodeprep created (server dry run)" in told
    assert len(told.splitlines()) == len(objects)


ENDPOINT = ("spec", "podMetricsEndpoints", 0)
RULE = ("spec", "groups", 0, "rules", 0)
BAD: list[tuple[str, tuple[str | int, ...], str, int]] = [
    # kind, where, what stands there, the server's code
    ("PodMonitor", (*ENDPOINT, "interval"), "half a minute", 422),
    ("PodMonitor", (*ENDPOINT, "relabelings", 0, "action"), "rename", 422),
    ("PodMonitor", (*ENDPOINT, "intervall"), "30s", 400),
    ("PodMonitor", ("spec", "jobLabels"), "a", 400),
    ("PrometheusRule", ("spec", "groups", 0, "interval"), "often", 422),
    ("PrometheusRule", (*RULE, "form"), "5m", 400),
    ("PrometheusRule", (*RULE, "for"), "long", 422),
]


@pytest.mark.parametrize("row", BAD)
def test_what_the_kind_does_not_have_is_refused(
    served: Cluster, objects: list[Object], row: tuple[str, tuple[str | int, ...], str, int]
) -> None:
    kind, where, value, code = row
    (found,) = of(objects, kind)
    changed = copy.deepcopy(found)
    inner: Any = changed
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    assert tried(served, found)[0] == 201
    assert tried(served, changed)[0] == code
