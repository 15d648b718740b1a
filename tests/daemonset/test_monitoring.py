"""components/prometheus and components/grafana, as kubectl's kustomize renders them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.daemonset.manifests import ROOT, Object, agent, combined, of, rendered

DASHBOARDS = ROOT.parent / "dashboards"
LIMIT_BYTES = 262144  # of all annotations of an object (apimachinery), in which kubectl apply keeps a copy of it


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    return combined(tmp_path_factory.mktemp("own"), [ROOT / "overlays/generic"], "gate", "prometheus", "grafana")


def test_the_agent_listens_and_the_users_configuration_stays(monitored: list[Object], tmp_path: Path) -> None:
    bare_agent = agent(combined(tmp_path, [ROOT / "overlays/generic"], "gate"))[1]
    container = agent(monitored)[1]
    assert container["args"] == [*bare_agent["args"], "--bind=0.0.0.0"]
    assert {**container, "args": []} == {**bare_agent, "args": []}
    (config,) = (one for one in of(monitored, "ConfigMap") if one["metadata"]["name"].startswith("nodeprep-config-"))
    assert config["data"]["config.yaml"] == (ROOT / "components/gate/config.yaml").read_text()


def test_the_monitor_selects_the_agents_pods_by_a_port_that_they_have(monitored: list[Object]) -> None:
    (monitor,) = of(monitored, "PodMonitor")
    (daemonset,) = (one for one in of(monitored, "DaemonSet") if one["metadata"]["name"] == "nodeprep")
    labels = daemonset["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == "nodeprep"
    assert monitor["metadata"]["namespace"] == daemonset["metadata"]["namespace"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in agent(monitored)[1]["ports"]]


def test_other_pods_of_ours_have_the_job_and_are_not_selected(tmp_path: Path) -> None:
    objects = combined(tmp_path, [ROOT / "overlays/generic"], "prometheus", "nvml", "kubelet-books")
    (monitor,) = of(objects, "PodMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    pods = {one["metadata"]["name"]: one["spec"]["template"] for one in of(objects, "DaemonSet")}
    assert [name for name, pod in pods.items() if wanted <= pod["metadata"]["labels"].items()] == ["nodeprep"]
    others = [pod for name, pod in pods.items() if name != "nodeprep"]
    assert len(others) == 2
    assert "--bind" not in str(others)


def test_each_board_is_a_config_map_as_it_lies_here(monitored: list[Object]) -> None:
    found = [one for one in of(monitored, "ConfigMap") if "grafana_dashboard" in one["metadata"]["labels"]]
    boards = sorted(DASHBOARDS.glob("nodeprep-*.json"))
    assert len(boards) >= 3
    assert sorted(name for one in found for name in one["data"]) == [path.name for path in boards]
    for one in found:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        ((name, text),) = one["data"].items()
        assert json.loads(text) == json.loads((DASHBOARDS / name).read_text())
        assert len(json.dumps(one)) < LIMIT_BYTES


def test_the_rule_is_small_enough_for_kubectl_apply(monitored: list[Object]) -> None:
    (rule,) = of(monitored, "PrometheusRule")
    assert len(json.dumps(rule)) < LIMIT_BYTES


def test_a_release_of_another_name_is_one_line(tmp_path: Path) -> None:
    """As docs/prometheus.md says."""
    combined(tmp_path, [ROOT / "overlays/generic"], "prometheus")
    own = yaml.safe_load((tmp_path / "kustomization.yaml").read_text())
    page = (ROOT.parent / "docs/prometheus.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("labels: "))
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own) + line + "\n")
    objects = rendered(tmp_path)
    for kind in ("PodMonitor", "PrometheusRule"):
        assert [one["metadata"]["labels"]["release"] for one in of(objects, kind)] == ["RELEASE"]
    (daemonset,) = of(objects, "DaemonSet")
    assert "release" not in daemonset["spec"]["selector"]["matchLabels"]


def test_another_label_as_pool_is_one_patch(tmp_path: Path) -> None:
    """As docs/prometheus.md says; and the one for nodes without IPv4."""
    combined(tmp_path, [ROOT / "overlays/generic"], "prometheus")
    own = yaml.safe_load((tmp_path / "kustomization.yaml").read_text())
    page = (ROOT.parent / "docs/prometheus.md").read_text()
    patches = page.partition("```yaml\npatches:\n")[2].partition("```")[0]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own) + "patches:\n" + patches)
    objects = rendered(tmp_path)
    (monitor,) = of(objects, "PodMonitor")
    relabelings = monitor["spec"]["podMetricsEndpoints"][0]["relabelings"]
    (pool,) = [one for one in relabelings if one.get("targetLabel") == "pool"]
    assert pool["sourceLabels"] == ["__meta_kubernetes_node_label_karpenter_sh_nodepool"]
    assert agent(objects)[1]["args"][-1] == "--bind=::"
