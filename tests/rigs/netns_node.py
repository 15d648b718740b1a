"""The content of the netns rig's namespaces: interfaces, routes, rules, files and servers of a Terway node."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

from tests.rigs.netns_services import METADATA, Services

LIBC = ctypes.CDLL(None, use_errno=True)
MS_BIND, MS_REC, MNT_DETACH, CLONE_NEWNET, PR_SET_PDEATHSIG = 0x1000, 0x4000, 2, 0x40000000, 1
TUNSETIFF, IFF_TAP_NO_PI = 0x400454CA, 0x1002  # include/uapi/linux/if_tun.h
NODE_ADDRESS, GATEWAY = "192.168.0.116", "192.168.0.253"
FIRST_POD = 134
# What a kubelet is told of its API server: no repair may cut the way to it.
KUBECONFIG = f"""apiVersion: v1
kind: Config
clusters:
- name: here
  cluster:
    server: https://{GATEWAY}:6443
"""
CONFLIST = """{"cniVersion":"0.4.0","name":"terway-chainer","plugins":[
 {"bandwidth_mode":"tc","capabilities":{"bandwidth":true},"eniip_virtual_type":"veth",
  "network_policy_provider":"ebpf","type":"terway"}]}
"""
CAPABILITIES = "cni_exclusive_eni = default\ndatapath = veth\nnetwork_policy_provider = ebpf\n"
SCRATCH = Path("/run/nodeprep-netns")  # in a tmpfs of the node's own
OVERLAID = ("/etc", "/opt", "/var")
CLASSES = ("dmi",)
# Files of this machine: they configure its network, and not the node's.
FOREIGN = (
    "/etc/NetworkManager",
    "/etc/cloud",
    "/etc/cni",
    "/etc/containerd",
    "/etc/crio",
    "/etc/systemd",
    "/opt/cni",
    "/var/lib/cloud",
)


class Unavailable(Exception):
    """This machine does not let us make such a node."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The number of ENIs besides the primary one, of pods on them, and the mode of the metadata service."""

    enis: int = 1
    pods: int = 2
    metadata: str = "optional"
    unused_rules: int = 0

    def mac(self, eni: int) -> str:
        return f"00:16:3e:aa:bb:{eni:02x}" if eni else "00:16:3e:00:00:01"

    def addresses(self, eni: int) -> list[str]:
        """The addresses of the ENI in the cloud: its own, then its pods'."""
        if eni == 0:
            return [NODE_ADDRESS]
        own = "192.168.0.130" if eni == 1 else f"192.168.0.{118 + eni}"
        return [own, *(self.pod(number) for number in range(self.pods) if self.eni_of(number) == eni)]

    def eni_of(self, pod: int) -> int:
        return 1 + pod % self.enis

    def pod(self, number: int) -> str:
        return f"192.168.{(FIRST_POD + number) // 250}.{(FIRST_POD + number) % 250}"


def veth(number: int) -> str:
    """The name that Terway gives to the host's end (pkg/link/veth.go): for pod default/worker-NUMBER."""
    return "cali" + sha1(f"default.worker-{number}".encode()).hexdigest()[:11]


def build(shape: Shape) -> tuple[list[int], Services]:
    """Make this process's namespaces a node's. The returned things must live as long as the node."""
    with_parent()
    mounts()
    files()
    taps = [tap(f"eth{eni}") for eni in range(shape.enis + 1)]
    pods = another_namespace()
    ip(*uplinks(shape))
    ip(*(line for number in range(shape.pods) for line in of_pod(shape, number, pods)))
    ip(*(f"link set p{number} up" for number in range(shape.pods)), inside=pods)
    settings()
    return taps, Services({shape.mac(eni): shape.addresses(eni) for eni in range(shape.enis + 1)}, shape.metadata)


