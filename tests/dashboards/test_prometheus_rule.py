"""What `make dashboards` writes is current, and bad input gives one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import prometheus_rule
from tests.dashboards import targets

ROOT = targets.ROOT
COMPONENT = ROOT / "daemonset/components/prometheus"
WRITTEN = list(prometheus_rule.pages(prometheus_rule.RULES, prometheus_rule.MONITOR, ROOT / "dashboards"))


@pytest.mark.parametrize(("path", "text"), WRITTEN, ids=[path for path, _ in WRITTEN])
def test_it_is_current(path: str, text: str) -> None:
    assert (ROOT / path).read_text() == text, "run `make dashboards`"


def test_the_prometheus_rule_has_the_groups_of_the_source_and_runbooks() -> None:
    source = yaml.safe_load((ROOT / "dashboards/rules.yaml").read_text())["groups"]
    shipped = yaml.safe_load((COMPONENT / "prometheusrule.yaml").read_text())["spec"]["groups"]
    plain = yaml.safe_load((ROOT / "dashboards/plain/rules.yaml").read_text())["groups"]
    assert plain == shipped
    for group in shipped:
        for rule in group["rules"]:
            assert rule["annotations"].pop("runbook_url")
    assert shipped == source


def test_severities_and_annotations_are_those_of_the_mixins() -> None:
    rules = [rule for group in prometheus_rule.groups() for rule in group["rules"]]
    assert {rule["labels"]["severity"] for rule in rules} == set(prometheus_rule.SEVERITIES)
    for rule in rules:
        assert set(rule["labels"]) == {"severity"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert "\n" not in rule["annotations"]["summary"]


def ran(*words: str | Path) -> tuple[int, str]:
    command = (sys.executable, "-m", "dashboards.prometheus_rule", *words)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


RULE: dict[str, Any] = {
    "alert": "A",
    "expr": "up == 0",
    "labels": {"severity": "critical"},
    "annotations": {"summary": "s", "description": "d"},
}
BAD = [
    # the file, what is said of it
    ("groups: [", "1: expected the node content"),
    ("groups: 3", "groups: a list of groups is wanted"),
    ("groups: [{name: a}]", "groups: each is a name and a list of rules"),
    (json.dumps({"groups": [{"name": "a", "rules": [3]}]}), "a, rule 1: not a rule"),
    (
        json.dumps({"groups": [{"name": "a", "rules": [RULE | {"labels": {"severity": "page"}}]}]}),
        "A: severity is one of",
    ),
    (json.dumps({"groups": [{"name": "a", "rules": [RULE | {"annotations": {"summary": "s"}}]}]}), "A: no description"),
    (
        json.dumps(
            {"groups": [{"name": "a", "rules": [RULE | {"annotations": {**RULE["annotations"], "runbook_url": "x"}}]}]}
        ),
        "A: runbook_url is added",
    ),
]


@pytest.mark.parametrize(("text", "told"), BAD, ids=[told for _, told in BAD])
def test_bad_rules_give_one_line_and_2_and_write_nothing(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(text)
    code, said = ran("--rules", file, "--into", tmp_path / "out")
    assert (code, len(said.splitlines())) == (2, 1), said
    assert told in said
    assert str(file) in said
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there_gives_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    assert ran("--monitor", missing, "--into", tmp_path) == (2, f"{missing}: No such file or directory\n")
    (tmp_path / "monitor.yaml").write_text("kind: PodMonitor\nspec: {selector: {}}\n")
    code, said = ran("--monitor", tmp_path / "monitor.yaml", "--into", tmp_path)
    assert (code, said.count("\n")) == (2, 1), said


def test_whoever_publishes_the_runbooks_names_their_place(tmp_path: Path) -> None:
    assert ran("--runbooks", "https://wiki.example.com/np/", "--into", tmp_path) == (0, "")
    written = (tmp_path / "dashboards/plain/rules.yaml").read_text()
    assert "runbook_url: https://wiki.example.com/np/docs/runbooks/alerts/NodeprepGone.md" in written
    assert ".invalid" not in written


def test_each_dashboard_becomes_a_config_map_that_the_sidecar_finds(tmp_path: Path) -> None:
    (tmp_path / "dashboards").mkdir()
    for name in ("nodeprep-node.json", "nodeprep-fleet.json", "other.json"):
        (tmp_path / "dashboards" / name).write_text("{}")
    assert ran("--into", tmp_path) == (0, "")
    made = yaml.safe_load((tmp_path / "dashboards/kustomization.yaml").read_text())
    assert [one["files"] for one in made["configMapGenerator"]] == [["nodeprep-fleet.json"], ["nodeprep-node.json"]]
    assert made["generatorOptions"]["labels"]["grafana_dashboard"] == "1"
    assert made["generatorOptions"]["disableNameSuffixHash"] is True
