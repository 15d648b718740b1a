"""Can the NICs reach the GPUs' memory without the processor?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.system import System
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import NODE, Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict

PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")  # NVIDIA's own since driver 465, Mellanox's before
DMA_BUF = (5, 12)  # the first Linux whose verbs take DMA-BUF memory (ib_umem_dmabuf_get)


def judge(seen: Seen) -> Iterator[Verdict]:
    expected = seen[Expected]
    if not seen[Pci].gpus or not any(expected.of(port) for port in seen[Rdma].ports):
        return
    if seen[GpuDriver].version is None:
        return  # gpu.driver says so
    modules = seen.get(Modules)
    loaded = [name for name in PEER_MEMORY if modules is not None and modules.is_loaded(name)]
    if loaded:
        yield Verdict(NODE, Status.OK, "PeerMemory", f"{loaded[0]} is loaded", observed=loaded[0])
        return
    is_open, kernel = seen[GpuDriver].is_open, seen[System].kernel
    is_new = seen[System].kernel_at_least(*DMA_BUF)
    if is_open and is_new:
        yield Verdict(NODE, Status.OK, "DmaBuf", f"NVIDIA's open kernel module and Linux {kernel} share DMA-BUFs")
        return
    if modules is None or (is_open and is_new is None):
        return  # a copied tree that does not show enough
    legs = [] if is_open else ["NVIDIA's kernel module is not the open one"]
    legs += [] if is_new is not False else [f"Linux {kernel} is older than 5.12"]
    message = (
        f"nvidia_peermem is not loaded, and no DMA-BUF instead: {' and '.join(legs)}; NCCL will copy through the "
        "processor's memory; try: modprobe nvidia_peermem"
    )
    load = Remedy("peermem_load")
    yield Verdict(NODE, Status.WARN, "NoGpuDirect", message, load, "neither", "nvidia_peermem or DMA-BUF")


CHECK = Check(
    id="rdma.gpudirect",
    question="Can the NICs reach the GPUs' memory without the processor?",
    why="Without GPUDirect RDMA every message crosses the processor's memory: half of the bandwidth or less.",
    fix="modprobe nvidia_peermem; or NVIDIA's open kernel module on Linux 5.12 or later, which needs no peermem.",
    reasons=(
        Reason("PeerMemory", Status.OK),
        Reason("DmaBuf", Status.OK),
        Reason("NoGpuDirect", Status.WARN),
    ),
    source="NVIDIA GPU Operator, GPUDirect RDMA (DMA-BUF is recommended over nvidia-peermem)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Pci, Rdma, Expected, GpuDriver, System),
    uses=(Modules,),
    after=("gpu.driver",),
    remedies=("peermem_load",),
    judge=judge,
)
