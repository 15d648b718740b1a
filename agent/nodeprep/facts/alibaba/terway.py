"""What Terway leaves on a node: directories, node capabilities, sockets. Its configuration is in facts/network/cni."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodeprep.facts.network import cni
from nodeprep.facts.network.cni import Cni
from nodeprep.model import Fact, Shown, Topic, Unreadable, Why, guarded, not_recorded, raw, shown, stands_for_all
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import FileEntry, Files
    from nodeprep.doors.node_host import Host

# Paths and words: AliyunContainerService/terway, hack/init.sh, pkg/utils/nodecap, cmd/terway-cli.
TYPE = "terway"
CONFLIST, OLD = "10-terway.conflist", "10-terway.conf"
RUN = "/var/run/eni"
RECORDS = "/var/lib/cni/terway"
DIRECTORIES = (RECORDS, RUN)
CAPABILITIES = f"{RUN}/node_capabilities"
DAEMON = f"{RUN}/eni.socket"
POLICY = ("127.0.0.1", 9099)  # felix, cilium-agent, or socat where there is no policy to enforce
BINARY = "/opt/cni/bin/terway"
KUBELET = "/var/lib/kubelet"
DEVICE_PLUGINS = f"{KUBELET}/device-plugins"
BPFFS = Pattern(rb"^\S+ \S+ \S+ \S+ /sys/fs/bpf \S.*? - (\S+) ", re.MULTILINE)  # proc_pid_mountinfo(5)
MOUNTS_LIMIT = 16 << 20  # bytes; a node with hundreds of containers has megabytes of overlay mounts
CONNECT_TIMEOUT_SECONDS = 1.0  # seconds; both sockets are of this machine


@shown
class UnixSocket(Shown):
    """A socket that should have a listener; `errno` is None where it accepted a connection."""

    address: str
    errno: int | None


CAPABILITY, ENI_ONLY = "cni_exclusive_eni", "eniOnly"  # Terway pkg/utils/nodecap, types/k8s.go


# What checks ask the file for (Terway pkg/utils/nodecap); the rest of it stays on the node.
CAPABILITY_KEYS = (CAPABILITY, "datapath", "erdma")


def is_eni_only(word: str) -> bool:
    """Whether a label or capability says exclusive ENIs: Terway knows this one word, in any case."""
    return word.lower() == ENI_ONLY.lower()


@shown
class Terway(Shown):
    """`present` is whether this node's CNI is Terway: by its configuration, binary or directories.

    `capabilities` are the words of /var/run/eni/node_capabilities that checks ask for, None where there is no such
    file. `missing` are the directories that Terway needs and that are not there. The sockets are None in a dead tree,
    and where Terway is not present: there nobody is asked. `device_plugins` are the names of the kubelet's
    sockets for them.
    """

    at: float
    present: bool
    capabilities: Mapping[str, str] | None
    missing: tuple[str, ...]
    bpffs: bool
    daemon: UnixSocket | None
    policy: UnixSocket | None
    device_plugins: tuple[str, ...]

    # Nothing, and all that excuses something elsewhere.
    possible = stands_for_all(
        present=(True, False),
        capabilities=(None, {"erdma": "true", CAPABILITY: ENI_ONLY, "datapath": "veth"}),
        bpffs=(True,),
    )

    @property
    def is_exclusive(self) -> bool:
        """Whether each pod has an ENI of its own, as far as terway-init has said so since the boot."""
        return is_eni_only((self.capabilities or {}).get(CAPABILITY, ""))


def is_of_kubernetes(configured: Cni, terway: Terway | None) -> bool:
    """Whether pods may get their network here. Otherwise nothing uses the CNI directory.

    Podman has a network of its own there, and `kubeadm reset` leaves the one of its cluster behind.
    """
    return raw(configured)["kubelet"] is not False or (terway is not None and terway.present)


def observe(host: Host) -> Terway:
    files = host.files
    configured = cni.observe(host)
    present = _present(files, configured)
    asked = host.live and present is True
    return Terway(
        at=host.now(),
        present=guarded(present),
        capabilities=guarded(_capabilities(files)),
        missing=guarded(_missing(files)),
        bpffs=guarded(_bpffs(host)),
        daemon=guarded(_socket(host, DAEMON)) if asked else None,
        policy=guarded(_socket(host, POLICY)) if asked else None,
        device_plugins=guarded(_device_plugins(host)),
    )


def _present(files: Files, configured: Cni) -> bool | Unreadable:
    """By what goes when Terway goes.

    /var/run/eni lies in memory: it is there if Terway started since the boot. Its binary, /var/lib/cni/terway and a
    configuration that another one precedes may each outlive it; all three together are a node that just booted, or a
    tree copied without /run. Where nothing configures pods at all, the binary tells whose configuration is missing.
    """
    run = files.entry(RUN)
    if run is not None:
        return run if isinstance(run, Unreadable) else True
    listed = raw(configured)["files"]
    if isinstance(listed, Unreadable):
        # On other nodes Terway is not mentioned because k3s has a configuration that only root reads.
        return listed if files.exists(BINARY) or files.exists(RECORDS) else False
    if not listed:
        return files.exists(BINARY)
    first, names = listed[0], {file.name for file in listed}
    if first.name in (CONFLIST, OLD):
        return True
    if CONFLIST in names and files.exists(BINARY):
        records = files.entry(RECORDS)
        if records is not None:
            return records if isinstance(records, Unreadable) else True
    network = raw(first)["network"]
    return not isinstance(network, Unreadable) and TYPE in _chain(configured)


def _chain(configured: Cni) -> tuple[str, ...]:
    first = configured.first
    return configured.chain(first) if first else ()


def _capabilities(files: Files) -> Mapping[str, str] | None | Unreadable:
    """The file's `key = value` lines of the known keys: INI without a section, as Terway writes it."""
    text = files.text(CAPABILITIES)
    if not isinstance(text, str):
        return text
    lines = (line.partition("=") for line in text.splitlines() if line[:1] not in "#;[")
    words = {key.strip(): value.strip().strip("\"'`") for key, separator, value in lines if separator}
    return {key: value for key, value in words.items() if key in CAPABILITY_KEYS}


