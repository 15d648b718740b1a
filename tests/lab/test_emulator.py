"""The QEMU of the lab: a new one, wherever it comes from; and this machine's own where no newer one can be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.rigs import lab_emulator
from tests.rigs.lab_emulator import PROGRAM, WANTED

PROGRAM_OF_RIG = lab_emulator.__file__


def test_guests_run_on_a_new_one() -> None:
    said = subprocess.run((*lab_emulator.words(), "--version"), capture_output=True, text=True, check=True).stdout
    assert int(said.split("version ")[1].split(".")[0]) >= WANTED


def test_it_is_kept() -> None:
    """A second process fetches nothing: it says nothing, and names the same."""
    here = subprocess.run((sys.executable, PROGRAM_OF_RIG), capture_output=True, text=True, check=True)
    assert here.stdout.split() == list(lab_emulator.words())
    assert here.stderr == ""


def test_without_a_source_guests_have_this_machines(tmp_path: Path) -> None:
    (tmp_path / "apt.conf").write_text(f'Dir::Etc::sourcelist "{tmp_path}/none";\nDir::Etc::sourceparts "-";\n')
    alone = {**os.environ, "APT_CONFIG": str(tmp_path / "apt.conf"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run((sys.executable, PROGRAM_OF_RIG), env=alone, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [PROGRAM]
    if lab_emulator.installed_version() < WANTED:
        assert "half as fast" in done.stderr
        assert "no source of Debian's own packages" in done.stderr