def with_parent() -> None:
    """End when the parent of this process ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def mounts() -> None:
    """A /sys of our own network namespace with an ECS instance's DMI, and overlays where we write files."""
    mount("tmpfs", SCRATCH.parent, "tmpfs")
    for directory in OVERLAID:
        upper, work = SCRATCH / f"upper{directory}", SCRATCH / f"work{directory}"
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        mount("overlay", Path(directory), "overlay", f"lowerdir={directory},upperdir={upper},workdir={work}")
    if Path("/usr/lib/sysctl.d").is_dir():
        mount("tmpfs", Path("/usr/lib/sysctl.d"), "tmpfs")
    real = SCRATCH / "sys"
    real.mkdir()
    mount("sysfs", real, "sysfs")
    mount("tmpfs", Path("/sys"), "tmpfs")
    names = [(one, Path("/sys") / one.name) for one in real.iterdir() if one.name != "class"]
    names += [(one, Path("/sys/class") / one.name) for one in (real / "class").iterdir() if one.name not in CLASSES]
    for source, target in names:
        target.mkdir(parents=True)
        mount(str(source), target, flags=MS_BIND | MS_REC)
    put("/sys/class/dmi/id/product_name", "Alibaba Cloud ECS\n")
    if os.path.ismount("/sys/fs/bpf"):
        LIBC.umount2(b"/sys/fs/bpf", MNT_DETACH)
    # PID 1 is this machine's and has its mounts. A reader there must see the node's.
    mount("/proc/self/mountinfo", Path("/proc/1/mountinfo"), flags=MS_BIND)


def mount(source: str, target: Path, kind: str = "", options: str = "", flags: int = 0) -> None:
    if LIBC.mount(source.encode(), str(target).encode(), kind.encode(), flags, options.encode()):
        raise Unavailable(f"mount {kind or source} on {target}: {os.strerror(ctypes.get_errno())}")


def files() -> None:
    for foreign in FOREIGN:
        shutil.rmtree(foreign, ignore_errors=True)
    for stale in Path("/etc/sysctl.d").glob("*.conf"):
        stale.unlink()
    put("/etc/cni/net.d/10-terway.conflist", CONFLIST)
    for program in ("terway", "cilium-cni"):
        put(f"/opt/cni/bin/{program}", "#!/bin/sh\n", 0o755)
    put("/var/run/eni/node_capabilities", CAPABILITIES)
    Path("/var/run/eni").chmod(0o700)
    Path("/var/lib/cni/terway").mkdir(parents=True, exist_ok=True)
    for directory in ("device-plugins", "pods"):
        Path("/var/lib/kubelet", directory).mkdir(parents=True, exist_ok=True)


def put(path: str, text: str, mode: int = 0o644) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)


def tap(name: str) -> int:
    """An interface that has a carrier while the descriptor is open. Nobody reads its packets."""
    try:
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI))
    except OSError as error:
        raise Unavailable(f"a tap device: {error.strerror}") from error
    return device


def another_namespace() -> int:
    """A process in a network namespace of its own, for the pods' ends. It ends with us."""
    told, tells = os.pipe()
    child = os.fork()
    if not child:
        with_parent()
        LIBC.unshare(CLONE_NEWNET)
        os.write(tells, b"\n")
        while True:
            signal.pause()
    os.read(told, 1)
    return child


def uplinks(shape: Shape) -> list[str]:
    lines = ["link set lo up", f"address add {METADATA}/32 dev lo"]
    for eni in range(shape.enis + 1):
        name = f"eth{eni}"
        # An ENI that Terway manages has only the node's address.
        prefix = 32 if eni else 24
        lines += [f"link set {name} address {shape.mac(eni)} up", f"address add {NODE_ADDRESS}/{prefix} dev {name}"]
        if eni:
            lines.append(f"route add default via {GATEWAY} dev {name} onlink table {table(eni)}")
        else:
            lines.append(f"route add default via {GATEWAY} dev {name}")
    lines += [f"rule add from 192.168.9.{number} lookup {table(1)} pref 3000" for number in range(shape.unused_rules)]
    return lines


def of_pod(shape: Shape, number: int, namespace: int) -> list[str]:
    name, address = veth(number), shape.pod(number)
    return [
        f"link add {name} type veth peer name p{number} netns {namespace}",
        f"link set {name} up",
        f"route add {address}/32 dev {name} scope link",
        f"rule add to {address}/32 lookup main pref 512",
        f"rule add from {address}/32 lookup {table(shape.eni_of(number))} pref 2048",
    ]


def table(eni: int) -> int:
    """Terway's number for the ENI's table."""
    return 1000 + socket.if_nametoindex(f"eth{eni}")


def ip(*lines: str, inside: int | None = None) -> None:
    argv = ["ip", "-batch", "-"] if inside is None else ["nsenter", "-t", str(inside), "-n", "ip", "-batch", "-"]
    done = subprocess.run(argv, input="\n".join(lines), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"ip: {done.stderr.strip()}")


def settings() -> None:
    """The sysctls that Terway sets when a pod starts."""
    root = Path("/proc/sys/net/ipv4")
    (root / "ip_forward").write_text("1")
    for link in (root / "conf").iterdir():
        (link / "forwarding").write_text("1")
        (link / "rp_filter").write_text("0")
