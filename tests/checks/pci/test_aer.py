"""pci.aer by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.pci.aer import CHECK, Want
from nodeprep.facts.machine.pci import Aer
from nodeprep.model import Unreadable, Why
from tests.values import nic, pci, say, verdicts

GONE = Unreadable(Why.MALFORMED, "/sys/bus/pci/devices/0000:5c:00.0/aer_dev_fatal")
THEN = Aer(50, 3, 1)

ROWS = [
    # then, now, seconds, says
    (THEN, Aer(50, 3, 1), 10.0, "ok Quiet"),
    (THEN, Aer(50, 3, 2), 10.0, "fail Fatal"),
    (THEN, Aer(50, 4, 1), 10.0, "warn Nonfatal"),
    (THEN, Aer(950, 4, 2), 10.0, "fail Fatal"),
    (THEN, Aer(150, 3, 1), 60.0, "ok Quiet"),
    (THEN, Aer(151, 3, 1), 60.0, "warn ManyCorrectable"),
    (THEN, Aer(59, 3, 1), 1.0, "ok Quiet"),  # nine errors in a second are no rate yet
    (THEN, Aer(60, 3, 1), 1.0, "warn ManyCorrectable"),
    (THEN, Aer(0, 0, 0), 10.0, "ok Quiet"),  # set up anew
    (Aer(50, 3, 5), Aer(0, 0, 1), 10.0, "fail Fatal"),
    (Aer(0, 0, 0), Aer(0, 0, 0), 10.0, "ok Quiet"),
    (None, THEN, 10.0, "absent Nothing"),
    (THEN, None, 10.0, "absent Nothing"),
    (THEN, Aer(50, 3, GONE), 10.0, "unknown CannotLook"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("then", "now", "seconds", "says"), ROWS)
def test_says(then: Aer | None, now: Aer | None, seconds: float, says: str) -> None:
    assert say(CHECK, pci(nic(aer=now)), before=(pci(nic(aer=then)),), seconds=seconds) == says


def test_the_operator_may_set_the_limits() -> None:
    before, now = pci(nic(aer=THEN)), pci(nic(aer=Aer(53, 3, 1)))
    want = Want(correctable_per_minute=2.0, correctable_at_least=3)
    assert say(CHECK, now, before=(before,), seconds=60.0, want=want) == "warn ManyCorrectable"
    assert say(CHECK, now, before=(before,), seconds=90.0, want=want) == "ok Quiet"


def test_gpus_count_and_newcomers_wait() -> None:
    gpu = nic(address="0000:17:00.0", id="10de:2330", pci_class="030200", rdma=(), netdevs=(), aer=Aer(0, 0, 1))
    before = pci(nic(address="0000:17:00.0", aer=Aer(0, 0, 0)))
    assert say(CHECK, pci(gpu, nic(aer=THEN)), before=(before,)) == "fail Fatal"


def test_one_look_says_nothing() -> None:
    assert CHECK.rates
    assert say(CHECK, pci(nic(aer=THEN))) == "absent Nothing"


def test_message() -> None:
    (verdict,) = verdicts(CHECK, pci(nic(aer=Aer(50, 3, 2))), before=(pci(nic(aer=THEN)),))
    assert verdict.message == (
        "0000:5c:00.0 (15b3:1021, mlx5_3/eth2) reported in 10 s: fatal 1, nonfatal 0, correctable 0; "
        "after a fatal error its link is reset"
    )
