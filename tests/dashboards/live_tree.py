"""A built tree that an agent takes for its live host, and the agent's configuration for tests of the boards."""

from __future__ import annotations

import json
from pathlib import Path

from tests.rigs import trees

BOOT_ID = "proc/sys/kernel/random/boot_id"
# Facts that a tree has. Its links are not those of the kernel that runs here, which netlink asks.
PROFILE = """\
apiVersion: nodeprep.io/v1
kind: Profile
name: rails
gates: [pci.expected-nic, pci.driver-bound, module.core, rdma.verbs-class, port.present, port.state, port.rate]
"""
CONFIG = {
    "apiVersion": "nodeprep.io/v1",
    "kind": "Config",
    "mode": "gate",
    "default": "rails.yaml",
    "gate": {"profiles": ["*"]},
    # Only so that a gate opens after seconds: no board is about these times.
    "confirmation": {"passes": 2, "pass-span": 2, "pass-every": 0.5},
}


def build(name: str, root: Path) -> Path:
    """A node or a case of tests/trees, with this machine's boot."""
    tree = trees.build(name, root) if name in trees.names() else trees.build_case(name, root)
    for path, text in {BOOT_ID: Path(f"/{BOOT_ID}").read_text(), "proc/1/stat": "1 (init) S 0 1 1 0 -1\n"}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    return tree


def configuration() -> str:
    return json.dumps(CONFIG)
