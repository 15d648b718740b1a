"""The RDMA shared device plugin as its users run it: built from its own module, in an image, with its own manifest.

    python tests/rigs/rdma_plugin.py build      builds the image, else the first use does, and prints its path
    python tests/rigs/rdma_plugin.py manifest   prints the manifest for `kubectl apply -f -` on the guest rig

Both are kept in the user's cache under the hash of their inputs. The image also has the tools of a training pod:
ibv_devinfo and similar, rping, and busybox.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import yaml

from daemonset.image import oci
from tests.rigs import cache, go_module
from tests.rigs.cluster_build import CannotStart
from tests.rigs.go_module import Module
from tests.rigs.lab_setup import RAIL

MODULE = Module(
    "github.com/Mellanox/k8s-rdma-shared-dev-plugin", "v1.5.3", "h1:sjF+BpNYOYHRGFbL8luUtSUMmZLFqUlUSS/bzyRWjs8="
)
PROGRAM = "k8s-rdma-shared-dp"
PLUGIN = "deployment/k8s/base/daemonset.yaml"  # in the module

IMAGE = "nodeprep.test/rdma:dev"
RESOURCE = "rdma/hca"
COUNT = 4  # pods that may share the device
INTERVAL = 5  # seconds between two of the plugin's looks at its devices
# Where the guest keeps its own view of /sys/bus/pci/devices, see tests/rigs/guest.py.
PCI_VIEW = "/var/lib/nodeprep-rig/pci-devices"

# pci.ids: the plugin wants the list of PCI names, and fetches it from the Internet if it is missing. It parses the list
# anew at each look: 36,000 lines took a quarter of a guest's processor. So the image's list has only what a guest has.
PCI_NAMES = "usr/share/misc/pci.ids"
NAMED = ("1af4", "1b36", "8086", "C 02")  # virtio, QEMU's ports, its chipset; the class of networks
PACKAGES = (
    "busybox-static",
    "ibverbs-providers",
    "ibverbs-utils",
    "libc6",
    "libgcc-s1",
    "libibumad3",
    "libibverbs1",
    "libnl-3-200",
    "libnl-route-3-200",
    "librdmacm1",
    "pci.ids",
    "rdmacm-utils",
)
KEPT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/lib/x86_64-linux-gnu/gconv")


def image() -> Path:
    """The image as an archive for `ctr images import`, built if needed: half a minute the first time.

    Raises:
        CannotStart: Go is missing, or the module or a Debian package cannot be fetched.
    """
    return built() / "image.tar"


def manifest(tolerations: Sequence[Mapping[str, str]] = ()) -> str:
    """Upstream's DaemonSet and a configuration for the guest's RoCE device, as YAML.

    Two things are changed: the image's name, and the view of the PCI bus, without which it finds no software device.
    Upstream has no tolerations; those given are added.

    Raises:
        CannotStart: as of `image`.
    """
    plugin: dict[str, Any] = yaml.safe_load((built() / "daemonset.yaml").read_text())
    pod = plugin["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["image"] = IMAGE
    container["volumeMounts"].append({"name": "pci", "mountPath": "/sys/bus/pci/devices"})
    pod["volumes"].append({"name": "pci", "hostPath": {"path": PCI_VIEW}})
    if tolerations:
        pod["tolerations"] = [dict(one) for one in tolerations]
    devices = [{"resourceName": "hca", "rdmaHcaMax": COUNT, "selectors": {"ifNames": [RAIL.netdev]}}]
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "rdma-devices", "namespace": plugin["metadata"]["namespace"]},
        "data": {"config.json": json.dumps({"periodicUpdateInterval": INTERVAL, "configList": devices})},
    }
    return yaml.safe_dump_all((settings, plugin), sort_keys=False)


@functools.cache
def built() -> Path:
    """The cache's directory with image.tar and daemonset.yaml for today's inputs."""
    go = go_module.compiler()
    with cache.locked("rdma-plugin") as directory:
        # apt's answer names each package's version and hash.
        packages = go_module.output("apt-get", "-qq", "--print-uris", "download", *PACKAGES)
        sources = [Path(source).read_text() for source in (__file__, oci.__file__)]
        made_from = MODULE.made_from(go, packages, *sources)
        return cache.built(directory, "rdma-plugin", made_from, functools.partial(build, go))


def build(go: str, target: Path) -> None:
    print(f"rdma_plugin: building {target}", file=sys.stderr, flush=True)
    root, packages = target / "root", target / "packages"
    root.mkdir(parents=True)
    packages.mkdir()
    # The sandbox user cannot write to a directory in someone's home; without root the option has no effect.
    go_module.output("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *PACKAGES, cwd=packages)
    for package in sorted(packages.glob("*.deb")):
        go_module.output("dpkg", "-x", str(package), str(root))
    for directory in KEPT_OUT:
        shutil.rmtree(root / directory, ignore_errors=True)
    names = root / PCI_NAMES
    names.write_text(short(names.read_text()))
    busybox = root / "bin/busybox"
    for applet in go_module.output(str(busybox), "--list").split():
        if not (root / "bin" / applet).exists():  # among them busybox itself
            (root / "bin" / applet).symlink_to("busybox")
    for directory in ("dev", "proc", "sys", "tmp"):
        (root / directory).mkdir(exist_ok=True)
    MODULE.build(go, f"./cmd/{PROGRAM}", root / "bin" / PROGRAM)
    oci.write([root], target / "image.tar", name=IMAGE, entrypoint=(f"/bin/{PROGRAM}",))
    shutil.copy(MODULE.fetched(go) / PLUGIN, target / "daemonset.yaml")
    shutil.rmtree(root)
    shutil.rmtree(packages)


def short(names: str) -> str:
    """The text of a pci.ids with the vendors and classes of NAMED alone, and all that stands below them.

    Raises:
        CannotStart: it lacks one of them.
    """
    found = {one: re.search(rf"^{one}  .*\n(?:\t.*\n)*", names, re.MULTILINE) for one in NAMED}
    if missing := [one for one, lines in found.items() if lines is None]:
        raise CannotStart(f"rdma_plugin: {PCI_NAMES}: found no line for {', '.join(missing)}, wanted one for each")
    return "".join(lines[0] for lines in found.values() if lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="rdma_plugin.py", description="The RDMA shared device plugin for the rig.")
    parser.add_argument("action", choices=("build", "manifest"))
    arguments = parser.parse_args()
    try:
        print(manifest() if arguments.action == "manifest" else built())
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
