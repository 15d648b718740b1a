"""Does NVIDIA's Fabric Manager run where the GPUs are connected by NVSwitches?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.kubernetes import gpu_operator
from nodeprep.facts.kubernetes.cluster import Cluster, Pod
from nodeprep.facts.machine.gpu import FabricManager, GpuDriver
from nodeprep.facts.machine.limits import FABRIC_MANAGER, Limits
from nodeprep.facts.machine.pci import Pci
from nodeprep.model import (
    NODE,
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    Why,
    raw,
)

UNIT = "nvidia-fabricmanager.service"


def judge(seen: Seen) -> Iterator[Verdict]:
    switches = seen[Pci].nvswitches
    manager = seen[GpuDriver].fabric_manager
    if not switches or raw(seen[GpuDriver])["version"] is None or manager is None:
        return  # nothing to manage, or gpu.driver says why nothing can run
    limits = seen.explaining(Limits)
    daemons = raw(limits)["daemons"] if limits is not None else None
    running = [one for one in daemons or () if one.name == FABRIC_MANAGER]
    shows = f"{len(switches)} NVSwitch{'' if len(switches) == 1 else 'es'} here"
    if running:
        yield run(f"{shows}, and nv-fabricmanager runs (pid {running[0].pid})", manager)
    elif daemons is not None:
        yield from none_runs(shows, manager)
    elif manager.port is None:
        raise CannotLook(Unreadable(Why.DENIED, "/proc", detail="it uses a Unix socket; processes are not shown here"))
    elif manager.listens is not None:
        yield only_the_port(shows, manager.port, None if manager.listens else driver_pod(seen), listens=manager.listens)


def run(shows: str, manager: FabricManager) -> Verdict:
    if manager.port is not None and raw(manager)["listens"] is False:
        message = f"{shows}, but nobody listens on its port {manager.port}: it is starting still, or it hangs"
        return Verdict(NODE, Status.WARN, "NotListening", message, None, "no listener", str(manager.port))
    return Verdict(NODE, Status.OK, "Running", shows, None, "running", "running")


def none_runs(shows: str, manager: FabricManager) -> Iterator[Verdict]:
    if manager.listens:  # whose it is decides, so one that cannot be read raises
        message = f"{shows}, no process named nv-fabricmanager, and somebody listens on its port {manager.port}"
        yield Verdict(NODE, Status.WARN, "OtherListener", message, None, "another process", UNIT)
        return
    message = f"{shows}, and nv-fabricmanager does not run: CUDA fails with 802 in each new job"
    yield Verdict(NODE, Status.FAIL, "NotRunning", message, None, "no process", UNIT)


def driver_pod(seen: Seen) -> Pod | None:
    """The driver container in whose network Fabric Manager listens, as far as Kubernetes can be asked."""
    try:
        return gpu_operator.driver_pod(seen.get(Cluster))
    except CannotLook:
        return None


def only_the_port(shows: str, port: int, driver: Pod | None, *, listens: bool) -> Verdict:
    """As a pod sees it, which has none of the host's processes."""
    if driver is not None:
        detail = f"Fabric Manager is looked for by its port, and {driver.where} has a network of its own"
        raise CannotLook(Unreadable(Why.DENIED, f"port {port}", detail=detail))
    if listens:
        return Verdict(NODE, Status.OK, "Running", f"{shows}, and port {port} has a listener", None, "a listener")
    message = f"{shows}, and nobody listens on port {port} of Fabric Manager: CUDA fails with 802 in each new job"
    return Verdict(NODE, Status.FAIL, "NotRunning", message, None, "no listener", UNIT)


CHECK = Check(
    id="gpu.fabric-manager",
    question="Does NVIDIA's Fabric Manager run where the GPUs are connected by NVSwitches?",
    why="Without it no GPU joins the NVLink fabric: in each new job CUDA fails with 802 (system not yet initialized), "
    "while nvidia-smi and the device plugin show healthy GPUs.",
    fix="docs/runbooks/fabric-manager.md. It is restarted by a human only: that can end jobs which run.",
    reasons=(
        Reason("Running", Status.OK),
        Reason("NotListening", Status.WARN),
        Reason("OtherListener", Status.WARN),
        Reason("NotRunning", Status.FAIL),
    ),
    source="NVIDIA Fabric Manager user guide (FM_CMD_PORT_NUMBER 6666, FM_CMD_UNIX_SOCKET_PATH); NVSentinel issue 883",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Pci, GpuDriver),
    uses=(Limits, Cluster),
    after=("gpu.driver",),
    judge=judge,
)
