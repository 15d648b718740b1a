"""Writes docs/configuration.md from the table of keys: `make docs`; tests/config/test_keys.py proves it current."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nodeprep.config import agent_settings, written
from nodeprep.config.configuration import DEFAULT_FILE, Settings
from nodeprep.config.keys import KEYS, ConfigKey
from nodeprep.config.waiver_rules import Waiver
from nodeprep.facts import ALL as FACTS
from nodeprep.values import field_defaults

TARGET = Path(__file__).with_name("configuration.md")
EXAMPLE = """\
apiVersion: nodeprep.io/v1
kind: Config
mode: gate
default: auto
assign:
  - match: {node.kubernetes.io/instance-type: "ecs.ebmgn*"}     # a glob of the label's value
    use: [rdma-erdma-gpu]
  - match: {rack: "h100-*", nvidia.com/gpu.present: "true"}     # all of them
    use: [rdma-infiniband]
    expect: h100.yaml                                           # nodeprep profile capture -o h100.yaml
want:
  port.mtu: {at-least: 4200}
waivers:
  - {check: pci.link, device: "0000:5c:00.0", nodes: ["gpu-1*"], until: YYYY-MM-DD, reason: "riser on order, T-4711"}
gate:
  profiles: ["rdma*", mpijob-exclusive-eni]
  effect: PreferNoSchedule
confirmation:
  fast: {fails: 2, of: 3}
  pass-span: 60
every: {counters: 30, os-network: 120}
metrics: {bind: 127.0.0.1, port: 9842}
"""
INTRODUCTION = f"""\
# Configuration

Written by `make docs` from the table of keys; do not edit. One YAML file serves `nodeprep check` and `nodeprep agent`:
`--config FILE`, or {DEFAULT_FILE} if it is there. Without a file every key has its default; `check` alone
does not look at the agent's keys, and still refuses a file in which one of them is wrong.

    nodeprep config init -o config.yaml       # every key at its default, with what it means
    nodeprep config validate config.yaml      # sound, or one line that names file, line and key
    nodeprep config show config.yaml          # what it comes to

```yaml
{EXAMPLE}```

`h100.yaml` and YYYY-MM-DD are to be yours. Times are plain numbers of seconds. Globs know `*`, `?` and `[...]`, and
tell upper from lower case. Files are found beside this one. Every profile and file that is named is read with the
configuration, on every node, whichever rule will match there: one that is missing or wrong spoils it as a wrong key
does.

**In a cluster a change is a rollout** ([upgrade.md](upgrade.md#the-configuration)). If the file changes under a running
agent, only a lower `mode` and new `waivers` hold at once, and the rest from the agent's next start.

**Reload.** On other hosts the agent reads the file again when it changes and on SIGHUP. A verdict that changed with it,
and not with what was seen, closes no gate for 10 minutes. If the new one cannot be meant, the old one holds on; the
log, the metric `nodeprep_config_ok` and the message of TrainingReady say so. "Reload" below is what a new value does in
a running agent. A restart opens no gate: what was proven in this boot is remembered, and all else has to be proven.

**Which profiles a node has.** Rules of `assign` are tried in order and the first that matches holds; a node that none
matches has `default`. Where a rule with `match` comes first and the node's labels cannot be had (no access to the API,
no answer), the profiles that were last in force hold on, and the agent says so; where it remembers none, nothing opens.
Whenever a profile is new to the node, or asks for other gates than before, its gates have to pass anew.

**Names.** Those of the two taints and of the RDMA label are keys of `gate` below; condition types, the labels
`nodeprep.io/*`, annotations and the Lease have the same names everywhere ([security.md](security.md#other-names)).

**Mode `repair`** acts as `gate`, and has the remediator of `daemonset/components/repair` mend what is believed. It
closes the gate first, and gives a node back when its own checks pass ([repair.md](repair.md)). No key shortens these
waits: a fault is believed for 30 s, the taint stands for 10 s, and the checks pass for 30 s.
"""
HEAD = ("| key | wanted | default | unit | meaning | reload |", "|---|---|---|---|---|---|")
DEFAULTS_OF_ITEMS = {"assign[].match": "every node", "assign[].use": "required", "assign[].expect": "none"}
REQUIRED = {"apiVersion", "kind"}


def page() -> str:
    """The whole of docs/configuration.md."""
    return "\n".join([INTRODUCTION, *_keys(), *_facts()]) + "\n"


def _keys() -> Iterator[str]:
    groups = dict.fromkeys(_group(key) for key in KEYS)
    for group in groups:
        yield from ("", f"## {group}", "", *HEAD)
        for key in KEYS:
            if _group(key) == group:
                told = (key.kind.says, f"`{default(key)}`", key.kind.unit, key.meaning, key.reload)
                yield f"| `{key.path}` | {' | '.join(map(_cell, told))} |"


def _group(key: ConfigKey) -> str:
    """The keys with something below them have a table of their own."""
    first = key.path.partition(".")[0].removesuffix("[]")
    has_parts = any(other.path.startswith((f"{first}.", f"{first}[]")) for other in KEYS)
    return first if has_parts else "The whole"


def default(key: ConfigKey) -> str:
    """What holds where the file does not say."""
    if key.path in REQUIRED:
        return "required"
    if key.path.startswith("waivers[]."):
        defaults, name = field_defaults(Waiver), key.path.partition(".")[2]
        return json.dumps(defaults[name]) if name in defaults else "required"
    if key.path in DEFAULTS_OF_ITEMS:
        return DEFAULTS_OF_ITEMS[key.path]
    value: Any = written.written(Settings())
    for name in key.path.split("."):
        value = value[name]
    return value if isinstance(value, str) else json.dumps(value)


def _facts() -> Iterator[str]:
    yield from (
        "",
        "### Facts and their periods",
        "",
        "| fact | period in seconds | woken by | at least |",
        "|---|---|---|---|",
    )
    for fact in FACTS:
        woken = ", ".join(sorted(fact.woken_by)) or "nothing: by the clock alone"
        period = f"{fact.every:g}" + (f"; {fact.every_heard:g} while it is woken" if fact.every_heard else "")
        yield f"| `{agent_settings.fact_name(fact)}` | {period} | {woken} | {max(0.5, fact.rest):g} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    TARGET.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
