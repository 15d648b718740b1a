"""Makes a node of tests/rigs/cluster.py a node of Terway on an ECS instance: `with TerwayNode(node, ecs) as terway`.

Real here: the kubelet and its pods, this kernel's interfaces, policy rules and tables, sockets, HTTP. Not real: the
ENIs are tap devices that nobody reads, and eth0 is a macvlan on the rig's wire (KINDS says that both replace NICs); the
metadata service is tests/rigs/imds_server.py; DMI is a file. Of Terway there are its files, its sockets and a CNI
plugin of its name: it lets ptp wire the pod, adds the two policy rules that Terway adds, and takes them away with the
pod. Terway itself cannot be had here, because it asks the cloud's API for ENIs.

This file as a program runs on the node. It ends with its input, or with the node.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.rigs import netns_node
from tests.rigs.cluster_node import Node, address
from tests.rigs.cluster_setup import GATEWAY
from tests.rigs.netns_node import CAPABILITIES, FOREIGN, mount, put
from tests.rigs.netns_services import METADATA, READY, Services

KINDS = "tun macvlan"  # for NODEPREP_PHYSICAL_KINDS
REGION, ZONE, TYPE = "cn-hangzhou", "cn-hangzhou-j", "ecs.g8i.4xlarge"  # as tests/trees/imds/two-enis.json
POOL = {"alibabacloud.com/nodepool-id": "np-rig"}
EXCLUSIVE = {"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}
FIRST_POD, PODS = 10, 20  # of the addresses of an ENI that pods share
# The rest of /etc and /var/lib is this machine's, and what configures its network is not the node's.
KEPT = ("/etc/cni", "/etc/containerd", "/opt/cni")
PLUGIN = """#!/usr/bin/python3 -I
import json, os, subprocess, sys
asked, command = sys.stdin.read(), os.environ["CNI_COMMAND"]
done = subprocess.run(["/opt/cni/bin/ptp"], input=asked, capture_output=True, text=True)
print(done.stdout, end="")
sys.stderr.write(done.stderr)
settings = json.loads(asked)
told = json.loads(done.stdout) if command == "ADD" and not done.returncode else settings.get("prevResult") or {}
way = {"ADD": "add", "DEL": "del"}.get(command) if "table" in settings else None
for one in told.get("ips", ()) if way else ():
    pod = one["address"].split("/")[0]
    for rule in (f"to {pod}/32 lookup main pref 512", f"from {pod}/32 lookup {settings['table']} pref 2048"):
        subprocess.run(["ip", "rule", way, *rule.split()], check=way == "add", stderr=subprocess.DEVNULL)
sys.exit(done.returncode)
"""


@dataclass(frozen=True, slots=True)
class Instance:
    """An ECS instance: its number in the cluster, how many ENIs it has besides the primary one, and their mode.

    Of its ENIs the cloud attached the last `lost` and this kernel has no link: a hot-plug that it missed.
    """

    number: int
    exclusive: bool = False
    enis: int = 2
    lost: int = 0

    @property
    def id(self) -> str:
        return f"i-bp1rig{self.number}"

    def mac(self, eni: int) -> str:
        return f"00:16:3e:00:{self.number:02x}:{eni:02x}"

    def addresses(self, eni: int) -> list[str]:
        """Those of the ENI in the cloud: its own, then its pods'. Pods share the first ENI."""
        if not eni:
            return [address(self.number)]
        shared = range(FIRST_POD, FIRST_POD + PODS) if eni == 1 and not self.exclusive else ()
        return [self.address(200 + eni), *map(self.address, shared)]

    def address(self, last: int) -> str:
        return f"192.168.{self.number}.{last}"

    def labels(self) -> dict[str, str]:
        known = {"topology.kubernetes.io/zone": ZONE, "node.kubernetes.io/instance-type": TYPE, **POOL}
        return known | (EXCLUSIVE if self.exclusive else {})

    def flags(self) -> tuple[str, ...]:
        """Of its kubelet."""
        return (f"--provider-id={REGION}.{self.id}",)


