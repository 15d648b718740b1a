"""What the drivers of GPUs show, without a vendor's tool. The GPUs themselves are PCI functions (facts/machine/pci)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodeprep.facts.machine.pci import ADDRESS
from nodeprep.model import Fact, Shown, Topic, Unreadable, Why, guarded, shown, stands_for_all
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

DRIVER = "/proc/driver/nvidia"
VERSION = f"{DRIVER}/version"
GPUS = f"{DRIVER}/gpus"
MODULE = "/sys/module/nvidia"
CONTAINER = "/run/nvidia/driver"  # the root of the GPU operator's driver container, mounted on the host
DEVICE_ROOTS = ("", CONTAINER)  # the driver container has nodes of its own
NODE_NAME = Pattern(r"nvidia(?:\d{1,3}|ctl|-uvm|-nvswitch\d{1,3}|-nvswitchctl)")
SOCKETS = ("/run/nvidia-persistenced/socket", "/var/run/nvidia-persistenced/socket")
KFD_NODE = "/dev/kfd"
AMD_DEVICES = "/sys/bus/pci/drivers/amdgpu"
RENDER = Pattern(r"renderD\d{1,4}")
# "GPU-????????-????-..." until the driver has set the GPU up for a first user (README of NVIDIA's driver, appendix on
# the proc file system).
RELEASE = Pattern(r"(?<![\w.])\d+(?:\.\d+)+")  # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar"
UUID_LINE = Pattern(r"^GPU UUID:[ \t]*(\S*)", re.MULTILINE)
MODEL_LINE = Pattern(r"^Model:[ \t]*(.*\S)", re.MULTILINE)
MINOR_LINE = Pattern(r"^Device Minor:[ \t]*(\d{1,3})[ \t]*$", re.MULTILINE)
EXCLUDED_LINE = Pattern(r"^GPU (?:Excluded|Blacklisted):[ \t]*(Yes|No)\b", re.MULTILINE)  # the second until 460
TCP = ("/proc/net/tcp", "/proc/net/tcp6")  # of the reader's network namespace, which is the host's
# Listeners come first (tcp_get_first, net/ipv4/tcp_ipv4.c): a table of ten thousand connections is not read to its end.
TCP_HEAD = 64 << 10  # bytes; 400 listeners
LISTENER = Pattern(r"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:0000 0A ", re.MULTILINE)
FABRIC_MANAGER_CONFIG = "/usr/share/nvidia/nvswitch/fabricmanager.cfg"
PORT_LINE = Pattern(r"^FM_CMD_PORT_NUMBER[ \t]*=[ \t]*(\d{1,5})[ \t]*$", re.MULTILINE)
SOCKET_LINE = Pattern(r"^FM_CMD_UNIX_SOCKET_PATH[ \t]*=[ \t]*(\S+)", re.MULTILINE)
FABRIC_MANAGER_PORT = 6666  # FM_CMD_PORT_NUMBER of NVIDIA's own file (Fabric Manager user guide)


@shown
class GpuInformation(Shown):
    """One GPU as NVIDIA's driver lists it. `minor` is the number of its node, /dev/nvidia0; None if it has none yet.

    `uuid` is None until the driver has set it up for a first user. `excluded`: an operator or the firmware keeps it
    from being used (NVreg_ExcludedGpus).
    """

    address: str
    model: str
    uuid: str | None
    minor: int | None
    excluded: bool

    possible = stands_for_all(minor=(None,))


@shown
class FabricManager(Shown):
    """The port on which NVIDIA's Fabric Manager is told to take commands, and whether somebody listens there.

    `port` is None where it is told to use a Unix socket. `listens` is None in a copy without /proc/net/tcp.
    """

    port: int | None
    listens: bool | None


@shown
class AmdGpu(Shown):
    """One GPU that amdgpu drives, with the names of its render nodes, such as renderD128."""

    address: str
    renders: tuple[str, ...]


@shown
class GpuDriver(Shown):
    """What the drivers of GPUs show.

    `version` is the text of NVIDIA's, None where it is not loaded; then all that is NVIDIA's is empty. `gpus` are those
    that it drives, None where it shows no list. `nodes` are the names of its device nodes in /dev, None where /dev is
    not shown. `users` is how many hold one of its nodes or need it in the kernel, None where that is not shown.
    `persistence`: the persistence daemon's socket is there. `container`: the root of a driver container is there.
    `amd` are the GPUs that amdgpu drives; `kfd` is whether the node of AMD's compute driver is there, None where /dev
    is not shown.
    """

    at: float
    version: str | None
    gpus: tuple[GpuInformation, ...] | None = None
    nodes: tuple[str, ...] | None = None
    users: int | None = None
    persistence: bool = False
    container: bool = False
    fabric_manager: FabricManager | None = None
    amd: tuple[AmdGpu, ...] = ()
    kfd: bool | None = None

    # A file that cannot be read is there, so the driver is loaded.
    possible = stands_for_all(version=("",), gpus=(None,), nodes=(None,), users=(None,))

    @property
    def is_open(self) -> bool:
        """Whether it is the open kernel module, the one that exports DMA-BUF."""
        return "Open Kernel Module" in (self.version or "")

    @property
    def release(self) -> str:
        """The driver's number, "580.159.04", of its text; "" where there is none."""
        found = RELEASE.search(self.version or "")
        return found[0] if found else ""

    def information(self, address: str) -> GpuInformation | None:
        return next((one for one in self.gpus or () if one.address == address), None)


