"""Limits that processes of a job inherit, and the host's daemons: all that is read of the host's processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from nodeprep.model import Fact, Shown, Unreadable, Why, guarded, not_recorded, shown, stands_for_all
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

RUNTIMES = ("containerd", "crio", "dockerd")  # containers inherit their limits
WATCHED_PROCESSES = (*RUNTIMES, "kubelet")
# nv-fabricmanager and nvidia-persistenced: the kernel cuts the name of a process to 15 characters (TASK_COMM_LEN).
FABRIC_MANAGER, PERSISTENCED = "nv-fabricmanage", "nvidia-persiste"
GPU_DAEMONS = (FABRIC_MANAGER, PERSISTENCED)
# Where a runtime mounts the root of a container: a part of that path, the runtime and the systemd unit that runs it.
# k3s and rke2 have a containerd of their own, in a unit whose name depends on what the node is.
MAKERS = (
    ("k3s/containerd/", "containerd", ""),
    ("/io.containerd.runtime.", "containerd", "containerd.service"),
    ("/containers/storage/", "crio", "crio.service"),
    ("/docker/", "dockerd", "docker.service"),
)
HUGE = "/sys/kernel/mm/hugepages"
MOUNTS = "/proc/1/mounts"
MOUNTS_LIMIT = 16 << 20  # bytes; a node with hundreds of containers has megabytes of overlay mounts
LOCKED_MEMORY_LINE = Pattern(r"^Max locked memory\s+(\S+)\s+(\S+)\s+bytes", re.MULTILINE)
NAMESPACES = Pattern(r"^NSpid:(.*)$", re.MULTILINE)
ENDED_LINE = Pattern(r"^State:\s+[ZX]", re.MULTILINE)
SHM = Pattern(rb"^\S+ /dev/shm tmpfs (\S+)", re.MULTILINE)
SIZE = Pattern(r"(\d{1,20})([kmg%]?)", re.IGNORECASE)
UNITS = {"": 0, "k": 10, "m": 20, "g": 30}


@shown
class RuntimeProcess(Shown):
    """A container runtime or kubelet of the host, and the systemd unit that runs it ("" where that is not shown).

    Limits are bytes, None is unlimited.
    """

    name: str
    pid: int
    unit: str
    soft: int | None
    hard: int | None

    possible = stands_for_all(soft=(None,), hard=(None,))

    @property
    def is_runtime(self) -> bool:
        return self.name in RUNTIMES


@shown
class GpuDaemon(Shown):
    """A daemon of NVIDIA's driver, in a container or not, and its systemd unit ("" where that is not shown).

    `name` is the kernel's, cut to 15 characters.
    """

    name: str
    pid: int
    unit: str


@shown
class InheritedLimit(Shown):
    """What the runtime lets this agent's own container lock, in bytes; None is unlimited.

    `made` is when the container was made, in UTC. `runtime` is the one that made it and `unit` its systemd unit, both
    "" where the mount tables do not tell.
    """

    runtime: str
    unit: str
    made: str
    soft: int | None
    hard: int | None


@shown
class HugePages(Shown):
    """One pool: page size in KiB, pages in the pool and of these free."""

    size: int
    total: int
    free: int


@shown
class Limits(Shown):
    """`memory` and `shm` are bytes: the machine's, and the size of /dev/shm.

    They are None where that is not shown; `shm` is 0 where nothing is mounted at /dev/shm. `inherited` stands for
    `processes` where the host's are not shown, as in a pod; else it is None. `daemons` are those of NVIDIA's driver,
    None where none is seen and not all processes of the host are shown.
    """

    at: float
    processes: tuple[RuntimeProcess, ...]
    huge_pages: tuple[HugePages, ...]
    memory: int | None
    shm: int | None
    inherited: InheritedLimit | None = None
    daemons: tuple[GpuDaemon, ...] | None = None


def observe(host: Host) -> Limits | Unreadable:
    files = host.files
    names = files.names("/proc")
    if isinstance(names, Unreadable):
        return names
    if names is None:
        return not_recorded("/proc")
    found = {pid: files.text(f"/proc/{pid}/comm") for pid in names if pid.isdecimal()}
    processes = (_process(files, pid, name) for pid, name in found.items() if name in WATCHED_PROCESSES)
    memory = _memory(files)
    return Limits(
        at=host.now(),
        processes=tuple(process for process in processes if process is not None),
        huge_pages=tuple(_huge(files)),
        memory=guarded(memory),
        shm=guarded(_shm(files.data(MOUNTS, MOUNTS_LIMIT), memory)),
        inherited=None if files.shows_processes else guarded(_inherited(host)),
        # A copy holds some processes: only those that are there say something.
        daemons=tuple(_daemons(files, found)) or (() if host.live and files.shows_processes else None),
    )


def _inherited(host: Host) -> InheritedLimit | Unreadable:
    own = host.own_memlock()
    if isinstance(own, Unreadable):
        return own
    made_by = ((runtime, unit) for part, runtime, unit in MAKERS for root in own.roots if part in root)
    runtime, unit = next(made_by, ("", ""))
    return InheritedLimit(runtime, unit, own.made, own.soft, own.hard)


def locked_memory_of(files: Files, container: str) -> tuple[int | None, ...]:
    """What each process in the control groups of a container may lock, in bytes; None is unlimited. Asked for only.

    `container` is the runtime's id. Nothing where no process is seen, or its limits are not.
    """
    names = files.names("/proc")
    found: list[int | None] = []
    for pid in filter(str.isdecimal, names if isinstance(names, tuple) else ()):
        groups = files.text(f"/proc/{pid}/cgroup")
        if not isinstance(groups, str) or container not in groups:
            continue
        text = files.text(f"/proc/{pid}/limits")
        match = LOCKED_MEMORY_LINE.search(text) if isinstance(text, str) else None
        limit = _limit(match[1], pid) if match is not None else Unreadable(Why.MISSING, pid)
        found += [] if isinstance(limit, Unreadable) else [limit]
    return tuple(found)


def _daemons(files: Files, found: Mapping[str, str | None | Unreadable]) -> Iterator[GpuDaemon]:
    """Those that run. One that ended stays listed until its parent has asked how it ended (a zombie)."""
    for pid, name in found.items():
        if isinstance(name, str) and name in GPU_DAEMONS and not _has_ended(files, pid):
            yield GpuDaemon(name, int(pid), _unit(files.text(f"/proc/{pid}/cgroup")))


def _has_ended(files: Files, pid: str) -> bool:
    status = files.text(f"/proc/{pid}/status")
    return isinstance(status, str) and ENDED_LINE.search(status) is not None


def _process(files: Files, pid: str, name: str) -> RuntimeProcess | None:
    if _is_contained(files, pid):
        return None
    path = f"/proc/{pid}/limits"
    text = files.text(path)
    if text is None:  # it ended meanwhile, or a copied tree does not hold it
        return None
    match = LOCKED_MEMORY_LINE.search(text) if isinstance(text, str) else None
    unit = _unit(files.text(f"/proc/{pid}/cgroup"))
    if match is None:
        unread = text if isinstance(text, Unreadable) else Unreadable(Why.MALFORMED, path, detail="no line for memlock")
        return RuntimeProcess(name, int(pid), unit, guarded(unread), guarded(unread))
    return RuntimeProcess(name, int(pid), unit, guarded(_limit(match[1], path)), guarded(_limit(match[2], path)))


def _is_contained(files: Files, pid: str) -> bool:
    """Whether it has a PID namespace of its own: a runtime inside a container is not the host's."""
    status = files.text(f"/proc/{pid}/status")
    match = NAMESPACES.search(status) if isinstance(status, str) else None
    return match is not None and len(match[1].split()) > 1


