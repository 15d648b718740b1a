"""What tests of repairs share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of a node with a kubelet and containerd."""
    for directory in ("proc/1", "var/lib/kubelet/pod-resources", "run/containerd"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text("1 (init) S")
    return tmp_path
