"""NVIDIA's driver by its version text; samples from drivers of both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import gpu
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.model import Unreadable, raw

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: x"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC version: x"


def look(root: Path, text: str | None) -> GpuDriver:
    if text is not None:
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").write_text(text + "\n")
    return gpu.observe(Host(str(root), live=False))


@pytest.mark.parametrize(("text", "is_open"), [(OPEN, True), (CLOSED, False), (None, False)])
def test_driver(tmp_path: Path, text: str | None, is_open: bool) -> None:
    seen = look(tmp_path, text)
    assert seen.version == text
    assert seen.is_open is is_open


def test_a_version_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia/version").mkdir(parents=True)
    assert isinstance(raw(gpu.observe(Host(str(tmp_path), live=False)))["version"], Unreadable)