def _unit(cgroups: str | None | Unreadable) -> str:
    """The systemd service among a process's control groups, such as "containerd.service"."""
    paths = (
        [line.split(":", 2)[2] for line in cgroups.splitlines() if line.count(":") > 1]
        if isinstance(cgroups, str)
        else []
    )
    services = (part for path in paths for part in path.split("/") if part.endswith(".service"))
    return next(services, "")


def _limit(text: str, path: str) -> int | None | Unreadable:
    if text == "unlimited":
        return None
    return int(text) if text.isdecimal() else Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no limit")


def _huge(files: Files) -> list[HugePages]:
    names = files.names(HUGE)
    found = []
    for name in names if isinstance(names, tuple) else ():
        size = re.fullmatch(r"hugepages-(\d+)kB", name)
        if size:
            total, free = (files.number(f"{HUGE}/{name}/{part}") for part in ("nr_hugepages", "free_hugepages"))
            found.append(HugePages(int(size[1]), guarded(total or 0), guarded(free or 0)))
    return found


def _memory(files: Files) -> int | None | Unreadable:
    """Bytes of memory of the machine."""
    text = files.text("/proc/meminfo")
    match = re.search(r"^MemTotal:\s+(\d+) kB", text, re.MULTILINE) if isinstance(text, str) else None
    return int(match[1]) << 10 if match else (text if isinstance(text, Unreadable) else None)


def _shm(mounts: bytes | None | Unreadable, memory: int | None | Unreadable) -> int | None | Unreadable:
    """Bytes of the topmost tmpfs there; one without a size option has half of the memory (tmpfs(5))."""
    if not isinstance(mounts, bytes):
        return mounts
    options = [found.decode(errors="replace").split(",") for found in SHM.findall(mounts)]
    if not options:
        return 0
    given = next((option.removeprefix("size=") for option in options[-1] if option.startswith("size=")), "50%")
    size = SIZE.fullmatch(given)
    if size is None:
        return Unreadable(Why.MALFORMED, MOUNTS, detail=f"{given[:40]!r} is no size of a tmpfs")
    if size[2] == "%":
        return int(memory * int(size[1]) / 100) if isinstance(memory, int) else memory
    return int(size[1]) << UNITS[size[2].lower()]


FACT = Fact(Limits, observe, every=60.0)
