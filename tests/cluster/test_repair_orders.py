"""`nodeprep repair pause`, `resume`, `approve` and `history --fleet` against a real kube-apiserver."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import nodeprep
from nodeprep.decide import attempt_note, fleet_holds, fleet_notes, repair_orders
from nodeprep.decide.fleet_notes import FleetLease, RepairNote
from nodeprep.publish import fleet_leases
from tests.agent_state_values import agent_state, past
from tests.cli.program import nodeprep as run_nodeprep
from tests.cluster.accounts import account
from tests.cluster.fleet import LEASES, NODES, POOL, few_nodes
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "daemonset/components/repair/leases.yaml"
PAGE = ROOT / "docs/repair.md"
FLEET = f"{LEASES}/{fleet_holds.FLEET}"
PAUSE, APPROVE = repair_orders.PAUSE, repair_orders.APPROVE
HOUR = 3600.0
SLACK = 300.0  # seconds that a busy machine may take from an order to the look at it
# A remedy of class S3, which this version does not ship.
FIRMWARE = """
- name: Load the firmware of a NIC
  hosts: all
  gather_facts: false
  vars:
    remedy:
      purpose: Loads the firmware of a NIC.
      class: S3
      why: The link goes down for a minute.
      idle: nothing
      by-hand: [load-firmware]
  tasks: []
