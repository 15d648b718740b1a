"""docs/install.md and docs/install-ack.md from one template: the same steps, with what differs on ACK.

A line `@any`, `@ack` or `@both` says for which page the lines after it are.
"""

from __future__ import annotations

from pathlib import Path

TEMPLATE = Path(__file__).with_name("install.template.md")
PAGES = {"any": Path(__file__).with_name("install.md"), "ack": Path(__file__).with_name("install-ack.md")}


def page(kind: str) -> str:
    """The page for "any" cluster or for "ack"."""
    lines, reader = [], "both"
    for line in TEMPLATE.read_text().splitlines():
        if line in ("@any", "@ack", "@both"):
            reader = line[1:]
        elif reader in (kind, "both"):
            lines.append(line)
    return "\n".join(lines) + "\n"
