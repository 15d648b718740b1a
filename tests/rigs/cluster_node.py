"""A real node of tests/rigs/cluster.py beside others: containerd and a kubelet in namespaces of their own.

Its network namespace has eth0 with an address of TEST-NET-2, and a wire to the cluster's. Its pods have addresses of
their own there, or the node's by hostNetwork. By its PID and mount namespaces it has its own processes, mounts, /etc,
/opt, /var, /run, boot id and /sys/class/net. The rest of /sys and /proc is this machine's.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.rigs import cluster_tools
from tests.rigs.cluster_build import CannotStart
from tests.rigs.cluster_client import Client
from tests.rigs.cluster_setup import GATEWAY, SERVER_PORT, SERVICE_ADDRESS
from tests.rigs.cluster_space import remove_cgroups
from tests.rigs.waiting import until

HERE = Path(__file__).parent
INSIDE = HERE / "cluster_node.sh"
SERVER = f"https://{SERVICE_ADDRESS}:{SERVER_PORT}"
NAMESPACES = ("--net", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child", "--mount-proc")
PLUGINS = ("loopback", "ptp", "host-local")  # of CNI, named by the configuration of `files`
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS = 120.0  # for a node to be Ready; it takes 2 on an idle machine
# A pod's own /proc would show the machine's boot id. The runtime mounts nothing over it. It runs this in the mount
# namespace of each container before the container starts, with the container's state on stdin.
BOOT_ID = """bundle=$(sed 's/.*"bundle":"//; s/".*//')
exec mount --bind /proc/sys/kernel/random/boot_id "$bundle/rootfs/proc/sys/kernel/random/boot_id"
"""
# Its first process says that it waits for its wire. It gets a line when the wire is there.
WAIT = 'echo up; read -r _; exec "$@"'


def files(cluster: Client, tree: Path, name: str, number: int, flags: Sequence[str] = ()) -> None:
    """Fills the TREE of cluster_node.sh for a node with the address 198.51.100.NUMBER; `flags`: more of the kubelet."""
    settings = tree / "etc/kubernetes"
    settings.mkdir(parents=True)
    cluster.certificate(f"node-{name}", f"/O=system:nodes/CN=system:node:{name}", f"IP:{address(number)},DNS:{name}")
    for end in ("crt", "key"):
        shutil.copy(cluster.directory / f"node-{name}.{end}", settings / f"kubelet.{end}")
    shutil.copy(cluster.authority, settings / "ca.crt")
    for template in ("kubelet.yaml", "containerd.toml"):
        shutil.copy(HERE / template, settings)
    cgroup = f"{cluster.directory.name}-{name}"
    (settings / "cgroup").write_text(f"{cgroup}\n")
    words = (
        "--config=/etc/kubernetes/kubelet.yaml",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        f"--hostname-override={name}",
        f"--node-ip={address(number)}",
        f"--cgroup-root=/{cgroup}",
        "--housekeeping-interval=60s",  # each 10 s cAdvisor cost a guest 4 % of its processor
        *flags,
    )
    (settings / "kubelet.flags").write_text("".join(f"{word}\n" for word in words))
    user = {"client-certificate": "/etc/kubernetes/kubelet.crt", "client-key": "/etc/kubernetes/kubelet.key"}
    server = {"server": SERVER, "certificate-authority": "/etc/kubernetes/ca.crt"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "rig",
        "clusters": [{"name": "rig", "cluster": server}],
        "users": [{"name": "kubelet", "user": user}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "kubelet"}}],
    }
    (settings / "kubelet.conf").write_text(json.dumps(kubeconfig))
    pod_network(tree, number)


def own_boot_id(tree: Path) -> None:
    """Lets the node's containers see its boot id in their own /proc. A node that is a guest does not need this."""
    shown = subprocess.run(
        (cluster_tools.tools() / "root/usr/bin/ctr", "oci", "spec"), capture_output=True, text=True, check=True
    ).stdout
    spec = json.loads(shown)
    spec["process"].pop("rlimits", None)  # the runtime's own spec for pods has none
    spec["hooks"] = {"createContainer": [{"path": "/bin/sh", "args": ["sh", "-c", BOOT_ID]}]}
    (tree / "etc/kubernetes/container.json").write_text(json.dumps(spec))
    settings = tree / "etc/kubernetes/containerd.toml"
    line = '      runtime_type = "io.containerd.runc.v2"\n'
    settings.write_text(
        settings.read_text().replace(line, f'{line}      base_runtime_spec = "/etc/kubernetes/container.json"\n')
    )


