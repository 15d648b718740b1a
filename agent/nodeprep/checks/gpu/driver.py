"""Does every GPU of this node have its driver, and do programs reach it?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected import kinds
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import UNNAMED, Pci, PciDevice
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

NVIDIA, AMDGPU = "nvidia", "amdgpu"
CONTROL, UNIFIED_MEMORY, UVM_MODULE = "nvidiactl", "nvidia-uvm", "nvidia_uvm"
OF_THE_KERNEL = ("nouveau", "nova_core")  # drivers/gpu/drm/nouveau, drivers/gpu/nova-core
CONTAINER = "the GPU operator's driver container (/run/nvidia/driver) owns the driver"


def judge(seen: Seen) -> Iterator[Verdict]:
    pci = seen[Pci]
    if not pci.gpus or not pci.drivers_shown:
        return
    yield from seen.each(pci.gpus, lambda gpu: verdict(gpu, seen))
    driver = seen[GpuDriver]
    yield from nodes(driver, seen.explaining(Modules))
    if driver.amd and driver.kfd is False:
        shows = "amdgpu drives a GPU, and /dev/kfd is not there: no program of ROCm can start"
        yield Verdict(NODE, Status.FAIL, "NoComputeNode", shows, None, "absent", "/dev/kfd")


def nodes(driver: GpuDriver, modules: Modules | None) -> Iterator[Verdict]:
    """Of the nodes that all its GPUs share. The first program of CUDA loads nvidia_uvm and has its node made."""
    has_uvm = modules is not None and modules.is_loaded(UVM_MODULE)
    wanted = (CONTROL, UNIFIED_MEMORY) if has_uvm else (CONTROL,)
    lacking = [name for name in wanted if name not in (driver.nodes or ())]
    if driver.nodes and lacking:
        shows = f"of the nodes that NVIDIA's driver needs, /dev lacks {' and '.join(lacking)}"
        status = Status.FAIL if CONTROL in lacking else Status.WARN  # a container's runtime makes that of nvidia_uvm
        yield Verdict(NODE, status, "NoNode", shows, None, "absent", " ".join(lacking))


def verdict(gpu: PciDevice, seen: Seen) -> Verdict:
    bound, own = gpu.driver, AMDGPU if gpu.is_amd else NVIDIA
    if kept := kinds.handed_on_to(gpu):
        shows = f"{gpu.label} is kept for {kept}: handed on, not ours"
        return Verdict(gpu.subject, Status.OK, "HandedOn", shows, None, bound or "none")
    if bound not in (own, UNNAMED):
        return unbound(gpu, own, seen)
    return amd(gpu, seen[GpuDriver]) if gpu.is_amd else nvidia(gpu, seen[GpuDriver])


def unbound(gpu: PciDevice, own: str, seen: Seen) -> Verdict:
    """It lost its driver where the driver is loaded or was asked for; else nobody has installed one yet."""
    driver, modules = seen[GpuDriver], seen.explaining(Modules)
    shows = f"{gpu.label} has {f'the driver {gpu.driver}' if gpu.driver else 'no driver'}"
    siblings = sum(one.driver == own for one in seen[Pci].gpus)
    loaded = driver.version is not None if own == NVIDIA else bool(driver.amd)
    loaded = loaded or siblings > 0 or (modules is not None and modules.is_loaded(own))
    expected = seen[Expected]
    wanted = gpu.address in expected.gpus or expected.gpu_count is not None
    if gpu.driver in OF_THE_KERNEL:
        shows = f"{shows}, which comes with the kernel: CUDA does not run on it, and {own} cannot bind the GPU"
        status = Status.FAIL if loaded or wanted else Status.WARN
        return Verdict(gpu.subject, status, "Nouveau", shows, None, gpu.driver, own)
    if loaded:
        shows = f"{shows}, though module {own} is loaded and has {siblings} other GPUs"
        return Verdict(gpu.subject, Status.FAIL, "DriverLost", shows, None, gpu.driver or "none", own)
    if driver.container and own == NVIDIA:
        shows = f"{shows}; {CONTAINER} and has not loaded it"
        return Verdict(gpu.subject, Status.FAIL, "ContainerNotReady", shows, None, gpu.driver or "none", own)
    if modules is not None and modules.has(own) and gpu.driver is None:
        shows = f"{shows}: module {own} is installed and not loaded"
        load = Remedy("kernel_modules", {"module": own})
        return Verdict(gpu.subject, Status.FAIL, "NotLoaded", shows, load, "none", own)
    shows = f"{shows}: no {own} is installed yet" + (f"; {expected.by} expects this GPU" if wanted else "")
    status = Status.FAIL if wanted else Status.WARN
    return Verdict(gpu.subject, status, "NotInstalled", shows, None, gpu.driver or "none", own)


def nvidia(gpu: PciDevice, driver: GpuDriver) -> Verdict:
    shows = f"{gpu.label} is bound to {NVIDIA}"
    told = driver.information(gpu.address)
    if driver.gpus is not None and told is None:
        listed = f"{shows}, which does not list it in /proc/driver/nvidia/gpus (it lists {len(driver.gpus)})"
        return Verdict(gpu.subject, Status.FAIL, "NotListed", listed, None, "not listed", gpu.address)
    if told is not None and told.excluded:
        return Verdict(gpu.subject, Status.OK, "Excluded", f"{shows} and excluded from use", None, "excluded")
    node = f"nvidia{told.minor}" if told is not None and told.minor is not None else ""
    if node and driver.nodes and node not in driver.nodes:
        return Verdict(gpu.subject, Status.FAIL, "NoNode", f"{shows}; /dev/{node} is not there", None, "absent", node)
    return Verdict(gpu.subject, Status.OK, "Bound", shows, None, NVIDIA)


def amd(gpu: PciDevice, driver: GpuDriver) -> Verdict:
    shows = f"{gpu.label} is bound to {AMDGPU}"
    renders = next((one.renders for one in driver.amd if one.address == gpu.address), None)
    if renders == () and any(one.renders for one in driver.amd):  # a copy may have none at all
        shows = f"{shows}, which made no render node for it: it did not start"
        return Verdict(gpu.subject, Status.FAIL, "NoNode", shows, None, "absent", "/dev/dri/renderD*")
    return Verdict(gpu.subject, Status.OK, "Bound", shows, None, AMDGPU)


BLACKLIST = (
    "Write 'blacklist nouveau' and 'options nouveau modeset=0' to /etc/modprobe.d/nouveau.conf, then "
    "update-initramfs -u (or dracut -f), and reboot. Install {expected} if it is not installed."
)
MAKE_NODES = (
    "nvidia-modprobe -u -c=0 makes the nodes of NVIDIA's driver, and nvidia-smi for each GPU; of amdgpu see dmesg | "
    "grep amdgpu."
)
CHECK = Check(
    id="gpu.driver",
    question="Does every GPU of this node have its driver, and do programs reach it?",
    why="A GPU without its driver is advertised until the device plugin starts again: jobs land on it and die.",
    fix="dmesg | grep -E '{place}|NVRM|amdgpu' says what the driver did. Drain the node and reboot it.",
    reasons=(
        Reason("HandedOn", Status.OK),
        Reason("DriverLost", Status.FAIL),
        Reason(
            "ContainerNotReady",
            Status.FAIL,
            "kubectl -n gpu-operator logs of this node's nvidia-driver-daemonset pod; plugin.tolerates-gate says if a "
            "taint keeps it away.",
        ),
        Reason("NotLoaded", Status.FAIL, "modprobe {module}, then dmesg | grep -E 'NVRM|amdgpu' if it is refused."),
        Reason("NotInstalled", Status.FAIL, "Install {expected} for this kernel (uname -r)."),
        Reason("NotInstalled", Status.WARN, "Install {expected} for this kernel (uname -r), if jobs are to use GPUs."),
        *(Reason("Nouveau", status, BLACKLIST) for status in (Status.FAIL, Status.WARN)),
        Reason("NotListed", Status.FAIL),
        Reason("Excluded", Status.OK),
        *(Reason("NoNode", status, MAKE_NODES) for status in (Status.FAIL, Status.WARN)),
        Reason(
            "NoComputeNode", Status.FAIL, "dmesg | grep -i kfd: amdgpu was built without it, or found no GPU for it."
        ),
        Reason("Bound", Status.OK),
    ),
    source="NVIDIA driver README (proc interface, device nodes, excluded GPUs); Linux amdgpu, amdkfd; GPU Operator",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Pci, GpuDriver, Expected),
    uses=(Modules,),
    after=("gpu.expected",),
    remedies=("kernel_modules",),
    judge=judge,
)
