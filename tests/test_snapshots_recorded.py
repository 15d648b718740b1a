"""What an older version recorded is read and judged. `python tests/rigs/snapshots.py record` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeprep import __version__, facts, snapshot
from nodeprep.cli.check import check_command
from nodeprep.cli.check.choices import CheckFormat
from nodeprep.codec import TAG, CodecError
from tests.rigs import snapshots

FILES = sorted(snapshots.FILES.glob("*.json"))
WHOLE = snapshots.FILES / f"{__version__}-every-class.json"


def each_file() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def classes(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        if TAG in value:
            yield value[TAG], value
        for one in value.values():
            yield from classes(one)
    elif isinstance(value, list):
        for one in value:
            yield from classes(one)


@each_file()
def test_it_is_read_and_judged(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A new field without a default, a class or a field with another name, and another type of a field fail here."""
    assert snapshot.loads(file.read_text()).looks
    assert check_command.run(check_command.CheckOptions(output=CheckFormat.JSON, snapshot=str(file))) in (0, 1, 3)
    assert json.loads(capsys.readouterr().out)["findings"]


def test_every_class_of_this_version_is_recorded() -> None:
    recorded = json.loads(WHOLE.read_text())
    now = json.loads(snapshot.dumps(snapshots.whole()))
    assert {name for name, _ in classes(recorded)} == {name for name, _ in classes(now)}
    assert {fact.kind.__name__ for fact in facts.ALL} <= {name for name, _ in classes(recorded)}


def test_a_field_that_an_old_file_lacks_needs_a_default() -> None:
    """As the first test would find it: the first field of each class has none, so its absence is an error."""
    document = json.loads(WHOLE.read_text())
    for name, own in classes(document):
        first = next(key for key in own if key != TAG)
        kept = own.pop(first)
        with pytest.raises(CodecError, match=rf"\.{first}: found nothing"):
            snapshot.loads(json.dumps(document))
        own[first] = kept
        assert name
