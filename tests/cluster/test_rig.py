"""The rig itself: it ends with the command's code, and leaves nothing behind, however it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs import cluster as rig
from tests.rigs.ending import ending
from tests.rigs.waiting import until

RUN = (sys.executable, str(Path(rig.__file__)), "run", "--")


def programs(directory: str) -> list[int]:
    """The processes whose command names this rig's directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if directory.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return found


@pytest.mark.usefixtures("cluster")  # so that there is a program
def test_the_commands_code_is_its_own() -> None:
    done = subprocess.run((*RUN, "sh", "-c", 'echo "$KUBECONFIG"; exit 7'), capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    directory = Path(done.stdout.strip()).parent
    assert not directory.exists()
    assert programs(str(directory)) == []


@pytest.mark.usefixtures("cluster")
def test_nothing_outlives_one_that_is_killed() -> None:
    with ending(
        subprocess.Popen((*RUN, "sh", "-c", 'echo "$KUBECONFIG"; sleep 5'), stdout=subprocess.PIPE, text=True)
    ) as ours:
        assert ours.stdout is not None
        directory = str(Path(ours.stdout.readline().strip()).parent)
        try:
            assert len(programs(directory)) == 3  # the third clears up
        finally:
            ours.kill()
    until(lambda: programs(directory) == [] and not Path(directory).exists(), "an end without a trace")
