"""`nodeprep wait-ready` as an init container runs it: exit codes, words, and that it ends when told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli.daemon import wait_ready
from nodeprep.publish.gate_files import GateFiles
from tests.cli.program import NODEPREP, nodeprep
from tests.rigs.ending import ending

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def asked(profile: str, stage: str, timeout: str | None = None, run_dir: object = None) -> tuple[str, ...]:
    options = (("--profile", profile), ("--stage", stage), ("--timeout", timeout), ("--run-dir", run_dir))
    return ("wait-ready", *(f"{option}={value}" for option, value in options if value is not None))


def waited(*arguments: Any, **environment: str) -> tuple[int, str]:
    """Its exit code and what it says; it says nothing on stdout."""
    done = nodeprep(*asked(*arguments), **environment)
    assert done.stdout == ""
    return done.returncode, done.stderr


def disturbed(act: Callable[[subprocess.Popen[str]], object], *arguments: Any) -> tuple[int, str]:
    """The same, if `act` follows as soon as it has said for what it waits."""
    words = (NODEPREP, *asked(*arguments))
    with ending(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            first = process.stderr.readline()
            act(process)
            code = process.wait(timeout=240)
            rest = process.stderr.read()
            assert process.stdout.read() == ""
        finally:
            process.kill()
    assert first.startswith("waiting for ")
    return code, first + rest


def open_(directory: Path, *gates: tuple[str, str], boot_id: str = BOOT) -> None:
    assert GateFiles(str(directory)).open(gates, boot_id=boot_id, node_uid="", version="1") == ""


def test_an_open_gate_is_0_at_once_and_silent(tmp_path: Path) -> None:
    open_(tmp_path, ("rdma-roce", "device"), ("odd name/", "ready"))
    assert waited("rdma-roce", "device", None, tmp_path) == (0, "")
    assert waited("rdma-roce", "device", "0", tmp_path) == (0, "")
    assert waited("rdma-roce", "device", NODEPREP_RUN_DIR=str(tmp_path)) == (0, "")
    assert waited("rdma-roce", "device", None, tmp_path, NODEPREP_RUN_DIR="/nowhere") == (0, "")
    assert waited("odd name/", "ready", "0", tmp_path) == (0, "")


def test_a_gate_that_is_not_open_is_1_and_says_what_is_in_the_way(tmp_path: Path) -> None:
    open_(tmp_path, ("rdma-roce", "device"))
    file = f"{tmp_path}/rdma-roce.ready of this boot"
    assert waited("rdma-roce", "ready", "0", tmp_path) == (
        1,
        f"not open now: {file}: no such file; see nodeprep check --profile rdma-roce on the node\n",
    )
    open_(tmp_path, ("rdma-roce", "ready"), boot_id="another")
    code, words = waited("rdma-roce", "ready", "0", tmp_path)
    assert (code, words.startswith(f"not open now: {file}: it is of another boot (another, since 20")) == (1, True)
    code, words = waited("rdma-roce", "device", "0", tmp_path / "nowhere")
    assert (code, "no such directory; see nodeprep check" in words) == (1, True)


OPEN_HERE = [
    # gates that are open           asked for       says
    ((), "rdma-roce", "no such file; open here: none;"),
    ((("rdma-roce", "device"),), "rdma-rcoe", "no such file; open here: rdma-roce.device; nearest: rdma-roce"),
    ((("b", "ready"), ("b", "device"), ("a/", "ready")), "c", "; open here: a%2F.ready, b.device, b.ready;"),
    (tuple((f"p{number}", "ready") for number in range(8)), "c", ", p4.ready, p5.ready and 2 more;"),
]


@pytest.mark.parametrize(("gates", "profile", "says"), OPEN_HERE)
def test_a_profile_of_which_nobody_here_has_heard_is_told_what_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gates: tuple[tuple[str, str], ...], profile: str, says: str
) -> None:
    open_(tmp_path, *gates)
    open_(tmp_path, ("old", "ready"), boot_id="another")
    assert wait_ready.wait(str(tmp_path), profile, "ready", BOOT, 0.1) == 1
    first, last = capsys.readouterr().err.splitlines()
    assert says in first
    assert says in last


def test_one_of_which_there_was_a_file_is_no_typing_error(tmp_path: Path) -> None:
    open_(tmp_path, ("rdma-roce", "device"), boot_id="another")
    open_(tmp_path, ("base", "ready"))
    file = tmp_path / "rdma-roce.device"
    code, words = disturbed(lambda _: file.unlink(), "rdma-roce", "ready", "3s", tmp_path)
    assert (code, "\nnot open after " in words, "open here" in words) == (1, True, False)


def test_it_waits_as_long_as_it_was_told(tmp_path: Path) -> None:
    started = time.monotonic()
    code, words = waited("rdma-roce", "ready", "1.2s", tmp_path)
    took = time.monotonic() - started
    assert took >= 1.2
    assert code == 1
    first, last = words.splitlines()
    assert first == (
        f"waiting for {tmp_path}/rdma-roce.ready of this boot: no such file; open here: none; "
        "the agent writes it when its checks have passed"
    )
    told = re.match(r"not open after (\d+) s: ", last)
    assert told
    assert 1 <= int(told[1]) < took + 1


def test_it_says_again_and_again_what_it_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["waiting", "waiting", "waiting", "not"]
    said: list[str] = []
    for _ in range(3):
        assert wait_ready.wait(str(tmp_path), "rdma-roce", "ready", BOOT, 2.6, reminder=1.0) == 1
        said = [line.partition(" ")[0] for line in capsys.readouterr().err.splitlines()]
        if said == wanted:  # else the machine may have stood still for a while, which makes it skip one
            break
    assert said == wanted


def test_a_gate_that_opens_ends_the_wait(tmp_path: Path) -> None:
    place = tmp_path / "made/later"
    code, words = disturbed(lambda _: open_(place, ("rdma-roce", "ready")), "rdma-roce", "ready", None, place)
    assert (code, len(words.splitlines())) == (0, 1)
    assert "no such directory" in words


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("rdma-roce", "node"), "--stage 'node': wanted device or ready\n"),
        (("rdma-roce", "Ready"), "--stage 'Ready': wanted device or ready\n"),
        (("rdma-roce", "ready", "soon"), "--timeout: found 'soon', wanted seconds, or a number with s, m or h"),
        (("rdma-roce", "ready", "-1"), "--timeout: found '-1'"),
        (("rdma-roce", "ready", "0", "/dev/null"), "--run-dir '/dev/null' is not a directory; wanted the one that the"),
        (("", "ready"), "--profile '': found no name, wanted that of a profile"),
    ],
)
def test_wrong_use_is_2(arguments: tuple[str, ...], says: str) -> None:
    code, words = waited(*arguments)
    assert (code, words.startswith(says), len(words.splitlines())) == (2, True, 1)


def test_a_file_in_the_directorys_place_is_told_as_soon_as_it_is_there(tmp_path: Path) -> None:
    place = tmp_path / "run"
    code, words = disturbed(lambda _: place.write_text(""), "rdma-roce", "ready", "60s", place)
    assert (code, words.splitlines()[-1].startswith("--run-dir")) == (2, True)


def test_sigterm_ends_it_at_once_with_143(tmp_path: Path) -> None:
    code, _ = disturbed(lambda process: process.send_signal(signal.SIGTERM), "rdma-roce", "ready", None, tmp_path)
    # A process that a signal killed has a negative code: the first one of a container would not even have ended.
    assert code == 143


def test_it_imports_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    open_(tmp_path, ("rdma-roce", "device"))
    command = (sys.executable, "-X", "importtime", "-m", "nodeprep", *asked("rdma-roce", "device", None, tmp_path))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    heavy = (
        "yaml",
        "pyroute2",
        "nodeprep.facts",
        "nodeprep.checks",
        "nodeprep.check_round",
        "nodeprep.config",
        "hashlib",
    )
    assert "nodeprep.publish.gate_files" in modules
    assert not [one for one in heavy if one in modules]
