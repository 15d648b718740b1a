"""A virtual machine with a real RoCE device as a node of the cluster: `with Cluster(...) as c, Guest(c, "guest") as g`.

    python tests/rigs/guest.py run -- COMMAND   runs COMMAND with KUBECONFIG and kubectl of a cluster with one such node
    python tests/rigs/guest.py packages         the Debian packages that it needs

The machine is the lab's (tests/rigs/lab.py): Debian's kernel with rdma_rxe and cgroup v2, and this machine's root, so
that programs have the same paths there. It runs tests/rigs/cluster_node.sh, as every other node. Its own disk keeps
files over a reboot. The RDMA plugin for it is tests/rigs/rdma_plugin.py.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.rigs import cluster_build, cluster_node, cluster_tools, guest_disk, lab, lab_image, rdma_plugin
from tests.rigs.cluster import Cluster, ended, outcome
from tests.rigs.lab_channel import Completed, Running
from tests.rigs.lab_qemu import Machine
from tests.rigs.lab_setup import FRONT_END, RAIL
from tests.rigs.waiting import until

MEMORY = 3072  # MiB; the kubelet, containerd and an agent take 0.7 GiB
TREE = "/mnt/node"  # the mount point of that disk in the guest
KUBELET_PORT = 10250
SECONDS = 400.0  # from power-on to a Ready Node; 25 on an idle machine

# Set up in the guest before its node starts; {address}, {files}, {name} and {view} are filled in. rdma_rxe has no
# parent device, and a virtio card's netdev lies a level too deep, so nothing below the rail's PCI device says `net` or
# `infiniband`, where the RDMA plugin looks. A view of the PCI bus adds them. All behind it is the kernel's.
SET_UP = """\
hostname {name}
ip address replace {address}/32 dev lo
sysctl -qw net.ipv4.conf.{front}.proxy_arp=1  # so that its pods get answers, whose addresses QEMU does not know
modprobe -a virtio_blk ext4
mkdir -p {tree} {view}
mount /dev/vda {tree}
[ -e {tree}/etc ] || cp -r {files}/. {tree}/
cp -P /sys/bus/pci/devices/* {view}/
real=$(realpath {rail})
rm {view}/{bdf}
mkdir {view}/{bdf}
ln -s $real/* {view}/{bdf}/
cp -P --remove-destination $real/driver {view}/{bdf}/
ln -s $real/virtio*/net /sys/devices/virtual/infiniband {view}/{bdf}/
"""


class Guest:
    """A node of its own machine. Use it as a context manager: it is Ready inside.

    Attributes:
        cluster: the cluster that it is a node of.
        name: of its Node object.
        address: its own, which the API server reaches.
        boot_id: of the present boot.
        lab: the machine, for its cables (`set_link`) and its healthy state (`restore`). Each boot has another.

    Args:
        cluster: a running one with controllers.
        name: of the Node.
        taints: with which it registers, written "key=value:effect".
        labels: with which it registers.
        images: OCI archives; its kubelet knows their images from the start.
        number: the last part of its address; two guests of a cluster need two.
        processors: two for a guest that is alone on this machine (tests/rigs/lab_qemu.py).

    Raises:
        CannotStart: a program or a package is missing, or this machine does not let us.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        taints: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        *,
        images: Sequence[Path] = (),
        number: int = 201,
        processors: int = 1,
    ) -> None:
        self.name = name
        self._processors = processors
        self.address = cluster_node.address(number)
        self.boot_id = ""
        self.cluster = cluster
        self._tools = cluster_tools.tools()
        self._disk = cluster.directory / f"guest-{name}.disk"
        self._files = cluster.directory / f"guest-{name}"
        self._node: Running | None = None
        self.lab: lab.Guest
        flags = [f"--register-with-taints={','.join(taints)}"] if taints else []
        flags += [f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}"] if labels else []
        cluster_node.files(cluster, self._files, name, number, flags)
        guest_disk.make(self._disk, (self._tools / "base.tar", *images))
        # The guest would not accept a packet from its own address. With this route the API server has another one.
        local = ("ip", "route", "add", "local", self.address, "dev", "lo", "src", "127.0.0.1")
        subprocess.run(cluster.inside(*local), check=True)

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Boots it. From the second time on it is a reboot. `wait_ready` returns when its kubelet is back."""
        assert self._node is None, f"{self.name} runs"
        forward = f"{self.address}:{KUBELET_PORT}-{FRONT_END.address.partition('/')[0]}:{KUBELET_PORT}"
        machine = Machine(MEMORY, self._disk, self.cluster.inside(), (forward,), self._processors)
        self.lab = lab.Guest.start(deny=(), machine=machine)
        words = {"name": self.name, "address": self.address, "files": self._files, "tree": TREE}
        rail = f"/sys/bus/pci/devices/{RAIL.bdf}"
        view = {"view": rdma_plugin.PCI_VIEW, "rail": rail, "bdf": RAIL.bdf, "front": FRONT_END.netdev}
        self.lab.shell(SET_UP.format(**words, **view))
        inside = ("bash", str(cluster_node.INSIDE), TREE, str(self.cluster.program), str(self._tools))
        self._node = self.lab.launch(inside)
        self.boot_id = self.lab.shell("cat /proc/sys/kernel/random/boot_id")

    def kill(self) -> None:
        """Cuts its power. Data that was not yet on its disk is lost. Its Node object stays."""
        if self._node is not None:
            self.lab.stop()
            self._node = None

    def reboot(self) -> None:
        """Syncs its disk, cuts its power and boots it again."""
        self.run("sync")
        self.kill()
        self.start()

    def wait_ready(self, seconds: float = SECONDS) -> None:
        """Waits until its Node is Ready in the present boot.

        Raises:
            TimeoutError: it is not in time; with the end of the kubelet's log.
        """
        try:
            until(self._ready, f"node {self.name} Ready", seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log('containerd')[-1000:]}\n{self.log('kubelet')[-3000:]}") from None

    def object(self) -> dict[str, Any]:
        """Its Node, {} if there is none."""
        code, found = self.cluster.call("GET", f"/api/v1/nodes/{self.name}")
        return found if code == 200 else {}

    def run(self, *argv: str, check: bool = True) -> str:
        """The output of a command that runs as root in the guest; "nodeprep" is this checkout's.

        Raises:
            GuestError: it failed and `check` is set, or it ran for more than a minute.
        """
        done: Completed = self.lab.run(argv)
        if check and done.returncode:
            said = done.stderr.decode(errors="replace")
            raise self.lab.error(f"{shlex.join(argv)} ended with {done.returncode}: {said}")
        return done.stdout.decode(errors="replace")

    def log(self, program: str) -> str:
        """The output of "kubelet" or "containerd" since the first boot."""
        return self.run("cat", f"/var/log/{program}.log", check=False)

    def _ready(self) -> bool:
        assert self._node is not None, f"{self.name} does not run"
        if self._node.ended:
            logs = f"{self.log('containerd')[-1000:]}\n{self.log('kubelet')[-3000:]}"
            raise self.lab.error(f"node {self.name} ended:\n{logs}")
        status = self.object().get("status", {})
        conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
        return conditions.get("Ready") == "True" and status["nodeInfo"]["bootID"] == self.boot_id


def run(command: Sequence[str]) -> int:
    with Cluster(controllers=True) as cluster, Guest(cluster, "guest", images=[rdma_plugin.image()]):
        return outcome(command, cluster)


def main() -> int:
    parser = argparse.ArgumentParser(prog="guest.py", description="A QEMU guest with a RoCE device as a node.")
    actions = parser.add_subparsers(dest="action", required=True)
    runner = actions.add_parser("run", help="run COMMAND with KUBECONFIG set")
    runner.add_argument("command", nargs="+", metavar="COMMAND")
    actions.add_parser("packages", help="print the Debian packages that the rig needs")
    arguments = parser.parse_args()
    if arguments.action == "packages":
        print(" ".join(dict.fromkeys((*cluster_build.PACKAGES, *lab_image.PACKAGES, "e2fsprogs"))))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return ended(lambda: run(arguments.command), lab.CannotStart, lab.GuestError)


if __name__ == "__main__":
    sys.exit(main())
