"""The Lease: whose it is, when it says that the agent lives, and when nobody should believe that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodeprep.publish.lease import DURATION, RENEW, created, is_fresh, path, renewal

NOW = datetime(2026, 11, 22, 3, 0, 0, 123456, tzinfo=UTC)


def test_two_renewals_may_be_lost() -> None:
    assert DURATION == 3 * RENEW


def test_it_goes_with_its_node() -> None:
    made = created("nodeprep", "n1", "u1", NOW)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}
    assert made["metadata"] == {"name": "agent-n1", "namespace": "nodeprep", "ownerReferences": [owner]}
    spec = {"holderIdentity": "n1", "leaseDurationSeconds": 180, "renewTime": "2026-11-22T03:00:00.123456Z"}
    assert made["spec"] == spec
    assert renewal("n1", "u1", NOW) == {"metadata": {"ownerReferences": [owner]}, "spec": spec}
    assert path("nodeprep", "n1") == "/apis/coordination.k8s.io/v1/namespaces/nodeprep/leases/agent-n1"


FRESH_ROWS: list[tuple[Any, bool]] = [
    (timedelta(seconds=-60), True),
    (timedelta(seconds=-DURATION), True),
    (timedelta(seconds=-DURATION - 1), False),
    (timedelta(hours=1), False),
    (timedelta(seconds=5), True),
]


@pytest.mark.parametrize(("age", "fresh"), FRESH_ROWS)
def test_how_long_it_is_believed(age: timedelta, *, fresh: bool) -> None:
    assert is_fresh(created("nodeprep", "n1", "u1", NOW + age), NOW) is fresh


@pytest.mark.parametrize("spec", [None, [], {}, {"renewTime": None}, {"renewTime": "soon"}, {"renewTime": 7}])
def test_what_is_no_time_is_no_sign_of_life(spec: Any) -> None:
    assert not is_fresh({"spec": spec}, NOW)
    assert not is_fresh({"spec": {"renewTime": "2026-11-22T03:00:00"}}, NOW)