def _missing(files: Files) -> tuple[str, ...] | Unreadable:
    stands = {path: files.entry(path) for path in DIRECTORIES}
    blind = next((entry for entry in stands.values() if isinstance(entry, Unreadable)), None)
    seen = {path: entry for path, entry in stands.items() if not isinstance(entry, Unreadable)}
    lacking = tuple(path for path, entry in seen.items() if not _is_directory(entry))
    return lacking or blind or ()


def _is_directory(entry: FileEntry | None | Unreadable) -> bool:
    return entry is not None and not isinstance(entry, Unreadable) and entry.is_directory


def _bpffs(host: Host) -> bool | Unreadable:
    """Whether the topmost mount at /sys/fs/bpf is a BPF file system."""
    path = "/proc/1/mountinfo"
    data = host.files.data(path, MOUNTS_LIMIT)
    if not isinstance(data, bytes) and host.live and not host.files.root:
        path = "/proc/self/mountinfo"  # ours is the host's where no container is in between
        data = host.files.data(path, MOUNTS_LIMIT)
    if not isinstance(data, bytes):
        return data or not_recorded(path)
    kinds: list[bytes] = BPFFS.findall(data)
    return bool(kinds) and kinds[-1] == b"bpf"


def _socket(host: Host, address: tuple[str, int] | str) -> UnixSocket | Unreadable:
    code = host.connects(address, CONNECT_TIMEOUT_SECONDS)
    name = address if isinstance(address, str) else f"{address[0]}:{address[1]}"
    return code if isinstance(code, Unreadable) else UnixSocket(name, code)


def _device_plugins(host: Host) -> tuple[str, ...] | Unreadable:
    """Their names; where a live node has a kubelet and not this directory, it is not seen: our pod does not mount it.

    Whoever may connect to kubelet.sock in it registers plugins in others' names (docs/security.md).
    """
    files = host.files
    names = files.names(DEVICE_PLUGINS)
    if names is None and host.live and files.exists(KUBELET):
        return Unreadable(Why.MISSING, DEVICE_PLUGINS, detail="not mounted in the agent's pod, or no kubelet ran")
    return names if isinstance(names, Unreadable) else tuple(name for name in names or () if name.endswith(".sock"))


FACT = Fact(Terway, observe, woken_by=frozenset({Topic.CONFIG, Topic.DEVICE}))
