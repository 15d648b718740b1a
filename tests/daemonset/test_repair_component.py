"""What components/repair brings beside the remediator: the fleet's Leases, the right to read them, and the mode."""

from __future__ import annotations

from pathlib import Path

from nodeprep.config import configuration
from nodeprep.decide import fleet_holds, repair_slots
from nodeprep.decide.repair_policy import RepairPolicy
from nodeprep.publish.admission_policy import AGENT_ACCOUNT
from tests.daemonset.manifests import ROOT, Object, combined, of, rendered

POLICY = RepairPolicy()
AGENTS = {"kind": "ServiceAccount", "name": AGENT_ACCOUNT.name, "namespace": AGENT_ACCOUNT.namespace}


def brought(directory: Path, *components: str) -> list[Object]:
    """The objects that these components add to the base."""
    before = rendered(ROOT / "base")
    return [one for one in combined(directory, [ROOT / "base"], *components) if one not in before]


def test_the_leases_are_those_that_the_code_asks_for(tmp_path: Path) -> None:
    leases = of(brought(tmp_path, "repair"), "Lease")
    slots = (*repair_slots.names(POLICY, serving=True), *repair_slots.names(POLICY, serving=False))
    assert sorted(one["metadata"]["name"] for one in leases) == sorted((fleet_holds.FLEET, *slots))
    assert {one["metadata"]["namespace"] for one in leases} == {AGENT_ACCOUNT.namespace}


def test_an_apply_states_nothing_of_a_lease_that_others_write(tmp_path: Path) -> None:
    """A field or annotation that is stated once is taken away by an apply that states it no more."""
    for lease in of(brought(tmp_path, "repair"), "Lease"):
        assert lease.keys() == {"apiVersion", "kind", "metadata"}
        assert lease["metadata"].keys() == {"name", "namespace", "labels"}


def test_it_lets_the_agent_read_the_leases_of_its_namespace_and_no_more(tmp_path: Path) -> None:
    objects = brought(tmp_path, "repair")
    (role,), (binding,) = of(objects, "Role"), of(objects, "RoleBinding")
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == AGENT_ACCOUNT.namespace
    reads = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]}
    assert role["rules"] == [reads]
    assert (binding["roleRef"]["name"], binding["subjects"]) == (role["metadata"]["name"], [AGENTS])
    assert not [one for one in objects if one["kind"].startswith("ClusterRole")]
    assert not of(objects, "ConfigMap")  # the remediator alone changes no mode


def test_without_it_the_agent_reads_no_lease() -> None:
    rules = [rule for role in of(rendered(ROOT / "base"), "Role") for rule in role["rules"]]
    (leases,) = [rule for rule in rules if "leases" in rule["resources"]]
    assert leases["verbs"] == ["create", "patch"]


def test_the_mode_has_a_component_of_its_own(tmp_path: Path) -> None:
    objects = brought(tmp_path, "mode-repair")
    assert sorted(one["kind"] for one in objects) == ["ConfigMap", "DaemonSet"]  # which mounts it, by its new name
    (config,) = of(objects, "ConfigMap")
    assert config["metadata"]["name"].startswith("nodeprep-config-")
    file = tmp_path / "config.yaml"
    file.write_text(config["data"]["config.yaml"])
    settings = configuration.load_settings(str(file), None).agent
    assert settings.mode == "repair"
    assert settings.repair == POLICY
