"""Every block of YAML in the documentation is what it seems to be: it is read as its user would have it read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep.config import configuration, keys, profile_files
from tests.config_files import CAPTURED

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "daemonset/**/*.md", "playbooks/*.md", "proofs/*.md")
FENCE = re.compile(r"(?ms)^```yaml\n(.*?)^```$")
KUSTOMIZE = {"resources", "components", "images", "configMapGenerator", "patches", "labels"}
# Parts of what others read, by their first key: they only have to be YAML.
PARTS = {"affinity", "env", "initContainers", "metadata", "resources", "rules", "scrape_configs"}
# Files that tests elsewhere read: a play, and the parts of a tree.
ELSEWHERE = {"playbooks/README.md": "tests/playbooks/test_contract.py", "docs/architecture.md": "tests/rigs/trees.py"}
CONFIG = "apiVersion: nodeprep.io/v1\nkind: Config\n"
PROFILE = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: part\n"


def blocks() -> list[tuple[str, str]]:
    """The page and the text of each document."""
    files = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)} - {ROOT / "docs/install.template.md"})
    return [
        (str(path.relative_to(ROOT)), document)
        for path in files
        for found in FENCE.finditer(path.read_text())
        for document in found[1].split("---\n")
    ]


BLOCKS = blocks()


def test_there_are_many() -> None:
    assert len(BLOCKS) > 30


@pytest.mark.parametrize(("page", "text"), BLOCKS, ids=lambda one: one[:40])
def test_a_block_is_read(page: str, text: str, tmp_path: Path) -> None:
    soon = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%d")
    text = text.replace("YYYY-MM-DD", soon)
    loaded = yaml.safe_load(text)
    if not isinstance(loaded, dict):
        assert page in ELSEWHERE
        return
    kind = loaded.get("kind")
    if kind == "Kustomization" or (kind is None and KUSTOMIZE & loaded.keys() and "limits" not in text):
        assert not missing(loaded), page
    elif kind == "Config" or (kind is None and loaded.keys() <= set(keys.children())):
        (tmp_path / "h100.yaml").write_text(CAPTURED)
        (tmp_path / "config.yaml").write_text(text if kind else CONFIG + text)
        configuration.load_settings(str(tmp_path / "config.yaml"), datetime.now(UTC).strftime("%Y-%m-%d"))
    elif kind == "Profile" or (kind is None and loaded.keys() <= {"expect", "want", "gates", "extends", "exclude"}):
        (tmp_path / "own.yaml").write_text(text if kind else PROFILE + text)
        profile_files.validate(str(tmp_path / "own.yaml"))
    elif kind is None:
        assert next(iter(loaded)) in PARTS or page in ELSEWHERE, f"{page}: what is this for? {text[:60]}"
    else:
        assert loaded["apiVersion"]


def missing(kustomization: dict[str, Any]) -> list[str]:
    """The paths of our checkout that it names and that are not there."""
    named = [*kustomization.get("resources", ()), *kustomization.get("components", ())]
    named += [one["path"] for one in kustomization.get("patches", ()) if "path" in one]
    ours = [one.removeprefix("nodeprep/") for one in named if str(one).startswith("nodeprep/")]
    return [one for one in ours if not (ROOT / one).exists()]
