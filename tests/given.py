"""A pytest plugin that writes down what each check said in its own test: `-p tests.given`, into the file $GIVEN."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import values

BY_CHECK: set[tuple[str, str, str]] = set()


def pytest_runtest_setup() -> None:
    values.GIVEN.clear()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What other checks than its own said in a test, counts for nobody."""
    own = f"{item.path.parent.name}.{item.path.stem.removeprefix('test_').replace('_', '-')}"
    BY_CHECK.update((check, reason, str(status)) for check, reason, status in values.GIVEN if check == own)


def pytest_sessionfinish() -> None:
    Path(os.environ["GIVEN"]).write_text(json.dumps(sorted(BY_CHECK)))
