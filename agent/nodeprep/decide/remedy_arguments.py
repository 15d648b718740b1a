"""The arguments of a remedy, held against its header and the live machine. What is not of a closed kind is refused.

A name of the kernel may hold anything but a slash, so it is not safe in a template, a path or a command line because it
exists: each kind has a pattern beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep.decide.remedy_header import Parameter, ParameterKind, RemedyHeader
from nodeprep.pattern import Pattern
from nodeprep.values import Value

SHOWN_CHARACTERS = 40  # of an argument in a message
SHOWN_NAMES = 8  # of what would have been right
NETDEV = Pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}")  # IFNAMSIZ is 16 with the NUL
PCI_ADDRESS = Pattern(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]")
RDMA_DEVICE = Pattern(r"[A-Za-z][A-Za-z0-9_-]{0,62}")  # IB_DEVICE_NAME_MAX is 64 with the NUL
WORD = Pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
POD = Pattern(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")  # RFC 1123
INTEGER = Pattern(r"0|[1-9][0-9]{0,9}")
ANY_INTERFACE = ("all", "default", "*")  # in a key of a sysctl; "*" is a line of sysctl.d


class MachineNames(Value):
    """The names that the machine has now, by which arguments are resolved.

    `netdevs` are of the node's own network namespace. `functions` are PCI addresses that the bus lists. None: could not
    be read.
    """

    netdevs: frozenset[str] | None
    functions: frozenset[str] | None
    rdma_devices: frozenset[str] | None
    pods: frozenset[str] | None = None


class InvalidArgument(Exception):
    """An argument that a remedy does not take. Its text is one line: the argument, what was found and wanted."""


def resolve(header: RemedyHeader, given: Mapping[str, str], machine: MachineNames) -> Mapping[str, str]:
    """The arguments as they are, if every one of them may be. Raises InvalidArgument."""
    hold_shapes(header, given)
    for name, value in given.items():
        _hold_name(f"{header.name}: {name}", header.parameters[name], value, machine)
    return dict(given)


def hold_shapes(header: RemedyHeader, given: Mapping[str, str]) -> None:
    """Hold arguments against the header alone: their names, and how their values look. Raises InvalidArgument."""
    for name in given:
        if name not in header.parameters:
            known = ", ".join(header.parameters) or "none"
            raise InvalidArgument(f"{header.name}: argument {_shown(name)} is unknown; it takes {known}")
    for name, parameter in header.parameters.items():
        if name not in given and parameter.required:
            raise InvalidArgument(f"{header.name}: {name}: found nothing, wanted {_wanted(parameter)}")
        if name in given and not _shape(parameter, given[name]):
            raise InvalidArgument(f"{header.name}: {name}: found {_shown(given[name])}, wanted {_wanted(parameter)}")


def _hold_name(where: str, parameter: Parameter, value: str, machine: MachineNames) -> None:
    match parameter.kind:
        case ParameterKind.PCI_SLOT | ParameterKind.CHOICE | ParameterKind.INTEGER:
            return
    name, known = _named(parameter, value), _known(parameter, machine)
    if name in ("", *ANY_INTERFACE) and parameter.kind is ParameterKind.SYSCTL:
        return
    if known is None:
        raise InvalidArgument(f"{where}: found {_shown(value)}; what this node has of them could not be read")
    if (name in known) is (parameter.kind is ParameterKind.NEW_RDMA_DEVICE):
        has = "this node has one of that name" if name in known else f"this node has {_names(known)}"
        raise InvalidArgument(f"{where}: found {_shown(value)}, wanted {_wanted(parameter)}; {has}")


def _named(parameter: Parameter, value: str) -> str:
    """What of the value is a name of the machine: of a key of a sysctl, its interface."""
    if parameter.kind is not ParameterKind.SYSCTL:
        return value
    return _interface_of(parameter.choices, value) or ""


def _shape(parameter: Parameter, value: str) -> bool:
    """Whether a value looks like one of this kind. A name that Jinja or a shell would read is of no kind."""
    match parameter.kind:
        case ParameterKind.NETDEV:
            return bool(NETDEV.fullmatch(value))
        case ParameterKind.PCI_FUNCTION | ParameterKind.PCI_SLOT:
            return bool(PCI_ADDRESS.fullmatch(value))
        case ParameterKind.NEW_RDMA_DEVICE:
            return bool(RDMA_DEVICE.fullmatch(value))
        case ParameterKind.CHOICE:
            return value in parameter.choices and bool(WORD.fullmatch(value))
        case ParameterKind.INTEGER:
            return bool(INTEGER.fullmatch(value)) and parameter.least <= int(value) <= parameter.most
        case ParameterKind.POD:
            return bool(POD.fullmatch(value))
        case ParameterKind.SYSCTL:
            interface = _interface_of(parameter.choices, value)
            return interface is not None and (interface in ("", *ANY_INTERFACE) or bool(NETDEV.fullmatch(interface)))


def _interface_of(choices: Iterable[str], key: str) -> str | None:
    """The interface in a key of a sysctl, "" for a key without one; None if the key is not among the choices."""
    for choice in choices:
        head, star, tail = choice.partition("*")
        if not star and key == choice:
            return ""
        if star and len(key) > len(head) + len(tail) and key.startswith(head) and key.endswith(tail):
            return key[len(head) : len(key) - len(tail)]
    return None


def _known(parameter: Parameter, machine: MachineNames) -> frozenset[str] | None:
    match parameter.kind:
        case ParameterKind.NETDEV | ParameterKind.SYSCTL:
            return machine.netdevs
        case ParameterKind.PCI_FUNCTION:
            return machine.functions
        case ParameterKind.NEW_RDMA_DEVICE:
            return machine.rdma_devices
        case _:
            return machine.pods


def _wanted(parameter: Parameter) -> str:
    match parameter.kind:
        case ParameterKind.NETDEV:
            return "an interface of this node, of letters, digits and ._@-"
        case ParameterKind.PCI_FUNCTION:
            return "the address of a PCI function that the bus lists, such as 0000:5c:00.0"
        case ParameterKind.PCI_SLOT:
            return "the address of a PCI function, such as 0000:5c:00.0"
        case ParameterKind.NEW_RDMA_DEVICE:
            return "a name for a new RDMA device, such as rxe0"
        case ParameterKind.CHOICE | ParameterKind.SYSCTL:
            return f"one of {', '.join(parameter.choices)}"
        case ParameterKind.INTEGER:
            return f"a whole number, {parameter.least} to {parameter.most}"
        case ParameterKind.POD:
            return "NAMESPACE/NAME of a pod that runs here"


def _shown(value: str) -> str:
    return repr(value if len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]}...")


def _names(known: Iterable[str]) -> str:
    names = sorted(known)
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return (", ".join(names[:SHOWN_NAMES]) or "none") + more
