"""The CNI directory as the container runtime reads it, and the plugin binaries that its configurations name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nodeprep.facts.network import cni_runtime, json_text
from nodeprep.facts.network.json_text import NotJson
from nodeprep.model import Fact, Shown, Topic, Unreadable, Why, guarded, raw, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

# What libcni.ConfFiles is asked for (containerd/go-cni opts.go, loadFromConfDir); `.conflist` alone holds a chain.
CHAIN, SUFFIXES = ".conflist", (".conf", ".conflist", ".json")
KUBELET = ("/var/lib/kubelet/pods", "/etc/kubernetes/kubelet.conf")  # the first is there once it ran
PLUGINS_LIMIT = 64  # plugins of one file; chains have two to five
NAME = Pattern(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")  # containernetworking/cni pkg/utils, ValidateNetworkName
TYPE = Pattern(r"[a-zA-Z0-9_][a-zA-Z0-9_.+\-]{0,127}")  # a plain file name: libcni refuses separators in it
# What checks ask a plugin for. The rest stays on the node: chains hold tokens, keys and addresses with passwords.
OPTIONS = frozenset(
    {
        "clusterNetwork",
        "disable_host_peer",
        "eniip_virtual_type",
        "mtu",
        "network_policy_provider",
        "veth_prefix",
    }
)
OPTION_LIMIT_CHARACTERS = 256  # characters of an option's text
MULTUS = ("multus", "multus-shim")
# Plugin types by which the chains of network plugins are told. What is not here (bridge, ptp, loopback) comes with
# runtimes as an example, and serves others as a part.
NAMES = {
    "antrea": "Antrea",
    "aws-cni": "Amazon VPC CNI",
    "azure-vnet": "Azure CNI",
    "calico": "Calico",
    "cilium-cni": "Cilium",
    "flannel": "Flannel",
    "kube-ovn": "Kube-OVN",
    "ovn-k8s-cni-overlay": "OVN-Kubernetes",
    "sriov": "SR-IOV",
    "terway": "Terway",
    "weave-net": "Weave Net",
} | dict.fromkeys(MULTUS, "Multus")


@shown
class CniPlugin(Shown):
    """One plugin of a chain: its `type`, and of its other keys those that checks ask for (OPTIONS)."""

    type: str
    options: tuple[tuple[str, str | int | bool], ...]

    def option(self, key: str) -> str | int | bool | None:
        return dict(self.options).get(key)


@shown
class CniNetwork(Shown):
    """A network configuration: what a .conf or .conflist holds when it is well formed.

    `delegates` are the types of plugins that those of the chain call themselves: IPAM, and what Multus delegates to.
    """

    name: str
    version: str
    plugins: tuple[CniPlugin, ...]
    delegates: tuple[str, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """Every plugin type that it needs, each once."""
        return tuple(dict.fromkeys((*(plugin.type for plugin in self.plugins), *self.delegates)))


@shown
class CniFile(Shown):
    """A file of the directory. `network` is Unreadable(malformed), with line and column, where it holds none."""

    name: str
    network: CniNetwork


@shown
class Binary(Shown):
    """What stands in the binary directories under the name of a plugin's type."""

    type: str
    present: bool
    executable: bool
    size: int


@shown
class Cni(Shown):
    """`files` are those that a runtime reads, in its order (by name); None where there is no directory.

    `binaries` are those that the networks of `files` name, looked for in `paths`. `kubelet` is whether this node is or
    was one of Kubernetes: without a kubelet no configuration is missing.
    """

    at: float
    directory: str
    files: tuple[CniFile, ...] | None
    binaries: tuple[Binary, ...]
    paths: tuple[str, ...]
    kubelet: bool

    @property
    def first(self) -> CniFile | None:
        return self.files[0] if self.files else None

    def behind(self, file: CniFile) -> CniFile | None:
        """The file that Multus in `file` calls for every pod: its `clusterNetwork`, a path or a network's name."""
        called = [plugin.option("clusterNetwork") for plugin in file.network.plugins if plugin.type in MULTUS]
        name = str(called[0] or "") if called else ""
        others = [other for other in self.files or () if name and other.name != file.name]
        networks = {other.name: raw(other)["network"] for other in others}
        by_path = [other for other in others if other.name == name.rpartition("/")[2]]
        by_name = [
            other for other in others if isinstance(one := networks[other.name], CniNetwork) and one.name == name
        ]
        return next(iter(by_path or by_name), None)

    def chain(self, file: CniFile) -> tuple[str, ...]:
        """Every plugin type that a pod's network needs where `file` wins: its own and those behind Multus."""
        behind = self.behind(file)
        return tuple(dict.fromkeys((*file.network.types, *(behind.network.types if behind else ()))))


def observe(host: Host) -> Cni:
    files = host.files
    told = cni_runtime.places(files)
    directory, paths = (told, told) if isinstance(told, Unreadable) else told
    found = directory if isinstance(directory, Unreadable) else _files(files, directory)
    networks = [raw(file)["network"] for file in found] if isinstance(found, tuple) else []
    types = dict.fromkeys(one for network in networks if isinstance(network, CniNetwork) for one in network.types)
    return Cni(
        at=host.now(),
        directory=guarded(directory),
        files=guarded(found),
        binaries=guarded(paths if isinstance(paths, Unreadable) else _binaries(files, paths, tuple(types))),
        paths=guarded(paths),
        kubelet=guarded(_kubelet(files)),
    )


