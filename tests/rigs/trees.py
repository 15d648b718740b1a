"""Builds sysfs, proc and dev trees from the short descriptions in tests/trees/nodes.

    python tests/rigs/trees.py list
    python tests/rigs/trees.py build h100-ib DIRECTORY
    python tests/rigs/trees.py run -- COMMAND        # $TREES holds every node's tree, one directory each

Real here: links, directories and the exact text of files, as the kernel lays them out. Not real: anything behind them.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

HERE = Path(__file__).resolve().parent.parent / "trees"
KINDS: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "kinds.yaml").read_text())
MODULES = ("ib_core", "ib_uverbs", "ib_umad", "rdma_cm", "rdma_ucm", "ib_cm", "iw_cm")
AUXILIARY = {"mlx5_core": "mlx5_ib", "ice": "irdma", "bnxt_en": "bnxt_re"}
GIDS = 24  # entries of the table; a real one has 256 or 1,024, which would only cost time here
ZERO_GID = ":".join(["0000"] * 8)
UVERBS_MAJOR, UVERBS_MINOR, UMAD_MINOR = 231, 192, 0


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link to `target`, as written."""

    target: str


@dataclass(frozen=True, slots=True)
class Char:
    """A character device, or a plain file if we may not make one."""

    major: int
    minor: int
    mode: int = 0o666


Content = str | bytes | Link | Char | None  # None is an empty directory
Tree = dict[str, Content]


@dataclass(slots=True)
class Nic:
    """One function of a description, its kind's values filled in."""

    at: str
    index: int
    values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name)

    @property
    def home(self) -> str:
        """Its directory under /sys/devices, below the host bridge and its root port or the bridges that are given."""
        domain, bus, _ = self.at.split(":")
        if self["under"]:
            bridges = self["under"].split("/")
            return f"sys/devices/pci{bridges[0].rpartition(':')[0]}/{self['under']}/{self.at}"
        bridge = f"{domain}:{int(bus, 16) - 1 & 0xFF:02x}:01.0"
        return f"sys/devices/pci{domain}:{int(bus, 16) - 1 & 0xFF:02x}/{bridge}/{self.at}"


def described(name: str) -> dict[str, Any]:
    """A node's description by its file name."""
    given: dict[str, Any] = yaml.safe_load((HERE / "nodes" / f"{name}.yaml").read_text())
    return given


def names() -> list[str]:
    return sorted(path.stem for path in (HERE / "nodes").glob("*.yaml"))


def cases() -> list[Path]:
    return sorted((HERE / "cases").glob("*.yaml"))


def build_case(name: str, directory: Path) -> Path:
    """Build a case: its node with its fault."""
    from tests.rigs import faults

    case = yaml.safe_load((HERE / "cases" / f"{name}.yaml").read_text())
    root = build(case["node"], directory)
    faults.apply(case, root)
    return root


def nics(description: dict[str, Any]) -> Iterator[Nic]:
    return functions(description.get("nics", []))


def gpus(description: dict[str, Any]) -> Iterator[Nic]:
    """GPUs and NVSwitches by kind. A plain list of addresses is H100s of which a copy kept the PCI functions only."""
    return functions([one for one in description.get("gpus", []) if isinstance(one, dict)])


def functions(groups: list[dict[str, Any]]) -> Iterator[Nic]:
    """Each group's lists go together: the third address has the third name. A single value is for all."""
    index = 0
    for group in groups:
        for position, at in enumerate(group["at"]):
            own = {key: value[position] if isinstance(value, list) else value for key, value in group.items()}
            yield Nic(at, index, KINDS[own["kind"]] | own)
            index += 1


def tree(description: dict[str, Any]) -> Tree:
    """Every path of a node with its content."""
    files = _system(description)
    for nic in nics(description):
        files |= _pci(nic) | _rdma(nic) | _netdev(nic)
    for index, at in enumerate(one for one in description.get("gpus", []) if isinstance(one, str)):
        files |= _gpu(at, index)
    for gpu in gpus(description):
        files |= _pci(gpu) | GPU_DRIVERS[gpu["driver"]](gpu)
    files |= description.get("files", {})
    for part in description.get("lacks", []):
        files = {path: content for path, content in files.items() if not _lies_in(path, part)}
    return _flattened(files) if description.get("flat") else files


def write(files: Tree, directory: Path) -> None:
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        match content:
            case None:
                target.mkdir(parents=True, exist_ok=True)
            case Link():
                target.symlink_to(content.target)
            case Char():
                _device(target, content)
            case bytes():
                target.write_bytes(content)
            case str():
                target.write_text(content + "\n")
                if target.parent.name == "bin":
                    target.chmod(0o755)  # a program