"""


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[Cluster]:
    """Four Nodes, and the Leases of the manifests: those of other tests are gone."""
    assert cluster.call("DELETE", LEASES)[0] == 200
    with few_nodes(cluster):
        cluster.apply(MANIFEST)
        yield cluster


def repair(cluster: Cluster, *words: str, file: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_nodeprep("repair", *words, KUBECONFIG=str(file or cluster.kubeconfig()), HOME="/nonexistent")


def told(cluster: Cluster, path: str, key: str) -> str | None:
    """What stands in an annotation, None for nothing."""
    found = cluster.call("GET", path)[1]["metadata"].get("annotations", {}).get(key)
    return None if found is None else str(found)


def write(cluster: Cluster, path: str, **annotations: str | None) -> None:
    keys = {f"nodeprep.io/{key.replace('__', '.')}": value for key, value in annotations.items()}
    assert cluster.call("PATCH", path, {"metadata": {"annotations": keys}})[0] == 200


def say(cluster: Cluster, node: str, **note: Any) -> None:
    """What the agent of a Node says of repairs, on its Lease."""
    text = fleet_notes.text(RepairNote(**note))
    body = {"metadata": {"annotations": {fleet_notes.NOTE: text}}}
    assert cluster.call("PATCH", f"{LEASES}/agent-{node}", body)[0] == 200


def leases(cluster: Cluster) -> tuple[FleetLease, ...]:
    """As an agent lists them."""
    return tuple(map(fleet_leases.fleet_lease, cluster.call("GET", LEASES)[1]["items"]))


def hindrance(cluster: Cluster, node: str = "fleet-1", remedy: str = "link_up") -> str:
    """What keeps an agent from a remedy now, "" for nothing."""
    found = fleet_holds.hindrance(leases(cluster), node, "port.state/NoSignal", remedy, time.time(), serving=False)
    return "" if found is None else f"{found.reason}: {found.why}"


def test_the_fleet_is_paused_until_it_is_resumed(fleet: Cluster) -> None:
    assert hindrance(fleet) == ""
    shown = repair(fleet, "pause", "--all", "--reason", "switch upgrade", "--dry-run")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == "Lease nodeprep-repair: would write nodeprep.io/pause=switch upgrade\n"
    assert hindrance(fleet) == ""
    done = repair(fleet, "pause", "--all", "--reason", "switch upgrade")
    assert (done.returncode, done.stderr) == (0, "")
    assert "paused (switch upgrade) without an end; nodeprep repair resume --all ends it" in done.stdout
    assert hindrance(fleet).startswith("paused: the fleet (Lease nodeprep-repair) is paused (switch upgrade)")
    done = repair(fleet, "pause", "--all", "--reason", "longer", "--for", "8h")
    assert "; before: (switch upgrade) without an end" in done.stdout
    written = told(fleet, FLEET, PAUSE) or ""
    ends = repair_orders.moment(written.removeprefix("longer;until="))
    assert ends is not None
    assert 0 <= time.time() + 8 * HOUR - ends < SLACK
    assert "is paused (longer) until " in hindrance(fleet)
    done = repair(fleet, "resume", "--all")
    assert (done.returncode, done.stderr) == (0, "")
    assert "resumed; it was paused (longer) until " in done.stdout
    assert (hindrance(fleet), told(fleet, FLEET, PAUSE)) == ("", None)
    assert "was not paused" in repair(fleet, "resume", "--all").stdout


def test_nodes_are_paused_by_name_and_by_label(fleet: Cluster) -> None:
    write(fleet, f"{NODES}/fleet-2", pause="RMA 4711")
    done = repair(fleet, "pause", "-l", f"pool={POOL}", "--reason", "cabling", "--for", "30m")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [f"fleet-{one}" for one in (1, 2, 3, 4)]
    assert "; before: (RMA 4711) without an end; a play" in done.stdout
    texts = {told(fleet, f"{NODES}/fleet-{one}", PAUSE) for one in (1, 2, 3, 4)}
    (text,) = texts
    assert repair_orders.paused(text or "", time.time(), "it").startswith("it is paused (cabling) until ")
    done = repair(fleet, "resume", "fleet-1", "fleet-2")
    assert (done.returncode, done.stderr) == (0, "")
    assert repair(fleet, "resume", "fleet-1").stdout == "fleet-1: was not paused\n"
    assert [told(fleet, f"{NODES}/fleet-{one}", PAUSE) for one in (1, 2, 3, 4)] == [None, None, text, text]


def test_who_resumes_a_node_is_told_that_the_fleet_is_paused(fleet: Cluster) -> None:
    write(fleet, FLEET, pause="upgrade")
    write(fleet, f"{NODES}/fleet-1", pause="mine")
    done = repair(fleet, "resume", "fleet-1")
    assert (done.returncode, done.stdout) == (0, "fleet-1: resumed; it was paused (mine) without an end\n")
    assert "is paused (upgrade) without an end" in done.stderr
    assert done.stderr.endswith("nodeprep repair resume --all ends that\n")


def test_a_remedy_that_is_held_runs_again_after_a_resume(fleet: Cluster) -> None:
    now = time.time()
    for number in (1, 3):
        say(fleet, f"fleet-{number}", unhelpful={"link_up": now - 60})
    say(fleet, "fleet-2", unhelpful={"link_up": now - 30}, held={"link_up": now - 10})
    held = hindrance(fleet)
    assert held.startswith("held: link_up ended without a release on fleet-1, fleet-2, fleet-3")
    command = re.search(r"nodeprep (repair resume .*)$", held)
    assert command is not None
    shown = repair(fleet, *command[1].split()[1:], "--dry-run")
    assert (shown.returncode, hindrance(fleet)) == (0, held)
    done = repair(fleet, *command[1].split()[1:])  # what the message says to run
    assert (done.returncode, done.stderr) == (0, "")
    assert "link_up: resumed; it had not helped by what fleet-1, fleet-2, fleet-3 say." in done.stdout
    assert hindrance(fleet) == ""
    again = repair(fleet, "resume", "--remedy", "link_up", "--remedy", "mtu")
    nothing = "nothing to resume: no node says that it did not help"
    assert (again.returncode, again.stdout) == (0, f"link_up: {nothing}\nmtu: {nothing}\n")
    assert told(fleet, FLEET, f"{fleet_holds.RESUMED}mtu") is None
    say(fleet, "fleet-2", held={"link_up": time.time() + 5})
    assert hindrance(fleet).startswith("held:")  # it failed again since


def test_nodes_whose_clocks_are_ahead_keep_a_remedy_held_and_are_named(fleet: Cluster) -> None:
    for number in (1, 2, 3):
        say(fleet, f"fleet-{number}", unhelpful={"link_up": time.time() + HOUR})
    done = repair(fleet, "resume", "--remedy", "link_up")
    assert done.returncode == 1
    assert "link_up: fleet-2 says that it did not help at " in done.stderr
    assert "mend the clock of fleet-2" in done.stderr
    assert hindrance(fleet).startswith("held:")


def test_a_hold_that_nobody_can_have_seen_yet_holds_nothing(fleet: Cluster) -> None:
    say(fleet, "fleet-2", held={"link_up": time.time() + HOUR})
    assert hindrance(fleet) == ""
    assert "nothing to resume" in repair(fleet, "resume", "--remedy", "link_up").stdout


def test_a_remedy_that_nobody_knows_is_refused(fleet: Cluster) -> None:
    done = repair(fleet, "resume", "--remedy", "linkup")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("--remedy: found 'linkup', wanted one of driver_bind, ")
    say(fleet, "fleet-1", unhelpful={"linkup": time.time() - 60})  # a remedy of an agent of another version
    assert repair(fleet, "resume", "--remedy", "linkup").returncode == 0


@pytest.fixture
def newer(tmp_path: Path) -> dict[str, str]:
    """The environment of an installation that also ships a remedy of class S3."""
    package = Path(nodeprep.__file__).parent
    here = tmp_path / "nodeprep"
    (here / "playbooks").mkdir(parents=True)
    for one in package.iterdir():
        (here / one.name).symlink_to(one)
    for one in (ROOT / "playbooks").iterdir():
        (here / "playbooks" / one.name).symlink_to(one)
    (here / "playbooks/firmware.yml").write_text(FIRMWARE)
    return {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": "/nonexistent"}


FAR = "9999-12-31T23:59:59Z"


def test_a_remedy_of_the_third_class_is_approved(fleet: Cluster, newer: dict[str, str]) -> None:
    def approve(*words: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "nodeprep", "repair", "approve", *words)
        where = {**newer, "KUBECONFIG": str(fleet.kubeconfig())}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=where)

    shown = approve("firmware", "fleet-1", "--dry-run")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("fleet-1: would write nodeprep.io/approve=firmware;until=")
    assert told(fleet, f"{NODES}/fleet-1", APPROVE) is None
    done = approve("firmware", "fleet-1", "fleet-2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "fleet-2: firmware is approved until " in done.stdout
    assert "--allow-s3=firmware (components/repair/remediator.yaml)" in done.stdout
    text = told(fleet, f"{NODES}/fleet-1", APPROVE) or ""
    found = repair_orders.approval(text)
    assert found is not None
    assert 0 <= time.time() + HOUR - found.until < SLACK
    assert repair_orders.unapproved(found, "firmware", "", time.time()) == ""
    assert repair_orders.unapproved(found, "firmware", text, time.time()) != ""  # it counts once
    longest = approve("firmware", "fleet-1", "--for", "168h")
    assert f"it takes the place of '{text}'" in longest.stdout
    longer = approve("firmware", "fleet-1", "--for", "169h")
    assert (longer.returncode, longer.stderr) == (2, "--for: found '169h', wanted at most 168h\n")
    used = repair_orders.approval_text("firmware", time.time() + 2 * HOUR)
    fleet.kubectl("annotate", "node", "fleet-1", f"{repair_orders.APPROVED}={used}")  # as its agent notes it
    again = approve("firmware", "fleet-1")
    assert again.returncode == 0, again.stderr
    found = repair_orders.approval(told(fleet, f"{NODES}/fleet-1", APPROVE) or "")
    assert found is not None
    assert not repair_orders.is_used(found, used), "an hour from now would end before it"
    fleet.kubectl("annotate", "node", "fleet-1", "--overwrite", f"{repair_orders.APPROVED}=firmware;until={FAR}")
    never = approve("firmware", "fleet-1")
    said = (
        f"repair approve: fleet-1: 'firmware;until={FAR}' was used there, and one that ends later is for over 7 days\n"
    )
    assert (never.returncode, never.stderr) == (2, said)
    other = approve("link_up", "fleet-1")
    said = "repair approve: link_up is of class S1 and needs no approval; one of class S3 does: firmware\n"
    assert (other.returncode, other.stderr) == (2, said)
    assert approve("firmware", "fleet-9").stderr == "no Node fleet-9; nodeprep nodes lists them\n"


def test_without_the_component_it_says_what_to_apply(fleet: Cluster) -> None:
    assert fleet.call("DELETE", FLEET)[0] == 200
    says = (
        "no Lease nodeprep-repair in namespace nodeprep: apply components/repair, or --namespace names another place\n"
    )
    for words in (("pause", "--all", "--reason", "x"), ("resume", "--all"), ("resume", "--remedy", "link_up")):
        done = repair(fleet, *words)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", says)


def test_a_selector_that_fits_nobody_may_be_mistyped(fleet: Cluster) -> None:
    for words in (("pause", "--reason", "x"), ("resume",), ("history",)):
        done = repair(fleet, *words, "-l", "typo=x")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "no Node matches --selector 'typo=x'\n")


def test_the_history_of_the_fleet(fleet: Cluster) -> None:
    now = time.time()
    text = attempt_note.text(agent_state(attempts=(past("released", wall=now - 600), past(wall=now - 60))))
    body = {"metadata": {"annotations": {attempt_note.ATTEMPTS: text, PAUSE: "RMA 4711"}}}
    assert fleet.call("PATCH", f"{NODES}/fleet-1", body)[0] == 200
    write(fleet, FLEET, pause="upgrade")
    say(fleet, "fleet-2", trying={"mtu": now - 5})
    spec = {"holderIdentity": "fleet-2", "leaseDurationSeconds": 660, "renewTime": "2026-01-01T00:00:00.000000Z"}
    assert fleet.call("PATCH", f"{LEASES}/nodeprep-slot-0", {"spec": spec})[0] == 200
    done = repair(fleet, "history", "--fleet")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "pause fleet upgrade, without an end" in lines
    assert "pause fleet-1 RMA 4711, without an end" in lines
    assert any(line.startswith("nodeprep-slot-0 fleet-2 ") and "over" in line for line in lines)
    assert "10 of 11 slots are free" in lines
    assert any(line.startswith("mtu trying fleet-2 ") for line in lines)
    assert [line.rpartition(" ")[2] for line in lines if " fleet-1 link_up " in line] == ["released", "unreleased"]
    named = json.loads(repair(fleet, "history", "fleet-2", "-o", "json").stdout)
    assert (named["attempts"], list(named["agents"])) == ([], ["fleet-2"])
    assert {(one["kind"], one["for"]) for one in named["orders"]} == {("pause", "fleet")}


def documented_rights() -> list[dict[str, Any]]:
    """The rules that docs/repair.md gives to whoever orders repairs."""
    blocks = re.findall(r"^```yaml\n(apiVersion: rbac.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    objects = [one for block in blocks for one in yaml.safe_load_all(block)]
    return [rule for one in objects if one["kind"] in ("ClusterRole", "Role") for rule in one["rules"]]


def test_the_documented_rights_are_enough_and_each_is_needed(fleet: Cluster) -> None:
    user = account(fleet, "orders-repairs", documented_rights())
    file = fleet.kubeconfig({"token": user})
    say(fleet, "fleet-1", held={"link_up": time.time() - 60})
    before = len(fleet.requests("system:serviceaccount:default:orders-repairs"))
    for words in (
        ("pause", "--all", "--reason", "x"),
        ("resume", "--all"),
        ("pause", "fleet-1", "--reason", "x"),
        ("resume", "fleet-1"),
        ("resume", "--remedy", "link_up"),
        ("history", "--fleet"),
    ):
        done = repair(fleet, *words, file=file)
        assert (done.returncode, done.stderr) == (0, ""), words
    granted = {(verb, rule["resources"][0]) for rule in documented_rights() for verb in rule["verbs"]}

    def used() -> set[tuple[str, str]]:
        asked = fleet.requests("system:serviceaccount:default:orders-repairs")[before:]
        return {(one.split()[0], "leases" if "/leases" in one else "nodes") for one in asked}

    until(lambda: used() >= granted, "a request for each right in the log")
    assert used() == granted


def test_who_may_not_is_told_so(fleet: Cluster) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]},
    ]
    file = fleet.kubeconfig({"token": account(fleet, "repairs-reads-all", rules)})
    for words in (("pause", "--all", "--reason", "x"), ("pause", "fleet-1", "--reason", "x")):
        done = repair(fleet, *words, file=file)
        assert (done.returncode, done.stdout) == (1, "")
        assert "HTTP 403" in done.stderr
    blind = fleet.kubeconfig({"token": account(fleet, "repairs-reads-nodes", rules[:1])})
    for order in (("pause", "--all", "--reason", "x"), ("resume", "--remedy", "link_up"), ("history", "--fleet")):
        done = repair(fleet, *order, file=blind)
        assert done.returncode == 3
        assert "cannot look at the Leases of namespace nodeprep: " in done.stderr
    write(fleet, f"{NODES}/fleet-1", pause="x")
    done = repair(fleet, "resume", "fleet-1", file=blind)
    assert (done.returncode, "whether the whole fleet is paused is not known" in done.stderr) == (1, True)


def test_a_pause_ends_by_itself(fleet: Cluster) -> None:
    assert repair(fleet, "pause", "--all", "--reason", "a" * 256, "--for", "1s").returncode == 0
    until(lambda: hindrance(fleet) == "", "the pause is over")
