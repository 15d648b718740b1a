"""Writes docs/metrics.md from the tables of publish: `make docs`; tests/publish/test_metrics.py proves it current."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from docs import runbooks
from nodeprep.agent_state import NodeState
from nodeprep.decide.attempt_steps import AttemptStep
from nodeprep.decide.repair_approach import ApproachStep
from nodeprep.decide.repair_budget import AttemptOutcome
from nodeprep.publish import metrics, series, transition_totals
from nodeprep.publish.web import CLIENTS_LIMIT, PORT, REQUEST_TIMEOUT_SECONDS

TARGET = Path(__file__).with_name("metrics.md")
ALERTS = Path(__file__).resolve().parent.parent / "dashboards" / "rules.yaml"
INTRODUCTION = f"""\
# Metrics and pages

Written by `make docs` from the code. Do not edit.

The agent listens on 127.0.0.1, port {PORT}, unless `metrics.bind` and `metrics.port` say otherwise
([configuration.md](configuration.md)): for a Prometheus elsewhere see [prometheus.md](prometheus.md). A scrape takes
milliseconds, and a node with 8 NICs and 8 GPUs has fewer than 300 series. At most {CLIENTS_LIMIT} clients are served at
once, for {REQUEST_TIMEOUT_SECONDS:g} s each. There is no TLS and no password: nothing here is a secret.

| page | |
|---|---|
| `/metrics` | Prometheus' text format |
| `/healthz` | 200 while the loop turned within three intervals, else 503 and since when: a liveness probe |
| `/readyz` | 200 once every fact was looked at, and nothing holds a rollout up (upgrade.md); else 503 and why |

On the node itself, on the unix socket `agent.sock` in its directory (root only): `GET /report`, what is known of
the node as JSON, `POST /reset`, which starts the node's proof over, and `POST /reset-inventory`, which also forgets
what hardware chose and which devices belong here.

    curl --unix-socket /run/nodeprep-agent/agent.sock http://node/report

