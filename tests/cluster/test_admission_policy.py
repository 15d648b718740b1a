"""The admission policy in a real API server, with tokens bound to pods: what an agent may write and what not."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nodeprep.agent_state import NodeState
from nodeprep.decide import attempt_note, fleet_notes, repair_orders
from nodeprep.decide.desired import AGENT_PREFIX, AREAS, TRAINING_READY, Desired, NodeCondition, Taint
from nodeprep.publish import admission_policy, node_patches
from nodeprep.publish.node_object import WrittenNode
from nodeprep.publish.side_writes import FOREIGN_LABEL, FOREIGN_LEASE
from nodeprep.values import replace
from tests.admission_policy_writes import (
    BOOTSTRAP,
    DENIED,
    ELSE,
    FINALIZERS,
    LEASES,
    MINE,
    NAMES,
    NAMESPACE,
    NEW_NODES,
    NODE,
    NODES,
    NOTE,
    OTHER,
    OVER,
    PAUSE,
    SLOT,
    STRATEGIC,
    UNHEALTHY,
    UNTIL,
    WIPED,
    Write,
    fresh,
    label,
    lease,
    node,
    said,
    slot,
    taints,
)
from tests.cluster.agents import (
    ACCOUNT,
    ADMISSION,
    PLURALS,
    Send,
    account,
    agent,
    bound_token,
    controllers,
    enforce_policies,
    is_denied,
    sender,
    side_writes_of,
    tried,
    type_checked,
)
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

SECURITY = Path(__file__).resolve().parents[2] / "docs/security.md"
READY = NodeCondition(TRAINING_READY, "True", "Ready", "every gate check passes: rdma-roce")
BROKEN = NodeCondition(TRAINING_READY, "False", "PortDown", "mlx5_0/1 is down")
NOBODYS = {"metadata": {"name": FOREIGN_LEASE}}
AREA = NodeCondition(next(iter(AREAS)), "False", "PortDown", "mlx5_0/1 is down")


@pytest.fixture(scope="session")
def policy_enforced(cluster: Cluster) -> Cluster:
    """Two Nodes, all kinds of Leases, and the admission policy in force."""
    enforce_policies(cluster)
    return cluster


@pytest.fixture(scope="session")
def bound(policy_enforced: Cluster) -> Send:
    return agent(policy_enforced, NODE)


@pytest.fixture(scope="session")
def unbound(policy_enforced: Cluster) -> Send:
    return sender(policy_enforced, policy_enforced.token(NAMESPACE, ACCOUNT.name))


@pytest.mark.parametrize("write", DENIED, ids=lambda write: f"{write.rule}: {write.why}")
def test_denied(bound: Send, unbound: Send, write: Write) -> None:
    code, told = tried(bound if write.bound else unbound, write)
    assert code == 422, told
    assert told["message"].endswith(f"denied request: {admission_policy.RULE}{write.rule}"), told["message"]


def test_the_administrator_may_do_all_of_it(policy_enforced: Cluster) -> None:
    """So it is the admission policy that denies, and not that the request makes no sense."""
    admin = sender(policy_enforced, certificate=policy_enforced.directory / "admin")
    refused = [(write.rule, write.why, tried(admin, write)) for write in DENIED]
    assert not [(rule, why, told) for rule, why, (code, told) in refused if code >= 300]


STATES = [
    # what an agent writes in its life, each upon the one before
    ("closed", (UNHEALTHY,), {"nodeprep.io/state": "Bootstrap"}, {}, True, (BROKEN, AREA)),
    ("another reason", (UNHEALTHY | {"value": "NoSignal"},), {"nodeprep.io/state": "Unhealthy"}, {}, True, (BROKEN,)),
    ("on trial", (UNHEALTHY | {"effect": "PreferNoSchedule"},), {}, {}, True, (BROKEN, AREA)),
    (
        "open",
        (),
        {"nodeprep.io/state": "Ready", "nodeprep.io/profile.rdma-roce": "ready", NAMES.rdma_label: "true"},
        {f"{AGENT_PREFIX}/profiles": "rdma-roce", f"{AGENT_PREFIX}/reset": "now"},
        False,
        (READY,),
    ),
    ("released", (), {}, {}, False, ()),
]


def test_what_an_agent_writes_in_its_life_passes(policy_enforced: Cluster, bound: Send) -> None:
    path = f"{NODES}/{NODE}"
    admin = sender(policy_enforced, certificate=policy_enforced.directory / "admin")
    assert admin("PATCH", path, taints(ELSE, BOOTSTRAP))[0] == 200
    before: dict[str, str] = {}
    told: dict[str, Any] = {}
    for name, ours, labels, notes, may_stay, conditions in STATES:
        wanted = Desired(
            NodeState.READY,
            conditions=conditions,
            labels=labels,
            taints=tuple(Taint(**one) for one in ours),
            bootstrap_taint_may_stay=may_stay,
        )
        seen = WrittenNode.of(bound("GET", path)[1])
        patch = node_patches.desired_node(seen, wanted, NAMES)
        assert patch is not None, name
        patch["metadata"]["annotations"] = dict.fromkeys(before) | notes
        before = notes
        code, told = bound("PATCH", path, patch)
        assert code == 200, (name, told)
        status = node_patches.desired_status(seen, wanted, datetime.now(UTC))
        assert status is not None, name
        code, told = bound("PATCH", f"{path}/status", status, STRATEGIC)
        assert code == 200, (name, told)
        assert told["spec"]["taints"] == [ELSE, *([BOOTSTRAP] if may_stay else []), *ours], name
        assert {one["type"] for one in told["status"]["conditions"]} == {
            "Ready",
            "SufficientIP",
            *(one.type for one in conditions),
        }
    assert (told["metadata"]["labels"], told["metadata"]["annotations"]) == (
        node(NODE)["metadata"]["labels"],
        node(NODE)["metadata"]["annotations"],
    )


def test_a_taint_of_ours_that_evicts_may_stay_while_something_else_is_written(
    policy_enforced: Cluster, bound: Send
) -> None:
    path, evicting = f"{NODES}/{NODE}", taints(ELSE, UNHEALTHY | {"effect": "NoExecute"})
    admin = sender(policy_enforced, certificate=policy_enforced.directory / "admin")
    assert admin("PATCH", path, evicting)[0] == 200
    assert bound("PATCH", path, label("nodeprep.io/state", "Ready"))[0] == 200
    assert bound("PATCH", path, taints(ELSE))[0] == 200


def test_a_node_that_an_operator_has_wiped_of_who_wrote_what_is_written(policy_enforced: Cluster) -> None:
    """The API server tracks nobody there from then on."""
    path = f"{NODES}/wiped"
    policy_enforced.create(NODES, node("wiped"))
    assert "managedFields" not in policy_enforced.call("PATCH", path, WIPED)[1]["metadata"]
    code, told = agent(policy_enforced, "wiped")("PATCH", path, label("nodeprep.io/state", "Ready"))
    assert (code, "managedFields" in told["metadata"]) == (200, False)


LEASE_WRITES = [
    ("its own, made", "POST", LEASES, {"metadata": {"name": f"agent-{NODE}"}, "spec": lease(NODE, 30)}, 201),
    ("its own, renewed", "PATCH", f"{LEASES}/agent-{NODE}", {"spec": lease(NODE)}, 200),
    ("its own, with what it says of repairs", "PATCH", f"{LEASES}/agent-{NODE}", said(fleet_notes.NOTE, NOTE), 200),
    ("its own, which says no more", "PATCH", f"{LEASES}/agent-{NODE}", said(fleet_notes.NOTE, None), 200),
    ("a slot, taken", "PATCH", SLOT, slot(lease(NODE, 30)), 200),
    ("a slot, kept", "PATCH", SLOT, slot(lease(NODE, seconds=3600)), 200),
    ("a slot, given back", "PATCH", SLOT, {"spec": {"holderIdentity": None}}, 200),
    ("a slot whose holder's time is over", "PATCH", OVER, slot(lease(NODE)), 200),
    ("a slot of new nodes, taken", "PATCH", NEW_NODES, slot(lease(NODE, 30, seconds=660)), 200),
    ("a slot of new nodes, kept", "PATCH", NEW_NODES, slot(lease(NODE, seconds=660)), 200),
    ("a slot of new nodes, given back", "PATCH", NEW_NODES, {"spec": {"holderIdentity": None}}, 200),
    ("its own from before, kept", "PATCH", MINE, slot(lease(NODE, seconds=660)), 200),
]


def test_leases_that_an_agent_may_write(policy_enforced: Cluster, bound: Send) -> None:
    uid = bound("GET", f"{NODES}/{NODE}")[1]["metadata"]["uid"]
    for name, method, path, body, expected in LEASE_WRITES:
        if method == "POST":
            body["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid}]
        code, told = bound(method, path, fresh(body))
        assert code == expected, (name, told)
    assert policy_enforced.call("GET", OVER)[1]["spec"]["holderIdentity"] == NODE


def test_what_it_notes_about_repairs_on_its_node(bound: Send) -> None:
    """Also the approval that it says it obeyed, which it may make up: the remediator believes none of it."""
    for key, text in ((attempt_note.ATTEMPTS, "[]"), (repair_orders.APPROVED, f"reboot;until={UNTIL}")):
        assert bound("PATCH", f"{NODES}/{NODE}", said(key, text))[0] == 200
        assert bound("PATCH", f"{NODES}/{NODE}", said(key, None))[0] == 200


def test_what_humans_ordered_on_its_lease_stays(policy_enforced: Cluster) -> None:
    """It orders nothing there. It only must not go with what an agent writes."""
    policy_enforced.create(NODES, node("ordered"))
    send, path = agent(policy_enforced, "ordered"), f"{LEASES}/agent-ordered"
    assert send("POST", LEASES, {"metadata": {"name": "agent-ordered"}, "spec": lease("ordered")})[0] == 201
    assert policy_enforced.call("PATCH", path, said(PAUSE, "mistaken"))[0] == 200
    assert send("PATCH", path, {"spec": lease("ordered")} | said(fleet_notes.NOTE, NOTE))[0] == 200
    for text in ("other", None):
        code, told = send("PATCH", path, said(PAUSE, text))
        assert (code, told["message"].rpartition(":")[2]) == (422, "lease-orders")


def test_what_others_have_put_on_its_lease_stays(policy_enforced: Cluster) -> None:
    policy_enforced.create(NODES, node("held"))
    send, path = agent(policy_enforced, "held"), f"{LEASES}/agent-held"
    mine = {"spec": lease("held")}
    # As where a webhook adds its own to whatever is made.
    metadata = {"name": "agent-held", "labels": {"example.com/pool": "a"}, "annotations": {"example.com/note": "x"}}
    assert send("POST", LEASES, {"metadata": metadata, **mine})[0] == 201
    code, told = send("PATCH", path, {"metadata": FINALIZERS})
    assert (code, told["message"].rpartition(":")[2]) == (422, "lease-metadata")
    assert policy_enforced.call("PATCH", path, {"metadata": FINALIZERS})[0] == 200
    assert send("PATCH", path, mine)[0] == 200
    code, told = send("PATCH", path, {"metadata": {"finalizers": None}})
    assert (code, told["message"].rpartition(":")[2]) == (422, "lease-metadata")


def test_a_slot_changes_hands_when_its_time_is_over_by_the_servers_clock(policy_enforced: Cluster, bound: Send) -> None:
    """A lease that is long enough for a busy machine to be refused, and another whose end is soon."""
    other, path = agent(policy_enforced, OTHER), f"{LEASES}/nodeprep-slot-4"
    policy_enforced.create(LEASES, {"metadata": {"name": "nodeprep-slot-4"}, "spec": {}})
    assert bound("PATCH", path, slot(lease(NODE, seconds=3600)))[0] == 200
    code, told = other("PATCH", path, slot(lease(OTHER, -30)))
    assert (code, told["message"].rpartition(":")[2]) == (422, "slot-taken")
    given_back = {"holderIdentity": None, "renewTime": None}  # a time of the same second would be no new one
    assert bound("PATCH", path, {"spec": given_back})[0] == 200
    code, told = bound("PATCH", path, slot(lease(NODE, seconds=10)))
    assert code == 200, told

    def taken() -> Mapping[str, Any]:
        code, told = other("PATCH", path, slot(lease(OTHER)))
        assert code in (200, 422), told
        return told if code == 200 else {}

    metadata = until(taken, "slot whose time is over")["metadata"]
    assert [one["manager"] for one in metadata["managedFields"]] == ["unknown"]


def test_the_kubelet_is_not_admission_policyd(policy_enforced: Cluster) -> None:
    policy_enforced.certificate("kubelet", f"/O=system:nodes/CN=system:node:{NODE}")
    kubelet = sender(policy_enforced, certificate=policy_enforced.directory / "kubelet")
    status = {"status": {"capacity": {"rdma/hca": "8"}, "conditions": [{"type": "Ready", "status": "False"}]}}
    code, told = kubelet("PATCH", f"{NODES}/{NODE}/status?dryRun=All", status, STRATEGIC)
    assert (code, told["status"]["capacity"]["rdma/hca"]) == (200, "8")


def test_an_account_of_another_name_is_not_admission_policyd_and_nobody_says_so(policy_enforced: Cluster) -> None:
    """Why the agent tries a forbidden write: here a deployment has renamed its account and not the admission policy."""
    account(policy_enforced, "renamed")
    renamed = agent(policy_enforced, NODE, "renamed")
    assert renamed("PATCH", f"{NODES}/{OTHER}?dryRun=All", label("team", "a"))[0] == 200


def says(policy_enforced: Cluster, token: str, namespace: str = NAMESPACE) -> bool | None:
    """What the agent's own test finds with this token."""
    side_writes = side_writes_of(policy_enforced, token, namespace)
    side_writes.test_admission_policy()
    return side_writes.policy_enforced


