"""Writes what Prometheus reads, from rules.yaml and the PodMonitor: `make dashboards`.

    python -m dashboards.prometheus_rule [--rules FILE] [--monitor FILE] [--runbooks URL] [--into DIRECTORY]

- daemonset/components/prometheus/prometheusrule.yaml: the rules, for Prometheus Operator
- dashboards/plain/rules.yaml: the same groups, for a Prometheus without an operator
- dashboards/plain/scrape.yaml: what the operator makes of the PodMonitor, for the same
- dashboards/kustomization.yaml: the ConfigMaps of the dashboards that lie here

tests/dashboards/test_prometheus_rule.py proves that they are current.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from dashboards import scrape_config
from nodeprep import __version__

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "dashboards/rules.yaml"
MONITOR = ROOT / "daemonset/components/prometheus/podmonitor.yaml"
# Where the documents of this version are read. No public address of this repository is known, so whoever publishes it
# names theirs by --runbooks. `.invalid` never resolves (RFC 2606): an address that was not replaced is plain.
RUNBOOKS = f"https://nodeprep.invalid/v{__version__}"
SEVERITIES = ("critical", "warning", "info")
WRITTEN = "# Written by `make dashboards` from {source}. Do not edit.\n"
Document = dict[str, Any]


class BadInput(Exception):
    """A source is not as it should be; one line says what and where."""


def runbook_url(alert: str, runbooks: str = RUNBOOKS) -> str:
    return f"{runbooks}/docs/runbooks/alerts/{alert}.md"


def groups(source: Path = RULES, runbooks: str = RUNBOOKS) -> list[Document]:
    """The groups of rules, each alert with its runbook_url. Raises BadInput."""
    document = _loaded(source)
    found = document.get("groups") if isinstance(document, dict) else None
    if not isinstance(found, list) or not found:
        raise BadInput(f"{source}: groups: a list of groups is wanted")
    for group in found:
        if not isinstance(group, dict) or not isinstance(group.get("rules"), list):
            raise BadInput(f"{source}: groups: each is a name and a list of rules")
        for index, rule in enumerate(group["rules"]):
            try:
                _complete(rule, runbooks)
            except (KeyError, TypeError, AttributeError):
                raise BadInput(f"{source}: {group.get('name')}, rule {index + 1}: not a rule") from None
            except BadInput as error:
                raise BadInput(f"{source}: {rule['alert']}: {error}") from None
    return found


def _complete(rule: Document, runbooks: str) -> None:
    if "record" in rule:
        return
    alert, annotations = rule["alert"], rule["annotations"]
    if rule["labels"].get("severity") not in SEVERITIES:
        raise BadInput(f"severity is one of {', '.join(SEVERITIES)}")
    for key in ("summary", "description"):
        if not annotations.get(key):
            raise BadInput(f"no {key}")
    if "runbook_url" in annotations:
        raise BadInput("runbook_url is added by `make dashboards`")
    annotations["runbook_url"] = runbook_url(alert, runbooks)


def monitor(source: Path = MONITOR) -> Document:
    """The PodMonitor. Raises BadInput."""
    found = _loaded(source)
    if not isinstance(found, dict):
        raise BadInput(f"{source}: no PodMonitor")
    return found


def _loaded(source: Path) -> object:
    try:
        return yaml.safe_load(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise BadInput(f"{source}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise BadInput(f"{source}{where}: {getattr(error, 'problem', None) or 'not YAML'}") from None


def pages(rules: Path, pod_monitor: Path, dashboards: Path, runbooks: str = RUNBOOKS) -> Iterator[tuple[str, str]]:
    """Each file by its path in the repository, and its text. Raises BadInput."""
    found, monitored = groups(rules, runbooks), monitor(pod_monitor)
    try:
        scraped = scrape_config.scrape_configs(monitored)
    except scrape_config.CannotDerive as error:
        raise BadInput(f"{pod_monitor}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{pod_monitor}: not a PodMonitor of ours: {error}") from None
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": monitored["metadata"],
        "spec": {"groups": found},
    }
    of_rules, of_monitor = (WRITTEN.format(source=_shown(source)) for source in (RULES, MONITOR))
    yield "daemonset/components/prometheus/prometheusrule.yaml", of_rules + _dumped(rule)
    yield "dashboards/plain/rules.yaml", of_rules + _dumped({"groups": found})
    yield "dashboards/plain/scrape.yaml", of_monitor + _dumped({"scrape_configs": scraped})
    names = sorted(path.name for path in dashboards.glob("nodeprep-*.json"))
    yield (
        "dashboards/kustomization.yaml",
        WRITTEN.format(source="dashboards/nodeprep-*.json") + _dumped(config_maps(names)),
    )


def config_maps(names: list[str]) -> Document:
    """A component that makes one ConfigMap for each dashboard, with the label that Grafana's sidecar looks for."""
    found: Document = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    found["configMapGenerator"] = [
        {"name": f"{name.removesuffix('.json')}-dashboard", "namespace": "nodeprep", "files": [name]} for name in names
    ]
    # Without a hash in its name a changed dashboard replaces the former one.
    labels = {"app.kubernetes.io/name": "nodeprep", "grafana_dashboard": "1"}
    found["generatorOptions"] = {"disableNameSuffixHash": True, "labels": labels}
    return found


class Pages(yaml.SafeDumper):
    """YAML as people read it: an expression of several lines stays one."""


def _text(dumper: Pages, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Pages.add_representer(str, _text)


def _dumped(document: Document) -> str:
    text: str = yaml.dump(document, Dumper=Pages, sort_keys=False, width=100, allow_unicode=True)
    return text


def _shown(source: Path) -> Path:
    return source.relative_to(ROOT)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboards.prometheus_rule")
    parser.add_argument("--rules", type=Path, default=RULES)
    parser.add_argument("--monitor", type=Path, default=MONITOR)
    parser.add_argument("--runbooks", default=RUNBOOKS, metavar="URL", help="where docs/ of this version is served")
    parser.add_argument("--into", type=Path, default=ROOT, help="the repository")
    given = parser.parse_args(words)
    try:
        for path, text in list(
            pages(given.rules, given.monitor, given.into / "dashboards", given.runbooks.rstrip("/"))
        ):
            target = given.into / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except BadInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