| metric | type | labels | |
|---|---|---|---|
"""
NOTES = """
What could not be read has no series: a gap in `nodeprep_port_up` is no port that is down. Alert on what is there
(`== 0`, `status="fail"`); [below](#alerts) are alerts that do.

- **check, status**: `ok`, `warn`, `fail` or `unknown`: the worst of the check's findings that stand for themselves. A
  finding that a waiver excuses, or that follows from another check's failure, does not count: one missing module is one
  failing check. A check that is absent here, or of which nothing counts, has no series. docs/checks.md has them all.
- **profile** is each profile that the node has: a node without one has no `nodeprep_ready`.
- **reason** of `nodeprep_gate_reason` is one word: that of the fault to look at first ([checks.md](checks.md)), or
  `Bootstrap` (gates have yet to pass), `ToBeConfirmed` (just seen to fail), `CannotLook`, `ProfileRefused`, or a state.
  **check** is its check, empty where it is none's. A profile that is not ready has one such series, another has none.
- **drill** is the kind of the drill that made the fault ([drills.md](drills.md)), empty for any other. **device** of
  `nodeprep_drill` is what the drill was ordered for.
- **event_source** is a kernel or file interface that announces changes. A source that this node does not have (no
  ib_core, no right to read the kernel log) has no `nodeprep_event_source_up`: 0 means that it died.
- **verb, code**: one `PATCH` or `POST` a minute with 422 is the agent's test of the admission policy. This denial is
  wanted ([security.md](security.md#the-admission-policy)). `nodeprep_node_ok` tells of others.
- **mounts_ok** is 0 where a taken-over agent could write a mount of the node besides its own three directories
  ([security.md](security.md#what-is-mounted-inside-a-mount)).
- **a counter of repairs or restarts begins with its first one**, which `increase()` does not see. The boards ask for
  `(x unless x offset 1d) or increase(x[1d])`.
- **mode repair**: only there are the histograms of repairs from the first round on.
- **fact** is a name that `every` of [configuration.md](configuration.md) takes.
"""
ALERTING = """
## Alerts

dashboards/rules.yaml has the rules, and [prometheus.md](prometheus.md) says how they come to Prometheus. The job that
scrapes the agents is called `nodeprep` in them. **critical** pages a person now, **warning** is for working hours, and
**info** explains ([0042](adr/0042-what-pages.md)). A node that reboots does not answer: give NodeprepGone more time
than yours take.

| alert | severity | after | |
|---|---|---|---|
"""


def page() -> str:
    """The whole of docs/metrics.md."""
    words = "\n".join((*_table(), NOTES + "\n".join(_values()), ""))
    return f"{INTRODUCTION}{words}{ALERTING}" + "".join(f"{row}\n" for row in _alerts())


def _alerts() -> Iterator[str]:
    """What an alert says stands there with the names of labels in place of their values."""
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            said = re.sub(r"\{\{ (?:or )?\$(?:labels\.)?(\w+)[^}]*\}\}", r"*\1*", rule["annotations"]["summary"])
            # Without `for`, the expression looks back itself.
            after = rule.get("for") or re.findall(r"\[(\w+)\]", rule["expr"])[-1]
            yield f"| `{rule['alert']}` | {rule['labels']['severity']} | {after} | {said} |"


def _table() -> Iterator[str]:
    for one in series.ALL:
        kind = "counter" if one.name.endswith("_total") else "gauge"
        yield f"| `{one.name}` | {kind} | {', '.join(one.labels)} | {one.about} |"
    others = (
        (metrics.RUNS_METRIC, "counter", "remedy, outcome"),
        (metrics.DETECTION_METRIC, "histogram", ""),
        (metrics.CLOSED_METRIC, "histogram", "phase"),
        (metrics.REPAIR_METRIC, "histogram", ""),
        (metrics.BUILD_METRIC, "gauge", "version"),
    )
    for (name, about), kind, labels in others:
        yield f"| `{name}` | {kind} | {labels} | {about} |"
    yield "| `process_*` | | | CPU, memory, open files and start of the process, as Prometheus' clients name them |"


def _values() -> Iterator[str]:
    yield f"- **state** of `nodeprep_state`: {', '.join(f'`{state}`' for state in NodeState)}."
    yield from (runbooks.flowed(f"- {line}") for line in _repairs())
    yield "- **device, port** are the kernel's names; a function that is handed out to pods (a VF) has no series."
    yield "- **kind** sums what a port's counters say of one trouble:"
    for kind, names in series.KINDS.items():
        yield f"  - `{kind}`: {', '.join(names)}"
    yield "- **book**: `hardware` counts the node's devices. `capacity` and `allocatable` are the Node's. `in_use` is"
    yield "  what pods hold by the kubelet's word. A plugin that shares devices offers more units than devices."
    yield "- **resource** has a slash in its name."
    yield "- **state** of `nodeprep_eni`, where the node is an ECS instance whose metadata answers:"
    for state, about in series.ENI_STATES.items():
        yield f"  - `{state}`: {about}"


def _repairs() -> Iterator[str]:
    yield (
        f"**phase**: {_names(transition_totals.ClosurePhase)}: the gate was closed since a start, or because something"
        " failed. It is `repair`, whatever had closed it, if a remedy ran before it opened, also one that did not help."
    )
    yield (
        f"**outcome**: {_names(AttemptOutcome)}. `changed`: another fault is in the way now, so the first part is"
        " mended. Of `refused` nothing ran. `cut-off`: a reset or a reboot came between, or nobody could look. The"
        " histogram of seconds has those that were judged: the first three."
    )
    yield f"**step**: {_names((*ApproachStep, *AttemptStep))}. Nothing acts before `ledger`."
    yield "**reason** of `nodeprep_repair_suppressed_*`: a word of [repair-reasons.md](repair-reasons.md)."


def _names(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def main() -> None:
    TARGET.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