def test_the_agent_finds_out_whether_it_is_admission_policyd(policy_enforced: Cluster) -> None:
    """A rule that is met on the way tells nothing: a token of no pod, a namespace that is not the agents'."""
    bound = bound_token(policy_enforced, NODE)
    assert says(policy_enforced, bound) is True
    assert says(policy_enforced, bound, "default") is None
    assert says(policy_enforced, policy_enforced.token(NAMESPACE, ACCOUNT.name)) is None


def test_the_documented_filter_drops_the_dry_runs_of_the_test_and_no_other_line(policy_enforced: Cluster) -> None:
    """docs/security.md, "In the audit log"."""
    bound = bound_token(policy_enforced, NODE)
    send = sender(policy_enforced, bound)
    before = len(policy_enforced.audited())
    side_writes_of(policy_enforced, bound).test_admission_policy()
    stolen = (
        (f"{NODES}/{NODE}", label(FOREIGN_LABEL, "a")),
        (f"{NODES}/{OTHER}?dryRun=All", label(FOREIGN_LABEL, "a")),
        (f"{NODES}/{NODE}/status?dryRun=All", label(FOREIGN_LABEL, "a")),
        (f"{NODES}/{NODE}?dryRun=All", {"spec": {"unschedulable": True}}),
    )
    assert {send("PATCH", path, body)[0] for path, body in stolen} == {422}
    assert send("POST", LEASES, NOBODYS)[0] == 422

    def ours() -> list[str]:
        """The server asks itself now and then, too."""
        lines = [line for line in policy_enforced.audited()[before:] if f'"{ACCOUNT.user}"' in line]
        return lines if len(lines) >= 7 else []

    log = until(ours, "7 requests of ours in the log")
    (program,) = re.findall(r"^jq -c '(.+?)' audit\.log$", SECURITY.read_text(), re.MULTILINE | re.DOTALL)
    kept = subprocess.run(
        ("jq", "-c", program), input="\n".join(log), capture_output=True, text=True, check=True
    ).stdout
    assert [json.loads(one)["requestURI"] for one in kept.splitlines()] == [*(path for path, _ in stolen), LEASES]


