"""terway.directories by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.terway.directories import CHECK
from nodeprep.model import Unreadable, Why
from tests.cni_values import terway
from tests.values import say, verdicts

ROWS = [
    # missing                                    says
    ((), "ok Present"),
    (("/var/lib/cni/terway",), "fail Missing terway_dirs()"),
    (("/var/lib/cni/terway", "/var/run/eni"), "fail Missing terway_dirs()"),
    (Unreadable(Why.DENIED, "/var/lib/cni/terway", 13), "unknown CannotLook"),
]


@pytest.mark.parametrize(("missing", "says"), ROWS)
def test_says(missing: Any, says: str) -> None:
    assert say(CHECK, terway(missing=missing)) == says
    assert say(CHECK, terway(missing=missing, present=False)) == "absent Nothing"


def test_message_says_what_to_make() -> None:
    (said,) = verdicts(CHECK, terway(missing=("/var/lib/cni/terway", "/var/run/eni")))
    assert "mkdir -m 0700 -p /var/lib/cni/terway /var/run/eni" in said.message
