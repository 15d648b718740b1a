"""gpu.driver by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.gpu.driver import CHECK
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.gpu import AmdGpu, GpuDriver
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import PciDevice
from nodeprep.job_profile import GpuCount, GpuWant
from nodeprep.model import Unreadable, Why
from tests.gpu_values import AT, OTHER, amd, driver, gpu, information, modules
from tests.values import expected, nic, pci, say, verdicts

NONE = GpuDriver(0.0, None)
LOADED = modules("nvidia")
ABSENT = modules(available=())
WANTED = expected(gpus={AT: GpuWant()})
COUNTED = expected(gpu_count=GpuCount(8))
LOAD, LOAD_AMD = "kernel_modules(module=nvidia)", "kernel_modules(module=amdgpu)"
GARBLED = Unreadable(Why.IO_ERROR, f"/proc/driver/nvidia/gpus/{AT}/information", 5)
ROCM = GpuDriver(0.0, None, amd=(AmdGpu(AT, ("renderD128",)),), kfd=True)

ROWS = [
    # GPU                                       driver                                      modules    says
    (gpu(), driver(), LOADED, "ok Bound"),
    (gpu(), driver(nodes=None, gpus=None), LOADED, "ok Bound"),  # a pod or a copy that shows less
    (gpu(), driver(nodes=()), LOADED, "ok Bound"),  # nobody has made a node: whoever needs one makes it
    (gpu(driver=None), driver(), LOADED, "fail DriverLost"),
    (gpu(driver="nouveau"), driver(), LOADED, "fail Nouveau"),
    (gpu(driver="nova_core"), driver(), LOADED, "fail Nouveau"),
    (gpu(driver="other"), driver(), LOADED, "fail DriverLost"),
    (gpu(driver=None), NONE, LOADED, "fail DriverLost"),  # its /proc is gone
    (gpu(driver=None), NONE, modules(), f"fail NotLoaded {LOAD}"),
    (gpu(driver=None), NONE, ABSENT, "warn NotInstalled"),
    (gpu(driver=None), NONE, modules(available=None), "warn NotInstalled"),
    (gpu(driver=None), NONE, None, "warn NotInstalled"),
    (gpu(driver="nouveau"), NONE, ABSENT, "warn Nouveau"),
    (gpu(driver="nouveau"), NONE, modules(), "warn Nouveau"),
    (gpu(driver=None), GpuDriver(0.0, None, container=True), ABSENT, "fail ContainerNotReady"),
    (gpu(driver=None), GpuDriver(0.0, None, container=True), modules(), "fail ContainerNotReady"),
    (gpu(driver="vfio-pci"), NONE, ABSENT, "ok HandedOn"),
    (gpu(driver=None, driver_override="vfio-pci"), NONE, ABSENT, "ok HandedOn"),
    (gpu(driver="unnamed"), driver(), LOADED, "ok Bound"),
    (gpu(), driver(gpus=(information(address=OTHER),)), LOADED, "fail NotListed"),
    (gpu(), driver(gpus=()), LOADED, "fail NotListed"),
    (gpu(), driver(gpus=(information(excluded=True, minor=None),)), LOADED, "ok Excluded"),
    (gpu(), driver(gpus=(information(excluded=True, minor=7),)), LOADED, "ok Excluded"),
    (gpu(), driver(gpus=(information(minor=7),)), LOADED, "fail NoNode"),
    (gpu(), driver(gpus=(information(minor=None),)), LOADED, "ok Bound"),
    (gpu(), driver(gpus=(information(excluded=GARBLED),)), LOADED, "unknown CannotLook"),
    (gpu(), driver(nodes=("nvidia0", "nvidiactl")), LOADED, "ok Bound"),  # nothing of CUDA has run yet
    (gpu(), driver(nodes=("nvidia0", "nvidiactl")), None, "ok Bound"),
    (gpu(), driver(nodes=("nvidia0", "nvidiactl")), modules("nvidia", "nvidia_uvm"), "ok Bound; warn NoNode"),
    (gpu(), driver(nodes=("nvidia0",)), modules("nvidia", "nvidia_uvm"), "ok Bound; fail NoNode"),
    (gpu(), driver(nodes=("nvidia0", "nvidia-uvm")), LOADED, "ok Bound; fail NoNode"),
    (gpu(), driver(version=GARBLED), LOADED, "ok Bound"),
    (gpu(driver=None), driver(version=GARBLED), LOADED, "fail DriverLost"),  # either way
    (gpu(driver=None), driver(version=GARBLED, gpus=None, nodes=None), ABSENT, "fail DriverLost"),  # its file is there
    (amd(), ROCM, modules("amdgpu"), "ok Bound"),
    (amd(), GpuDriver(0.0, None, amd=(AmdGpu(AT, ("renderD128",)),)), None, "ok Bound"),
    (amd(), GpuDriver(0.0, None, amd=(AmdGpu(AT, ("renderD128",)),), kfd=False), None, "ok Bound; fail NoComputeNode"),
    (amd(), GpuDriver(0.0, None, amd=(AmdGpu(AT, ()), AmdGpu(OTHER, ("renderD128",)))), None, "fail NoNode"),
    (amd(), GpuDriver(0.0, None, amd=(AmdGpu(AT, ()),)), None, "ok Bound"),  # a copy without any
    (amd(driver=None), ROCM, modules("amdgpu"), "fail DriverLost"),
    (amd(driver=None), NONE, modules("amdgpu"), "fail DriverLost"),
    (amd(driver=None), NONE, modules(), f"fail NotLoaded {LOAD_AMD}"),
    (amd(driver=None), NONE, ABSENT, "warn NotInstalled"),
    (amd(driver=None), GpuDriver(0.0, None, container=True), ABSENT, "warn NotInstalled"),  # another vendor's container
]  # fmt: skip


@pytest.mark.parametrize(("one", "shows", "known", "says"), ROWS)
def test_says(one: PciDevice, shows: GpuDriver, known: Modules | None, says: str) -> None:
    facts: list[object] = [pci(nic(), one), shows, expected()]
    assert say(CHECK, *facts, *((known,) if known is not None else ())) == says


@pytest.mark.parametrize("wants", [WANTED, COUNTED])
def test_a_driver_that_is_not_installed_fails_where_a_profile_expects_the_gpu(wants: Expected) -> None:
    assert say(CHECK, pci(gpu(driver=None)), NONE, wants, ABSENT) == "fail NotInstalled"
    assert say(CHECK, pci(gpu(driver="nouveau")), NONE, wants, ABSENT) == "fail Nouveau"


def test_one_of_two_that_lost_it_is_named() -> None:
    found = verdicts(CHECK, pci(gpu(), gpu(address=OTHER, driver=None)), driver(), expected(), LOADED)
    assert [(one.subject.place, one.status, one.reason) for one in found] == [
        (AT, "ok", "Bound"),
        (OTHER, "fail", "DriverLost"),
    ]
    assert "module nvidia is loaded and has 1 other GPUs" in found[1].message


def test_a_driver_container_is_not_helped_by_loading_a_module() -> None:
    (one,) = verdicts(CHECK, pci(gpu(driver=None)), GpuDriver(0.0, None, container=True), expected(), modules())
    assert one.remedy is None


def test_a_node_without_gpus_and_a_copy_without_drivers() -> None:
    assert say(CHECK, pci(nic()), NONE, expected(), ABSENT) == "absent Nothing"
    assert say(CHECK, pci(gpu(driver=None), drivers_shown=False), NONE, expected()) == "absent Nothing"
