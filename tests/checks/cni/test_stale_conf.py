"""cni.stale-conf by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.cni.stale_conf import CHECK
from nodeprep.facts.network.cni import CniFile
from tests.cni_values import cni, cni_file, network, terway
from tests.values import say

NEW = CniFile("10-terway.conflist", network())
OLD = cni_file("10-terway.conf", "terway", name="terway")

ROWS = [
    # files                                               says
    ((NEW,), "ok None"),
    ((OLD, NEW), "warn OldConfiguration"),
    ((OLD,), "absent Nothing"),
    ((cni_file("10-calico.conflist", "calico"),), "absent Nothing"),
    ((), "absent Nothing"),
    (None, "absent Nothing"),
]


@pytest.mark.parametrize(("files", "says"), ROWS)
def test_says(files: tuple[CniFile, ...] | None, says: str) -> None:
    assert say(CHECK, cni(files=files)) == says


def test_without_a_kubelet_it_is_nobodys() -> None:
    assert say(CHECK, cni(OLD, NEW, kubelet=False), terway(present=False)) == "absent Nothing"
    assert say(CHECK, cni(OLD, NEW, kubelet=False), terway()) == "warn OldConfiguration"