def pod_network(tree: Path, number: int) -> None:
    """Each pod has a wire of its own to the node, and an address of the node's own range."""
    ranges = [[{"subnet": pods(number)}]]
    ipam = {"type": "host-local", "dataDir": "/run/cni", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    plugins: list[dict[str, Any]] = [{"type": "ptp", "ipam": ipam}]
    configuration = {"cniVersion": "1.0.0", "name": "rig", "plugins": plugins}
    (tree / "etc/cni/net.d").mkdir(parents=True)
    (tree / "etc/cni/net.d/10-rig.conflist").write_text(json.dumps(configuration))
    programs = tree / "opt/cni/bin"
    programs.mkdir(parents=True)
    for plugin in PLUGINS:
        shutil.copy(cluster_tools.tools() / "root/usr/lib/cni" / plugin, programs)


def address(number: int) -> str:
    return f"198.51.100.{number}"


def pods(number: int) -> str:
    """The range of its pods' addresses."""
    return f"10.244.{number}.0/24"


class Node:
    """One node. Get it from `Cluster.add_node`.

    Attributes:
        name: of its Node object.
        address: its own, which the API server reaches.
        boot_id: of the present boot, as in its /proc and in the Node's status.
        cluster: the one that it belongs to.

    Raises:
        CannotStart: we are not root.
    """

    def __init__(self, cluster: Client, name: str, number: int, flags: Sequence[str]) -> None:
        if os.geteuid():
            raise CannotStart("cluster: a real node mounts and makes cgroups: run as root")
        self.name = name
        self.address = address(number)
        self.boot_id = ""
        self.cluster = cluster
        self._number = number
        self._tree = cluster.node_files / name
        self._tools = cluster_tools.tools()
        self._process: subprocess.Popen[str] | None = None
        files(cluster, self._tree, name, number, flags)
        own_boot_id(self._tree)

    def start(self) -> None:
        """Boots it. From the second time on it is a reboot: its disk is as it was, /run is empty."""
        assert self._process is None, f"{self.name} runs"
        self.boot_id = str(uuid.uuid4())
        (self._tree / "boot_id").write_text(f"{self.boot_id}\n")
        inside = ("bash", str(INSIDE), "--apart", str(self._tree), str(self.cluster.program), str(self._tools))
        apart = ("setpriv", "--pdeathsig", "KILL", "unshare", *NAMESPACES)
        with (self._tree / "console.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.cluster.inside(*apart, "bash", "-c", WAIT, "bash", *inside),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "up\n", self.log("console")
        self._wire(self._process.pid)
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Cuts its power. On return no process of it runs; its Node object stays."""
        if self._process is None:
            return
        first = self._first()
        watched = None
        with suppress(ProcessLookupError):
            watched = os.pidfd_open(first) if first else None
        with self._process:
            self._process.kill()
        self._process = None
        if watched is not None:
            select.select([watched], [], [], SECONDS)  # it ends after all others of its PID namespace
            os.close(watched)
        # Else the next boot's kubelet spends 12 s on containers that are gone.
        cgroup = f"{self.cluster.directory.name}-{self.name}"
        until(lambda: remove_cgroups(cgroup), f"cgroups {cgroup} empty", SECONDS)

    def reboot(self) -> None:
        """Cuts its power and boots it again. `wait_ready` tells when its kubelet is back."""
        self.kill()
        self.start()

    def wait_ready(self, seconds: float = SECONDS) -> None:
        """Waits until its Node is Ready in the present boot."""
        try:
            until(self._ready, f"node {self.name} Ready", seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log('console')[-1000:]}\n{self.log('kubelet')[-3000:]}") from None

    def object(self) -> dict[str, Any]:
        """Its Node, {} if there is none."""
        code, found = self.cluster.call("GET", f"/api/v1/nodes/{self.name}")
        return found if code == 200 else {}

    def path(self, path: str) -> Path:
        """Our path of a file in the node's /run, /var/lib/{nodeprep,kubelet,containerd}, /var/log or /etc/cni/net.d."""
        return self._tree / path.lstrip("/")

    def log(self, program: str) -> str:
        """The output of "kubelet", "containerd" or its "console" since the first boot."""
        file = self._tree / ("console.log" if program == "console" else f"var/log/{program}.log")
        return file.read_text(errors="replace") if file.exists() else ""

    def limits(self) -> list[str]:
        """What a real node has and this machine refuses, a line each."""
        return [line for line in self.log("console").splitlines() if line.startswith("locked memory stays limited")]

    def run(self, *argv: str, check: bool = True) -> str:
        """The output of a command that runs on the node, in all its namespaces."""
        return subprocess.run((*self._inside(), *argv), capture_output=True, text=True, check=check).stdout

    def entering(self) -> tuple[str, ...]:
        """The words before a command that make it run on the node. It finds `ctr` there, and kubectl finds the server.

        Raises:
            RuntimeError: the node does not run.
        """
        if self._process is None or not self._first():
            raise RuntimeError(f"{self.name} does not run")
        path = f"PATH={self._tools}/root/usr/bin:{self.cluster.directory}/bin:{PATH}"
        # As the kubelet: COMMAND's own kubeconfig has an address of this machine's loopback.
        return (*self._inside(), "env", path, "KUBECONFIG=/etc/kubernetes/kubelet.conf")

    def _inside(self) -> tuple[str, ...]:
        return ("nsenter", "--target", str(self._first()), "--net", "--mount", "--pid")

    def import_image(self, archive: Path) -> list[str]:
        """Makes the images of an OCI archive known to its kubelet. Returns their names, which must be complete.

        Raises:
            RuntimeError: containerd does not accept it as an image; with its last line.
        """
        ctr = str(self._tools / "root/usr/bin/ctr")
        command = (*self._inside(), ctr, "-n", "k8s.io", "images", "import", str(archive.resolve()))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or [str(done.returncode)])[-1]
            raise RuntimeError(f"{archive} was not imported into {self.name}: {said}")
        return re.findall(r"^unpacking (\S+) ", done.stdout, re.MULTILINE)

    def _ready(self) -> bool:
        assert self._process is not None, f"{self.name} does not run"
        if self._process.poll() is not None:
            raise RuntimeError(f"node {self.name} ended:\n{self.log('console')}\n{self.log('kubelet')[-3000:]}")
        status = self.object().get("status", {})
        conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
        return conditions.get("Ready") == "True" and status["nodeInfo"]["bootID"] == self.boot_id

    def _first(self) -> int:
        """The process that is PID 1 inside; 0 if there is none."""
        assert self._process is not None, f"{self.name} does not run"
        pid = self._process.pid
        with suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return int(children[0]) if children else 0
        return 0

    def _wire(self, pid: int) -> None:
        """A pair of interfaces: its eth0, and nodeNUMBER in the cluster's namespace."""
        ours = f"node{self._number}"
        cluster, node = self.cluster.inside(), ("nsenter", "--target", str(pid), "--net")
        subprocess.run((*cluster, "ip", "link", "delete", ours), capture_output=True, check=False)  # of the last boot
        _ip(cluster, f"link add {ours} type veth peer name eth0 netns {pid}", f"link set {ours} up")
        _ip(
            node,
            "link set lo up",
            "link set eth0 up",
            f"address add {self.address}/32 dev eth0",
            f"route add {GATEWAY} dev eth0 scope link",
            f"route add default via {GATEWAY} src {self.address}",
        )
        _ip(
            cluster,
            f"route add {self.address} dev {ours} scope link",
            f"route add {pods(self._number)} via {self.address} dev {ours} onlink",
        )


def _ip(where: Sequence[str], *lines: str) -> None:
    subprocess.run((*where, "ip", "-batch", "-"), input="\n".join(lines), text=True, check=True)
