"""Limits: from trees, and from real processes of this machine that bear a runtime's name."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from nodeprep.doors.files import mount_table
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import limits as limits_facts
from nodeprep.facts.machine.limits import GpuDaemon, HugePages, Limits, RuntimeProcess
from nodeprep.model import Unreadable, Why, raw
from tests.rigs.absent import cannot_start

LINES = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max locked memory         {soft:<20} {hard:<20} bytes
Max address space         unlimited            unlimited            bytes"""
MEMORY = 2113525540 << 10
OWN = Path("/proc/self/mountinfo")
MEMLOCK = resource.RLIMIT_MEMLOCK


def put(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")


def process(root: Path, pid: int, name: str, soft: str = "8388608", hard: str = "8388608") -> None:
    put(root, f"proc/{pid}/comm", name)
    put(root, f"proc/{pid}/limits", LINES.format(soft=soft, hard=hard))


def look(root: Path) -> Limits:
    limits = limits_facts.observe(Host(str(root), live=False))
    assert isinstance(limits, Limits)
    return limits


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, "proc/meminfo", "MemTotal:       2113525540 kB\nMemFree:        2000000000 kB")
    put(tmp_path, "proc/1/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0")
    return tmp_path


def test_runtimes_and_kubelet_only(root: Path) -> None:
    process(root, 1871, "containerd", "unlimited", "unlimited")
    process(root, 2001, "kubelet", "65536", "8388608")
    process(root, 2002, "crio")
    process(root, 2003, "dockerd")
    process(root, 2004, "containerd-shim")
    process(root, 2005, "python3")
    put(root, "proc/self/comm", "containerd")
    found = look(root).processes
    assert found == (
        RuntimeProcess("containerd", 1871, "", None, None),
        RuntimeProcess("kubelet", 2001, "", 65536, 8388608),
        RuntimeProcess("crio", 2002, "", 8388608, 8388608),
        RuntimeProcess("dockerd", 2003, "", 8388608, 8388608),
    )
    assert [one.is_runtime for one in found] == [True, False, True, True]


@pytest.mark.parametrize(
    ("cgroups", "unit"),
    [
        ("0::/system.slice/containerd.service", "containerd.service"),
        ("12:pids:/\n1:name=systemd:/system.slice/k3s.service\n0::/system.slice/k3s.service", "k3s.service"),
        ("0::/system.slice/docker.service/init", "docker.service"),
        ("0::/", ""),
        ("", ""),
        ("nonsense", ""),
        ("1:x.service\n0::/system.slice/crio.service", "crio.service"),
    ],
)
def test_unit(root: Path, cgroups: str, unit: str) -> None:
    process(root, 1871, "containerd")
    put(root, "proc/1871/cgroup", cgroups)
    assert look(root).processes[0].unit == unit


def test_a_runtime_inside_a_container_is_not_the_nodes(root: Path) -> None:
    process(root, 1871, "containerd")
    process(root, 5000, "containerd", "65536")
    put(root, "proc/1871/status", "Name:\tcontainerd\nNSpid:\t1871")
    put(root, "proc/5000/status", "Name:\tcontainerd\nNSpid:\t5000\t1")
    assert [one.pid for one in look(root).processes] == [1871]


def test_a_process_that_ended_meanwhile_is_not_there(root: Path) -> None:
    put(root, "proc/1871/comm", "containerd")
    assert look(root).processes == ()


@pytest.mark.parametrize("text", ["", "Max locked memory   many   many   bytes", "Max open files 1024 1024 files"])
def test_limits_that_no_kernel_writes(root: Path, text: str) -> None:
    put(root, "proc/1871/comm", "containerd")
    put(root, "proc/1871/limits", text)
    (broken,) = look(root).processes
    assert raw(broken)["soft"].kind is Why.MALFORMED
    assert raw(broken)["soft"].path == "/proc/1871/limits"


def test_what_cannot_be_read_keeps_its_reason(root: Path) -> None:
    put(root, "proc/1871/comm", "containerd")
    (root / "proc/1871/limits").mkdir()
    (broken,) = look(root).processes
    assert raw(broken)["soft"].detail == raw(broken)["hard"].detail == "a directory"
    (root / "proc/meminfo").unlink()
    (root / "proc/meminfo").mkdir()
    assert raw(look(root))["memory"].detail == raw(look(root))["shm"].detail == "a directory"


def test_a_pool_of_which_a_copy_kept_nothing_is_empty(root: Path) -> None:
    (root / "sys/kernel/mm/hugepages/hugepages-2048kB").mkdir(parents=True)
    assert look(root).huge_pages == (HugePages(2048, 0, 0),)


def test_huge_pages(root: Path) -> None:
    for size, total, free in (("2048kB", "1024", "0"), ("1048576kB", "8", "5")):
        put(root, f"sys/kernel/mm/hugepages/hugepages-{size}/nr_hugepages", total)
        put(root, f"sys/kernel/mm/hugepages/hugepages-{size}/free_hugepages", free)
    (root / "sys/kernel/mm/hugepages/other").mkdir()
    assert look(root).huge_pages == (HugePages(1048576, 8, 5), HugePages(2048, 1024, 0))


