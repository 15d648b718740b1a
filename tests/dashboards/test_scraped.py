"""A real Prometheus scrapes a real agent by what our PodMonitor says, where the component lets it listen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import scrape_config
from tests.dashboards import servers, targets
from tests.rigs import prometheus_server
from tests.rigs.agent import PROGRAM, Agent
from tests.rigs.prometheus_server import Server
from tests.rigs.waiting import until

COMPONENT = targets.ROOT / "daemonset/components/prometheus/kustomization.yaml"
PLAIN = targets.ROOT / "dashboards/plain"
OTHER = "127.0.0.2"  # an address of this machine on which what listens on 127.0.0.1 does not answer
NODE, POOL = "gpu-17", "np-1"


def shipped_arguments() -> list[str]:
    """Those of the agent with the component: of the DaemonSet, and what its one patch adds at their end."""
    (container,) = targets.shipped_daemonset()["spec"]["template"]["spec"]["containers"]
    (patch,) = yaml.safe_load(COMPONENT.read_text())["patches"]
    (operation,) = yaml.safe_load(patch["patch"])
    assert (operation["op"], operation["path"]) == ("add", "/spec/template/spec/containers/0/args/-")
    return [*container["args"], operation["value"]]


@contextmanager
def scraped(directory: Path, port: int, **changed: Any) -> Iterator[Server]:
    """A Prometheus whose one target is the agent's pod, at OTHER."""
    target = targets.discovered(NODE, POOL, f"{OTHER}:{port}")
    listed = [{"targets": [target.pop("__address__")], "labels": target}]
    (directory / "targets.json").write_text(json.dumps(listed))
    config = {**targets.shipped_scrape_config(), "scrape_interval": "1s", "scrape_timeout": "1s", **changed}
    del config["kubernetes_sd_configs"]
    config["file_sd_configs"] = [{"files": [str(directory / "targets.json")]}]
    with prometheus_server.serving(directory, {"scrape_configs": [config]}) as server:
        yield server


def labels(metric: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in metric.items() if name != "__name__"}


def test_an_agent_as_the_component_starts_it_is_scraped_with_these_labels(tmp_path: Path) -> None:
    port = prometheus_server.free_port()
    first, *more = shipped_arguments()
    assert first == PROGRAM[-1]
    agent = Agent(tmp_path, port=port, program=(*PROGRAM, *more))
    wanted = targets.relabelled(targets.discovered(NODE, POOL, f"{OTHER}:{port}"), targets.shipped_scrape_config())
    assert wanted == {
        "job": "nodeprep",
        "namespace": "nodeprep",
        "instance": f"{OTHER}:{port}",
        "node": NODE,
        "pool": POOL,
        "zone": "cn-hangzhou-i",
        "instance_type": "ecs.ebmgn8v.48xlarge",
    }
    with agent, scraped(tmp_path, port) as server:
        until(lambda: server.ask("nodeprep_last_round_timestamp_seconds"), "a scrape of the agent")
        ((up, value),) = server.ask("up")
        assert (labels(up), value) == (wanted, 1)
        ((ready, _),) = until(lambda: server.ask("nodeprep_ready"), "a profile")
        assert labels(ready) == {**wanted, "profile": "mine"}
        agent.kill()
        until(lambda: server.ask("up == 0"), "the agent is gone")
        until(lambda: not server.ask("nodeprep_ready"), "its series end")


def test_without_the_component_nobody_elsewhere_reaches_it(tmp_path: Path) -> None:
    port = prometheus_server.free_port()
    with Agent(tmp_path, port=port):
        until(lambda: servers.answers(f"http://127.0.0.1:{port}/healthz"), "it listens")
        assert not servers.answers(f"http://{OTHER}:{port}/healthz")


def test_a_real_prometheus_agrees_where_the_job_label_is_missing(tmp_path: Path) -> None:
    monitor = yaml.safe_load((COMPONENT.parent / "podmonitor.yaml").read_text())
    del monitor["spec"]["jobLabel"]
    (config,) = scrape_config.scrape_configs(monitor)
    with scraped(tmp_path, 1, relabel_configs=config["relabel_configs"]) as server:
        ((up, _),) = until(lambda: server.ask("up"), "a failed scrape")
    assert labels(up) == targets.relabelled(targets.discovered(NODE, POOL, f"{OTHER}:1"), config)
    assert labels(up)["job"] == "nodeprep/nodeprep"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"podTargetLabels": ["team"]}, "spec.podTargetLabels: not known"),
        ({"attachMetadata": {"node": True, "namespace": True}}, "spec.attachMetadata.namespace: not known"),
        ({"selector": {"matchExpressions": []}}, "spec.selector.matchExpressions: not known"),
    ],
)
def test_a_field_of_which_the_outcome_is_not_known_is_refused(change: dict[str, Any], told: str) -> None:
    monitor = yaml.safe_load((COMPONENT.parent / "podmonitor.yaml").read_text())
    monitor["spec"] |= change
    with pytest.raises(scrape_config.CannotDerive, match=told):
        scrape_config.scrape_configs(monitor)


def test_the_plain_scrape_configuration_is_one_that_prometheus_takes(tmp_path: Path) -> None:
    """But for its discovery: Debian builds Prometheus without that of Kubernetes."""
    words = yaml.safe_load((PLAIN / "scrape.yaml").read_text()) | {"rule_files": [str(PLAIN / "rules.yaml")]}
    (config,) = words["scrape_configs"]
    (discovery,) = config.pop("kubernetes_sd_configs")
    assert discovery == {"role": "pod", "namespaces": {"names": ["nodeprep"]}, "attach_metadata": {"node": True}}
    file = tmp_path / "prometheus.yaml"
    file.write_text(json.dumps(words))
    servers.ran("promtool", "check", "config", file)
