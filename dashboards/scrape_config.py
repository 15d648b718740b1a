"""What Prometheus Operator makes of our PodMonitor: a scrape configuration, for Prometheus without an operator.

The tests scrape by it, so the rules are tested with the labels that the shipped PodMonitor gives. It has what the
operator generates (pkg/prometheus/promcfg.go, generatePodMonitorConfig; order and words as in its TestPodMonitor…), for
the fields that our PodMonitor uses. A field that is not known here is refused: left out, it would be tested by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Document = dict[str, Any]
SPEC = {"jobLabel", "selector", "attachMetadata", "podMetricsEndpoints"}
ENDPOINT = {"port", "path", "interval", "scrapeTimeout", "relabelings"}
# As the operator spells a relabeling and as Prometheus does.
RELABELING = {
    "sourceLabels": "source_labels",
    "separator": "separator",
    "targetLabel": "target_label",
    "regex": "regex",
    "modulus": "modulus",
    "replacement": "replacement",
    "action": "action",
}


class CannotDerive(Exception):
    """The PodMonitor has something of which nobody here knows what the operator makes."""


def scrape_configs(monitor: Document) -> list[Document]:
    """One for each endpoint, as the operator writes them. Raises CannotDerive."""
    if monitor.get("kind") != "PodMonitor":
        raise CannotDerive("no PodMonitor")
    spec = monitor["spec"]
    _refuse_unknown("spec", spec, SPEC)
    _refuse_unknown("spec.selector", spec["selector"], {"matchLabels"})
    _refuse_unknown("spec.attachMetadata", spec.get("attachMetadata", {}), {"node"})
    return [_scrape_config(monitor, index) for index in range(len(spec["podMetricsEndpoints"]))]


def _scrape_config(monitor: Document, index: int) -> Document:
    metadata, spec = monitor["metadata"], monitor["spec"]
    endpoint = spec["podMetricsEndpoints"][index]
    _refuse_unknown(f"spec.podMetricsEndpoints[{index}]", endpoint, ENDPOINT)
    discovery: Document = {"role": "pod", "namespaces": {"names": [metadata["namespace"]]}}
    if spec.get("attachMetadata", {}).get("node"):
        discovery["attach_metadata"] = {"node": True}
    found: Document = {
        "job_name": f"podMonitor/{metadata['namespace']}/{metadata['name']}/{index}",
        "honor_labels": False,
        "kubernetes_sd_configs": [discovery],
    }
    for key, name in (("interval", "scrape_interval"), ("scrapeTimeout", "scrape_timeout"), ("path", "metrics_path")):
        if key in endpoint:
            found[name] = endpoint[key]
    found["relabel_configs"] = list(_relabelings(metadata, spec, endpoint))
    return found


def _relabelings(metadata: Document, spec: Document, endpoint: Document) -> Iterator[Document]:
    yield {"source_labels": ["job"], "target_label": "__tmp_prometheus_job_name"}
    yield {"source_labels": ["__meta_kubernetes_pod_phase"], "regex": "(Failed|Succeeded)", "action": "drop"}
    for name, value in sorted(spec["selector"].get("matchLabels", {}).items()):
        label = label_name(name)
        sources = [f"__meta_kubernetes_pod_label_{label}", f"__meta_kubernetes_pod_labelpresent_{label}"]
        yield {"source_labels": sources, "regex": f"({value});true", "action": "keep"}
    yield {
        "source_labels": ["__meta_kubernetes_pod_container_port_name"],
        "regex": endpoint["port"],
        "action": "keep",
    }
    for source, target in (("namespace", "namespace"), ("pod_container_name", "container"), ("pod_name", "pod")):
        yield {"source_labels": [f"__meta_kubernetes_{source}"], "target_label": target}
    yield {"target_label": "job", "replacement": f"{metadata['namespace']}/{metadata['name']}"}
    if "jobLabel" in spec:
        source = f"__meta_kubernetes_pod_label_{label_name(spec['jobLabel'])}"
        yield {"source_labels": [source], "target_label": "job", "regex": "(.+)", "replacement": "${1}"}
    yield {"target_label": "endpoint", "replacement": endpoint["port"]}
    for relabeling in endpoint.get("relabelings", ()):
        _refuse_unknown("a relabeling", relabeling, RELABELING)
        yield {RELABELING[key]: value for key, value in relabeling.items()}


def label_name(name: str) -> str:
    """As Prometheus spells a label of Kubernetes (strutil.SanitizeLabelName)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _refuse_unknown(where: str, found: Mapping[str, object], known: object) -> None:
    more = sorted(set(found) - set(known))  # type: ignore[call-overload]
    if more:
        raise CannotDerive(
            f"{where}.{more[0]}: not known what the operator makes of it; see dashboards/scrape_config.py"
        )
