"""The alerts of docs/metrics.md: Prometheus' own tool takes them, each fires, and each is still where all is well."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs import metrics as page
from nodeprep.publish import series
from tests.rigs.absent import cannot_start

HERE = Path(__file__).resolve().parent
RULES: list[dict[str, Any]] = yaml.safe_load(page.ALERTS.read_text())["groups"][0]["rules"]
TESTS: list[dict[str, Any]] = yaml.safe_load((HERE / "alerts_test.yaml").read_text())["tests"]
NAMES = sorted(rule["alert"] for rule in RULES)


@pytest.mark.parametrize("asked", [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")])
def test_promtool_is_content(asked: tuple[str, ...]) -> None:
    if shutil.which("promtool") is None:
        cannot_start("no promtool on PATH: apt-get install prometheus")
    done = subprocess.run(["promtool", *asked], cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_in_a_test_and_is_still_in_another() -> None:
    asked = [one for test in TESTS for one in test["alert_rule_test"]]
    assert sorted({one["alertname"] for one in asked if one.get("exp_alerts")}) == NAMES
    assert sorted({one["alertname"] for one in asked if not one.get("exp_alerts")}) == NAMES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_series_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    known = {one.name: {*one.labels, "job", "instance"} for one in series.ALL} | {"up": {"job", "instance"}}
    asked = re.findall(r"\b(up|nodeprep_\w+)\b(?:\{([^}]*)\})?", rule["expr"])
    assert asked
    for name, matchers in asked:
        assert name in known
        assert set(re.findall(r"(\w+)\s*=", matchers)) <= known[name]
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert shown <= set.union(*(known[name] for name, _ in asked))


def test_the_page_has_the_rules_as_they_are_tested() -> None:
    assert page.ALERTS == HERE / "alerts.yaml"
    text = (HERE.parent.parent / "docs" / "metrics.md").read_text()
    assert f"```yaml\n{page.ALERTS.read_text()}```" in text
