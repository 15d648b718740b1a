"""terway.kernel by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.terway.kernel import CHECK
from nodeprep.facts.machine.system import System
from nodeprep.model import Unreadable, Why, guarded
from tests.cni_values import terway
from tests.values import say


def system(kernel: Any) -> System:
    return System(0.0, "node", guarded(kernel), "", True, "Alibaba Cloud", "Alibaba Cloud ECS", "")


ROWS = [
    # release                                     says
    ("5.10.134-16.3.al8.x86_64", "ok NewEnough"),
    ("5.10.0", "ok NewEnough"),
    ("6.8.0-45-generic", "ok NewEnough"),
    ("5.9.16", "fail TooOld"),
    ("4.19.91-27.al7.x86_64", "fail TooOld"),
    ("newest", "unknown CannotLook"),
    ("", "absent Nothing"),
    (Unreadable(Why.DENIED, "/proc/sys/kernel/osrelease", 13), "unknown CannotLook"),
]


@pytest.mark.parametrize(("kernel", "says"), ROWS)
def test_says(kernel: Any, says: str) -> None:
    assert say(CHECK, terway(), system(kernel)) == says
    assert say(CHECK, terway(present=False), system(kernel)) == "absent Nothing"
