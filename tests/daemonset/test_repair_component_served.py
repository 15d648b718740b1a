"""A slot that is held, and what humans wrote, outlive an apply of the same manifests by a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeprep.decide import fleet_holds, repair_orders
from tests import api_objects
from tests.admission_policy_writes import LEASES, SLOT, lease, said, slot
from tests.cluster.agents import Send, agent
from tests.daemonset.manifests import ROOT, combined
from tests.rigs import started
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

NODE = "n1"
MANIFEST = str(ROOT / "components/repair/leases.yaml")
FLEET = f"{LEASES}/{fleet_holds.FLEET}"
PAUSED = said(repair_orders.PAUSE, "upgrade;until=2030-01-01T00:00:00Z")
OTHER_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
APPLIES = [
    # the way that the manifests came there, and the way of the next apply
    ((), ()),
    ((), ("--server-side",)),
    (("--server-side",), ("--server-side",)),
    (("--server-side",), ()),
    ((), ("--server-side", "--force-conflicts")),
]


@pytest.fixture(scope="module")
def served() -> Iterator[Cluster]:
    """A server of its own: here an agent may read Leases."""
    with started.cluster() as made:
        made.create("/api/v1/nodes", api_objects.foreign_node(NODE))
        yield made


@pytest.fixture(scope="module")
def directory(served: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kustomization of a user, applied."""
    where = tmp_path_factory.mktemp("user")
    combined(where, [ROOT / "overlays/generic"], "repair", "mode-repair")
    served.kubectl("apply", "-k", str(where))
    return where


@pytest.fixture(scope="module")
def send(served: Cluster, directory: Path) -> Send:
    """An agent of NODE with the rights of the manifests, and their admission policy in force."""
    assert directory.is_dir()
    made = agent(served, NODE)
    until(lambda: made("PATCH", FLEET, PAUSED)[0] == 422, "the admission policy is in force")
    return made


def test_the_agent_reads_the_leases_of_its_namespace(send: Send) -> None:
    code, told = send("GET", LEASES)
    assert (code, fleet_holds.FLEET in {one["metadata"]["name"] for one in told["items"]}) == (200, True)
    assert send("GET", SLOT)[0] == 200
    assert send("GET", OTHER_LEASES)[0] == 403
    assert send("GET", "/apis/coordination.k8s.io/v1/leases")[0] == 403


def test_it_orders_nothing_and_removes_nothing(send: Send) -> None:
    code, told = send("PATCH", FLEET, PAUSED)
    assert (code, told["message"].rpartition(" ")[2]) == (422, "nodeprep:own-lease")
    assert send("DELETE", FLEET)[0] == 403
    assert send("PUT", SLOT, {"metadata": {"name": "nodeprep-slot-0"}})[0] == 403


def spec(cluster: Cluster, path: str) -> dict[str, Any]:
    return dict(cluster.call("GET", path)[1].get("spec", {}))


@pytest.mark.parametrize(("first", "second"), APPLIES, ids=str)
def test_an_apply_of_the_same_manifests_takes_nothing_away(
    served: Cluster, send: Send, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    served.kubectl("delete", "--ignore-not-found", "-f", MANIFEST)
    served.kubectl("apply", *first, "-f", MANIFEST)
    assert send("PATCH", SLOT, slot(lease(NODE, 30, seconds=600)))[0] == 200
    assert served.call("PATCH", FLEET, PAUSED)[0] == 200
    held = spec(served, SLOT)
    assert held["holderIdentity"] == NODE
    served.kubectl("apply", *second, "-f", MANIFEST)
    assert spec(served, SLOT) == held
    assert served.call("GET", FLEET)[1]["metadata"]["annotations"][repair_orders.PAUSE].startswith("upgrade")
    # Who holds it goes on: the entry of the apply in managedFields keeps nobody from renewing or giving back.
    assert send("PATCH", SLOT, slot(lease(NODE, seconds=600)))[0] == 200
    assert spec(served, SLOT) != held
    served.kubectl("apply", *second, "-f", MANIFEST)
    assert send("PATCH", SLOT, {"spec": {"holderIdentity": None}})[0] == 200
    assert "holderIdentity" not in spec(served, SLOT)


def test_a_lease_that_stated_a_spec_would_lose_it(served: Cluster, send: Send) -> None:
    """So it is what the manifests leave out that keeps a holder, and not the way of the apply."""
    path, name = f"{LEASES}/nodeprep-slot-7", "nodeprep-slot-7"
    stated = f"""
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {{name: {name}, namespace: nodeprep}}
spec: {{holderIdentity: ""}}
"""
    served.apply(stated)
    assert send("PATCH", path, slot(lease(NODE)))[0] == 200
    served.apply(stated)
    assert spec(served, path)["holderIdentity"] != NODE
