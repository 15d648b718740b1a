"""A pytest plugin that records the verdicts of each check in its own test: `-p tests.given`, into the file $GIVEN."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nodeprep.model import Check
from tests import unreadable_fields, values

ASKED_LIMIT = 20  # of one test; a property asks hundreds of times

FAILING: list[values.Asked] = []
BY_CHECK: set[tuple[str, str, str]] = set()


def pytest_runtest_setup() -> None:
    values.GIVEN.clear()
    values.ASKED.clear()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Record only the verdicts of the check that the test belongs to: a part of a check has a file of its own."""
    check = getattr(getattr(item, "module", None), "CHECK", None)
    named = f"{item.path.parent.name}.{item.path.stem.removeprefix('test_').replace('_', '-')}"
    own = check.id if isinstance(check, Check) else named
    BY_CHECK.update((check, reason, str(status)) for check, reason, status in values.GIVEN if check == own)
    FAILING.extend(one for one in values.ASKED[:ASKED_LIMIT] if one.check.id == own)


def pytest_sessionfinish() -> None:
    pairs, hidden = unreadable_fields.hidden(FAILING)
    told = {"given": sorted(BY_CHECK), "pairs": pairs, "hidden": hidden}
    Path(os.environ["GIVEN"]).write_text(json.dumps(told))
