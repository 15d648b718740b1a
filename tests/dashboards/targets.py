"""What Prometheus makes of a pod of the shipped DaemonSet, by the scrape configuration of the shipped PodMonitor.

`discovered` has the labels of Kubernetes' service discovery. `relabelled` applies relabel_configs as Prometheus does;
test_scraped.py holds it against a real Prometheus.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dashboards import prometheus_rule, scrape_config

ROOT = Path(__file__).resolve().parents[2]
DAEMONSET = ROOT / "daemonset/base/daemonset.yaml"
POOL, ZONE, INSTANCE_TYPE = (
    "alibabacloud.com/nodepool-id",
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
)
Document = dict[str, Any]


@cache
def shipped_scrape_config() -> Document:
    (found,) = scrape_config.scrape_configs(prometheus_rule.monitor())
    return found


@cache
def shipped_daemonset() -> Document:
    found: Document = yaml.safe_load(DAEMONSET.read_text())
    return found


def node_labels(pool: str) -> dict[str, str]:
    labels = {ZONE: "cn-hangzhou-i", INSTANCE_TYPE: "ecs.ebmgn8v.48xlarge"}
    return labels | ({POOL: pool} if pool else {})


def discovered(node: str, pool: str, address: str, pod: str = "nodeprep-x7k2p") -> dict[str, str]:
    """The target that service discovery makes of the agent's pod on a node: role pod, with the metadata of nodes."""
    daemonset = shipped_daemonset()
    template = daemonset["spec"]["template"]
    metadata = {"name": pod, "namespace": daemonset["metadata"]["namespace"], "labels": template["metadata"]["labels"]}
    made = {"metadata": metadata, "spec": {**template["spec"], "nodeName": node}, "status": {"phase": "Running"}}
    return target(made, {"metadata": {"name": node, "labels": node_labels(pool)}}, address)


def target(pod: Document, node: Document, address: str) -> dict[str, str]:
    """The same of a pod and a Node of the API server; the pod has one container, with one port."""
    (container,) = pod["spec"]["containers"]
    (port,) = container["ports"]
    meta = {
        "namespace": pod["metadata"]["namespace"],
        "pod_name": pod["metadata"]["name"],
        "pod_node_name": pod["spec"]["nodeName"],
        "pod_phase": pod["status"]["phase"],
        "pod_container_name": container["name"],
        "pod_container_port_name": port["name"],
        "node_name": node["metadata"]["name"],
    }
    for kind, labels in (("pod", pod["metadata"]["labels"]), ("node", node["metadata"]["labels"])):
        for name, value in labels.items():
            meta[f"{kind}_label_{scrape_config.label_name(name)}"] = value
            meta[f"{kind}_labelpresent_{scrape_config.label_name(name)}"] = "true"
    return {"__address__": address} | {f"__meta_kubernetes_{name}": value for name, value in meta.items()}


def relabelled(target: dict[str, str], config: Document) -> dict[str, str] | None:
    """The labels of a target's series; None if it is not scraped."""
    labels = {"job": config["job_name"], **target}
    for rule in config["relabel_configs"]:
        value = rule.get("separator", ";").join(labels.get(name, "") for name in rule.get("source_labels", ()))
        pattern = re.compile(rule.get("regex", "(.*)"))
        matched = pattern.fullmatch(value)
        match rule.get("action", "replace"):
            case "keep" if not matched:
                return None
            case "drop" if matched:
                return None
            case "keep" | "drop":
                pass
            case "labeldrop":
                labels = {name: text for name, text in labels.items() if not pattern.fullmatch(name)}
            case "replace":
                if matched:
                    template = re.sub(r"\$\{?(\d+)\}?", r"\\\1", rule.get("replacement", "$1"))
                    labels[rule["target_label"]] = matched.expand(template)
            case action:
                raise AssertionError(f"no relabeling of ours has the action {action}")
    labels.setdefault("instance", labels["__address__"])
    return {name: text for name, text in labels.items() if text and not name.startswith("__")}
