"""terway.socket by its rows."""

from __future__ import annotations

import errno

import pytest

from nodeprep.checks.terway.socket import CHECK
from nodeprep.facts.alibaba.terway import UnixSocket
from nodeprep.model import Unreadable, Why
from tests.cni_values import DAEMON, terway
from tests.values import say, verdicts

ROWS = [
    # errno                says
    (None, "ok Answers"),
    (errno.ENOENT, "fail NotStarted terway_restart()"),
    (errno.ENOTDIR, "fail NotStarted terway_restart()"),
    (errno.ECONNREFUSED, "fail Dead terway_restart()"),
    (errno.EAGAIN, "fail NoAnswer terway_restart()"),
    (errno.ETIMEDOUT, "fail NoAnswer terway_restart()"),
]


@pytest.mark.parametrize(("code", "says"), ROWS)
def test_says(code: int | None, says: str) -> None:
    assert say(CHECK, terway(daemon=UnixSocket(DAEMON, code))) == says


def test_says_nothing_elsewhere() -> None:
    assert say(CHECK, terway(daemon=None)) == "absent Nothing"  # a dead tree
    assert say(CHECK, terway(present=False, daemon=UnixSocket(DAEMON, errno.ENOENT))) == "absent Nothing"
    denied = Unreadable(Why.DENIED, DAEMON, 13)
    assert say(CHECK, terway(daemon=denied)) == "unknown CannotLook"
    assert say(CHECK, terway(present=denied)) == "unknown CannotLook"


def test_message_names_the_errno() -> None:
    (said,) = verdicts(CHECK, terway(daemon=UnixSocket(DAEMON, errno.ECONNREFUSED)))
    assert f"{DAEMON} refuses (ECONNREFUSED)" in said.message
    assert said.observed == "ECONNREFUSED"
