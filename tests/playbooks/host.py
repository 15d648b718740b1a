"""A host for playbooks: a tree of files, a network and a mount namespace, and the way in by a second mount namespace.

Ansible runs in the namespaces of the host, as the remediator does on a node's network. Files are written below the tree
(`host_root`). Where a remedy needs what no test machine has, its commands cross (`on_host`) into a mount namespace in
which the tree's /sys and /dev are mounted, as they cross by nsenter on a node. There programs of the tree's bin stand
in for modprobe, rdma, systemctl and the kernel's side of sysfs. The real ones follow in guests, in a later step.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from nodeprep.repair.ansible import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = ROOT / "playbooks"
PLAY_SECONDS = 200  # ends a play that hangs; one takes two seconds, and twenty on a busy machine
RECAP = re.compile(r"^localhost +: (.*)$", re.MULTILINE)
CROSS = """\
#!/bin/sh
tree=$1; shift
# Of a tree in /dev/shm nothing would be seen below the other /dev.
mount --bind "$tree" /mnt && mount --bind /mnt/sys /sys && mount --bind /mnt/dev /dev || exit 120
TREE=/mnt PATH=/mnt/bin:$PATH exec "$@"
"""
# What the kernel and systemd do, on files of the tree.
STAND_INS = {
    "modprobe": """\
        case $1 in
        -r) rm -r "/sys/module/$2";;
        *) mkdir "/sys/module/$1"
           for one in /sys/bus/pci/drivers/$1/*:*; do [ ! -d "$one" ] || mkdir "$one/infiniband"; done;;
        esac""",
    "rdma": '[ "$1 $2" = "link add" ] && [ "$4 $6" = "type netdev" ] && mkdir -p "/sys/class/infiniband/$3"',
    "systemctl": """\
        case $1 in
        show) echo MainPID=4711; cat "$TREE/kills" 2>/dev/null || echo KillMode=process;;
        daemon-reload) touch "$TREE/reloaded";;
        restart) [ -f "$TREE/reloaded" ] && grep -q '^LimitMEMLOCK=infinity$' "$TREE/etc/systemd/system/$2.d/"*.conf &&
           sed -i '/^Max locked memory /s/65536 */unlimited            /g' "$TREE/proc/4711/limits";;
        enable) wants=$(sed -n 's/^WantedBy=//p' "$TREE/etc/systemd/system/$2").wants
           mkdir -p "$TREE/etc/systemd/system/$wants" && ln -s "../$2" "$TREE/etc/systemd/system/$wants/$2";;
        *) exit 1;;
        esac""",
    "tee": """\
        read -r said
        case $1 in
        */bind) ln -s "${1%/bind}" "/sys/bus/pci/devices/$said/driver";;
        */rescan) [ -d /sys/bus/pci/devices/0000:5d:00.0 ] || { mkdir /sys/bus/pci/devices/0000:5d:00.0 &&
            echo 5d00 >> "$TREE/proc/bus/pci/devices"; };;
        *) exit 1;;
        esac""",
}


class Recap(NamedTuple):
    """What Ansible counts at the end of a play, and all that it printed."""

    ok: int
    changed: int
    failed: int
    output: str


class FakeHost:
    """The tree and the namespaces of a host; `pid` is a process that keeps the namespaces."""

    def __init__(self, tree: Path, pid: int) -> None:
        self.tree = tree
        self.pid = pid

    @property
    def inside(self) -> list[str]:
        return ["nsenter", f"--target={self.pid}", "--net", "--mount"]

    @property
    def crossing(self) -> list[str]:
        return ["unshare", "--mount", str(self.tree / "cross"), str(self.tree)]

    def sh(self, script: str) -> subprocess.CompletedProcess[str]:
        """Runs a script in the tree and the namespaces."""
        command = [*self.inside, "sh", "-ec", f"cd {shlex.quote(str(self.tree))}\n{script}"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PLAY_SECONDS)

    def do(self, script: str) -> str:
        done = self.sh(script)
        assert done.returncode == 0, f"{script}: {done.stderr}"
        return done.stdout

    def holds(self, test: str) -> bool:
        return self.sh(test).returncode == 0

    def play(self, name: str, arguments: Mapping[str, str], on_host: list[str], *, check: bool = False) -> Recap:
        """Runs a playbook of the repository as the remediator does: its settings, no facts, one target."""
        variables = {**arguments, "on_host": on_host, "host_root": str(self.tree)}
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,"]
        command += ["-e", f"ansible_python_interpreter={sys.executable}", "-e", json.dumps(variables)]
        command += [*(["--check"] if check else []), str(PLAYBOOKS / f"{name}.yml")]
        home = self.tree.parent / "ansible"
        home.mkdir(exist_ok=True)
        (home / "ansible.cfg").write_text(SETTINGS)
        places = {
            "HOME": home,
            "CONFIG": home / "ansible.cfg",
            "LOCAL_TEMP": home / "local",
            "REMOTE_TEMP": home / "remote",
        }
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/nonexistent"}
        environment |= {f"ANSIBLE_{name}": str(place) for name, place in places.items()}
        done = subprocess.run(
            [*self.inside, *command], capture_output=True, text=True, check=False, timeout=PLAY_SECONDS, env=environment
        )
        output = done.stdout + done.stderr
        recap = RECAP.search(output)
        assert recap is not None, f"{name} ended with {done.returncode}: {output}"
        counts = {key: int(value) for key, value in (one.split("=") for one in recap[1].split())}
        assert (done.returncode == 0) == (counts["failed"] == 0), output
        return Recap(counts["ok"], counts["changed"], counts["failed"], output)

    def state(self) -> dict[str, str]:
        """Everything that a playbook could change here: files with mode and content, links, settings, mounts."""
        files = {str(path.relative_to(self.tree)): _shown(path) for path in sorted(self.tree.rglob("*"))}
        shown = "ip -details link; ip address; grep -rH '' /proc/sys/net/ipv4/conf; cat /proc/self/mounts"
        return files | {"namespaces": self.do(shown)}


def _shown(path: Path) -> str:
    about = path.lstat()
    shown = f"{about.st_mode:o} {about.st_rdev}"
    if stat.S_ISLNK(about.st_mode):
        return f"{shown} {path.readlink()}"
    return f"{shown} {about.st_mtime_ns} {path.read_text()}" if stat.S_ISREG(about.st_mode) else shown


@contextmanager
def fake_host(scratch: Path) -> Iterator[FakeHost]:
    """A host with an empty tree, whose /sys shows its network namespace."""
    tree = scratch / "tree"
    for directory in ("bin", "dev", "etc", "proc/sys/net/ipv4/conf", "sys/fs/bpf", "sys/module"):
        (tree / directory).mkdir(parents=True)
    os.mknod(tree / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    scripts = {"cross": CROSS} | {f"bin/{name}": f"#!/bin/sh\nset -e\n{text}\n" for name, text in STAND_INS.items()}
    for name, text in scripts.items():
        (tree / name).write_text(text)
        (tree / name).chmod(0o755)
    keep = "mount --make-rprivate / && ip link set lo up && echo ready && exec cat"
    command = ["unshare", "--net", "--mount", "sh", "-ec", keep]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdin is not None
        assert keeper.stdout.readline() == "ready\n"
        yield FakeHost(tree, keeper.pid)
        keeper.stdin.close()
        assert keeper.wait(PLAY_SECONDS) == 0