def observe(host: Host) -> GpuDriver:
    files = host.files
    version, amd = files.text(VERSION), _amd(files)
    container = any(files.exists(f"{CONTAINER}/{name}") for name in ("usr", "lib"))
    kfd = _kfd(host) if amd else None
    if version is None:
        return GpuDriver(host.now(), None, container=container, amd=amd, kfd=kfd)
    return GpuDriver(
        at=host.now(),
        version=guarded(version),
        gpus=guarded(_gpus(files)),
        nodes=guarded(_nodes(host)),
        users=guarded(_users(files)),
        persistence=any(files.exists(path) for path in SOCKETS),
        container=container,
        fabric_manager=_fabric_manager(files),
        amd=amd,
        kfd=kfd,
    )


def _gpus(files: Files) -> tuple[GpuInformation, ...] | None | Unreadable:
    names = files.names(GPUS)
    if not isinstance(names, tuple):
        return names
    return tuple(_information(files, name) for name in names if ADDRESS.fullmatch(name))


def _information(files: Files, address: str) -> GpuInformation:
    path = f"{GPUS}/{address}/information"
    text = files.text(path)
    if not isinstance(text, str):
        blind = text or Unreadable(Why.MISSING, path)
        return GpuInformation(address, "", guarded(blind), guarded(blind), guarded(blind))
    uuid, minor, excluded = UUID_LINE.search(text), MINOR_LINE.search(text), EXCLUDED_LINE.search(text)
    model = MODEL_LINE.search(text)
    no_uuid = Unreadable(Why.MALFORMED, path, detail="no line for the UUID")
    return GpuInformation(
        address=address,
        model=model[1] if model else "",
        uuid=guarded(no_uuid) if uuid is None else (None if "?" in uuid[1] or not uuid[1] else uuid[1]),
        minor=int(minor[1]) if minor else None,
        excluded=excluded is not None and excluded[1] == "Yes",
    )


def _nodes(host: Host) -> tuple[str, ...] | None | Unreadable:
    """The names of the driver's nodes. A copy keeps no devices: only those that are there say something."""
    found: set[str] = set()
    listed = False
    for root in DEVICE_ROOTS:
        names = host.files.names(f"{root}/dev")
        if isinstance(names, Unreadable):
            return names
        listed = listed or names is not None
        found.update(filter(NODE_NAME.fullmatch, names or ()))
    return tuple(sorted(found)) if found or (listed and host.live) else None


def _users(files: Files) -> int | None | Unreadable:
    """Opened nodes: what counts as a reference to the module without the modules that need it."""
    count = files.number(f"{MODULE}/refcnt")
    holders = files.names(f"{MODULE}/holders")
    if not isinstance(count, int) or not isinstance(holders, tuple):
        return count if isinstance(count, Unreadable) else None
    return max(0, count - len(holders))


def _fabric_manager(files: Files) -> FabricManager:
    text = next((one for root in DEVICE_ROOTS if isinstance(one := files.text(root + FABRIC_MANAGER_CONFIG), str)), "")
    port = PORT_LINE.search(text)
    if SOCKET_LINE.search(text):
        return FabricManager(None, None)
    number = int(port[1]) if port else FABRIC_MANAGER_PORT
    return FabricManager(number, guarded(_listens(files, number)))


def _listens(files: Files, port: int) -> bool | None | Unreadable:
    tables = [files.data(path, TCP_HEAD, head=True) for path in TCP]
    told = [LISTENER.findall(table.decode(errors="replace")) for table in tables if isinstance(table, bytes)]
    if any(f"{port:04X}" in one for one in told):
        return True
    blind = next((one for one in tables if isinstance(one, Unreadable)), None)
    return blind if blind is not None else (False if told else None)


def _amd(files: Files) -> tuple[AmdGpu, ...]:
    names = files.names(AMD_DEVICES)
    addresses = filter(ADDRESS.fullmatch, names if isinstance(names, tuple) else ())
    return tuple(AmdGpu(address, _renders(files, f"{AMD_DEVICES}/{address}/drm")) for address in addresses)


def _renders(files: Files, directory: str) -> tuple[str, ...]:
    names = files.names(directory)
    return tuple(filter(RENDER.fullmatch, names if isinstance(names, tuple) else ()))


def _kfd(host: Host) -> bool | None:
    """Whether the node of AMD's compute driver is there. A copy keeps no devices."""
    if host.files.exists(KFD_NODE):
        return True
    return False if host.live and host.files.names("/dev") is not None else None


FACT = Fact(GpuDriver, observe, woken_by=frozenset({Topic.DEVICE}), every=60.0)
