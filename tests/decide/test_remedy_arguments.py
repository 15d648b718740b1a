"""Arguments of remedies: each kind against the machine, and what must never reach a template, a path or a shell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.decide import remedy_arguments
from nodeprep.decide.remedy_arguments import InvalidArgument, MachineNames
from nodeprep.decide.remedy_header import Idle, Parameter, ParameterKind, RemedyHeader, SafetyClass

# Interfaces that the kernel would take as names, and that Jinja, a shell or a program would read as more.
ODD = ("{{1}}", "$(id)", "-f", "..", "a;b", "eth0'", 'a"b', "é")
MACHINE = MachineNames(
    frozenset({"eth0", "eth0.100", "bond0", *ODD}),
    frozenset({"0000:5c:00.0", "0000:5c:00.1"}),
    frozenset({"mlx5_0"}),
    frozenset({"kube-system/terway-eniip-x7k2p"}),
)
SYSCTL = ("net.ipv4.ip_forward", "net.ipv4.conf.*.rp_filter")


def header(**parameters: Parameter) -> RemedyHeader:
    return RemedyHeader("mend", "Mends.", SafetyClass.S1, "Safe.", Idle.NOTHING, ("mend",), parameters)


def of(kind: ParameterKind, *choices: str, least: int = 0, most: int = 0, required: bool = True) -> Parameter:
    return Parameter(kind, required, choices, least, most)


RIGHT = [
    (of(ParameterKind.NETDEV), "eth0"),
    (of(ParameterKind.NETDEV), "eth0.100"),
    (of(ParameterKind.PCI_FUNCTION), "0000:5c:00.1"),
    (of(ParameterKind.PCI_SLOT), "0000:5c:00.1"),
    (of(ParameterKind.PCI_SLOT), "10000:01:00.0"),
    (of(ParameterKind.NEW_RDMA_DEVICE), "rxe0"),
    (of(ParameterKind.SYSCTL, *SYSCTL), "net.ipv4.ip_forward"),
    (of(ParameterKind.SYSCTL, *SYSCTL), "net.ipv4.conf.eth0.100.rp_filter"),
    (of(ParameterKind.SYSCTL, *SYSCTL), "net.ipv4.conf.all.rp_filter"),
    (of(ParameterKind.SYSCTL, *SYSCTL), "net.ipv4.conf.default.rp_filter"),
    (of(ParameterKind.SYSCTL, *SYSCTL), "net.ipv4.conf.*.rp_filter"),
    (of(ParameterKind.CHOICE, "rxe", "siw"), "siw"),
    (of(ParameterKind.INTEGER, least=68, most=9000), "68"),
    (of(ParameterKind.INTEGER, least=68, most=9000), "9000"),
    (of(ParameterKind.POD), "kube-system/terway-eniip-x7k2p"),
]
WRONG = [
    (of(ParameterKind.NETDEV), "eth9", "wanted an interface of this node, of letters, digits and ._@-; this node has"),
    (of(ParameterKind.NETDEV), "", "found '', wanted an interface"),
    (of(ParameterKind.NETDEV), "eth0\n", "found 'eth0\\n', wanted an interface"),
    (of(ParameterKind.PCI_FUNCTION), "0000:5d:00.0", "this node has 0000:5c:00.0, 0000:5c:00.1"),
    (of(ParameterKind.PCI_FUNCTION), "5c:00.0", "such as 0000:5c:00.0"),
    (of(ParameterKind.PCI_SLOT), "0000:5c:00.0/../x", "such as 0000:5c:00.0"),
    (of(ParameterKind.NEW_RDMA_DEVICE), "mlx5_0", "this node has one of that name"),
    (of(ParameterKind.NEW_RDMA_DEVICE), "../rxe0", "a name for a new RDMA device"),
    (of(ParameterKind.SYSCTL, *SYSCTL), "kernel.panic", "one of net.ipv4.ip_forward, net.ipv4.conf.*.rp_filter"),
    (of(ParameterKind.SYSCTL, *SYSCTL), "net.ipv4.conf.eth9.rp_filter", "this node has"),
    (of(ParameterKind.SYSCTL, *SYSCTL), "net.ipv4.conf../../x.rp_filter", "one of"),
    (of(ParameterKind.SYSCTL, *SYSCTL), "net.ipv4.conf..rp_filter", "one of"),
    (of(ParameterKind.CHOICE, "rxe", "siw"), "rxe siw", "one of rxe, siw"),
    (of(ParameterKind.CHOICE, "{{x}}"), "{{x}}", "one of {{x}}"),
    (of(ParameterKind.INTEGER, least=68, most=9000), "67", "a whole number, 68 to 9000"),
    (of(ParameterKind.INTEGER, least=68, most=9000), "9001", "a whole number, 68 to 9000"),
    (of(ParameterKind.INTEGER, least=68, most=9000), "0x44", "a whole number, 68 to 9000"),
    (of(ParameterKind.INTEGER, least=68, most=9000), "٦٨", "a whole number, 68 to 9000"),
    (of(ParameterKind.POD), "terway-eniip-x7k2p", "NAMESPACE/NAME of a pod that runs here"),
    (of(ParameterKind.POD), "default/gone", "this node has kube-system/terway-eniip-x7k2p"),
]


@pytest.mark.parametrize(("parameter", "value"), RIGHT, ids=str)
def test_what_may_be(parameter: Parameter, value: str) -> None:
    assert remedy_arguments.resolve(header(it=parameter), {"it": value}, MACHINE) == {"it": value}


@pytest.mark.parametrize(("parameter", "value", "says"), WRONG, ids=str)
def test_what_may_not_be(parameter: Parameter, value: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        remedy_arguments.resolve(header(it=parameter), {"it": value}, MACHINE)
    assert str(refused.value).startswith("mend: it: found ")
    assert says in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_the_kernel_has_and_a_template_would_read(name: str) -> None:
    for parameter, value in (
        (of(ParameterKind.NETDEV), name),
        (of(ParameterKind.SYSCTL, *SYSCTL), f"net.ipv4.conf.{name}.rp_filter"),
    ):
        with pytest.raises(InvalidArgument):
            remedy_arguments.resolve(header(it=parameter), {"it": value}, MACHINE)


def test_arguments_that_are_unknown_or_missing() -> None:
    optional = header(it=of(ParameterKind.NETDEV, required=False))
    assert remedy_arguments.resolve(optional, {}, MACHINE) == {}
    with pytest.raises(InvalidArgument, match=r"^mend: it: found nothing, wanted an interface"):
        remedy_arguments.resolve(header(it=of(ParameterKind.NETDEV)), {}, MACHINE)
    with pytest.raises(InvalidArgument, match=r"^mend: argument 'host_root' is unknown; it takes it$"):
        remedy_arguments.resolve(optional, {"host_root": "/"}, MACHINE)
    with pytest.raises(InvalidArgument, match="it takes none"):
        remedy_arguments.resolve(header(), {"it": "eth0"}, MACHINE)


UNREAD = MachineNames(None, None, None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ParameterKind.NETDEV, "eth0"),
        (ParameterKind.PCI_FUNCTION, "0000:5c:00.0"),
        (ParameterKind.NEW_RDMA_DEVICE, "rxe0"),
        (ParameterKind.POD, "default/one"),
    ],
)
def test_what_could_not_be_read_is_refused(kind: ParameterKind, value: str) -> None:
    with pytest.raises(InvalidArgument, match="could not be read"):
        remedy_arguments.resolve(header(it=of(kind)), {"it": value}, UNREAD)


DANGEROUS = set("{}$`;&|<>'\"\\ \t\n()%!#~?")


@given(value=st.text(max_size=40), kind=st.sampled_from(ParameterKind))
def test_whatever_passes_is_plain(value: str, kind: ParameterKind) -> None:
    """Of any text on a machine that has everything of that name."""
    machine = MachineNames(*(frozenset({value}),) * 2, frozenset(), frozenset({value}))
    parameter = Parameter(kind, True, (value, f"net.{value}*x"), 0, 1 << 40)
    try:
        remedy_arguments.resolve(header(it=parameter), {"it": value}, machine)
    except InvalidArgument:
        return
    if kind is ParameterKind.SYSCTL:
        return  # its choices are ours
    assert not DANGEROUS.intersection(value)
    assert value.isascii()
    assert not value.startswith(("-", ".", "/"))
    assert ".." not in value.split("/")
