"""erdma.module by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.erdma.module import CHECK, Want
from nodeprep.model import not_recorded
from tests.erdma_values import FIRST, SECOND, erdma
from tests.values import say, verdicts

NO_INDEX = not_recorded("/lib/modules/6.1.0/modules.dep")

ROWS = [
    ({}, "ok Loaded"),
    ({"installed": False}, "ok Loaded"),
    ({"loaded": False}, "fail NotLoaded erdma_load()"),
    ({"loaded": False, "installed": False}, "fail NotInstalled erdma_install()"),
    ({"loaded": False, "installed": NO_INDEX}, "fail NotLoaded erdma_load()"),
    ({"functions": (), "loaded": False, "installed": False}, "absent Nothing"),
]


@pytest.mark.parametrize(("different", "says"), ROWS)
def test_says(different: dict[str, Any], says: str) -> None:
    assert say(CHECK, erdma(**different)) == says


def test_each_function_has_its_own_verdict_for_what_follows_on_it() -> None:
    found = verdicts(CHECK, erdma(functions=(FIRST, SECOND), loaded=False))
    assert [verdict.subject.place for verdict in found] == [FIRST, SECOND]


def test_a_profile_may_require_an_interface() -> None:
    assert say(CHECK, erdma(functions=()), want=Want(required=True)) == "fail NoInterface"
    assert say(CHECK, erdma(functions=())) == "absent Nothing"
    assert say(CHECK, erdma(), want=Want(required=True)) == "ok Loaded"


def test_messages() -> None:
    (verdict,) = verdicts(CHECK, erdma(loaded=False))
    assert verdict.message == (
        "0000:00:07.0 (1ded:107f) is an Elastic RDMA interface and the module erdma is not loaded: "
        "modprobe erdma on the host, then dmesg | grep erdma"
    )
    assert (verdict.observed, verdict.expected) == ("not loaded", "loaded")
    (verdict,) = verdicts(CHECK, erdma(loaded=False, installed=False))
    assert verdict.message.endswith("install the eRDMA driver for it (uname -r, dkms status)")
    assert (verdict.observed, verdict.expected) == ("not installed", "loaded")
