"""The import contracts hold, and each of them fails if an import breaks it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
import tomllib

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
# Packages that only decide; the contract can name a package only when it exists.
PURE = (
    "values",
    "pattern",
    "link_layers",
    "redaction",
    "log_speakers",
    "shown",
    "model",
    "door_values",
    "codec",
    "typed_yaml",
    "job_profile",
    "agent_state",
    "facts",
    "checks",
    "decide",
    "history",
    "jobs",
)

PLANTED = [
    # changed file                   planted line                                 the contract that fails
    ("values.py", "import nodeprep.shown", "layers"),
    ("codec.py", "import msgspec", "one-door"),
    ("door_values.py", "import nodeprep.doors.netlink", "layers"),
    ("agent/loop.py", "from dataclasses import field", "one-door"),
    ("model.py", "import nodeprep.codec", "layers"),
    ("model.py", "import nodeprep.doors.files.reader", "layers"),
    ("job_profile.py", "import nodeprep.facts", "layers"),
    ("typed_yaml.py", "import nodeprep.job_profile", "layers"),
    ("typed_yaml.py", "import yaml", "pure"),
    ("doors/files/reader.py", "import nodeprep.checks", "layers"),
    ("checks/__init__.py", "import nodeprep.check_round", "layers"),
    ("config/yaml_document.py", "import nodeprep.check_round", "layers"),
    ("profile_selection.py", "import nodeprep.assessment", "layers"),
    ("round.py", "import nodeprep.config", "layers"),
    ("round.py", "import nodeprep.cli", "layers"),
    ("utils.py", "", "layers"),
    ("facts/planted.py", "import nodeprep.doors.files.reader", "pure"),
    ("facts/planted.py", "def late():\n    from nodeprep.doors import node_host", "pure"),
    ("job_profile.py", "from pathlib import Path\nimport io", "pure"),
    ("codec.py", "import yaml", "pure"),
    ("checks/__init__.py", "import time", "pure"),
    ("checks/port/planted.py", "import nodeprep.checks.pci.planted", "families"),
    ("cli/planted.py", "import pyroute2", "one-door"),
    ("doors/node_host.py", "from pyroute2 import IPRoute", "one-door"),
    ("doors/planted.py", "import kubernetes", "one-door"),
    ("doors/http/imds.py", "import h11", "one-door"),
    ("doors/kube/requests.py", "def late():\n    import ssl", "one-door"),
    ("doors/grpc/grpc_socket.py", "def late():\n    import h2.connection", "one-door"),
    ("doors/socket_probe.py", "import h2", "one-door"),
    ("facts/planted.py", "import h11", "pure"),
    ("round.py", "import time", "one-door"),
    ("__main__.py", "import typer", "one-door"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "agent", tmp_path / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def broken(tree: Path) -> list[str]:
    """The ids of the contracts that do not hold in a tree."""
    command = (str(Path(sys.executable).with_name("lint-imports")), "--no-cache")
    environment = {**os.environ, "PYTHONPATH": "agent", "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    ids = [name for name, contract in CONTRACTS.items() if f"{contract['name']} BROKEN" in done.stdout]
    kept = [name for name, contract in CONTRACTS.items() if f"{contract['name']} KEPT" in done.stdout]
    assert len(ids) + len(kept) == len(CONTRACTS), done.stdout + done.stderr
    assert bool(ids) == bool(done.returncode)
    return ids


def test_the_tree_as_it_is_keeps_every_contract(tree: Path) -> None:
    assert broken(tree) == []


@pytest.mark.parametrize(("file", "line", "contract"), PLANTED)
def test_a_crossing_is_stopped(tree: Path, file: str, line: str, contract: str) -> None:
    package = tree / "agent/nodeprep"
    (package / "checks/pci/planted.py").write_text("")
    with (package / file).open("a") as touched:
        touched.write(f"\n{line}\n")
    assert contract in broken(tree)


def test_an_import_for_the_type_checker_crosses_nothing(tree: Path) -> None:
    lines = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nodeprep.doors.node_host import Host\n"
    (tree / "agent/nodeprep/facts/planted.py").write_text(lines)
    assert broken(tree) == []


def test_what_only_thinks_is_named_by_its_contract_as_soon_as_it_exists() -> None:
    package = ROOT / "agent/nodeprep"
    there = {f"nodeprep.{name}" for name in PURE if (package / f"{name}.py").exists() or (package / name).exists()}
    assert set(CONTRACTS["pure"]["source_modules"]) == there


def test_every_library_in_use_has_a_door() -> None:
    graph = grimp.build_graph("nodeprep", include_external_packages=True, cache_dir=None)
    outside = {name for name in graph.modules if name.partition(".")[0] != "nodeprep"} - sys.stdlib_module_names
    assert outside <= set(CONTRACTS["one-door"]["forbidden_modules"])
