"""The wheel has the playbooks, and asks for Ansible only with the extra `repair`."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out))
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = out.glob("*.whl")
    return zipfile.ZipFile(made)


def test_it_has_every_playbook_byte_by_byte(wheel: zipfile.ZipFile) -> None:
    here = {
        str(path.relative_to(ROOT)): path.read_bytes() for path in (ROOT / "playbooks").rglob("*") if path.is_file()
    }
    there = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("nodeprep/playbooks/")}
    assert here
    assert there == {f"nodeprep/{name}": content for name, content in here.items()}


def test_it_asks_for_ansible_only_with_the_extra(wheel: zipfile.ZipFile) -> None:
    (path,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    wanted = [Requirement(text) for text in message_from_bytes(wheel.read(path)).get_all("Requires-Dist", [])]
    plain, repair = (
        {one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": extra})}
        for extra in ("", "repair")
    )
    assert repair - plain == {"ansible-core", "ansible-runner"}
    assert "typer" in plain