def build(name: str, directory: Path) -> Path:
    """Build a described node under `directory` and return its root."""
    write(tree(described(name)), directory)
    return directory


def _system(description: dict[str, Any]) -> Tree:
    virtual = description.get("virtual", False)
    release = "6.8.0-45-generic"
    loaded = (
        *MODULES,
        *{nic["rdma-module"] for nic in nics(description)},
        *{nic["driver"] for nic in nics(description)},
    )
    files: Tree = {
        "proc/sys/kernel/hostname": description["name"],
        "proc/sys/kernel/osrelease": release,
        "proc/sys/kernel/random/boot_id": "0f2b6c3e-4b8f-4a35-9d62-0c5d3f1f0a11",
        "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme" + (" hypervisor" if virtual else ""),
        "proc/cmdline": "ro quiet iommu=pt",
        "proc/meminfo": "MemTotal:       2113525540 kB",
        "proc/1/mountinfo": "22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw",
        "proc/1/mounts": "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0",
        "proc/1871/comm": "containerd",
        "proc/1871/limits": "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max locked memory         unlimited            unlimited            bytes",
        "sys/class/dmi/id/sys_vendor": description.get("vendor", "NVIDIA"),
        "sys/class/infiniband_verbs/abi_version": "6",
        "sys/class/misc/rdma_cm/dev": "10:122",
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0",
        "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "0",
        "dev/infiniband/rdma_cm": Char(10, 122),
    }
    files |= {f"sys/module/{module}/initstate": "live" for module in loaded if module}
    files[f"lib/modules/{release}/modules.dep"] = "\n".join(f"kernel/{module}.ko:" for module in loaded if module)
    files[f"lib/modules/{release}/modules.alias"] = (
        "alias pci:v000015B3d00001021sv*sd*bc*sc*i* mlx5_core\nalias pci:v000015B3d0000101Dsv*sd*bc*sc*i* mlx5_core"
    )
    return files


def _pci(nic: Nic) -> Tree:
    vendor, device = nic["id"].split(":")
    here = nic.home
    files: Tree = {
        f"{here}/vendor": f"0x{vendor}",
        f"{here}/device": f"0x{device}",
        f"{here}/class": f"0x{nic['class']}",
        f"{here}/modalias": f"pci:v0000{vendor.upper()}d0000{device.upper()}sv0sd0bc{nic['class'][:2]}sc00i00",
        f"{here}/config": bytes.fromhex(vendor)[::-1] + bytes.fromhex(device)[::-1] + bytes(60),
        f"{here}/numa_node": str(nic["numa"] if nic["numa"] is not None else -1),
        f"{here}/power_state": "D0",
        f"{here}/driver_override": "(null)",
        f"{here}/aer_dev_correctable": "RxErr 0\nTOTAL_ERR_COR 0",
        f"{here}/aer_dev_nonfatal": "Undefined 0\nTOTAL_ERR_NONFATAL 0",
        f"{here}/aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0",
        f"{here}/driver": _link(here, f"sys/bus/pci/drivers/{nic['driver']}"),
        f"sys/bus/pci/drivers/{nic['driver']}/module": None,
        f"sys/bus/pci/devices/{nic.at}": _link("sys/bus/pci/devices", here),
    }
    if nic["speed"]:
        files |= {f"{here}/{which}_link_speed": f"{nic['speed']} GT/s PCIe" for which in ("current", "max")}
        files |= {f"{here}/{which}_link_width": str(nic["width"]) for which in ("current", "max")}
    if nic["driver"] in AUXILIARY and nic["rdma"]:
        auxiliary = f"{here}/{nic['driver']}.rdma.{nic.index}"
        files[f"{auxiliary}/driver"] = _link(auxiliary, f"sys/bus/auxiliary/drivers/{AUXILIARY[nic['driver']]}.rdma")
        files[f"sys/bus/auxiliary/drivers/{AUXILIARY[nic['driver']]}.rdma/module"] = None
    return files


