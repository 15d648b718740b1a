"""May containers pin as much memory as RDMA needs?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.limits import InheritedLimit, Limits, RuntimeProcess
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Subject, Verdict, raw
from nodeprep.values import Value

RUNTIME = "container runtime"  # one whose name nothing shows
UNITS = {"containerd": "containerd", "crio": "crio", "dockerd": "docker", "kubelet": "kubelet"}  # by process


# containerd's shim starts every container of a pod, and keeps the limit that containerd had when it made the pod: a
# container that is started again has the old one (tests/kubernetes/test_reach.py).
ANEW = "then stop this pod, which keeps the limit of that time: kubectl -n nodeprep delete pod POD, or crictl stopp"


class Want(Value):
    """How much memory containers must be allowed to lock.

    1 GiB is ours: NCCL pins some hundred MiB of buffers a rank, and distributions allow 64 KiB to 8 MiB.
    """

    fail_below: Annotated[int, "bytes; a lower limit fails the node, a higher one only warns."] = 1 << 30


def judge(seen: Seen) -> Iterator[Verdict]:
    if not seen[Rdma].devices and not seen[Expected].wants_rdma:
        return
    own = raw(seen[Limits])["inherited"]
    if own is not None:
        yield from seen.each([seen[Limits]], lambda limits: given(limits.inherited, seen), lambda _: maker(own))
        return
    processes = seen[Limits].processes
    # Containers inherit from the runtime; the kubelet's own limit counts where no runtime can be seen.
    judged = [process for process in processes if process.is_runtime] or list(processes)
    by_name = {process.name: [one for one in judged if one.name == process.name] for process in judged}
    yield from seen.each(
        by_name.values(), lambda alike: verdict(tightest(alike), seen), lambda alike: subject(alike[0])
    )


def tightest(alike: list[RuntimeProcess]) -> RuntimeProcess:
    return min(alike, key=lambda process: float("inf") if process.soft is None else process.soft)


def subject(process: RuntimeProcess) -> Subject:
    return Subject(process.name, None, process.name)


def verdict(process: RuntimeProcess, seen: Seen) -> Verdict:
    about, limit = subject(process), process.soft
    if limit is None:
        message = f"{process.name} (pid {process.pid}) may lock unlimited memory"
        return Verdict(about, Status.OK, "Unlimited", message, None, "unlimited", "unlimited")
    unit = UNITS[process.name]
    ours = process.unit in ("", f"{unit}.service")
    status, wants = wish(limit, seen)
    message = (
        f"{process.name} (pid {process.pid}, {process.unit or 'unit not shown'}) may lock {size(limit)}, and so may "
        f"containers without CAP_IPC_LOCK; {wants}: set LimitMEMLOCK=infinity for its unit and restart it"
    )
    remedy = Remedy("memlock", {"unit": unit}) if ours else None
    return Verdict(
        about, status, "Limited", message, remedy, str(limit), "unlimited", args={"unit": process.unit or unit}
    )


def wish(limit: int, seen: Seen) -> tuple[Status, str]:
    """How bad a limit is, and what is wanted in its place."""
    least = seen[Want].fail_below
    if limit >= least:
        return Status.WARN, "RDMA wants unlimited"
    return Status.FAIL, f"RDMA wants unlimited, and {size(least)} at least are wanted {seen.wanted_by('fail-below')}"


def maker(own: object) -> Subject:
    """The runtime that made our container, by the name that its process has on the host."""
    name = (own.runtime if isinstance(own, InheritedLimit) else "") or RUNTIME
    return Subject(name, None, name)


def given(own: InheritedLimit | None, seen: Seen) -> Verdict | None:
    """By the agent's own container: the runtime gives each container the limit that it had when it made the pod."""
    if own is None:
        return None
    limit, name = own.soft, own.runtime or RUNTIME
    by = f"{name} ({own.unit or 'unit not shown'})"
    if limit is None:
        message = f"{by} lets this agent's container, made {own.made}, lock unlimited memory, and so containers of jobs"
        return Verdict(maker(own), Status.OK, "Unlimited", message, None, "unlimited", "unlimited")
    status, wants = wish(limit, seen)
    message = (
        f"{by} lets this agent's container, made {own.made}, lock {size(limit)}, and so containers without "
        f"CAP_IPC_LOCK; {wants}: set LimitMEMLOCK=infinity for {own.unit or 'its unit'} and restart it; "
        f"{ANEW}"
    )
    remedy = Remedy("memlock", {"unit": UNITS[own.runtime]}) if own.unit else None
    unit = {"unit": own.unit or UNITS.get(own.runtime, "RUNTIME")}
    return Verdict(maker(own), status, "Limited", message, remedy, str(limit), "unlimited", args=unit)


def size(count: int) -> str:
    """Bytes in the largest binary unit that leaves no fraction."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count and count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return f"{count} bytes"


CHECK = Check(
    id="limits.memlock",
    question="May containers pin as much memory as RDMA needs?",
    why="RDMA pins what it sends and receives; at the limit ibv_reg_mr fails with ENOMEM and the job dies early.",
    fix="A drop-in with LimitMEMLOCK=infinity for the runtime's unit (systemctl edit {unit}), then systemctl restart "
    "{unit}; pods made later have it. In a pod the agent judges its own limit, of the time when that was made: then "
    "stop the pod through the runtime (kubectl -n nodeprep delete pod POD, crictl stopp).",
    reasons=(
        Reason("Unlimited", Status.OK),
        Reason("Limited", Status.FAIL),
        Reason("Limited", Status.WARN),
    ),
    source="Linux drivers/infiniband/core/umem.c (RLIMIT_MEMLOCK unless CAP_IPC_LOCK); the bound of 1 GiB is ours",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Limits, Rdma, Expected),
    remedies=("memlock",),
    want=Want,
    judge=judge,
)