def test_a_damaged_pool_spoils_its_own_number(root: Path) -> None:
    put(root, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "many")
    put(root, "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3")
    (pool,) = look(root).huge_pages
    assert isinstance(raw(pool)["total"], Unreadable)
    assert pool.free == 3


@pytest.mark.parametrize(
    ("mounts", "size"),
    [
        ("tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0", MEMORY // 2),
        ("tmpfs /dev/shm tmpfs rw,size=67108864k 0 0", 67108864 << 10),
        ("shm /dev/shm tmpfs rw,nosuid,size=65536k,inode64 0 0", 65536 << 10),
        ("tmpfs /dev/shm tmpfs rw,size=4096 0 0", 4096),
        ("tmpfs /dev/shm tmpfs rw,size=2M 0 0", 2 << 20),
        ("tmpfs /dev/shm tmpfs rw,size=3g 0 0", 3 << 30),
        ("tmpfs /dev/shm tmpfs rw,size=25% 0 0", MEMORY // 4),
        ("tmpfs /dev/shm tmpfs rw,size=1k 0 0\ntmpfs /dev/shm tmpfs rw,size=2k 0 0", 2048),  # the topmost
        ("tmpfs /dev tmpfs rw,size=1k 0 0\ntmpfs /dev/shm/x tmpfs rw,size=2k 0 0", 0),
        ("tmpfs /run tmpfs rw 0 0", 0),
    ],
)
def test_shm(root: Path, mounts: str, size: int) -> None:
    put(root, "proc/1/mounts", mounts)
    assert look(root).shm == size


def test_shm_that_cannot_be_told(root: Path) -> None:
    put(root, "proc/1/mounts", "tmpfs /dev/shm tmpfs rw,size=much 0 0")
    assert raw(look(root))["shm"].kind is Why.MALFORMED
    (root / "proc/1/mounts").unlink()
    assert look(root).shm is None
    put(root, "proc/1/mounts", "tmpfs /dev/shm tmpfs rw 0 0")
    (root / "proc/meminfo").unlink()
    assert (look(root).memory, look(root).shm) == (None, None)


def test_many_mounts_of_many_containers(root: Path) -> None:
    layer = "overlay /run/c/{0} overlay rw,lowerdir=" + ":".join(["/var/lib/containerd/snapshots/x"] * 60) + " 0 0\n"
    text = "".join(layer.format(number) for number in range(1000)) + "tmpfs /dev/shm tmpfs rw,size=64k 0 0"
    assert len(text) > 1 << 20
    put(root, "proc/1/mounts", text)
    assert look(root).shm == 65536


def test_a_tree_without_proc(tmp_path: Path) -> None:
    found = limits_facts.observe(Host(str(tmp_path), live=False))
    assert isinstance(found, Unreadable)
    assert found.not_recorded


def test_a_file_in_place_of_proc_is_damage(tmp_path: Path) -> None:
    (tmp_path / "proc").write_text("")
    found = limits_facts.observe(Host(str(tmp_path), live=False))
    assert isinstance(found, Unreadable)
    assert not found.not_recorded


def test_memory(root: Path) -> None:
    assert look(root).memory == MEMORY


# A pod, which has two files of the host's /proc


@pytest.mark.parametrize(
    ("roots", "runtime", "unit"),
    [
        (("/run/containerd/io.containerd.runtime.v2.task/k8s.io/4f1/rootfs",), "containerd", "containerd.service"),
        (("/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/4f1/rootfs",), "containerd", ""),
        (("/var/lib/containers/storage/overlay/4f1/merged",), "crio", "crio.service"),
        (("/var/lib/docker/overlay2/4f1/merged",), "dockerd", "docker.service"),
        (("/mnt/x", "/data/docker/overlay2/4f1/merged"), "dockerd", "docker.service"),
        (("/mnt/x",), "", ""),
        ((), "", ""),
    ],
)
def test_the_runtime_by_where_the_host_has_our_root(
    root: Path, roots: tuple[str, ...], runtime: str, unit: str
) -> None:
    device = next(row.device for row in reversed([*mount_table.rows(OWN.read_bytes())]) if row.point == "/")
    lines = [f"{number} 1 {device} / {point} rw - overlay overlay rw" for number, point in enumerate(roots)]
    put(
        root,
        "proc/1/mountinfo",
        "\n".join([*lines, "9 1 0:9999 / /var/lib/docker/overlay2/other/merged rw - overlay o rw"]),
    )
    found = limits_facts.observe(Host(str(root)))
    assert isinstance(found, Limits)
    assert found.processes == ()
    assert found.inherited is not None
    assert (found.inherited.runtime, found.inherited.unit) == (runtime, unit)


def test_what_a_pod_inherited_is_its_own_limit(root: Path) -> None:
    put(root, "proc/1/mountinfo", "22 1 259:2 / / rw - ext4 /dev/x rw")
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_MEMLOCK, (32768, 65536))\n" + ASK
    container = ("unshare", "--pid", "--fork", "--mount-proc")  # what its first process is, it says itself
    began = time.time()
    done = subprocess.run(
        (*container, sys.executable, "-c", script, str(root)), capture_output=True, text=True, check=False
    )
    if done.stderr.startswith("unshare: "):
        cannot_start(f"no PID namespace: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    soft, hard, made = done.stdout.split()
    assert (soft, hard) == ("32768", "65536")
    assert began - 60 <= datetime.fromisoformat(made).timestamp() <= time.time()


ASK = """
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine.limits import observe
found = observe(Host(sys.argv[1])).inherited
print(found.soft, found.hard, found.made)
"""


def test_a_root_with_all_of_proc_is_judged_by_its_processes(root: Path) -> None:
    put(root, "proc/1/mountinfo", "22 1 259:2 / / rw - ext4 /dev/x rw")
    put(root, "proc/1/stat", "1 (init) S")
    process(root, 1871, "containerd", "65536")
    found = limits_facts.observe(Host(str(root)))
    assert isinstance(found, Limits)
    assert [one.soft for one in found.processes] == [65536]
    assert found.inherited is None
    assert look(root).inherited is None


DAEMON_ROWS = [
    # files of a process                                                                       seen
    ({"comm": "nv-fabricmanage", "cgroup": "0::/system.slice/nvidia-fabricmanager.service"},
     GpuDaemon("nv-fabricmanage", 2201, "nvidia-fabricmanager.service")),
    ({"comm": "nvidia-persiste", "cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope"},
     GpuDaemon("nvidia-persiste", 2201, "")),
    ({"comm": "nv-fabricmanage", "status": "Name:\tnv-fabricmanage\nState:\tS (sleeping)\nNSpid:\t2201\t14"},
     GpuDaemon("nv-fabricmanage", 2201, "")),  # in a container without the host's PID namespace
    ({"comm": "nv-fabricmanage", "status": "Name:\tnv-fabricmanage\nState:\tZ (zombie)"}, None),
    ({"comm": "nvidia-imex"}, None),
    ({"comm": "nvidia-smi"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("files", "daemon"), DAEMON_ROWS)
def test_daemons_of_the_gpu_driver(root: Path, files: dict[str, str], daemon: GpuDaemon | None) -> None:
    for name, text in files.items():
        put(root, f"proc/2201/{name}", text)
    assert look(root).daemons == ((daemon,) if daemon else None)


def test_no_daemon_is_only_seen_where_all_processes_are(root: Path) -> None:
    assert look(root).daemons is None  # a copy holds some
    put(root, "proc/1/stat", "1 (init) S")
    live = limits_facts.observe(Host(str(root)))
    assert isinstance(live, Limits)
    assert live.daemons == ()
    put(root, "proc/1/mountinfo", "22 1 259:2 / / rw - ext4 /dev/x rw")
    (root / "proc/1/stat").unlink()
    pod = limits_facts.observe(Host(str(root)))
    assert isinstance(pod, Limits)
    assert pod.daemons is None


# This machine


@contextmanager
def running(directory: Path, name: str) -> Iterator[int]:
    """A real process by this name."""
    program = directory / name
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    if program.stat().st_size > 500_000:  # one program for many names goes by its own
        pytest.skip("this system's sleep does not run under another name")
    child = subprocess.Popen([program, "60"])
    try:
        until = time.monotonic() + 10
        while Path(f"/proc/{child.pid}/comm").read_text().strip() != name and time.monotonic() < until:
            time.sleep(0.001)  # the kernel tells Popen of the exec before it gives the process its name
        yield child.pid
    finally:
        child.kill()
        child.wait()


def seen(pid: int) -> RuntimeProcess | None:
    found = limits_facts.observe(Host())
    assert isinstance(found, Limits)
    return next((one for one in found.processes if one.pid == pid), None)


@pytest.mark.parametrize("name", ["containerd", "kubelet", "crio", "dockerd"])
def test_a_real_process_whose_limit_is_lowered(tmp_path: Path, name: str) -> None:
    with running(tmp_path, name) as pid:
        soft, hard = (None if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(MEMLOCK))
        before = seen(pid)
        assert before is not None
        assert (before.name, before.soft, before.hard) == (name, soft, hard)
        resource.prlimit(pid, MEMLOCK, (32768, 65536))
        lowered = seen(pid)
        assert lowered is not None
        assert (lowered.soft, lowered.hard) == (32768, 65536)
    assert seen(pid) is None


def test_this_machines_memory_and_shm() -> None:
    found = limits_facts.observe(Host())
    assert isinstance(found, Limits)
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    assert found.memory == pages * size
    if Path("/proc/1/mounts").read_text() == Path("/proc/self/mounts").read_text():  # as in no container
        shown = os.statvfs("/dev/shm")
        assert found.shm == shown.f_blocks * shown.f_frsize
