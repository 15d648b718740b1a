"""Writes agent/nodeprep/config/built_in_profiles.py from agent/nodeprep/profiles: `make docs`."""

from __future__ import annotations

import pprint
from pathlib import Path

from nodeprep.config import yaml_document

PACKAGE = Path(__file__).resolve().parents[1] / "agent/nodeprep"
TARGET = PACKAGE / "config/built_in_profiles.py"
# As messages list them: what any node can have, then what needs a cloud.
ORDER = (
    "base",
    "rdma",
    "rdma-roce",
    "rdma-infiniband",
    "tcp-shared-eni",
    "mpijob-exclusive-eni",
    "mpijob-trunk-eni",
    "rdma-erdma-cpu",
    "rdma-erdma-gpu",
    "rdma-lingjun",
)
HEAD = '''\
"""The profiles of nodeprep/profiles as values: reading ten files of YAML would take 20 ms of each start.

Written by `make docs`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping

# fmt: off
PROFILES: Mapping[str, object] = \\
'''


def page() -> str:
    """The whole module."""
    files = {file.stem: file for file in (PACKAGE / "profiles").glob("*.yaml")}
    if set(files) != set(ORDER):
        raise SystemExit(f"{PACKAGE / 'profiles'}: found {sorted(files)}, wanted those of ORDER: {sorted(ORDER)}")
    values = {name: yaml_document.read(files[name].read_bytes(), str(files[name])).value for name in ORDER}
    return HEAD + pprint.pformat(values, width=116, sort_dicts=False) + "\n"


def main() -> None:
    """Write it."""
    TARGET.write_text(page(), encoding="utf-8")
