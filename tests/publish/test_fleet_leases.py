"""Leases of repairs as values, whatever others wrote there, and how one is taken and given back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nodeprep.decide import fleet_notes
from nodeprep.decide.fleet_notes import FleetLease, RepairNote
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.publish import fleet_leases
from nodeprep.publish.fleet_note import FleetNote
from nodeprep.publish.repair_requests import RepairRequests

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
SPEC = {"holderIdentity": "n1", "leaseDurationSeconds": 180, "renewTime": "2026-11-27T09:00:00.000000Z"}


def lease(name: str = "nodeprep-slot-0", spec: object = SPEC, **annotations: object) -> dict[str, Any]:
    keys = {key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()}
    return {"metadata": {"name": name, "resourceVersion": "7", "annotations": keys}, "spec": spec}


def test_a_slot_that_is_held() -> None:
    assert fleet_leases.fleet_lease(lease()) == FleetLease("nodeprep-slot-0", "n1", NOW.timestamp(), 180.0, "7")


ODD = [
    ({}, FleetLease("")),
    ({"metadata": [], "spec": "x"}, FleetLease("")),
    (lease(spec=None), FleetLease("nodeprep-slot-0", version="7")),
    (lease(spec={"holderIdentity": None}), FleetLease("nodeprep-slot-0", version="7")),
    (lease(spec={**SPEC, "renewTime": "soon"}), FleetLease("nodeprep-slot-0", "n1", None, 180.0, "7")),
    (lease(spec={**SPEC, "renewTime": 5}), FleetLease("nodeprep-slot-0", "n1", None, 180.0, "7")),
    (
        lease(spec={**SPEC, "leaseDurationSeconds": True}),
        FleetLease("nodeprep-slot-0", "n1", NOW.timestamp(), None, "7"),
    ),
    (
        lease(spec={**SPEC, "leaseDurationSeconds": "9"}),
        FleetLease("nodeprep-slot-0", "n1", NOW.timestamp(), None, "7"),
    ),
]


@pytest.mark.parametrize(("there", "read"), ODD)
def test_what_no_lease_should_have_counts_as_missing(there: dict[str, Any], read: FleetLease) -> None:
    assert fleet_leases.fleet_lease(there) == read


def test_orders_count_on_the_lease_of_the_fleet_alone() -> None:
    pause = {"nodeprep_io__pause": "cable"}
    assert fleet_leases.fleet_lease(lease("nodeprep-repair", None, **pause)).orders == {"nodeprep.io/pause": "cable"}
    assert fleet_leases.fleet_lease(lease("agent-n1", None, **pause)).orders == {}


def test_a_note_that_cannot_be_read_says_everything() -> None:
    key = "agent_nodeprep_io__repair"
    assert fleet_leases.fleet_lease(lease("agent-n1", None, **{key: "{"})).note == fleet_notes.UNREADABLE
    assert fleet_leases.fleet_lease(lease("agent-n1", None, **{key: 5})).note == fleet_notes.UNREADABLE
    said = '{"helped":{"link_up":5}}'
    assert fleet_leases.fleet_lease(lease("agent-n1", None, **{key: said})).note == RepairNote(helped={"link_up": 5.0})


def test_who_takes_a_slot_leaves_one_entry_and_loses_every_race() -> None:
    body = fleet_leases.taking("n1", "7", NOW, 180.4)
    assert body["metadata"]["resourceVersion"] == "7"
    (entry,) = body["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:renewTime": {}}}
    assert body["spec"] == SPEC


def test_a_slot_that_is_given_back_is_nobodys() -> None:
    assert fleet_leases.giving_back("7") == {"metadata": {"resourceVersion": "7"}, "spec": dict.fromkeys(SPEC)}


def test_a_server_that_is_gone_was_told_nothing_and_got_nothing_back() -> None:
    """Else the note is not written again, and the slot keeps others from a repair until its time is over."""
    asks = RepairRequests(ApiAccess("n1", Peer("http://127.0.0.1:1"), dict), FleetNote())
    asks.note.text = '{"trying":{"link_up":5}}'
    assert not asks.tell().is_told
    assert asks.note.told == ""
    assert not asks.give_back("nodeprep-slot-0").is_returned
