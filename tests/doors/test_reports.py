"""Reports of another pod: what counts as one, and everything else that a stranger may put in its place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.doors.files import reports
from nodeprep.doors.files.reader import Files
from nodeprep.doors.files.reports import NodeReport, ReportTerms
from nodeprep.model import Unreadable
from tests.rigs.scratch import in_memory

BOOT, NOW, LIMIT = "b-1", 1000.0, 4096
TERMS = ReportTerms(BOOT, NOW, max_age=30.0, limit=LIMIT)
GOOD: dict[str, Any] = {"boot-id": BOOT, "at": 990.0, "content": {"sockets": []}}


def read(root: Path, terms: ReportTerms = TERMS) -> NodeReport | None | Unreadable:
    return reports.read(Files(str(root)), "/run/books/books.json", terms)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "run/books"
    directory.mkdir(parents=True)
    return directory / "books.json"


def test_what_is_written_is_read(tmp_path: Path, place: Path) -> None:
    report = NodeReport(BOOT, 990.0, {"sockets": [["a.sock", None]]})
    reports.write(str(place.parent), place.name, report)
    assert read(tmp_path) == report
    assert [one.name for one in place.parent.iterdir()] == [place.name]


def test_none_is_none(tmp_path: Path) -> None:
    assert read(tmp_path) is None


CONTENTS = [
    # what the file says                                  what is told of it
    (GOOD | {"boot-id": "b-0"}, "before this boot"),
    (GOOD | {"at": 960.0}, "40 s old, wanted at most 30 s"),
    (GOOD | {"at": 970.0}, ""),
    (GOOD | {"at": 1000.5}, ""),
    (GOOD | {"at": 1002.0}, "has not come"),
    (GOOD | {"at": float("nan")}, "wanted at most 30 s"),
    (GOOD | {"at": True}, "a number of seconds"),
    (GOOD | {"at": "990"}, "a number of seconds"),
    (GOOD | {"boot-id": 1}, "text as boot-id"),
    ({"boot-id": BOOT, "at": 990.0}, "no report"),
    ([], "no report"),
    (None, "no report"),
    (GOOD | {"content": "x" * LIMIT}, f"longer than {LIMIT} bytes"),
]


@pytest.mark.parametrize(("given", "told"), CONTENTS, ids=range(len(CONTENTS)))
def test_what_counts(given: object, told: str, tmp_path: Path, place: Path) -> None:
    place.write_text(json.dumps(given))
    found = read(tmp_path)
    assert isinstance(found, Unreadable) is bool(told)
    assert told in getattr(found, "detail", "")


def linked(place: Path) -> None:
    other = place.with_name("secret")
    other.write_text(json.dumps(GOOD))
    place.symlink_to(other)


def dangling(place: Path) -> None:
    place.symlink_to("/nowhere")


OTHERS: list[tuple[Callable[[Path], object], str]] = [
    (linked, "a link, wanted a plain file"),
    (dangling, "a link, wanted a plain file"),
    (os.mkfifo, "a FIFO, wanted a plain file"),
    (Path.mkdir, "a directory, wanted a plain file"),
]


@pytest.mark.parametrize(("make", "told"), OTHERS, ids=range(len(OTHERS)))
def test_nothing_but_a_plain_file_is_read(
    make: Callable[[Path], object], told: str, tmp_path: Path, place: Path
) -> None:
    make(place)
    found = read(tmp_path)
    assert isinstance(found, Unreadable)
    assert found.detail == told


@given(st.binary(max_size=200))
def test_no_bytes_break_it(data: bytes) -> None:
    with in_memory() as directory:
        (directory / "run/books").mkdir(parents=True)
        (directory / "run/books/books.json").write_bytes(data)
        assert isinstance(read(directory), Unreadable)
