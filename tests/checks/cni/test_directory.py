"""cni.directory by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.cni.directory import CHECK
from nodeprep.model import Unreadable, Why
from tests.cni_values import cni, terway
from tests.values import say, verdicts

ROWS = [
    # the directory                        Terway  says
    ({}, True, "ok Configured"),
    ({}, False, "ok Configured"),
    ({"kubelet": False}, False, "ok Configured"),
    ({"files": None}, False, "fail NoDirectory"),
    ({"files": None}, True, "fail NoDirectory terway_restart()"),
    ({"files": ()}, False, "fail NoConfiguration"),
    ({"files": ()}, True, "fail NoConfiguration terway_restart()"),
    ({"files": (), "kubelet": False}, False, "absent Nothing"),
    ({"files": None, "kubelet": False}, False, "absent Nothing"),
    ({"files": None, "kubelet": False}, True, "fail NoDirectory terway_restart()"),
    ({"files": (), "kubelet": False}, True, "fail NoConfiguration terway_restart()"),
    ({"files": Unreadable(Why.DENIED, "/etc/cni/net.d", 13)}, True, "unknown CannotLook"),
    ({"files": None, "kubelet": Unreadable(Why.DENIED, "/var/lib/kubelet/pods", 13)}, False, "unknown CannotLook"),
]


@pytest.mark.parametrize(("different", "present", "says"), ROWS)
def test_says(different: dict[str, Any], present: bool, says: str) -> None:
    assert say(CHECK, cni(**different), terway(present=present)) == says


def test_goes_on_without_terways_fact() -> None:
    assert say(CHECK, cni(files=())) == "fail NoConfiguration"


def test_no_word_of_terway_on_a_node_without_it() -> None:
    for files in (None, ()):
        (said,) = verdicts(CHECK, cni(files=files), terway(present=False))
        assert "terway" not in said.message.lower()
        (said,) = verdicts(CHECK, cni(files=files), terway())
        assert "10-terway.conflist" in said.message