HALVES = {
    "only-nodes": (admission_policy.nodes(NAMES), Write("labels", "foreign", label(FOREIGN_LABEL, "a"))),
    "only-leases": (admission_policy.leases(ACCOUNT), Write("own-lease", "nobody's", NOBODYS, LEASES, "POST")),
}


@pytest.mark.parametrize("half", HALVES)
def test_half_a_admission_policy_is_none(policy_enforced: Cluster, half: str) -> None:
    policy, denied = HALVES[half]
    account(policy_enforced, half)
    token = bound_token(policy_enforced, NODE, half)
    send = sender(policy_enforced, token)
    assert says(policy_enforced, token) is False, "neither is bound"
    for one in replace(policy, name=half).objects(admission_policy.ServiceAccount(NAMESPACE, half)):
        policy_enforced.create(f"{ADMISSION}/{PLURALS[one['kind']]}", one)
    await_denial(send, denied, holds=True)
    assert says(policy_enforced, token) is False


@pytest.mark.parametrize("kind", PLURALS)
@pytest.mark.parametrize("half", HALVES)
def test_a_policy_that_goes_is_missed_within_two_dry_runs(policy_enforced: Cluster, half: str, kind: str) -> None:
    """Whichever is deleted, whoever's turn it is; and it is found again when it is back."""
    name = f"lost-{half}-{'binding' if kind.endswith('Binding') else 'policy'}"
    account(policy_enforced, name)
    token = bound_token(policy_enforced, NODE, name)
    send, bound = sender(policy_enforced, token), admission_policy.ServiceAccount(NAMESPACE, name)
    parts = {one: replace(policy, name=f"{name}-in-{one}").objects(bound) for one, (policy, _) in HALVES.items()}
    for objects in parts.values():
        for one in objects:
            policy_enforced.create(f"{ADMISSION}/{PLURALS[one['kind']]}", one)
    for _, denied in HALVES.values():
        await_denial(send, denied, holds=True)
    side_writes, found = side_writes_of(policy_enforced, token), list[bool | None]()

    def test() -> None:
        side_writes.test_admission_policy()
        found.append(side_writes.policy_enforced)

    test()
    (gone,) = [one for one in parts[half] if one["kind"] == kind]
    where = f"{ADMISSION}/{PLURALS[kind]}"
    assert policy_enforced.call("DELETE", f"{where}/{gone['metadata']['name']}")[0] == 200
    await_denial(send, HALVES[half][1], holds=False)
    test()
    test()
    policy_enforced.create(where, gone)
    await_denial(send, HALVES[half][1], holds=True)
    test()
    by_turns = [False, False] if half == "only-nodes" else [True, False]  # the label's comes first
    assert found == [True, *by_turns, True]


