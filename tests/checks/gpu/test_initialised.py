"""gpu.initialised by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.gpu.initialised import CHECK
from nodeprep.doors.files.kmsg import KmsgRecord
from nodeprep.facts.machine import kernel_log
from nodeprep.facts.machine.gpu import GpuDriver, GpuInformation
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.facts.machine.limits import PERSISTENCED
from nodeprep.model import Unreadable, Why
from tests.gpu_values import AT, OTHER, driver, gpu, information, limits
from tests.values import pci, say, verdicts

READY, NOT = information(), information(uuid=None)
ALSO, NEITHER = information(address=OTHER, minor=1), information(address=OTHER, minor=1, uuid=None)
OUT = information(address=OTHER, uuid=None, excluded=True)
GARBLED = Unreadable(Why.MALFORMED, f"/proc/driver/nvidia/gpus/{AT}/information", detail="no line for the UUID")
DAEMON = limits(PERSISTENCED)

ROWS = [
    # GPUs            opened, the daemon runs           says
    ((READY, ALSO), None, False, "ok Ready; ok Ready"),
    ((NOT, NEITHER), None, False, "ok NotOpened; ok NotOpened"),
    ((NOT, NEITHER), 0, False, "ok NotOpened; ok NotOpened"),
    ((NOT, NEITHER), 0, True, "ok NotOpened; ok NotOpened"),  # it was told --no-persistence-mode
    ((NOT, NEITHER), 4, True, "warn NotInitialised; warn NotInitialised"),
    ((NOT, NEITHER), None, True, "warn NotInitialised; warn NotInitialised"),
    ((NOT, ALSO), None, False, "warn NotInitialised; ok Ready"),
    ((NOT, ALSO), 3, False, "warn NotInitialised; ok Ready"),
    ((NOT, ALSO), 0, False, "fail NotInitialised; ok Ready"),  # nobody has one open: the driver keeps the other
    ((NOT, ALSO), None, True, "fail NotInitialised; ok Ready"),
    ((NOT, ALSO), 3, True, "fail NotInitialised; ok Ready"),
    ((READY, OUT), 3, True, "ok Ready"),
    ((NOT, OUT), 0, False, "ok NotOpened"),
    ((information(uuid=GARBLED), ALSO), None, False, "unknown CannotLook; ok Ready"),
    ((information(uuid=GARBLED, excluded=GARBLED), ALSO), None, False, "unknown CannotLook; ok Ready"),
    ((), None, False, "absent Nothing"),
    (None, None, False, "absent Nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("gpus", "users", "daemon", "says"), ROWS)
def test_says(gpus: tuple[GpuInformation, ...] | None, users: int | None, daemon: bool, says: str) -> None:
    bus = pci(gpu(), gpu(address=OTHER))
    assert say(CHECK, driver(gpus=gpus, users=users, persistence=daemon), bus) == says
    assert say(CHECK, driver(gpus=gpus, users=users), bus, DAEMON if daemon else limits()) == says


FAILED = f"NVRM: GPU {AT}: RmInitAdapter failed! (0x24:0x65:1436)"
LOADED = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15"
STARTS = [
    # the first GPU and what the kernel log says                             says
    (NOT, (FAILED,), "fail NotInitialised"),
    (NOT, (FAILED.replace("RmInitAdapter", "rm_init_adapter"),), "fail NotInitialised"),
    (NOT, (LOADED, FAILED), "fail NotInitialised"),
    (NOT, (FAILED, LOADED), "ok NotOpened"),  # of a former start of the driver
    (NOT, (FAILED.replace(AT, OTHER),), "ok NotOpened"),
    (READY, (FAILED,), "ok Ready"),  # a second start worked
]


@pytest.mark.parametrize(("first", "log", "says"), STARTS)
def test_a_pod_knows_from_the_log_that_a_gpu_did_not_start(
    first: GpuInformation, log: tuple[str, ...], says: str
) -> None:
    """It sees neither the daemon nor its socket."""
    lines = tuple(kernel_log.line(KmsgRecord(at, float(at), 3, 0, text)) for at, text in enumerate(log))
    told = verdicts(CHECK, driver(gpus=(first,), users=0), pci(gpu()), limits(shown=False), KernelLog(9.0, lines))
    assert [f"{one.status} {one.reason}" for one in told] == [says]
    if says.startswith("fail"):
        assert told[0].message.endswith("s after boot the kernel said: " + log[-1])


def test_without_a_driver_there_is_nothing_to_set_up() -> None:
    assert say(CHECK, GpuDriver(0.0, None), pci(gpu())) == "absent Nothing"


def test_the_message_says_who_keeps_the_others_ready() -> None:
    first, _ = verdicts(CHECK, driver(gpus=(NOT, ALSO), persistence=True), pci(gpu()))
    assert first.message == (
        f"{AT} (NVIDIA H100 80GB HBM3) has no UUID yet: the driver has not set it up, while nvidia-persistenced keeps "
        "1 others ready: the driver failed to start it"
    )
