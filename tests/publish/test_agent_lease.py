"""The Lease: whose it is, when it says that the agent lives, and when nobody should believe that."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nodeprep.cli.nodes.agent_pods import LEASE_RENEWAL_SECONDS
from nodeprep.publish import agent_lease
from nodeprep.publish.agent_lease import DURATION_SECONDS, RENEW_SECONDS
from nodeprep.publish.pace import SPREAD_FACTORS

NOW = datetime(2026, 11, 22, 3, 0, 0, 123456, tzinfo=UTC)


def test_two_renewals_are_due_while_one_is_believed() -> None:
    """Whatever chance says, and with time for a server that is slow."""
    assert 2 * RENEW_SECONDS * SPREAD_FACTORS[1] + 3.0 <= DURATION_SECONDS
    assert RENEW_SECONDS * SPREAD_FACTORS[1] + 10.0 <= LEASE_RENEWAL_SECONDS, (
        "`nodeprep nodes release` waits for one, of an agent that lives"
    )


def test_it_goes_with_its_node() -> None:
    made = agent_lease.new_lease("nodeprep", "n1", "u1", NOW)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}
    assert made["metadata"] == {"name": "agent-n1", "namespace": "nodeprep", "ownerReferences": [owner]}
    spec = {"holderIdentity": "n1", "leaseDurationSeconds": 180, "renewTime": "2026-11-22T03:00:00.123456Z"}
    assert made["spec"] == spec
    note = {"annotations": {"agent.nodeprep.io/repair": None}}
    assert agent_lease.renewal("n1", "u1", NOW) == {"metadata": {"ownerReferences": [owner], **note}, "spec": spec}
    assert agent_lease.path("nodeprep", "n1") == "/apis/coordination.k8s.io/v1/namespaces/nodeprep/leases/agent-n1"


def test_it_tells_other_agents_about_repairs() -> None:
    said = {"agent.nodeprep.io/repair": "{}"}
    assert agent_lease.new_lease("nodeprep", "n1", "u1", NOW, "{}")["metadata"]["annotations"] == said
    assert agent_lease.renewal("n1", "u1", NOW, "{}")["metadata"]["annotations"] == said
    assert agent_lease.telling("{}") == {"metadata": {"annotations": said}}, "it renews nothing"


def test_a_namespace_that_somebody_typed_stays_one_part_of_the_path() -> None:
    assert agent_lease.path("a/b?c") == "/apis/coordination.k8s.io/v1/namespaces/a%2Fb%3Fc/leases"


FRESH_ROWS = [
    (60, True),
    (DURATION_SECONDS, True),
    (DURATION_SECONDS + 1, False),
    (-5, True),
    (-DURATION_SECONDS - 1, False),
]


@pytest.mark.parametrize(("ago", "fresh"), FRESH_ROWS)
def test_how_long_it_is_believed(ago: float, *, fresh: bool) -> None:
    assert agent_lease.is_fresh(1_800_000_000.0 - ago, 1_800_000_000.0) is fresh
