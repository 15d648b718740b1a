"""`-o FILE` of all commands that have it: what is there stays, unless --force replaces it."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import NODEPREP, node, nodeprep

WRITERS = [
    # words                                          first words of what is written
    (("profile", "capture", "--root", "NODE"), "apiVersion: nodeprep.io/v1"),
    (("snapshot", "--root", "NODE"), "{"),
    (("config", "init"), "# "),
]
NAMES = ["capture", "snapshot", "init"]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(node("h100-flat", tmp_path))


def words_of(words: tuple[str, ...], root: str) -> tuple[str, ...]:
    return tuple(root if word == "NODE" else word for word in words)


@pytest.mark.parametrize(("words", "begins"), WRITERS, ids=NAMES)
def test_a_file_that_is_there_is_replaced_with_force_alone(
    words: tuple[str, ...], begins: str, root: str, tmp_path: Path
) -> None:
    file = tmp_path / "out"
    file.write_text("mine\n")
    done = nodeprep(*words_of(words, root), "-o", str(file))
    says = f"{file}: it exists already, and nothing is overwritten without --force\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)
    assert file.read_text() == "mine\n"
    assert nodeprep(*words_of(words, root), "-o", str(file), "--force").returncode == 0
    assert file.read_text().startswith(begins)


@pytest.mark.parametrize(("words", "begins"), WRITERS, ids=NAMES)
def test_a_pipe_and_stdout_are_written_to(words: tuple[str, ...], begins: str, root: str, tmp_path: Path) -> None:
    called = (NODEPREP, *words_of(words, root), "-o", "/dev/stdout")
    piped = subprocess.run(called, capture_output=True, text=True, check=False)
    with (tmp_path / "redirected").open("w") as file:
        redirected = subprocess.run(called, stdout=file, stderr=subprocess.DEVNULL, check=False)
    assert (piped.returncode, redirected.returncode) == (0, 0), piped.stderr
    assert piped.stdout.startswith(begins)
    assert (tmp_path / "redirected").read_text().startswith(begins)


def test_what_is_there_is_told_before_the_node_is_judged(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine\n")
    done = nodeprep("profile", "capture", "--root", str(tmp_path / "nowhere"), "-o", str(tmp_path / "out"))
    assert "it exists already" in done.stderr


def test_a_snapshot_that_is_replaced_is_its_owners_alone(root: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("mine\n")
    file.chmod(0o644)
    assert nodeprep("snapshot", "--root", root, "-o", str(file), "--force").returncode == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
