"""An API server with the audit policy of docs/security.md: what of an agent, and of who stole its token, is logged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.admission_policy_writes import LEASES, NODE, NODES, OTHER, label, lease
from tests.cluster.agents import ACCOUNT, bound_token, enforce_policies, sender, side_writes_of
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.waiting import until

SECURITY = Path(__file__).resolve().parents[2] / "docs/security.md"
OWN = f"agent-{NODE}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    (policy,) = re.findall(r"^```yaml\n(# audit policy:.+?)^```", SECURITY.read_text(), re.MULTILINE | re.DOTALL)
    try:
        made = Cluster(audit=yaml.safe_load(policy))
    except CannotStart as reason:
        cannot_start(reason)
    with made:
        enforce_policies(made)
        yield made


def test_what_the_documented_policy_keeps(cluster: Cluster) -> None:
    """A line without bodies of each patch of a Node, a stolen token's too; no Lease that is made or denied."""
    token = bound_token(cluster, NODE)
    send = sender(cluster, token)
    before = len(cluster.requests(ACCOUNT.user))
    side_writes = side_writes_of(cluster, token)
    side_writes.test_admission_policy()
    assert side_writes.policy_enforced is True
    assert send("POST", LEASES, {"metadata": {"name": OWN}, "spec": lease(NODE)})[0] == 201
    assert send("PATCH", f"{LEASES}/{OWN}", {"spec": lease(NODE)})[0] == 200
    assert send("PATCH", f"{NODES}/{OTHER}", label("nodeprep.io/state", "Ready"))[0] == 422
    wanted = [f"patch {NODES}/{NODE}?dryRun=All", f"patch {LEASES}/{OWN}", f"patch {NODES}/{OTHER}"]
    until(lambda: cluster.requests(ACCOUNT.user)[before:][-1:] == wanted[-1:], "the last request is logged")
    assert cluster.requests(ACCOUNT.user)[before:] == wanted
    ours = [event for event in map(json.loads, cluster.audited()) if event["user"].get("username") == ACCOUNT.user]
    assert {event["level"] for event in ours} == {"Metadata"}
