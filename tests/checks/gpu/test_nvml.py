"""gpu.nvml by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.gpu.nvml import CHECK
from nodeprep.facts.machine.nvml import Nvml, NvmlGpu
from tests.gpu_values import AT, OTHER, driver, gpu, information
from tests.values import pci, say, verdicts

BUS = pci(gpu(), gpu(address=OTHER))


def nvml_gpu(address: str = AT, **different: Any) -> NvmlGpu:
    usual: dict[str, Any] = {"address": address, "code": 0, "uuid": "GPU-b850f46d"}
    return NvmlGpu(**(usual | different))


def told(*gpus: NvmlGpu, **different: Any) -> Nvml:
    usual: dict[str, Any] = {"at": 0.0, "asked": True, "driver": "550.54.15", "gpus": gpus}
    return Nvml(**(usual | different))


FINE = nvml_gpu(OTHER)
OF_ONE: list[tuple[dict[str, Any], str]] = [
    ({}, "ok Healthy"),
    ({"remap_pending": False, "remap_failed": False, "retired_pending": False, "uncorrected": 0}, "ok Healthy"),
    ({"code": 15, "error": "GPU is lost"}, "fail GpuLost"),
    ({"code": 16, "error": "GPU requires reset"}, "fail ResetRequired"),
    ({"code": 999, "error": "Unknown Error"}, "warn Error"),
    ({"remap_failed": True}, "fail RemapFailed"),
    ({"code": 999, "error": "Unknown Error", "remap_failed": True}, "fail RemapFailed"),  # the worst gives the reason
    ({"remap_pending": True}, "warn MemoryPending"),
    ({"retired_pending": True}, "warn MemoryPending"),
    ({"uncorrected": 2}, "fail UncorrectedMemory"),
    ({"uncorrected": 2, "remap_pending": True}, "fail UncorrectedMemory"),
    ({"slowed": 0x08}, "warn Slowed"),
    ({"slowed": 0x40, "remap_failed": True}, "fail RemapFailed"),
    ({"slowed": 0x05}, "ok Healthy"),  # idle, and a power cap
    ({"fabric_state": 3, "fabric_status": 0}, "ok Healthy"),
    ({"fabric_state": 3, "fabric_status": 999}, "fail FabricFailed"),
    ({"fabric_state": 2}, "warn FabricNotReady"),
    ({"fabric_state": 1}, "warn FabricNotReady"),
    ({"fabric_state": 0}, "ok Healthy"),  # not supported: no NVSwitch
]


@pytest.mark.parametrize(("shows", "says"), OF_ONE)
def test_says_of_a_gpu(shows: dict[str, Any], says: str) -> None:
    assert say(CHECK, told(nvml_gpu(**shows), FINE), BUS) == f"{says}; ok Healthy"


OF_ALL: list[tuple[Nvml, str]] = [
    (Nvml(0.0, asked=False), "absent Nothing"),
    (told(code=9, error="Driver Not Loaded"), "absent Nothing"),
    (told(code=12, error="libnvidia-ml.so.1 is not found"), "unknown CannotLook"),
    (told(code=18, error="Driver/library version mismatch"), "fail DriverMismatch"),
    (told(code=999, error="Unknown Error"), "fail NotStarted"),
    (told(nvml_gpu(), nvml_gpu("", code=15, error="GPU is lost")), "ok Healthy; fail GpuLost"),
    (told(nvml_gpu()), "ok Healthy; fail GpuLost"),
    (told(), "fail GpuLost; fail GpuLost"),
    (told(nvml_gpu(), FINE, nvml_gpu("0000:99:00.0")), "ok Healthy; ok Healthy"),
]


@pytest.mark.parametrize(("answer", "says"), OF_ALL)
def test_says_of_all(answer: Nvml, says: str) -> None:
    assert say(CHECK, answer, BUS) == says


@pytest.mark.parametrize(
    ("device", "shown"),
    [
        (gpu(address=OTHER, driver="vfio-pci"), driver()),
        (gpu(address=OTHER, driver=None), driver()),
        (gpu(address=OTHER, id="1002:74a1", driver="amdgpu"), driver()),
        (gpu(address=OTHER), driver(gpus=(information(), information(address=OTHER, excluded=True)))),
    ],
)
def test_what_the_driver_does_not_have_is_not_lost(device: Any, shown: Any) -> None:
    assert say(CHECK, told(nvml_gpu()), pci(gpu(), device), shown) == "ok Healthy"


def test_all_that_is_wrong_with_a_gpu_is_told() -> None:
    (verdict, _) = verdicts(CHECK, told(nvml_gpu(uncorrected=3, remap_pending=True, slowed=0x80), FINE), BUS)
    assert verdict.message.endswith(
        ": 3 uncorrected memory errors since its driver started; rows of its memory are replaced at its next reset; "
        "slowed by the power brake of the chassis"
    )


def test_a_healthy_one_says_how_it_is_split() -> None:
    (verdict, _) = verdicts(CHECK, told(nvml_gpu(mig=True, mig_devices=7), FINE), BUS)
    assert verdict.message.endswith(": GPU-b850f46d, driver 550.54.15, MIG into 7")


def test_a_mismatch_names_the_loaded_driver() -> None:
    (verdict,) = verdicts(CHECK, told(code=18), BUS, driver())
    assert "570.86.15" in verdict.message
