"""A new configuration file: every key at its default, with its meaning above it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from nodeprep.config import agent_settings, keys, written, yaml_document
from nodeprep.config.configuration import Settings
from nodeprep.facts import ALL as FACTS

WIDTH = 100  # columns
HEAD = """\
# The configuration of nodeprep, for `nodeprep check` and `nodeprep agent`. Every key stands at its default, and may go.
# Prove it with: nodeprep config validate FILE
"""
# Examples for keys that are empty by default.
EXAMPLES: Mapping[str, str] = {
    "want": "port.mtu: {at-least: 9000}",
    "waivers": '- {check: pci.link, device: "0000:5c:00.0", nodes: ["gpu-1*"], until: DATE, reason: riser on order}',
    "exclude": '- "/sys/class/infiniband/*/hw_counters/*"',
    "assign": '- {match: {node.kubernetes.io/instance-type: "ecs.ebmgn*"}, use: [rdma-erdma-gpu]}\n- {use: [base]}',
}


def starter() -> str:
    """The text. A node with this file behaves as a node without a file."""
    return "\n".join([HEAD.rstrip("\n"), *_lines("", written.written(Settings()), "")]) + "\n"


def _lines(under: str, values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, key in keys.children(under).items():
        path = f"{under}.{name}" if under else name
        if not under:
            yield ""
        if key is None:
            yield f"{indent}{name}:"
            yield from _lines(path, values[name], f"{indent}  ")
            continue
        yield from _remark(key.meaning, indent)
        yield from _remark(f"Wanted: {key.kind.says}.", indent)
        yield from textwrap.indent(yaml_document.dump({name: values[name]}), indent).splitlines()
        for line in example(path).splitlines():
            yield f"{indent}#  {line}"


def example(path: str) -> str:
    """An example for a key that is empty by default; "" for any other key."""
    if path == "every":
        return "\n".join(f"{agent_settings.fact_name(fact)}: {fact.every:g}" for fact in FACTS)
    return EXAMPLES.get(path, "")


def _remark(text: str, indent: str) -> list[str]:
    prefix = f"{indent}# "
    return textwrap.wrap(text, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)