def await_denial(send: Send, write: Write, *, holds: bool) -> None:
    until(lambda: is_denied(send, write) is holds, f"denied is {holds}: {tried(send, write)}")


def test_a_node_as_large_as_they_get(policy_enforced: Cluster) -> None:
    """The rules walk over all of it, and the API server stops an expression that costs too much."""
    large = node("large")
    large["metadata"]["labels"] |= {f"example.com/label-{number}": "x" * 60 for number in range(300)}
    large["metadata"]["annotations"] |= {f"example.com/note-{number}": "x" * 2000 for number in range(100)}
    large["spec"]["taints"] = [ELSE | {"key": f"example.com/taint-{number}"} for number in range(50)]
    large["status"] |= {
        "images": [{"names": ["x" * 120, "y" * 120], "sizeBytes": number} for number in range(100)],
        "volumesInUse": [f"kubernetes.io/csi/disk.example.com^d-{number}" for number in range(250)],
        "capacity": {f"example.com/resource-{number}": "1" for number in range(200)},
    }
    large["status"]["conditions"] += [{"type": f"example.com/Kind{number}", "status": "True"} for number in range(50)]
    policy_enforced.create(NODES, large)
    send = agent(policy_enforced, "large")
    wanted = Desired(
        NodeState.READY, conditions=(READY,), labels={"nodeprep.io/state": "Ready"}, taints=(Taint(**UNHEALTHY),)
    )
    seen = WrittenNode.of(send("GET", f"{NODES}/large")[1])
    code, told = send("PATCH", f"{NODES}/large", node_patches.desired_node(seen, wanted, NAMES))
    assert code == 200, told
    code, told = send(
        "PATCH", f"{NODES}/large/status", node_patches.desired_status(seen, wanted, datetime.now(UTC)), STRATEGIC
    )
    assert code == 200, told


def test_the_type_checker_has_nothing_to_say(policy_enforced: Cluster) -> None:
    """It is a controller that checks; a policy with a field that no Node has shows that it does."""
    policies = f"{ADMISSION}/validatingadmissionpolicies"
    wrong, _ = admission_policy.admission_policies(NAMES, ACCOUNT)[:2]
    wrong["metadata"]["name"] = "wrong"
    wrong["spec"]["validations"] = [{"expression": "object.spec.unschedulabel == true"}]
    policy_enforced.create(policies, wrong)
    with controllers(policy_enforced):
        found = {
            name: type_checked(policy_enforced, f"{policies}/{name}")
            for name in (admission_policy.NODES, admission_policy.LEASES, "wrong")
        }
    assert "unschedulabel" in json.dumps(found.pop("wrong"))
    assert found == {admission_policy.NODES: {}, admission_policy.LEASES: {}}
