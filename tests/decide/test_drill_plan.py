"""What a drill runs, what undoes it, and what is refused: a table of grounds, and properties of what is put back."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.decide import drill_ground, drill_plan, drill_record
from nodeprep.decide.drill_ground import CannotPutBack, DrillGround, ModulePart, RdmaPart
from nodeprep.decide.drill_kinds import FORMS, DrillKind
from nodeprep.decide.drill_plan import DrillOrder, DrillRefused
from nodeprep.decide.drill_record import DrillRecord, HostCommand
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.values import replace

UP, DOWN = ["BROADCAST", "UP", "LOWER_UP"], ["BROADCAST"]
ROUTE = {
    "type": "unicast",
    "dst": "default",
    "gateway": "192.168.0.253",
    "dev": "eth1",
    "table": "1003",
    "protocol": "boot",
    "scope": "global",
    "flags": ["onlink"],
}
NEAR = {
    "type": "unicast",
    "dst": "10.9.0.0/16",
    "dev": "eth1",
    "table": "main",
    "metric": 77,
    "metrics": [{"mtu": 1400}],
}
SIX = {
    "type": "unicast",
    "dst": "2001:db8:7::/48",
    "gateway": "fe80::1",
    "dev": "eth1",
    "metric": 1024,
    "pref": "medium",
}
OWN = {"type": "local", "dst": "10.9.9.1", "dev": "eth1", "table": "local", "protocol": "kernel"}
ADVERTISED = {
    "type": "unicast",
    "dst": "default",
    "gateway": "fe80::1",
    "dev": "eth1",
    "protocol": "ra",
    "expires": 1700,
}
GROUND = DrillGround(
    links=(
        {"ifname": "lo", "flags": ["LOOPBACK", "UP"]},
        {"ifname": "eth0", "flags": UP},
        {"ifname": "eth1", "flags": UP},
        {"ifname": "eth2", "flags": DOWN},
        {"ifname": "p1", "flags": UP, "link": "eth1", "link_netnsid": 1},
        {"ifname": "p2", "flags": UP, "link": "eth0", "linkinfo": {"info_kind": "veth"}},
    ),
    addresses=(
        {
            "ifname": "eth1",
            "addr_info": [
                {"family": "inet", "local": "10.9.9.1", "prefixlen": 16, "scope": "global"},
                {"family": "inet6", "local": "2001:db8::1", "prefixlen": 64, "scope": "global", "nodad": True},
                {"family": "inet6", "local": "2001:db8::2", "prefixlen": 64, "scope": "global", "dynamic": True},
                {"family": "inet6", "local": "fe80::2", "prefixlen": 64, "scope": "link"},
            ],
        },
    ),
    routes=((4, ROUTE), (4, NEAR), (4, OWN), (6, SIX), (6, ADVERTISED)),
    rdma={"rxe0": RdmaPart("eth1", "rxe"), "mlx5_0": RdmaPart()},
    modules={"rdma_rxe": ModulePart(), "rdma_ucm": ModulePart(1), "ib_umad": ModulePart(0, ("opa_vnic",))},
)
FUNCTION = "0000:5c:00.0"
FATAL = f"<3>mlx5_core {FUNCTION}: device's health compromised - reached miss count"


def plan(kind: DrillKind, target: str, ground: DrillGround = GROUND, table: str = "main") -> drill_plan.DrillPlan:
    return drill_plan.plan(DrillOrder(kind, target, table), ground, (FUNCTION,))


def words(commands: tuple[HostCommand, ...]) -> list[str]:
    return [one.words for one in commands]


ROWS: list[tuple[DrillKind, str, str, list[str], list[str]]] = [
    # kind, target, table, what makes it, what undoes it
    (
        DrillKind.LINK_DOWN,
        "eth1",
        "main",
        ["ip link set dev eth1 down"],
        [
            "ip link set dev eth1 up",
            "ip -6 address replace 2001:db8::1/64 dev eth1 nodad",
            # Those without a gateway first: the others' gateways may be behind them.
            "ip -4 route replace 10.9.0.0/16 dev eth1 table main metric 77 mtu 1400",
            "ip -4 route replace default via 192.168.0.253 dev eth1 table 1003 proto boot scope global onlink",
            "ip -6 route replace 2001:db8:7::/48 via fe80::1 dev eth1 metric 1024 pref medium",
        ],
    ),
    (DrillKind.LINK_DOWN, "eth0", "main", ["ip link set dev eth0 down"], ["ip link set dev eth0 up"]),
    (
        DrillKind.ROUTE_REMOVED,
        "default",
        "1003",
        ["ip -4 route del default via 192.168.0.253 dev eth1 table 1003 proto boot scope global onlink"],
        ["ip -4 route replace default via 192.168.0.253 dev eth1 table 1003 proto boot scope global onlink"],
    ),
    (
        DrillKind.MODULE_UNLOADED,
        "rdma-rxe",
        "main",
        ["modprobe -r rdma_rxe"],
        ["modprobe rdma_rxe", "rdma link add rxe0 type rxe netdev eth1"],
    ),
    (
        DrillKind.RDMA_LINK_REMOVED,
        "rxe0",
        "main",
        ["rdma link delete rxe0"],
        ["rdma link add rxe0 type rxe netdev eth1"],
    ),
    (
        DrillKind.KERNEL_LOG_LINE,
        FUNCTION,
        "main",
        [f"printf '%s\\n' {shlex.quote(FATAL)} | tee /dev/kmsg"],
        [],
    ),
]


@pytest.mark.parametrize(("kind", "target", "table", "make", "undo"), ROWS)
def test_what_it_runs_and_what_undoes_it(
    kind: DrillKind, target: str, table: str, make: list[str], undo: list[str]
) -> None:
    made = plan(kind, target, table=table)
    assert (words(made.make), words(made.undo)) == (make, undo)


def without(name: str) -> DrillGround:
    return replace(GROUND, links=tuple(one for one in GROUND.links if one["ifname"] != name))


def more(*routes: tuple[int, dict[str, Any]]) -> DrillGround:
    return replace(GROUND, routes=(*GROUND.routes, *routes))


VLAN = replace(GROUND, links=(*GROUND.links, {"ifname": "eth1.7", "flags": UP, "link": "eth1"}))
LEG = replace(
    GROUND, links=(*GROUND.links, {"ifname": "eth3", "flags": UP, "master": "br0"}, {"ifname": "x", "master": "eth1"})
)
REFUSED: list[tuple[DrillKind, str, DrillGround, str, bool, str]] = [
    # kind, target, ground, table, whether it was ordered badly, what it says
    (DrillKind.LINK_DOWN, "", GROUND, "main", True, "found no target, wanted INTERFACE; here: eth0, eth1, p1, p2"),
    (DrillKind.LINK_DOWN, "eth9", GROUND, "main", True, "found 'eth9', wanted INTERFACE"),
    (DrillKind.LINK_DOWN, "eth2", GROUND, "main", False, "eth2 is set down already"),
    (DrillKind.LINK_DOWN, "eth1", VLAN, "main", False, "eth1.7 on eth1 would go down with it"),
    (DrillKind.LINK_DOWN, "eth1", LEG, "main", False, "x on eth1 would go down with it"),
    (
        *(DrillKind.LINK_DOWN, "eth1"),
        more((4, {"type": "unicast", "dst": "10.8.0.0/16", "nexthops": [{"dev": "eth1"}, {"dev": "eth0"}]})),
        *("main", False, "eth1 carries a part of the route to 10.8.0.0/16"),
    ),
    (
        *(DrillKind.LINK_DOWN, "eth1", more((4, {**NEAR, "encap": "mpls"}))),
        *("main", False, "the route to 10.9.0.0/16 has encap: no command of ours puts that back"),
    ),
    (DrillKind.ROUTE_REMOVED, "default", GROUND, "main", False, "the route to default has expires"),
    (
        DrillKind.ROUTE_REMOVED,
        "10.1.0.0/16",
        GROUND,
        "main",
        True,
        "here: default --table 1003, 10.9.0.0/16 --table main",
    ),
    (DrillKind.ROUTE_REMOVED, "10.9.0.0/16", more((4, NEAR)), "main", True, "found 2 routes to 10.9.0.0/16"),
    (
        *(DrillKind.ROUTE_REMOVED, "10.8.0.0/16", more((4, {"type": "blackhole", "dst": "10.8.0.0/16"}))),
        *("main", False, "goes by no single interface"),
    ),
    (DrillKind.MODULE_UNLOADED, "mlx5_core", GROUND, "main", True, "here: ib_umad, rdma_rxe, rdma_ucm"),
    (DrillKind.MODULE_UNLOADED, "siw", GROUND, "main", True, "found 'siw', wanted MODULE"),
    (DrillKind.MODULE_UNLOADED, "rdma_ucm", GROUND, "main", False, "rdma_ucm is in use by 1 users (lsmod)"),
    (DrillKind.MODULE_UNLOADED, "ib_umad", GROUND, "main", False, "ib_umad is in use by opa_vnic"),
    (DrillKind.RDMA_LINK_REMOVED, "rxe9", GROUND, "main", True, "here: rxe0"),
    (DrillKind.RDMA_LINK_REMOVED, "mlx5_0", GROUND, "main", False, "mlx5_0 is no software device"),
    (DrillKind.KERNEL_LOG_LINE, "0000:ff:00.0", GROUND, "main", True, f"here: {FUNCTION}"),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[5])
def test_what_is_refused(row: tuple[DrillKind, str, DrillGround, str, bool, str]) -> None:
    kind, target, ground, table, is_use, says = row
    with pytest.raises(DrillRefused) as refused:
        plan(kind, target, ground, table)
    assert (refused.value.is_use, says in str(refused.value)) == (is_use, True), refused.value
    assert str(refused.value).startswith(f"{kind}: ")


@pytest.mark.parametrize("kind", DrillKind)
def test_each_goes_by_the_refusals_of_a_remedy_of_class_s2(kind: DrillKind) -> None:
    assert FORMS[kind].header.safety is SafetyClass.S2


def test_a_line_of_the_kernel_log_says_before_that_nothing_takes_it_back() -> None:
    (note,) = plan(DrillKind.KERNEL_LOG_LINE, FUNCTION).notes
    assert "cannot be taken back" in note
    assert "`nodeprep reset`" in note


def test_the_state_is_what_must_be_back() -> None:
    assert drill_ground.state(GROUND, ("interface eth1", "rdma", "module rdma_rxe")) == (
        "IPv4 route 10.9.0.0/16 dev eth1 table main metric 77 mtu 1400",
        "IPv4 route default via 192.168.0.253 dev eth1 table 1003 proto boot scope global onlink",
        "IPv6 route 2001:db8:7::/48 via fe80::1 dev eth1 metric 1024 pref medium",
        "RDMA device mlx5_0",
        "RDMA device rxe0 (rxe on eth1)",
        "address 10.9.9.1/16 of eth1",
        "address 2001:db8::1/64 of eth1",
        "interface eth1 is set up",
        "module rdma_rxe is loaded",
    )
    assert drill_ground.state(without("eth1"), ("module siw",)) == ()


ROUTES = st.fixed_dictionaries(
    {"dst": st.sampled_from(["default", "10.0.0.0/8", "10.1.2.3"]), "dev": st.just("eth1")},
    optional={
        "type": st.just("unicast"),
        "gateway": st.just("10.0.0.1"),
        "table": st.sampled_from(["main", "1003"]),
        "protocol": st.sampled_from(["boot", "static", "kernel"]),
        "scope": st.sampled_from(["link", "global"]),
        "prefsrc": st.just("10.0.0.2"),
        "metric": st.integers(0, 2**32 - 1),
        "flags": st.lists(st.sampled_from(["onlink", "linkdown", "dead", "pervasive", "nonsense"]), unique=True),
        "metrics": st.lists(
            st.fixed_dictionaries({}, optional={"mtu": st.integers(68, 9000), "lock": st.just("mtu")}), max_size=1
        ),
        "encap": st.just("mpls"),
        "nhid": st.integers(1, 9),
    },
)


@given(ROUTES)
def test_a_route_is_told_whole_or_not_at_all(row: dict[str, Any]) -> None:
    """No value of a route is lost in the command that puts it back."""
    whole = not (
        {"encap", "nhid"} & row.keys() or "nonsense" in row.get("flags", ()) or "lock" in str(row.get("metrics"))
    )
    try:
        told = drill_ground.route_words(row)
    except CannotPutBack:
        assert not whole
        return
    assert whole
    assert told[0] == row["dst"]
    pairs = dict(zip(told[1::2], told[2::2], strict=False))
    for key, word in drill_ground.KEYS.items():
        assert pairs.get(word) == (str(row[key]) if key in row else None)
    assert ("onlink" in told) == ("onlink" in row.get("flags", ()))
    assert not {"linkdown", "dead", "pervasive"} & {*told}


COMMANDS = st.lists(
    st.builds(
        HostCommand, st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4).map(tuple), st.text(max_size=9)
    ),
    max_size=3,
).map(tuple)
RECORDS = st.builds(
    DrillRecord,
    *(st.text(max_size=9) for _ in range(5)),
    began=st.floats(0, 1e9),
    until=st.floats(0, 1e9),
    make=COMMANDS,
    undo=COMMANDS,
    told=st.text(max_size=9),
    parts=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    process=st.integers(0, 4_194_304),
    started=st.text(max_size=9),
)


def plain(value: Any) -> Any:
    """As JSON gives it back."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