def _rdma(nic: Nic) -> Tree:
    name = nic["rdma"]
    if not name:
        return {}
    here = f"{nic.home}/infiniband/{name}"
    port = f"{here}/ports/1"
    up = nic["state"] == "4: ACTIVE"
    guid = nic["guid"] or f"946d:ae03:00cd:{0xE700 + nic.index:04x}"
    files: Tree = {
        f"sys/class/infiniband/{name}": _link("sys/class/infiniband", here),
        f"{here}/device": Link("../../../" + nic.at),
        f"{here}/node_type": nic["node-type"],
        f"{here}/node_guid": guid,
        f"{here}/sys_image_guid": guid,
        f"{here}/fw_ver": nic["firmware"],
        f"{here}/hca_type": nic["hca"],
        f"{here}/board_id": nic["board"],
        f"{port}/state": nic["state"],
        f"{port}/phys_state": nic["physical"],
        f"{port}/rate": nic["rate"] if up else nic["down-rate"],
        f"{port}/link_layer": nic["layer"],
        f"{port}/lid": f"0x{0x4B + nic.index:x}" if nic["layer"] == "InfiniBand" else "0x0",
        f"{port}/sm_lid": "0x14e" if nic["layer"] == "InfiniBand" else "0x0",
        f"{port}/counters/symbol_error": "0",
        f"{port}/counters/link_downed": "0",
        f"{port}/counters/excessive_buffer_overrun_errors": "15",  # stuck at its 4 bits, as on a healthy H100 node
        f"{port}/counters/port_rcv_errors": "14",
        f"{port}/hw_counters/local_ack_timeout_err": "0",
    }
    files |= _gids(nic, port) | _nodes(nic)
    return files


def _gids(nic: Nic, port: str) -> Tree:
    ip = f"0000:0000:0000:0000:0000:ffff:0a63:{nic.index + 2:04x}"
    local = f"fe80:0000:0000:0000:946d:aeff:fecd:{0xE700 + nic.index:04x}"
    table = {0: (local, "IB/RoCE v1")}
    if nic["layer"] == "Ethernet":
        table = {} if nic["gids"] is False else {0: (local, "IB/RoCE v1"), 1: (local, "RoCE v2"), 3: (ip, "RoCE v2")}
    files: Tree = {}
    for index in range(GIDS):
        value, kind = table.get(index, (ZERO_GID, None))
        files[f"{port}/gids/{index}"] = value
        if kind and nic["layer"] == "Ethernet":
            files[f"{port}/gid_attrs/types/{index}"] = kind
            files[f"{port}/gid_attrs/ndevs/{index}"] = nic["netdev"] or nic["gid-netdev"]
    return files


def _nodes(nic: Nic) -> Tree:
    files: Tree = {}
    for prefix, minor, directory in (
        ("uverbs", UVERBS_MINOR, "infiniband_verbs"),
        ("umad", UMAD_MINOR, "infiniband_mad"),
    ):
        entry = f"{prefix}{nic.index}"
        place = f"{nic.home}/{directory}/{entry}"
        files |= {
            f"sys/class/{directory}/{entry}": _link(f"sys/class/{directory}", place),
            f"{place}/ibdev": nic["rdma"],
            f"{place}/dev": f"{UVERBS_MAJOR}:{minor + nic.index}",
            f"dev/infiniband/{entry}": Char(UVERBS_MAJOR, minor + nic.index, 0o666 if prefix == "uverbs" else 0o600),
        }
        if prefix == "umad":
            files[f"{place}/port"] = "1"
    return files


def _netdev(nic: Nic) -> Tree:
    name = nic["netdev"]
    if not name:
        return {}
    here = f"{nic.home}/net/{name}"
    carrier = nic["state"] in ("4: ACTIVE", None)
    files: Tree = {
        f"sys/class/net/{name}": _link("sys/class/net", here),
        f"{here}/device": Link("../../../" + nic.at),
        f"{here}/ifindex": str(nic.index + 2),
        f"{here}/address": nic["mac"] or f"94:6d:ae:cd:e7:{nic.index:02x}",
        f"{here}/flags": "0x1003" if carrier or nic["physical"] == "2: Polling" else "0x1002",
        f"{here}/operstate": "up" if carrier else "down",
        f"{here}/carrier": "1" if carrier else "0",
        f"{here}/mtu": str(nic["mtu"]),
        f"{here}/dev_port": "0",
        f"{here}/carrier_down_count": "1",
    }
    if nic["bond"]:
        files |= {
            f"{here}/master": _link(here, f"sys/devices/virtual/net/{nic['bond']}"),
            f"sys/class/net/{nic['bond']}": _link("sys/class/net", f"sys/devices/virtual/net/{nic['bond']}"),
        }
        bond = f"sys/devices/virtual/net/{nic['bond']}"
        files |= {f"{bond}/flags": "0x1403", f"{bond}/operstate": "up", f"{bond}/carrier": "1", f"{bond}/mtu": "1500"}
        files |= {f"{bond}/bonding/mode": "802.3ad 4", f"{bond}/address": "94:6d:ae:cd:e7:ff"}
    return files


