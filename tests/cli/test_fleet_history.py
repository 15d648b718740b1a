"""What Nodes and Leases tell of repairs, as tables for people and as values for programs."""

from __future__ import annotations

import json

import pytest

from nodeprep.agent_state import PastAttempt
from nodeprep.cli.repair import fleet_history
from nodeprep.cli.repair.fleet_history import FleetRepairs
from nodeprep.decide import attempt_note, fleet_holds
from nodeprep.decide.fleet_notes import FleetLease
from tests.agent_state_values import agent_state, past
from tests.repair_values import WALL, agent_lease, slot

FAULT = "port.state/NoSignal"
WIDE = None  # columns: any


def kept(*attempts: PastAttempt) -> dict[str, str]:
    """The annotation of a Node with these attempts."""
    return {attempt_note.ATTEMPTS: attempt_note.text(agent_state(attempts=attempts))}


def fleet(**orders: str) -> FleetLease:
    return FleetLease(fleet_holds.FLEET, orders={f"nodeprep.io/{key}": text for key, text in orders.items()})


def failed(node: str, minutes: float) -> FleetLease:
    return agent_lease(node, unhelpful={"link_up": WALL - 60 * minutes})


FREE = [slot(), *(slot(number, kind="bootstrap-") for number in range(2))]
PAGES: list[tuple[str, FleetRepairs, list[str]]] = [
    # what is told, and lines of the page
    (
        "nothing",
        FleetRepairs(WALL, {"n1": {}}, (fleet(), *FREE)),
        [
            "no repair is paused or approved",
            "3 of 3 slots are free",
            "no agent says anything of a remedy",
            "no agent says that it has a fault",
            "no Node keeps an attempt",
        ],
    ),
    ("no slots", FleetRepairs(WALL, {}, ()), ["there are no slots: apply components/repair"]),
    ("no Leases", FleetRepairs(WALL, {}, None), ["slots are not known"]),
    (
        "attempts, newest last",
        FleetRepairs(
            WALL,
            {
                "n2": kept(past("released", wall=WALL - 30)),
                "n1": kept(past(wall=WALL - 90), past(port=None, wall=WALL)),
            },
        ),
        [
            "TIME                NODE   REMEDY    FOR                   DEVICE           END",
            "2027-01-15T07:58Z   n1     link_up   port.state/NoSignal   0000:5c:00.0/1   unreleased",
            "2027-01-15T07:59Z   n2     link_up   port.state/NoSignal   0000:5c:00.0/1   released",
            "2027-01-15T08:00Z   n1     link_up   port.state/NoSignal   0000:5c:00.0     unreleased",
        ],
    ),
    (
        "orders",
        FleetRepairs(
            WALL,
            {
                "n1": {"nodeprep.io/pause": "RMA 4711", "nodeprep.io/approve": "firmware;until=2027-01-15T09:00:00Z"},
                "n2": {
                    "nodeprep.io/approve": "firmware;until=2027-01-15T09:00:00Z",
                    "agent.nodeprep.io/approved": "firmware;until=2027-01-15T09:00:00Z",
                    "nodeprep.io/pause": "soon;until=tomorrow",
                },
                "n3": {"nodeprep.io/approve": "firmware;until=2027-01-15T07:00:00Z", "nodeprep.io/pause": " "},
                "n4": {"nodeprep.io/approve": "firmware", "nodeprep.io/pause": ";until=2027-01-15T09:00:00Z"},
                "n5": {"nodeprep.io/approve": "firmware;until=2027-02-15T09:00:00Z"},
            },
            (fleet(pause="upgrade;until=2027-01-15T07:00:00Z", **{"resumed.mtu": "2027-01-15T07:00:00Z"}),),
        ),
        [
            "pause     fleet   upgrade, until 2027-01-15T07:00:00Z: over",
            "resume    fleet   mtu at 2027-01-15T07:00:00Z",
            "pause     n1      RMA 4711, without an end",
            "approve   n1      firmware, until 2027-01-15T09:00:00Z",
            "pause     n2      soon, until 'tomorrow', which is no time: it holds",
            "approve   n2      firmware, until 2027-01-15T09:00:00Z: used",
            "pause     n3      empty, and pauses nothing",
            "approve   n3      firmware, until 2027-01-15T07:00:00Z: over",
            "pause     n4      no reason given, until 2027-01-15T09:00:00Z",
            "approve   n4      firmware: cannot be read, and approves nothing",
            "approve   n5      firmware, until 2027-02-15T09:00:00Z: approves nothing",
        ],
    ),
    (
        "slots, those of serving nodes first",
        FleetRepairs(
            WALL,
            {},
            (
                slot(0, "n2", kind="bootstrap-", ago=30.0),
                slot(0, "n1", ago=45.0, seconds=660.0),
                slot(1, "n3", ago=9e3),
                slot(1, kind="bootstrap-"),
                FleetLease("nodeprep-slot-2", "n4"),
            ),
        ),
        [
            "SLOT                        HOLDER   RENEWED    TIME",
            "nodeprep-slot-0             n1       45s ago    10m left",
            "nodeprep-slot-1             n3       150m ago   over: the next may take it",
            "nodeprep-slot-2             n4       ?          no end can be read: held until a human frees it",
            "nodeprep-slot-bootstrap-0   n2       30s ago    2m30s left",
            "1 of 5 slots are free",
        ],
    ),
    (
        "what agents say, by remedy and fault",
        FleetRepairs(
            WALL,
            {},
            (
                agent_lease("n1", trying={"link_up": WALL - 10}, faults={FAULT: WALL - 20}),
                agent_lease("n2", helped={"link_up": WALL - 3600}, faults={FAULT: WALL - 4000}),
                agent_lease("n3", helped={"link_up": WALL - 60}, unhelpful={"mtu": WALL - 300}),
            ),
        ),
        [
            "REMEDY    SAID           BY       NEWEST",
            "link_up   trying         n1       10s ago",
            "link_up   helped         n2, n3   60s ago",
            "mtu       did not help   n3       5m ago",
            "port.state/NoSignal   n1, n2   20s ago",
        ],
    ),
    (
        "a remedy that is held",
        FleetRepairs(WALL, {}, (fleet(), failed("n1", 1), failed("n2", 2), failed("n3", 3), failed("n4", 3))),
        [
            (
                "link_up ended without a release on n1, n2, n3 and 1 more, so no node runs it: find out why, then"
                " nodeprep repair resume --remedy link_up"
            ),
            "link_up   did not help   n1, n2, n3 and 1 more   60s ago",
        ],
    ),
    (
        "one that a human resumed",
        FleetRepairs(
            WALL,
            {},
            (fleet(**{"resumed.link_up": "2027-01-15T08:00:01Z"}), failed("n1", 1), failed("n2", 2), failed("n3", 3)),
        ),
        ["resume   fleet   link_up at 2027-01-15T08:00:01Z", "link_up   did not help   n1, n2, n3   60s ago"],
    ),
    (
        "the same fault at once",
        FleetRepairs(WALL, {}, tuple(agent_lease(f"n{one}", faults={FAULT: WALL - 60}) for one in range(3))),
        ["port.state/NoSignal is on several nodes at once, so no node that serves mends it for 29m"],
    ),
]


