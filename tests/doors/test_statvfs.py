"""File systems asked by a child: what it says of those that answer, and what is left of one that cannot be killed."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodeprep.doors.children import GRACE_SECONDS
from nodeprep.doors.files.statvfs import Statvfs
from nodeprep.doors.node_host import Host
from nodeprep.model import Unreadable, Why

FREEZER = Path("/sys/fs/cgroup/freezer")


def test_what_answers_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a b\nc").mkdir()
    (tmp_path / "file").write_text("")
    names = ("a b\nc", "file", "nothing", "file/below", "x" * 300)
    paths = [str(tmp_path / name) for name in names]
    told = Statvfs().ask(paths, 10.0)
    assert list(told) == paths
    assert told[paths[0]] is None
    assert told[paths[1]] is None
    for path, code, kind in (
        (paths[2], errno.ENOENT, Why.MISSING),
        (paths[3], errno.ENOTDIR, Why.IO_ERROR),
        (paths[4], errno.ENAMETOOLONG, Why.IO_ERROR),
    ):
        assert told[path] == Unreadable(kind, path, code, os.strerror(code))


def test_nothing_to_ask_starts_nobody() -> None:
    assert Statvfs().ask([], 10.0) == {}


def test_host_asks_below_its_root(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    host = Host(str(tmp_path))
    told = host.statvfs(["/data", "/nothing"], 10.0)
    assert list(told) == ["/data", "/nothing"]
    assert told["/data"] is None
    missing = told["/nothing"]
    assert missing is not None
    assert missing.kind is Why.MISSING


@contextmanager
def frozen() -> Iterator[Path]:
    """A control group (version 1) whose processes stop where they are: not even SIGKILL ends them."""
    group = FREEZER / f"nodeprep-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "freezer.state").write_text("FROZEN")
    except OSError as error:
        pytest.skip(f"nothing here keeps a process from dying: {error}")
    try:
        yield group
    finally:
        (group / "freezer.state").write_text("THAWED")
        until = time.monotonic() + 10
        while (group / "tasks").read_text() and time.monotonic() < until:
            time.sleep(0.01)
        group.rmdir()


def children(comm: str = "") -> set[str]:
    """Our children that run a program by this name, or any, whichever thread of ours started them."""
    tasks = Path("/proc/self/task").iterdir()
    found = {child for task in tasks for child in (task / "children").read_text().split()}
    return {child for child in found if not comm or Path(f"/proc/{child}/comm").read_text() == f"{comm}\n"}


@pytest.mark.timeout(120)
def test_a_child_that_cannot_be_killed_is_left_behind_and_is_the_only_one(tmp_path: Path) -> None:
    silent = program(tmp_path, "exec sleep 60")
    asking, before = Statvfs(), children()
    with frozen() as group:

        def freeze() -> None:
            # Before it has become that program, we stand still for as long as it does (vfork).
            while not (found := children("sleep") - before):
                time.sleep(0.001)
            (group / "tasks").write_text(found.pop())

        thread = threading.Thread(target=freeze)
        thread.start()
        started = time.monotonic()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.executable", silent)
            told = asking.ask(["/", "/proc"], 5.0)  # on a busy machine the child is frozen late
        took = time.monotonic() - started
        thread.join()
        for path in ("/", "/proc"):
            assert told[path] == Unreadable(Why.TIMEOUT, path, detail="statvfs gave no answer in 5 s")
        assert 5.0 <= took < 5.0 + GRACE_SECONDS + 20
        assert len(children() - before) == 1

        again = asking.ask(["/", "/sys"], 10.0)
        assert again["/sys"] is None
        assert again["/"] == Unreadable(Why.TIMEOUT, "/", detail="statvfs of an earlier look has not returned")
        assert len(children() - before) == 1
    assert asking.ask(["/"], 10.0) == {"/": None}
    assert children() <= before


def program(directory: Path, line: str) -> str:
    """A program that takes the place of the interpreter."""
    target = directory / "python"
    target.write_text(f"#!/bin/sh\n{line}\n")
    target.chmod(0o755)
    return str(target)


def test_a_child_that_cannot_do_its_work_accuses_no_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = program(tmp_path, "exit 1")
    monkeypatch.setattr("sys.executable", broken)
    told = Statvfs().ask(["/"], 10.0)["/"]
    assert told is not None
    assert (told.kind, told.path) == (Why.MISSING_TOOL, broken)