def _gpu(at: str, index: int) -> Tree:
    gpu = Nic(at, index, KINDS["h100-sxm"])
    files = {path: content for path, content in _pci(gpu).items() if "aer_dev" not in path}
    files[f"{gpu.home}/numa_node"] = str(index // 4)
    files["proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release"
    files["sys/module/nvidia/initstate"] = "live"
    return files


def _nvidia(gpu: Nic) -> Tree:
    """What NVIDIA's driver shows of a GPU: its list, its nodes, its module. `uuid: false` is one that nobody opened."""
    uuid = f"GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3{gpu.index:02x}"
    unset = "GPU-????????-????-????-????-????????????"
    return {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release",
        f"proc/driver/nvidia/gpus/{gpu.at}/information": f"Model: \t\t {gpu['model']}\nIRQ:   \t\t 312\nGPU UUID: \t "
        f"{unset if gpu['uuid'] is False else uuid}\nVideo BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\n"
        f"Bus Location: \t {gpu.at}\nDevice Minor: \t {gpu.index}\nGPU Excluded:\t {gpu['excluded'] or 'No'}",
        "sys/module/nvidia/initstate": "live",
        "sys/module/nvidia/refcnt": str(gpu["refcnt"] or 2),
        "sys/module/nvidia/holders/nvidia_uvm": None,
        "sys/module/nvidia/holders/nvidia_modeset": None,
        "sys/module/nvidia_uvm/initstate": "live",
        f"dev/nvidia{gpu.index}": Char(195, gpu.index),
        "dev/nvidiactl": Char(195, 255),
        "dev/nvidia-uvm": Char(511, 0),
    }


def _nvswitch(switch: Nic) -> Tree:
    return {f"dev/nvidia-nvswitch{switch.index}": Char(510, switch.index), "dev/nvidia-nvswitchctl": Char(510, 255)}


def _amdgpu(gpu: Nic) -> Tree:
    return {
        "sys/module/amdgpu/initstate": "live",
        f"sys/bus/pci/drivers/amdgpu/{gpu.at}": _link("sys/bus/pci/drivers/amdgpu", gpu.home),
        f"{gpu.home}/drm/renderD{128 + gpu.index}/dev": f"226:{128 + gpu.index}",
        f"dev/dri/renderD{128 + gpu.index}": Char(226, 128 + gpu.index),
        "dev/kfd": Char(234, 0),
    }


GPU_DRIVERS = {"nvidia": _nvidia, "nvidia-nvswitch": _nvswitch, "amdgpu": _amdgpu}


def _link(directory: str, to: str) -> Link:
    """A link that lies in `directory`, relative as sysfs writes them."""
    return Link(os.path.relpath(f"/{to}", f"/{directory}"))


def _lies_in(path: str, part: str) -> bool:
    """A part is a folder, or a file name in any folder."""
    return path == part or path.startswith(f"{part}/") or ("/" not in part and part in path.split("/"))


def _flattened(files: Tree) -> Tree:
    """As after `cp -rL /sys/class/infiniband`: plain directories, no links, nothing else of sysfs."""
    flat: Tree = {path: content for path, content in files.items() if path.startswith("proc/sys/kernel")}
    for path, content in files.items():
        if path.startswith("sys/class/infiniband/") and isinstance(content, Link):
            home = os.path.normpath(f"sys/class/infiniband/{content.target}")
            inside = {
                at: text for at, text in files.items() if at.startswith(f"{home}/") and not isinstance(text, Link)
            }
            flat |= {path + at.removeprefix(home): text for at, text in inside.items()}
    return flat


def _device(target: Path, device: Char) -> None:
    try:
        os.mknod(target, stat.S_IFCHR | device.mode, os.makedev(device.major, device.minor))
        target.chmod(device.mode)
    except PermissionError:  # an ordinary user builds placeholders, as a copied tree has them
        target.write_text("")


def main(arguments: list[str]) -> int:
    match arguments:
        case ["list"]:
            print("\n".join(f"{name:24} {described(name)['about']}" for name in names()))
            print("\n".join(f"{path.stem:48} {yaml.safe_load(path.read_text())['about']}" for path in cases()))
        case ["build", _, directory] if Path(directory).exists():
            print(f"{directory}: found something there, wanted a directory that is not there yet", file=sys.stderr)
            return 2
        case ["build", name, directory] if name in names():
            print(build(name, Path(directory)))
        case ["build", name, directory] if name in [path.stem for path in cases()]:
            print(build_case(name, Path(directory)))
        case ["build", name, _]:
            print(f"there is no node or case {name!r}: see `list`", file=sys.stderr)
            return 2
        case ["run", "--", *command] if command:
            with tempfile.TemporaryDirectory(prefix="nodeprep-trees-") as scratch:
                for name in names():
                    build(name, Path(scratch) / name)
                return subprocess.run(command, env=os.environ | {"TREES": scratch}, check=False).returncode
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
