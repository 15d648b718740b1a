"""What a remedy says of itself: what it does, how safe that is, what must be idle, which arguments it takes.

Each remedy has one file, a playbook or an act of the container runtime, and its header is the mapping `remedy` there
(playbooks/README.md). `config/remedy_files` reads it. Here are its values.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.newer_python import StrEnum
from nodeprep.values import Value, field


class SafetyClass(StrEnum):
    """How safe a remedy is while jobs run; a later one needs more (design 4)."""

    S1 = "S1"  # safe while jobs run
    S2 = "S2"  # only if nobody uses this device
    S3 = "S3"  # only with an approval
    S4 = "S4"  # reboot, drain, replace: asked for, never done

    def is_above(self, limit: SafetyClass) -> bool:
        return CLASSES.index(self) > CLASSES.index(limit)


CLASSES = tuple(SafetyClass)


class ParameterKind(StrEnum):
    """What an argument names. The set is closed: free text is no kind. Each is resolved against the live machine."""

    NETDEV = "netdev"  # an interface of the node's network namespace
    PCI_FUNCTION = "pci-function"  # an address that the bus lists
    PCI_SLOT = "pci-slot"  # an address, also one that the bus does not list
    NEW_RDMA_DEVICE = "new-rdma-device"  # a name that no RDMA device has
    SYSCTL = "sysctl"  # a key below /proc/sys of `choices`, in which * is an interface of the node, `all` or `default`
    CHOICE = "choice"  # one of `choices`
    INTEGER = "integer"  # `least` to `most`
    POD = "pod"  # NAMESPACE/NAME of a pod that the container runtime runs here


class Parameter(Value):
    """What one argument may be. `choices` are of CHOICE and SYSCTL, `least` and `most` of INTEGER.

    `untouched`: the device that it names goes on as it is, so nobody is asked who uses it.
    """

    kind: ParameterKind
    required: bool = True
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 0
    untouched: bool = False


class Idle(StrEnum):
    """What must be unused before a remedy may run."""

    NOTHING = "nothing"
    NETDEV = "netdev"  # the interfaces that the arguments name
    FUNCTION = "function"  # the PCI function of the argument, with its interfaces and RDMA devices
    RDMA = "rdma"  # every RDMA device of the node
    PLUGIN = "plugin"  # the pod whose container is restarted: it holds no device itself


class Restarted(StrEnum):
    """What keeps its former state after a remedy until it is started anew, which the remedy ends with."""

    NOTHING = "nothing"
    AGENT = "agent"  # the agent's own pod, where one runs on this node


class RemedyHeader(Value):
    """What the file of a remedy says of it.

    `why` says why the safety class is right while a pod holds the device. `disturbs` are ids of checks that its own run
    may make fail. `tools` are programs of the host that it calls. `writes` are the files that keep its effect over a
    reboot, and `reboot` says what these do not: who brings the effect back, or what wins over them. `by_hand` are the
    commands that do the same, `undo` those that take it back. Both have the arguments in braces. `restarts` is what is
    started anew at the end. `is_act` is whether the container runtime does it, and no playbook.
    """

    name: str
    purpose: str
    safety: SafetyClass
    why: str
    idle: Idle
    by_hand: tuple[str, ...]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    disturbs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    reboot: str = ""
    restarts: Restarted = Restarted.NOTHING
    is_act: bool = False

    @property
    def uses_runtime(self) -> bool:
        """Whether it may restart containers through the container runtime."""
        return self.is_act or self.restarts is not Restarted.NOTHING
