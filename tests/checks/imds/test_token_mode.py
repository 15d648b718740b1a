"""imds.token-mode: tells, and blames nobody."""

from __future__ import annotations

import pytest

from nodeprep.checks.imds.token_mode import CHECK
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.model import Unreadable, Why
from tests.imds_values import NOT_ECS, imds, instance
from tests.values import say, verdicts

ROWS = [
    (imds(), "ok TokensOptional"),
    (imds(instance(token_required=True)), "ok TokensRequired"),
    (NOT_ECS, "absent Nothing"),
    (imds(Unreadable(Why.TIMEOUT, "http://100.100.100.200")), "unknown CannotLook"),
]


@pytest.mark.parametrize(("seen", "says"), ROWS)
def test_says(seen: Imds, says: str) -> None:
    assert say(CHECK, seen) == says


def test_messages() -> None:
    (optional,) = verdicts(CHECK, imds())
    assert optional.observed == "optional"
    assert "HttpTokens=optional" in optional.message
    (required,) = verdicts(CHECK, imds(instance(token_required=True)))
    assert required.message == "the instance metadata is told with a token only (HttpTokens=required)"
    assert required.observed == "required"