@given(RECORDS)
def test_what_is_kept_is_read(record: DrillRecord) -> None:
    assert drill_record.parsed(plain(drill_record.document(record))) == record


@given(
    RECORDS,
    st.sampled_from(["id", "make", "undo", "before", "until", "told"]),
    st.sampled_from([None, 7.5j, {}, [7], "x"]),
)
def test_a_damaged_record_is_none(record: DrillRecord, key: str, value: Any) -> None:
    if key in ("id", "told") and value == "x":
        return
    assert drill_record.parsed({**plain(drill_record.document(record)), key: value}) is None


KEPT = DrillRecord(
    "a1", "link-down", "eth1", "eth1", "b1", 50.0, 1300.0, (HostCommand(("true",)),), (HostCommand(("true",)),), "/run"
)
DAMAGED: list[tuple[str, Any]] = [
    ("began", "x"),
    ("until", "x"),
    ("until", None),
    ("process", "x"),
    ("make", [{"argv": [], "text": ""}]),
    ("undo", [{"argv": ["true"], "text": 7}]),
    ("undo", [{"argv": ["true"]}]),
    ("watched", "rdma"),
]


@pytest.mark.parametrize(("key", "value"), DAMAGED)
def test_whatever_is_damaged_in_a_record_is_no_surprise(key: str, value: Any) -> None:
    """Else one damaged file keeps `nodeprep drill list` from each other drill."""
    assert drill_record.parsed(plain(drill_record.document(KEPT))) == KEPT
    assert drill_record.parsed({**plain(drill_record.document(KEPT)), key: value}) is None
