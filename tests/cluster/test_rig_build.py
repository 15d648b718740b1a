"""What takes minutes on the way to a cluster is never a silent wait: the build, and the wait for another's build."""

from __future__ import annotations

import fcntl
import re
import sys
from pathlib import Path
from threading import Timer

import pytest

from tests.rigs import cache, cluster_build
from tests.rigs.progress import follow

SOUND = 'package main\n\nfunc main() { println("up") }\n'
BROKEN = "package main\n\nfunc main() { missing() }\n"


@pytest.fixture(scope="module")
def go() -> str:
    with cache.locked("controlplane") as directory:
        return cluster_build.compiler(directory)


def module(directory: Path, program: str) -> Path:
    directory.mkdir()
    (directory / "go.mod").write_text("module nodeprep.test/small\n\ngo 1.26.0\n")
    (directory / "main.go").write_text(program)
    return directory


def test_a_build_says_what_and_how_long_and_where(go: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a cache of its own, so that each package is compiled: a matter of 5 s."""
    target = tmp_path / "small-0123.partial"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GOCACHE", str(tmp_path / "cache"))
        cluster_build.build(go, target, source=module(tmp_path / "source", SOUND), every=0.5)
    assert target.stat().st_mode & 0o111
    what, how_long, *lines, end = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"cluster: building Kubernetes v1\.36\.\d+, all its programs in one, with Go 1\.\d+\.\d+", what)
    assert how_long.startswith("cluster: 5 to 10 minutes on 2 idle cores and 2.4 GiB of memory, once; it is kept as ")
    assert how_long.endswith(f" {tmp_path}/small-0123")
    so_far = [one for one in lines if not one.endswith("fetching sources, 0 modules so far")]
    counted = [
        re.fullmatch(r"cluster: \d+:\d\d compiled (\d+) of (\d+) packages, less where .*", one) for one in so_far
    ]
    done = [int(one[1]) for one in counted if one]
    assert len(done) == len(so_far) > 2, "a line each half second"
    assert done == sorted(done)
    assert 5 < done[-1] <= int(counted[-1][2] if counted[-1] else 0) < 200
    assert re.fullmatch(r"cluster: built in \d+:\d\d", end)


def test_a_build_that_fails_says_why(go: str, tmp_path: Path) -> None:
    """Not the name of the package that happened to be compiled last."""
    with pytest.raises(cluster_build.CannotStart, match=r"^cluster: go build failed: .*main.go:3:.*: missing$"):
        cluster_build.build(go, tmp_path / "small.partial", source=module(tmp_path / "source", BROKEN))


def test_sources_that_cannot_be_had_are_told(go: str, tmp_path: Path) -> None:
    with pytest.raises(cluster_build.CannotStart, match=r"^cluster: go list failed: .*"):
        cluster_build.build(go, tmp_path / "small.partial", source=tmp_path)


def test_a_wait_for_another_build_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "controlplane.lock"
    with path.open("w") as theirs, path.open("w") as ours:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        Timer(0.9, fcntl.flock, (theirs, fcntl.LOCK_UN)).start()
        cache.take(ours, patience=0.2, every=0.3)
        with pytest.raises(BlockingIOError):
            fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert lines[0] == f"rig: 0:00 waiting for another process that makes the same; it holds {path}"


def test_a_lock_that_is_free_is_no_wait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "free.lock").open("w") as ours:
        cache.take(ours, patience=0.0)
    assert capsys.readouterr().err == ""


def test_what_a_program_says_is_kept_apart_from_its_steps() -> None:
    script = "import sys; print('out'); print('one\\nwhat\\ntwo', file=sys.stderr); sys.exit(3)"
    ended = follow((sys.executable, "-c", script), lambda *_: "", steps={"one", "two"})
    assert (ended.code, ended.output, ended.said) == (3, "out\n", ["what"])