@pytest.mark.parametrize(("what", "told", "wanted"), PAGES, ids=lambda one: one if isinstance(one, str) else "")
def test_a_page(what: str, told: FleetRepairs, wanted: list[str]) -> None:
    page = fleet_history.lines(told, WIDE)
    assert [one for one in wanted if one not in page] == [], what
    assert not page[0].startswith("link_up ended") or "held" in what


def test_named_nodes_are_shown_alone_and_a_hold_of_the_fleet_all_the_same() -> None:
    leases = (fleet(), failed("n1", 1), failed("n2", 2), failed("n3", 3), slot(holder="n3"))
    told = FleetRepairs(WALL, {"n1": {}}, leases, named=True)
    page = "\n".join(fleet_history.lines(told, WIDE))
    assert "link_up   did not help   n1   60s ago" in page
    assert "link_up ended without a release on n1, n2, n3" in page
    assert "nodeprep-slot-0   n3" in page


def test_what_cannot_be_read_is_said_and_the_rest_is_shown() -> None:
    told = FleetRepairs(
        WALL, {"n1": {attempt_note.ATTEMPTS: "["}, "n2": kept(past())}, (agent_lease("n3", unreadable=True),)
    )
    assert told.troubles == [
        "Lease agent-n3: agent.nodeprep.io/repair cannot be read, and counts as every fault",
        "n1: agent.nodeprep.io/attempts on the Node cannot be read",
    ]
    assert [one.node for one in told.attempts] == ["n2"]


def test_names_from_a_lease_control_no_terminal_and_no_time_is_too_large() -> None:
    odd = agent_lease("n1", unhelpful={"\x1b[31m": 1e300}, held={"\x1b[31m": 1e300}, faults={"a/\x07": -1e300})
    told = FleetRepairs(WALL, {"n1": kept(past(wall=1e15))}, (odd, FleetLease("nodeprep-slot-0", "\x1b", 1e300, 1e300)))
    assert all(line.isprintable() for line in fleet_history.lines(told, WIDE))
    assert json.loads(json.dumps(fleet_history.document(told)))["agents"]["n1"]["held"] == {"\x1b[31m": "?"}


def test_a_program_gets_all_of_it() -> None:
    leases = (fleet(pause="upgrade"), slot(holder="n1", ago=30.0), slot(1), agent_lease("n1", trying={"mtu": WALL}))
    told = FleetRepairs(WALL, {"n1": kept(past("released"))}, leases)
    assert fleet_history.document(told) == {
        "apiVersion": "nodeprep.io/v1",
        "kind": "FleetRepairs",
        "attempts": [
            {
                "node": "n1",
                "time": "2027-01-15T08:00:00Z",
                "remedy": "link_up",
                "check": "port.state",
                "reason": "NoSignal",
                "place": "0000:5c:00.0",
                "port": 1,
                "outcome": "released",
            }
        ],
        "orders": [{"kind": "pause", "for": "fleet", "says": "upgrade, without an end"}],
        "slots": [
            {
                "name": "nodeprep-slot-0",
                "holder": "n1",
                "renewed": "2027-01-15T07:59:30Z",
                "seconds": 180.0,
                "free": False,
            },
            {"name": "nodeprep-slot-1", "holder": None, "renewed": None, "seconds": None, "free": True},
        ],
        "agents": {
            "n1": {
                "faults": {},
                "trying": {"mtu": "2027-01-15T08:00:00Z"},
                "helped": {},
                "unhelpful": {},
                "held": {},
                "unreadable": False,
            }
        },
        "holds": [],
        "troubles": [],
    }
    unknown = fleet_history.document(FleetRepairs(WALL, {}, None))
    assert (unknown["slots"], unknown["agents"], unknown["holds"]) == (None, None, None)
