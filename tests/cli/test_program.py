"""How tests run `nodeprep`: in a fork that says and does what the program does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.program import NODEPREP, nodeprep
from tests.rigs import fork_server
from tests.rigs.ending import ending
from tests.rigs.waiting import until

WAITS = ("wait-ready", "--profile", "rdma-roce", "--stage", "device", "--run-dir")
OWNER = """
import sys, time
from tests.rigs import fork_server
fork_server.run(("nodeprep", "version"), {}, timeout=60)
print(fork_server.started()[1].pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    "words", [("version",), ("list",), ("explain", "port.state"), ("explain", "nothing"), ("check", "--nothing"), ()]
)
def test_a_fork_says_what_the_program_says(words: tuple[str, ...]) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NODEPREP", "LC_", "NO_COLOR"))}
    program = subprocess.run((NODEPREP, *words), capture_output=True, text=True, check=False, env=clean)
    forked = nodeprep(*words)
    assert (forked.returncode, forked.stdout, forked.stderr) == (program.returncode, program.stdout, program.stderr)


def test_it_has_the_environment_and_the_directory_of_who_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("a: b\n")
    assert "config.yaml:1: a: found 'a'" in nodeprep("config", "show", "config.yaml").stderr
    assert nodeprep("nodes", KUBECONFIG="/nowhere/kubeconfig").stderr.count("/nowhere/kubeconfig") == 1


def test_several_run_at_once() -> None:
    told: list[int] = []

    def run(*words: str) -> None:
        told.append(nodeprep(*words).returncode)

    threads = [Thread(target=run, args=words) for words in (("version",), ("explain", "nothing")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [0] * 4 + [2] * 4


def test_what_does_not_end_is_killed(tmp_path: Path) -> None:
    server = fork_server.started()[1].pid
    with pytest.raises(subprocess.TimeoutExpired):
        fork_server.run((NODEPREP, *WAITS, str(tmp_path)), dict(os.environ), timeout=1.0)
    until(lambda: not Path(f"/proc/{server}/task/{server}/children").read_text(), "the end of what was killed")


def test_the_server_ends_with_its_owner() -> None:
    with ending(subprocess.Popen((sys.executable, "-c", OWNER), stdout=subprocess.PIPE, text=True)) as owner:
        assert owner.stdout is not None
        served = Path("/proc", owner.stdout.readline().strip())
        assert served.exists()
        owner.kill()
    until(lambda: not served.exists(), "the end of the server")
