"""Drills in a guest with a real RoCE device: modules and RDMA links that really go, are seen, and come back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.lab import test_faults as faults
from tests.rigs.lab import RAIL, RDMA_DEVICE, Guest

LONG = 600.0  # seconds; emulation is slow
RECORD = "/var/lib/nodeprep-repair/drill.json"
REPAIRS = "/tmp/nodeprep-repair"


@pytest.fixture(scope="module")
def prepared(guest: Guest) -> Guest:
    """A guest with a profile captured while it was well, that believes lines of a process in the kernel log."""
    guest.shell(f"nodeprep profile capture --force --name lab -o {faults.PROFILE}")
    guest.shell(f"printf '{faults.DRILL}' >> {faults.PROFILE}; mkdir -p {REPAIRS}")
    return guest


@pytest.fixture(autouse=True)
def _as_before(prepared: Guest) -> Iterator[None]:
    before = there(prepared)
    yield
    assert there(prepared) == before
    assert prepared.shell(f"ls {REPAIRS}").split() in ([], ["history.jsonl", "lock"])


def there(guest: Guest) -> str:
    """RDMA devices with their interfaces, routes and addresses, and the modules of RDMA."""
    return guest.shell(
        "rdma link show | cut -d' ' -f1-4,8-; ip -4 route show table all; ip -4 -o address | cut -d'\\' -f1; "
        "ls -d /sys/module/rdma_* /sys/module/ib_*"
    )


def drilled(guest: Guest, *words: str) -> tuple[int, str]:
    """Exit code and words of a drill, its lines joined."""
    options = ("--yes", "--profile", faults.PROFILE)
    argv = ("env", f"NODEPREP_REPAIR_DIR={REPAIRS}", "nodeprep", "drill", *words, *options)
    done = guest.run(argv, timeout=LONG)
    return done.returncode, " ".join((done.stdout + done.stderr).decode().split())


DRILLS = [
    # words, the check that sees it, its reason
    (("rdma-link-removed", RDMA_DEVICE), "pci.rdma-driver", "NoRdmaLink"),
    (("module-unloaded", "rdma_rxe"), "pci.rdma-driver", "ModuleNotLoaded"),
    (("link-down", RAIL.netdev), "port.state", "AdministrativelyDown"),
]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("words", "check", "reason"), DRILLS, ids=lambda one: one[0] if isinstance(one, tuple) else one
)
def test_it_is_made_seen_and_undone(prepared: Guest, words: tuple[str, ...], check: str, reason: str) -> None:
    faults.rail_is_up(prepared)
    code, told = drilled(prepared, *words)
    assert f"FAIL {check}: {reason}" in told, told
    assert "the state is as before" in told
    assert code == 0, told
    faults.settled(lambda: faults.healthy(prepared))


@pytest.mark.timeout(1200)
def test_a_line_in_the_kernel_log_stays_and_it_says_what_to_run(prepared: Guest) -> None:
    code, told = drilled(prepared, "kernel-log-line", RAIL.bdf)
    assert "cannot be taken back" in told.partition("made ")[0], told
    assert "FAIL klog.nic: DeviceFailed" in told
    assert "run nodeprep reset" in told.partition("FAIL klog.nic")[2]
    assert code == 0, told
    prepared.shell("dmesg --clear")
    faults.settled(lambda: faults.healthy(prepared))


@pytest.mark.timeout(1200)
def test_a_device_that_a_process_has_open_is_refused(prepared: Guest) -> None:
    prepared.shell("sleep 100000 < /dev/infiniband/uverbs0 > /dev/null 2>&1 & echo $! > /tmp/holder")
    try:
        code, told = drilled(prepared, "rdma-link-removed", RDMA_DEVICE)
    finally:
        prepared.shell("kill $(cat /tmp/holder)")
    assert code == 1, told
    assert "in use: process" in told
    history = prepared.shell(f"NODEPREP_REPAIR_DIR={REPAIRS} nodeprep repair history -o json")
    assert all(one["state"] == "undone" for one in json.loads(history))
