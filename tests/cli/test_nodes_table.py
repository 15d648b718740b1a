"""How the fleet is printed: ages as kubectl's, columns that give way, JSON."""

from __future__ import annotations

import pytest

from nodeprep.cli.nodes import fleet_table
from nodeprep.cli.nodes.fleet_reader import FleetLook
from nodeprep.cli.nodes.fleet_table import FleetTable
from nodeprep.cli.nodes.listing import FleetNews
from nodeprep.decide.desired import GatePolicy
from nodeprep.publish.fleet_rows import FleetContext, FleetNode, FleetRow, Readiness

NOW = 1_800_000_000.0

AGES = [
    (-5, "0s"),
    (119, "119s"),
    (120, "2m"),
    (330, "5m30s"),
    (612, "10m"),
    (3 * 3600, "3h"),
    (3 * 3600 + 900, "3h15m"),
    (9 * 3600 + 900, "9h"),
    (2 * 86400 + 4 * 3600, "2d4h"),
    (12 * 86400, "12d"),
    (800 * 86400, "2y70d"),
    (9 * 365 * 86400, "9y"),
]


@pytest.mark.parametrize(("seconds", "said"), AGES)
def test_ages_as_kubectl_says_them(seconds: float, said: str) -> None:
    assert fleet_table.age(seconds) == said


def row(name: str = "n1", state: str = "Ready", reason: str = "Ready", **changes: object) -> FleetRow:
    values: dict[str, object] = {
        "name": name,
        "state": state,
        "readiness": Readiness.READY if state == "Ready" else Readiness.NOT_READY,
        "profiles": ("rdma-roce", "tcp-shared-eni"),
        "reason": reason,
        "message": "every gate check passes",
        "since": NOW - 330,
        "free": 2,
        "gpus": 8,
        "renewed": NOW - 12,
        "leases_known": True,
        "taints": (),
        "cordoned": False,
    }
    return FleetRow(**(values | changes))  # type: ignore[arg-type]


FLEET = [
    row("gpu-1"),
    row("gpu-2", "Unhealthy", "NoSignal", profiles=(), since=NOW - 86400 * 3, free=None),
    row("cpu-1", cordoned=True, gpus=0, leases_known=False, renewed=None, since=None),
]


def test_a_table() -> None:
    assert FleetTable().lines(FLEET, NOW) == [
        "NAME    STATE             PROFILES                   REASON     SINCE   FREE/GPUS",
        "gpu-1   Ready             rdma-roce,tcp-shared-eni   -          5m30s   2/8",
        "gpu-2   Unhealthy         -                          NoSignal   3d      ?/8",
        "cpu-1   Ready?,Cordoned   rdma-roce,tcp-shared-eni   -          -       -",
    ]


def test_a_wide_one() -> None:
    header, *lines = FleetTable(wide=True).lines(FLEET, NOW)
    assert header.split()[6:] == ["AGENT", "TAINTS", "MESSAGE"]
    assert lines[0].endswith("2/8         12s     -        every gate check passes")
    assert lines[2].split()[-6:] == ["?", "-", "every", "gate", "check", "passes"]


@pytest.mark.parametrize(("width", "profiles"), [(84, "rdma-roce,tcp-shared-eni"), (80, "rdma-roce,+1"), (60, None)])
def test_on_a_narrow_terminal_profiles_give_way(width: int, profiles: str | None) -> None:
    header, first, *_ = FleetTable(width=width).lines(FLEET, NOW)
    assert ("PROFILES" in header) == (profiles is not None)
    assert profiles is None or profiles in first.split()
    assert len(header) <= width


def test_a_wide_table_is_whole_on_any_terminal() -> None:
    assert FleetTable(wide=True, width=40).lines(FLEET, NOW) == FleetTable(wide=True).lines(FLEET, NOW)


def test_what_a_terminal_would_obey_is_shown() -> None:
    line = FleetTable().lines([row(reason="\x1b[31mRed")], NOW)[1]
    assert "\x1b" not in line
    assert "\\x1b[31mRed" in line


def test_json_has_what_is_not_known_as_null() -> None:
    first, _, third = fleet_table.document(FLEET, NOW)["nodes"]
    assert first["gpus"] == {"free": 2, "total": 8}
    assert first["agent"] == {"known": True, "renewed": "2027-01-15T07:59:48Z", "silent": False}
    assert third["agent"] == {"known": False, "renewed": None, "silent": None}
    assert (first["since"], third["since"]) == ("2027-01-15T07:54:30Z", None)
    assert fleet_table.document([row(renewed=NOW - 500)], NOW)["nodes"][0]["agent"]["silent"] is True


def look(*nodes: FleetNode, renewed: float = NOW - 10, changed: frozenset[str] | None = None) -> FleetLook:
    leases = {one.name: renewed for one in nodes}
    return FleetLook(
        {one.name: one for one in nodes}, FleetContext(leases, {}), GatePolicy(), "1", NOW, 0.0, changed=changed
    )


def seen(name: str, status: str = "True") -> FleetNode:
    state = "Ready" if status == "True" else "Unhealthy"
    return FleetNode(
        name=name,
        state=state,
        profiles=(),
        status=status,
        reason="Because",
        message="",
        since=NOW - 60,
        heartbeat=NOW - 60,
        taints=(),
        gpus=0,
        cordoned=False,
        kubelet_lost=False,
        released=False,
    )


def test_a_watch_says_what_is_new_and_nothing_twice() -> None:
    told = FleetNews(FleetTable(), json=False)
    assert len(told.news(look(seen("n1"), seen("n2")))) == 3
    assert told.news(look(seen("n1"), seen("n2"), renewed=NOW - 1)) == []
    (line,) = told.news(look(seen("n1"), seen("n2", "False"), changed=frozenset({"n2"})))
    assert line.split()[:2] == ["n2", "Unhealthy"]
    (gone,) = told.news(look(seen("n1"), changed=frozenset({"n2"})))
    assert gone.split()[:2] == ["n2", "Gone"]
    assert told.news(look(seen("n1"))) == []


def test_a_watch_says_that_an_agent_fell_silent() -> None:
    told = FleetNews(FleetTable(), json=False)
    told.news(look(seen("n1")))
    (line,) = told.news(look(seen("n1"), renewed=NOW - 181))
    assert line.split()[:2] == ["n1", "Silent"]