class TerwayNode:
    """A running Node, as that of an instance. Use it as a context manager; inside, its pods get addresses of its ENI.

    Raises:
        RuntimeError: this machine does not let us, or the program on the node ended; with what it said.
    """

    def __init__(self, node: Node, instance: Instance) -> None:
        self.node, self.instance = node, instance

    def __enter__(self) -> Self:
        words = (sys.executable, __file__, json.dumps(asdict(self.instance)))
        self._held = subprocess.Popen(
            (*self.node.entering(), *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            self._expect()
        except BaseException:
            self._held.kill()
            self._held.wait()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.communicate()

    def order(self, *words: str) -> None:
        """Give its servers an order (tests/rigs/netns_services.py). Returns when it is done."""
        assert self._held.stdin is not None
        self._held.stdin.write(" ".join(words) + "\n")
        self._held.stdin.flush()
        self._expect()

    def rules(self, pod: str) -> list[str]:
        """The words of the policy rules for a pod's address."""
        lines = (line.partition(":") for line in self.node.run("ip", "rule").splitlines())
        return [f"{words.strip()} pref {number}" for number, _, words in lines if pod in words.split()]

    def _expect(self) -> None:
        assert self._held.stdout is not None
        if (said := self._held.stdout.readline().strip()) != READY:
            raise RuntimeError(f"{self.node.name} as a node of Terway: {said or 'its program ended'}")


class Build:
    """What this process's namespaces, those of a node, become."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    @cached_property
    def links(self) -> list[str]:
        """Of the ENIs that the kernel has, besides the primary one."""
        return [f"eth{eni}" for eni in range(1, 1 + self.instance.enis - self.instance.lost)]

    def whole(self) -> tuple[list[int], Services]:
        """The returned things must live as long as the node."""
        self.dmi()
        self.primary()
        taps = [netns_node.tap(name) for name in self.links]
        netns_node.ip(*(line for number, name in enumerate(self.links, 1) for line in self.uplink(number, name)))
        netns_node.ip(f"address add {METADATA}/32 dev lo")
        netns_node.settings()
        self.files()
        self.network()
        enis = {self.instance.mac(eni): self.instance.addresses(eni) for eni in range(1 + self.instance.enis)}
        services = Services(enis, "optional", {"instance-id": self.instance.id})
        for eni, mac in enumerate(enis):
            services.tell(mac, self.subnet(eni))
        return taps, services

    def subnet(self, eni: int) -> dict[str, str]:
        if not eni:
            return {"gateway": GATEWAY, "vswitch-cidr-block": "198.51.100.0/24"}
        return {"gateway": self.instance.address(253), "vswitch-cidr-block": self.instance.address(0) + "/24"}

    def dmi(self) -> None:
        """A /sys/class that has DMI too: this machine may have none, and nobody can add it to a sysfs."""
        classes = Path("/run/nodeprep-rig/class")
        classes.mkdir(parents=True)
        mount("tmpfs", classes, "tmpfs")
        for one in Path("/sys/class").iterdir():
            if one.name != "dmi":
                (classes / one.name).mkdir()
                mount(str(one), classes / one.name, flags=netns_node.MS_BIND)
        put(str(classes / "dmi/id/product_name"), "Alibaba Cloud ECS\n")
        mount(str(classes), Path("/sys/class"), flags=netns_node.MS_BIND | netns_node.MS_REC)

    def primary(self) -> None:
        """Puts a macvlan in the place of eth0: a veth is a pod's, and a NIC has a parent or is of KINDS."""
        own = address(self.instance.number)
        netns_node.ip(
            "link set eth0 down",
            "link set eth0 name wire0",
            "link set wire0 up",
            f"link add eth0 link wire0 address {self.instance.mac(0)} type macvlan mode bridge",
            "link set eth0 up",
            "address flush dev wire0",
            f"address add {own}/32 dev eth0",
            f"route add {GATEWAY} dev eth0 scope link",
            f"route add default via {GATEWAY} dev eth0 src {own}",
        )

    def uplink(self, number: int, name: str) -> list[str]:
        lines = [f"link set {name} address {self.instance.mac(number)} up"]
        if self.instance.exclusive:
            return lines
        lines.append(f"address add {address(self.instance.number)}/32 dev {name}")
        gateway = self.instance.address(253)
        return [*lines, f"route add default via {gateway} dev {name} onlink table {netns_node.table(number)}"]

    def files(self) -> None:
        for foreign in FOREIGN:
            if foreign not in KEPT:
                shutil.rmtree(foreign, ignore_errors=True)
        for stale in Path("/etc/sysctl.d").glob("*.conf"):
            stale.unlink()
        mode = "eniOnly" if self.instance.exclusive else "default"
        put("/var/run/eni/node_capabilities", CAPABILITIES.replace("default", mode, 1))
        Path("/var/run/eni").chmod(0o700)
        Path("/var/lib/cni/terway").mkdir(parents=True, exist_ok=True)

    def network(self) -> None:
        """Of pods. Where they share ENIs, they get addresses of the first one, and Terway's two rules."""
        first, last = (self.instance.address(number) for number in (FIRST_POD, FIRST_POD + PODS - 1))
        subnet = {"subnet": self.instance.address(0) + "/24", "rangeStart": first, "rangeEnd": last}
        ipam = {"type": "host-local", "dataDir": "/run/cni", "ranges": [[subnet]], "routes": [{"dst": "0.0.0.0/0"}]}
        plugin: dict[str, Any] = {"type": "terway", "ipam": ipam}
        if self.links and not self.instance.exclusive:
            plugin["table"] = netns_node.table(1)
        configuration = {"cniVersion": "1.0.0", "name": "terway-chainer", "plugins": [plugin]}
        put("/opt/cni/bin/terway", PLUGIN, 0o755)
        put("/etc/cni/net.d/10-terway.conflist", json.dumps(configuration))
        Path("/etc/cni/net.d/10-rig.conflist").unlink()


def main(words: Sequence[str]) -> int:
    netns_node.with_parent()
    try:
        kept, services = Build(Instance(**json.loads(words[0]))).whole()
    except (netns_node.Unavailable, OSError) as error:
        print(error, flush=True)
        return 1
    services.obey_stdin()
    del kept
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
