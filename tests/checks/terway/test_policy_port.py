"""terway.policy-port by its rows."""

from __future__ import annotations

import errno

import pytest

from nodeprep.checks.terway.policy_port import CHECK
from nodeprep.facts.alibaba.terway import UnixSocket
from tests.cni_values import POLICY, terway
from tests.values import say

ROWS = [
    # errno                says
    (None, "ok Answers"),
    (errno.ECONNREFUSED, "warn NoAnswer terway_restart()"),
    (errno.ETIMEDOUT, "warn NoAnswer terway_restart()"),
]


@pytest.mark.parametrize(("code", "says"), ROWS)
def test_says(code: int | None, says: str) -> None:
    assert say(CHECK, terway(policy=UnixSocket(POLICY, code))) == says


def test_says_nothing_elsewhere() -> None:
    assert say(CHECK, terway(policy=None)) == "absent Nothing"
    assert say(CHECK, terway(present=False, policy=UnixSocket(POLICY, errno.ECONNREFUSED))) == "absent Nothing"
