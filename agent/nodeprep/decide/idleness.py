"""Whether what a remedy disturbs is unused: what must be idle, what each source says of it, and the judgement.

Each source can answer, can be absent from this host by name, or fails. What fails counts as in use, always.
`decide/idle_holders` finds the holders in facts, `repair/idle_proof` asks at the moment of acting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase

from nodeprep.decide.remedy_header import Idle, ParameterKind, RemedyHeader, SafetyClass
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Unreadable, Why
from nodeprep.newer_python import StrEnum
from nodeprep.pattern import Pattern
from nodeprep.values import Value

COMMAND_CHARACTERS = 15  # TASK_COMM_LEN without its end (include/linux/sched.h)
WILDCARD = Pattern(r"[*?\[].*")  # what in a glob begins with a wildcard


class IdleSource(StrEnum):
    """Who may know that a device is in use."""

    POD_RESOURCES = "pod-resources"
    CHECKPOINT = "checkpoint"
    RDMA_CONTEXTS = "rdma-contexts"
    RDMA_KERNEL_USERS = "rdma-kernel-users"
    OPEN_DEVICE_NODES = "open-device-nodes"
    DEFAULT_ROUTE = "default-route"
    API_ROUTE = "api-route"
    POD_ROUTES = "pod-routes"
    SOCKETS = "sockets"
    BONDS = "bonds"
    NAMESPACES = "namespaces"


OF_PODS = (IdleSource.POD_RESOURCES, IdleSource.CHECKPOINT)
OF_DEVICES = (*OF_PODS, IdleSource.RDMA_CONTEXTS, IdleSource.RDMA_KERNEL_USERS, IdleSource.OPEN_DEVICE_NODES)
# What even a remedy that is safe while jobs run must not change (issue 16: S1 asks no idleness of the device).
OF_THE_NODE = (IdleSource.DEFAULT_ROUTE, IdleSource.API_ROUTE, IdleSource.BONDS)
OF_NETDEVS = (*OF_THE_NODE, IdleSource.POD_ROUTES, IdleSource.SOCKETS, IdleSource.NAMESPACES)
# What shows a human the same.
COMMANDS: Mapping[IdleSource, str] = {
    IdleSource.POD_RESOURCES: "kubectl get pods -A --field-selector spec.nodeName=NODE",
    IdleSource.CHECKPOINT: "kubectl get pods -A --field-selector spec.nodeName=NODE",
    IdleSource.RDMA_CONTEXTS: "rdma resource show ctx",
    IdleSource.RDMA_KERNEL_USERS: "rdma resource show pd; rdma resource show cm_id",
    IdleSource.OPEN_DEVICE_NODES: "fuser -v /dev/infiniband/* /dev/nvidia* /dev/vfio/*",
    IdleSource.DEFAULT_ROUTE: "ip route show default; ip -6 route show default",
    IdleSource.API_ROUTE: "ip route get ADDRESS",
    IdleSource.POD_ROUTES: "ip rule; ip route show table all",
    IdleSource.SOCKETS: "ss -tuanp",
    IdleSource.BONDS: "ip -d link show",
    IdleSource.NAMESPACES: "lsns -t net; nsenter -t PID -n ip link",
}


class IdleTarget(Value):
    """What must be unused. `netdevs` and `rdma` are names, `functions` PCI addresses, with their virtual functions.

    `is_whole_rdma` stands for every RDMA device of the node. `has_gpu` is whether a GPU is among the functions. `pod`
    is NAMESPACE/NAME of a pod that must hold no device itself.
    """

    idle: Idle
    netdevs: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()
    is_whole_rdma: bool = False
    has_gpu: bool = False
    pod: str = ""

    @property
    def has_rdma(self) -> bool:
        return self.is_whole_rdma or bool(self.rdma)

    def has_rdma_device(self, name: str) -> bool:
        return self.is_whole_rdma or name in self.rdma

    @property
    def lacks_device(self) -> bool:
        """Whether something must be idle, and the arguments do not say what."""
        match self.idle:
            case Idle.NETDEV:
                return not self.netdevs
            case Idle.FUNCTION:
                return not self.functions
            case Idle.PLUGIN:
                return not self.pod
            case _:
                return False


class IdleHolder(Value):
    """Who uses a device: "pod team/a (container c)", "process 4711 (ib_write_bw)", "default route via 10.0.0.1".

    `command` is the kernel's name of a process that has a device node or an RDMA context open, "" for other holders.
    """

    source: IdleSource
    device: str
    who: str
    command: str = ""


class SourceState(Value):
    """What became of one source: it answered with `holders`, it is `absent` from this host by name, or it `failed`."""

    holders: tuple[IdleHolder, ...] = ()
    absent: str = ""
    failed: Unreadable | None = None


NOT_ASKED = SourceState(failed=Unreadable(Why.MISSING, "idle proof", detail="nobody asked this source"))


class IdleDoubt(Value):
    """Why nobody can say that a device is idle. `source` is None where no source was to be asked."""

    source: IdleSource | None
    why: Unreadable


class Idleness(Value):
    """The judgement: who uses the target, and what could not be found out. It is idle only if there is neither."""

    holders: tuple[IdleHolder, ...] = ()
    doubts: tuple[IdleDoubt, ...] = ()

    @property
    def is_idle(self) -> bool:
        return not self.holders and not self.doubts

    def words(self) -> tuple[str, ...]:
        """A line for each holder and each doubt, with the command that shows more; none if it is idle."""
        held = (f"{one.device} is in use: {one.who} ({one.source}; {COMMANDS[one.source]})" for one in self.holders)
        return (*held, *(_doubtful(one) for one in self.doubts))


def _doubtful(doubt: IdleDoubt) -> str:
    if doubt.source is None:
        return f"not proved idle: {doubt.why}"
    return f"not proved idle, so in use: {doubt.source} could not be asked: {doubt.why} ({COMMANDS[doubt.source]})"


def target(
    header: RemedyHeader,
    args: Mapping[str, str],
    pci: Pci,
    rdma: Rdma,
    links: Links,
    *,
    virtual_functions: Mapping[str, Collection[str]] | None = None,
) -> IdleTarget:
    """What a remedy with these arguments disturbs.

    `virtual_functions` are those of each physical function. The RDMA devices of an interface belong to it, and so does
    its function: who works through them loses the interface too. Raises KeyError for an argument that the header lacks.
    """
    named = {kind: _named(header, args, kind) for kind in ParameterKind}
    physical = (*named[ParameterKind.PCI_FUNCTION], *named[ParameterKind.PCI_SLOT])
    netdevs = set(named[ParameterKind.NETDEV])
    of_netdevs = {link.bdf for link in links.links if link.name in netdevs and link.bdf}
    owned = virtual_functions or {}
    functions = {*physical, *of_netdevs}
    functions |= {one for owner in tuple(functions) for one in owned.get(owner, ())}
    if physical:
        netdevs |= _netdevs_of(functions, pci, links)
    found = [one for one in map(pci.at_address, sorted(functions)) if one is not None]
    return IdleTarget(
        idle=header.idle,
        netdevs=tuple(sorted(netdevs)),
        functions=tuple(sorted(functions)),
        rdma=tuple(sorted(_rdma_of(functions, netdevs, pci, rdma))),
        is_whole_rdma=header.idle is Idle.RDMA,
        has_gpu=any(one.is_gpu or one.is_nvswitch for one in found),
        pod=next(iter(named[ParameterKind.POD]), ""),
    )


def _named(header: RemedyHeader, args: Mapping[str, str], kind: ParameterKind) -> tuple[str, ...]:
    known = ((header.parameters[name], value) for name, value in args.items())
    return tuple(value for parameter, value in known if parameter.kind is kind and not parameter.untouched)


def _netdevs_of(functions: Collection[str], pci: Pci, links: Links) -> set[str]:
    listed = (one.netdevs for one in map(pci.at_address, functions) if one is not None)
    return {link.name for link in links.links if link.bdf in functions} | {name for names in listed for name in names}


def _rdma_of(functions: Collection[str], netdevs: Collection[str], pci: Pci, rdma: Rdma) -> set[str]:
    """By function, and by the interface of a port: that of a software device or of an Elastic RDMA one has another."""
    listed = (one.rdma for one in map(pci.at_address, functions) if one is not None)
    return (
        {device.name for device in rdma.devices if device.bdf in functions}
        | {port.device for port in rdma.ports if port.netdev in netdevs or port.bdf in functions}
        | {name for names in listed for name in names}
    )


def sources(wanted: IdleTarget, safety: SafetyClass) -> tuple[IdleSource, ...]:
    """Whom a remedy of this class must ask. S1 may run while the device is used, and must not cut the node off.

    A pod that is restarted must hold no device itself, whatever the class.
    """
    if wanted.idle is Idle.PLUGIN:
        return OF_PODS
    if safety is SafetyClass.S1:
        return OF_THE_NODE if wanted.netdevs else ()
    return (*OF_DEVICES, *(OF_NETDEVS if wanted.netdevs or wanted.functions else ()))


def judge(
    wanted: IdleTarget,
    evidence: Mapping[IdleSource, SourceState],
    safety: SafetyClass,
    ignored: Collection[str] = (),
) -> Idleness:
    """Whether the target is idle. A source without evidence was not asked, and that is a doubt too.

    `ignored` are names of daemons, or globs of them, that may have device nodes and contexts open (`idle.ignore`). A
    process may call itself so, and then its own work is what a repair ends.
    """
    asked = sources(wanted, safety)
    doubts: list[IdleDoubt] = []
    if wanted.lacks_device and (safety is not SafetyClass.S1 or wanted.idle is Idle.PLUGIN):
        detail = f"{wanted.idle} must be idle, and no argument names one"
        doubts.append(IdleDoubt(None, Unreadable(Why.MISSING, "target", detail=detail)))
    holders: list[IdleHolder] = []
    for source in asked:
        state = evidence.get(source, NOT_ASKED)
        if state.failed is not None:
            doubts.append(IdleDoubt(source, state.failed))
        holders += _holding(source, state.holders, ignored)
    return Idleness(tuple(holders), tuple(doubts))


def _holding(source: IdleSource, holders: Iterable[IdleHolder], ignored: Collection[str]) -> list[IdleHolder]:
    if source not in (IdleSource.OPEN_DEVICE_NODES, IdleSource.RDMA_CONTEXTS):
        return list(holders)
    return [one for one in holders if not one.command or not any(_is_named(one.command, name) for name in ignored)]


def _is_named(command: str, name: str) -> bool:
    """Whether the kernel's name of a process is that of a daemon, or fits a glob. What the kernel cut off fits all."""
    plain = WILDCARD.sub("", name)
    if len(plain) >= COMMAND_CHARACTERS:
        return command == plain[:COMMAND_CHARACTERS]
    return fnmatchcase(command, name)
