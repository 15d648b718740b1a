"""What NVIDIA's library (NVML) tells of GPUs: on a host by a child process, in the agent's pod by another pod's report.

The library comes into a container by the runtime class of NVIDIA, and a pod of that class does not start where the
driver is broken. So the agent's pod never has it: another pod asks (`nodeprep nvml`), and the agent reads its file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nodeprep.facts.machine import gpu
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.pci import ADDRESS
from nodeprep.facts.pod_report import PodReport
from nodeprep.model import Fact, Shown, Unreadable, Why, raw, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

LIBRARY = "libnvidia-ml.so.1"
MANIFEST = "daemonset/components/nvml"
REPORT_DIRECTORY, REPORT_NAME = "/run/nodeprep-nvml", "nvml.json"
REPORT = f"{REPORT_DIRECTORY}/{REPORT_NAME}"
REPORT_SECONDS = 60.0  # seconds between two reports
REPORT_BYTES = 64 << 10  # 64 GPUs have 20 KiB
ANSWER_SECONDS = 10.0  # for the child: NVML of 8 GPUs that are kept ready takes half a second
REST_SECONDS = 300.0  # an answer stands so long on a host, for each one starts a process of 10 MiB
WORDS = 120  # characters of what is wrong with a report
# nvmlReturn_t
SUCCESS, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LOST, RESET_REQUIRED, MISMATCH = 0, 9, 12, 15, 16, 18
# NVML_GPU_FABRIC_STATE_*
FABRIC_NOT_STARTED, FABRIC_IN_PROGRESS, FABRIC_COMPLETED = 1, 2, 3
# nvmlClocksEventReasons*: what slows a GPU that should not. Power caps, idle clocks and clocks that a user set are no
# faults.
SLOWED_BY = {
    0x08: "a hardware slowdown",
    0x20: "its temperature (software)",
    0x40: "its temperature (hardware)",
    0x80: "the power brake of the chassis",
}


@shown
class NvmlGpu(Shown):
    """One GPU by NVML. None stands for what the GPU or the library does not tell.

    `address` is the PCI function, "" for a GPU that gives no handle. `code` is the first nvmlReturn_t that is an error,
    0 for none, and `error` its text. `remap_pending` and `remap_failed` are of its memory's rows, `retired_pending` of
    its pages. `uncorrected` counts memory errors since the driver was loaded. `slowed` are the bits of what slows its
    clocks. `mig_devices` is into how many it is split. `fabric_state` and `fabric_status` are of its NVLink fabric.
    """

    address: str
    code: int
    error: str = ""
    uuid: str | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pending: bool | None = None
    uncorrected: int | None = None
    slowed: int | None = None
    mig: bool | None = None
    mig_devices: int | None = None
    fabric_state: int | None = None
    fabric_status: int | None = None

    @property
    def slowed_by(self) -> tuple[str, ...]:
        return tuple(words for bit, words in SLOWED_BY.items() if (self.slowed or 0) & bit)


@shown
class Nvml(Shown):
    """NVML's answer. `asked` is False where there is no driver, or where to ask would start GPUs that nobody uses.

    `code` and `error` are those of its start, `driver` is the version of the driver that it found.
    """

    at: float
    asked: bool
    code: int = 0
    error: str = ""
    driver: str | None = None
    gpus: tuple[NvmlGpu, ...] = ()


def observe(host: Host) -> Nvml | Unreadable:
    if not host.files.shows_processes:
        return _reported(host)
    return of_library(host)


def of_library(host: Host) -> Nvml | Unreadable:
    """What the library tells here: on a host, or in the pod that has it."""
    if not is_worth_asking(gpu.observe(host)):
        return Nvml(host.now(), asked=False)
    told = host.nvml(deadline=ANSWER_SECONDS, rest=REST_SECONDS)
    return told if isinstance(told, Unreadable) else _read(told, host.now())


def is_worth_asking(driver: GpuDriver) -> bool:
    """Whether GPUs are set up already. If none is, NVML would start each and stop it again, which takes seconds.

    They are if a daemon keeps them so, if a process has one open, or if they have UUIDs (the old persistence mode). A
    kernel that cannot unload modules counts no users (CONFIG_MODULE_UNLOAD), so UUIDs are asked for in any case.
    """
    users, gpus = raw(driver)["users"], raw(driver)["gpus"]
    if driver.version is None:
        return False
    if driver.persistence or (isinstance(users, int) and users > 0):
        return True
    return any(isinstance(raw(one)["uuid"], str) for one in gpus or () if isinstance(gpus, tuple))


def _read(told: dict[str, Any], at: float) -> Nvml | Unreadable:
    """The value of the child's JSON; Unreadable for what no child of ours says."""
    try:
        return Nvml(
            at=at,
            asked=True,
            code=int(told["code"]),
            error=str(told["error"])[:WORDS],
            driver=told["driver"],
            gpus=tuple(_gpu(one) for one in told["gpus"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        return Unreadable(Why.MALFORMED, LIBRARY, detail=f"no answer of the child: {error}"[:WORDS])


def _gpu(told: dict[str, Any]) -> NvmlGpu:
    fields = {name: value for name, value in told.items() if name in NvmlGpu.__slots__ and name != "address"}
    pending = told.get("retired_pending")
    fields["retired_pending"] = None if pending is None else bool(pending)
    return NvmlGpu(address=address_of(str(told.get("address", ""))), **fields)


def address_of(bus_id: str) -> str:
    """A PCI address as the kernel writes it: NVML has eight digits of the domain, and capitals."""
    domain, _, rest = bus_id.lower().partition(":")
    found = f"{domain[-4:]}:{rest}" if domain[:-4].strip("0") == "" else bus_id.lower()
    return found if ADDRESS.fullmatch(found) else ""


def _reported(host: Host) -> Nvml | Unreadable:
    """What the pod reported that has the library. Without NVIDIA's module nobody asks."""
    if not host.files.exists(gpu.MODULE):
        return Nvml(host.now(), asked=False)
    return REPORTED.read(host)


REPORTED = PodReport(Nvml, REPORT, REPORT_SECONDS, REPORT_BYTES, instead=LIBRARY, manifest=MANIFEST)
# The child has 10 s, and the look waits for its end.
FACT = Fact(Nvml, observe, live=True, every=60.0, deadline=ANSWER_SECONDS + 2.0)
