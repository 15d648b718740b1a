"""A real GPU, as it was recorded on a machine that was lent for it: tests/trees/recorded/h100-guest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli.check import check_command
from nodeprep.cli.check.choices import CheckFormat
from nodeprep.doors.node_host import Host
from nodeprep.doors.nvml import library
from nodeprep.facts.machine import gpu, nvml, pci
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.pci import Pci
from tests.rigs import fake_nvml, snapshots

RECORDED = Path(__file__).parent / "trees" / "recorded" / "h100-guest"
ROOT = RECORDED / "root"
AT = "0000:00:06.0"
UUID = "GPU-9fa10289-de32-76fe-2776-585b2082b237"
OTHER_UUID = "GPU-5a1d2c60-7b82-d920-147c-389a08c6194d"  # of the guest of the snapshots


def driver() -> GpuDriver:
    return gpu.observe(Host(str(ROOT), live=False))


def findings(capsys: pytest.CaptureFixture[str], code: int, **options: Any) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message by check; each has one finding on this node."""
    assert (
        check_command.run(check_command.CheckOptions(output=CheckFormat.JSON, only=("gpu.*", "klog.xid"), **options))
        == code
    )
    found = json.loads(capsys.readouterr().out)["findings"]
    told = {one["check"]: (one["status"], one["reason"], one["message"]) for one in found}
    assert len(told) == len(found)
    return told


def test_what_the_driver_shows() -> None:
    (card,) = driver().gpus or ()
    assert (card.address, card.model, card.uuid, card.minor, card.excluded) == (
        AT,
        "NVIDIA H100 80GB HBM3",
        UUID,
        0,
        False,
    )
    assert (driver().release, driver().is_open, driver().users) == ("580.159.04", True, None)


def test_a_kernel_that_counts_no_users_hides_no_gpu_from_nvml() -> None:
    """On this guest `gpu.nvml` found nothing to judge, until a UUID alone was reason enough to ask."""
    assert nvml.is_worth_asking(driver())


def test_the_bus_has_the_gpu() -> None:
    found = pci.observe(Host(str(ROOT), live=False))
    assert isinstance(found, Pci)
    assert [(one.address, one.id, one.driver) for one in found.gpus] == [(AT, "10de:2330", "nvidia")]


def test_a_copy_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    told = findings(capsys, 0, root=str(ROOT))
    assert [told[f"gpu.{name}"][:2] for name in ("expected", "driver", "initialised")] == [
        ("ok", "Present"),
        ("ok", "Bound"),
        ("ok", "Ready"),
    ]


def test_the_fake_library_says_what_the_real_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same keys, and same types where both tell something: else the tests with the fake one prove nothing."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_nvml.library(tmp_path)))
    monkeypatch.setenv("FAKE_NVML_COUNT", "1")
    fake, real = fake_nvml.answer(Path(library.__file__)), json.loads((RECORDED / "nvml.json").read_text())
    assert fake.keys() == real.keys()
    (ours,), (theirs,) = fake["gpus"], real["gpus"]
    assert ours.keys() == theirs.keys()
    assert {
        name for name in ours if None not in (ours[name], theirs[name]) and type(ours[name]) is not type(theirs[name])
    } == set()


def test_what_programs_did_convicts_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    told = findings(capsys, 0, snapshot=str(snapshots.FILES / "0.1.0-lent-h100-xids.json"))
    assert told["klog.xid"][:2] == ("ok", "Quiet")
    assert told["klog.xid"][2].endswith("6 of Xid 13, 2 of Xid 31, 2 of Xid 43")
    assert told["gpu.nvml"] == ("ok", "Healthy", f"{AT} (10de:2330): {OTHER_UUID}, driver 580.159.04")


def test_a_library_of_another_version_fails(capsys: pytest.CaptureFixture[str]) -> None:
    told = findings(capsys, 1, snapshot=str(snapshots.FILES / "0.1.0-lent-h100-mismatch.json"))
    status, reason, message = told["gpu.nvml"]
    assert (status, reason) == ("fail", "DriverMismatch")
    assert message.startswith("libnvidia-ml.so.1 is of another version than the loaded driver 580.159.04: ")
