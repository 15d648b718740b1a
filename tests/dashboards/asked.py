"""The boards as they are committed, and their questions with Grafana's variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dashboards import generate

BOARDS: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text()) for path in generate.texts()}
PANELS = [panel for board in BOARDS.values() for panel in board["panels"]]
# What Grafana puts in the place of its own variable, where a scrape is a minute.
GRAFANA = {"$__rate_interval": "5m"}
NONE: Mapping[str, str] = {}
EVERYTHING = ".*"  # of a variable at "All"


def title(panel: dict[str, Any]) -> str:
    return str(panel["title"])


def panel(board: str, title: str) -> dict[str, Any]:
    (found,) = (one for one in BOARDS[board]["panels"] if one["title"] == title)
    return dict(found)


def expressions(panel: dict[str, Any], **variables: str) -> list[str]:
    """As Prometheus gets them; a variable that is not given is at "All"."""
    return [substituted(target["expr"], variables) for target in panel["targets"]]


def substituted(expression: str, variables: Mapping[str, str] = NONE, hours: float = 6) -> str:
    """An expression as Prometheus gets it, on a board of so many hours."""
    for name, value in (*GRAFANA.items(), ("$__range", f"{hours * 3600:.0f}s")):
        expression = expression.replace(name, value)
    return re.sub(r"\$([a-z]\w*)", lambda match: variables.get(match[1], EVERYTHING), expression)


def legend(text: str, labels: dict[str, str]) -> str:
    """A legend as Grafana writes it."""
    if text == "__auto":
        return str(sorted(labels.items()))
    return re.sub(r"\{\{ *(\w+) *\}\}", lambda match: labels.get(match[1], ""), text)
