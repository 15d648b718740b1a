"""A host for idle proofs, in network, mount and PID namespaces of its own: a script sets it up, then the proof runs.

`tree` builds a root beside it whose /proc shows some real processes and claims to be of the first PID namespace. The
real /proc of a test does not show all processes of its machine, and the proof says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nodeprep.decide.idleness import IdleSource, IdleTarget, SourceState
from nodeprep.decide.remedy_header import Idle, SafetyClass
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import device_plugins, kubelet, pod_resources
from nodeprep.repair import idle_proof
from nodeprep.repair.idle_sources import IdleQuestion
from tests.kubelet_values import answer
from tests.rigs.absent import cannot_start
from tests.rigs.grpc_server import serving
from tests.rigs.raw_server import RawServer

REPOSITORY = Path(__file__).resolve().parents[2]
FLAGS = ("--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
FIRST = "pid:[4026531836]"
PATIENCE = 240.0  # seconds for one source: this is no test of time
NOBODY = 65534


def tree(root: Path, processes: Iterable[int] = ()) -> None:
    """A root with a /proc: a first process of the first PID namespace, this boot, no devices, and these real processes.

    Real processes are mounts: only a test with a mount namespace of its own names any.
    """
    proc = root / "proc"
    for directory in ("1/ns", "1/fd", "sys/kernel/random"):
        (proc / directory).mkdir(parents=True)
    (proc / "1/ns/pid").symlink_to(FIRST)
    (proc / "1/stat").write_text("1 (init) S 0")
    (proc / "1/comm").write_text("init\n")
    (proc / "devices").write_text("Character devices:\n  1 mem\n\nBlock devices:\n  7 loop\n")
    (proc / "misc").write_text("183 hw_random\n")
    (proc / "sys/kernel/osrelease").write_text("6.1.0-18-amd64\n")
    (proc / "sys/kernel/random/boot_id").write_text(BOOT_ID.read_text())
    (proc / "self").symlink_to(str(os.getpid()))
    for pid in processes:
        if Path(f"/proc/{pid}").is_dir():
            (proc / str(pid)).mkdir()
            subprocess.run(("mount", "--bind", f"/proc/{pid}", proc / str(pid)), check=True)


def kubelet_directories(root: Path) -> Path:
    """Make a kubelet's directories below a root. Gives the path of its socket, where nobody listens yet."""
    (root / kubelet.DIRECTORY.lstrip("/")).mkdir(parents=True)
    (root / device_plugins.DIRECTORY.lstrip("/")).mkdir()
    return root / kubelet.SOCKET.lstrip("/")


def kubelet_of(root: Path, *pods: bytes) -> RawServer:
    """A kubelet below a root that has its directories: it lists these pods (tests/kubelet_values)."""
    return serving(root / kubelet.SOCKET.lstrip("/"), {pod_resources.LIST: answer(*pods)})


def said(
    host: Host, target: IdleTarget, *sources: IdleSource, service_host: str = "", deadline: float = PATIENCE
) -> dict[IdleSource, SourceState]:
    """What these sources say of a target, all of them by default."""
    return dict(idle_proof.gather(IdleQuestion(host, target, service_host), sources or tuple(IdleSource), deadline))


def proved(setup: str, look: str) -> dict[str, Any]:
    """Run a script, and beside what it leaves a Python program that prints JSON. `look` may use this module's names.

    Every process of the script ends with the program.
    """
    possible = _isolated("", "ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
    if possible.returncode:
        cannot_start(f"no namespaces with a veth pair: {possible.stderr.strip()}")
    program = f"import json, sys\nfrom tests.rigs.idle_host import *\n{look}"
    done = _isolated(setup, sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _isolated(setup: str, *ending: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        # Not `exec`: the shell is the first process, and the tree shows another one in its place.
        ["unshare", *FLAGS, "sh", "-ec", f'{setup}\n"$@"\nexit $?', "sh", *ending],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PATH": f"{os.environ['PATH']}:/sbin:/usr/sbin",
            "PYTHONPATH": f"{REPOSITORY / 'agent'}:{REPOSITORY}",
        },
    )


def plain(states: Mapping[IdleSource, SourceState]) -> dict[str, Any]:
    """States as JSON: holders as [device, who], what is absent, what failed in words."""
    return {
        str(source): {
            "holders": [[one.device, one.who] for one in state.holders],
            "absent": state.absent,
            "failed": str(state.failed or ""),
        }
        for source, state in states.items()
    }


__all__ = [
    "NOBODY",
    "PATIENCE",
    "Host",
    "Idle",
    "IdleSource",
    "IdleTarget",
    "Path",
    "SafetyClass",
    "idle_proof",
    "json",
    "os",
    "plain",
    "proved",
    "said",
    "subprocess",
    "sys",
    "tree",
]