def _kubelet(files: Files) -> bool | Unreadable:
    stands = [files.entry(path) for path in KUBELET]
    if any(entry is not None and not isinstance(entry, Unreadable) for entry in stands):
        return True
    return next((entry for entry in stands if isinstance(entry, Unreadable)), False)


def _files(files: Files, directory: str) -> tuple[CniFile, ...] | None | Unreadable:
    names = files.names(directory)
    if names is None or isinstance(names, Unreadable):
        return names
    paths = [(name, f"{directory}/{name}") for name in names if name.endswith(SUFFIXES)]
    return tuple(
        CniFile(name, guarded(_network(files, path))) for name, path in paths if not _is_directory(files, path)
    )


def _is_directory(files: Files, path: str) -> bool:
    entry = files.entry(path)
    return entry is not None and not isinstance(entry, Unreadable) and entry.is_directory


def _network(files: Files, path: str) -> CniNetwork | Unreadable:
    text = files.need(path)  # a dangling link is listed too
    if isinstance(text, Unreadable):
        return text
    try:
        return network_in(json_text.parse(text), chain=path.endswith(CHAIN))
    except ValueError as error:
        return Unreadable(Why.MALFORMED, path, detail=str(error))


def network_in(value: object, *, chain: bool) -> CniNetwork:
    """The network of a parsed file: a chain has a list of plugins, any other file is itself one plugin.

    Raises:
        ValueError: it is not a network.
    """
    if not isinstance(value, dict):
        raise NotJson("an object is wanted, with name and " + ("plugins" if chain else "type"))
    name, version = value.get("name"), value.get("cniVersion", "")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise NotJson(f"name is {_shown(name)}: a name of letters, digits, '_', '.' and '-' is wanted")
    if not isinstance(version, str):
        raise NotJson(f"cniVersion is {_shown(version)}: a text is wanted")
    listed = value.get("plugins") if chain else [value]
    if not isinstance(listed, list) or not listed:
        raise NotJson(f"plugins is {_kind(listed)}: a list of plugins is wanted")
    plugins = [_plugin(one, f"plugins[{index}]" if chain else "the file") for index, one in enumerate(listed)]
    delegates = [inner for index, one in enumerate(listed) for inner in _delegates(one, f"plugins[{index}]")]
    if len(plugins) + len(delegates) > PLUGINS_LIMIT:
        raise NotJson(f"it names more than {PLUGINS_LIMIT} plugins")
    return CniNetwork(name, version, tuple(plugins), tuple(dict.fromkeys(delegates)))


def _plugin(value: object, place: str) -> CniPlugin:
    if not isinstance(value, dict):
        raise NotJson(f"{place} is {_kind(value)}: a plugin is wanted")
    kind = _type(value, place)
    options = ((key, one) for key, one in value.items() if key in OPTIONS and isinstance(one, str | int))
    return CniPlugin(kind, tuple((key, one) for key, one in options if len(str(one)) <= OPTION_LIMIT_CHARACTERS))


def _type(value: dict[str, object], place: str) -> str:
    kind = value.get("type")
    if kind is None:
        raise NotJson(f"{place} has no type")
    # It is a file's name below the binary directory; one that leads out of it is never looked for.
    if not isinstance(kind, str) or not TYPE.fullmatch(kind):
        raise NotJson(f"the type of {place} is {_shown(kind)}: the plain name of a program is wanted")
    return kind


def _delegates(value: dict[str, object], place: str) -> Iterator[str]:
    """Types of the plugins that one of a chain calls: ipam, flannel's delegate, and the networks of Multus."""
    inner = {key: one for key in ("ipam", "delegate") if isinstance(one := value.get(key), dict)}
    for key, one in inner.items():
        if "type" in one:
            yield _type(one, f"{place}.{key}")
        yield from _delegates(one, f"{place}.{key}")
    if value.get("type") == "flannel":  # its README: a bridge with host-local, unless `delegate` says another
        delegate = inner.get("delegate", {})
        yield from () if "type" in delegate else ("bridge",)
        yield from () if "ipam" in delegate else ("host-local",)
    for key in ("delegates", "plugins"):
        listed = value.get(key)
        for index, one in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(one, dict):
                if "type" in one:
                    yield _type(one, f"{place}.{key}[{index}]")
                yield from _delegates(one, f"{place}.{key}[{index}]")


def _shown(value: object) -> str:
    """A name or type as a message shows it."""
    return repr(value)[:40] if isinstance(value, str) else _kind(value)


def _kind(value: object) -> str:
    """What a value is, and never the value: it may be secret."""
    if isinstance(value, dict | list):
        return f"{'an' if value else 'an empty'} object" if isinstance(value, dict) else "a list" if value else "[]"
    return "missing" if value is None else "a text" if isinstance(value, str) else f"{value!r:.40}"


def _binaries(files: Files, paths: tuple[str, ...], types: tuple[str, ...]) -> tuple[Binary, ...] | Unreadable:
    found = [_binary(files, paths, name) for name in types]
    blind = next((one for one in found if isinstance(one, Unreadable)), None)
    return blind or tuple(one for one in found if isinstance(one, Binary))


def _binary(files: Files, paths: tuple[str, ...], name: str) -> Binary | Unreadable:
    """The first file of that name, as libcni's FindInPath takes it."""
    for path in paths:
        entry = files.entry(f"{path}/{name}")
        if isinstance(entry, Unreadable):
            return entry
        if entry is not None and entry.is_file:
            return Binary(name, True, entry.is_executable, entry.size)
    return Binary(name, False, False, 0)


FACT = Fact(Cni, observe, woken_by=frozenset({Topic.CONFIG}), every=60.0)
