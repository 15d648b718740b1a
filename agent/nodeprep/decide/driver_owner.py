"""Which drivers of this node another operator's container owns. Nothing of ours loads or binds those.

NVIDIA's GPU operator and network operator bring drivers in a container that unloads and loads them as it likes. Labels
of the Node say that they do, also while that container is just being replaced and no pod of it is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from nodeprep.facts.kubernetes.cluster import Pod
from nodeprep.model import raw
from nodeprep.newer_python import StrEnum

GPU_DEPLOYED = "nvidia.com/gpu.deploy.driver"  # the GPU operator: "false" and "pre-installed" say that it brings none
GPU_NOT_DEPLOYED = ("", "false", "pre-installed")
MOFED_WAITS = "network.nvidia.com/operator.mofed.wait"  # the network operator, with any value, where it brings OFED


class DriverFamily(StrEnum):
    """Drivers that come in one container."""

    NVIDIA = "nvidia"
    MELLANOX = "mellanox"


ROOTS: Mapping[DriverFamily, PurePosixPath] = {
    DriverFamily.NVIDIA: PurePosixPath("/run/nvidia/driver"),
    DriverFamily.MELLANOX: PurePosixPath("/run/mellanox/drivers"),
}
OWNERS: Mapping[DriverFamily, str] = {
    DriverFamily.NVIDIA: "NVIDIA's GPU operator",
    DriverFamily.MELLANOX: "NVIDIA's network operator",
}
# What their names begin with. OFED brings the whole stack anew, so its modules are those of the core too.
PREFIXES: Mapping[DriverFamily, tuple[str, ...]] = {
    DriverFamily.NVIDIA: ("nvidia", "gdrdrv", "nv_peer_mem"),
    DriverFamily.MELLANOX: ("mlx", "ib_", "rdma_", "iw_cm", "rpcrdma", "nvme_rdma"),
}
PEERMEM = "peermem_load"  # loads nvidia_peermem, and has no argument that says so
NAMING = ("module", "driver")  # arguments that name a kernel module


def owned(labels: Mapping[str, str], pods: Iterable[Pod], *, gpu_container: bool) -> frozenset[DriverFamily]:
    """The families of drivers that an operator brings here. `gpu_container`: the root of NVIDIA's driver is there."""
    roots = {path for pod in pods for path in map(PurePosixPath, _writes(pod))}
    found = {family for family, root in ROOTS.items() if root in roots}
    if gpu_container or labels.get(GPU_DEPLOYED, "") not in GPU_NOT_DEPLOYED:
        found.add(DriverFamily.NVIDIA)
    if MOFED_WAITS in labels:
        found.add(DriverFamily.MELLANOX)
    return frozenset(found)


def hindrance(remedy: str, args: Mapping[str, str], families: Iterable[DriverFamily]) -> str:
    """Who owns the driver that a remedy would touch, "" for nobody else."""
    named = [args[name] for name in NAMING if name in args] + (["nvidia_peermem"] if remedy == PEERMEM else [])
    for family in sorted(families):
        for name in named:
            if name.replace("-", "_").startswith(PREFIXES[family]):
                return f"{OWNERS[family]} owns {name} on this node: see its driver pods"
    return ""


def _writes(pod: Pod) -> tuple[str, ...]:
    """Where a pod writes. A pod that has ended counts too: its successor comes."""
    writes = raw(pod)["writes"]
    return writes if isinstance(writes, tuple) else ()
