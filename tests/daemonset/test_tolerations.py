"""components/tolerations: what device plugins look like with it, as kubectl's kustomize applies it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep.checks.plugin.tolerates_gate import CHECK
from nodeprep.facts.kubernetes import cluster_objects
from tests.cluster_values import cluster
from tests.daemonset.manifests import ROOT, UPSTREAM
from tests.rigs import cluster_build
from tests.rigs.absent import cannot_start
from tests.values import say

COMPONENT = ROOT / "components/tolerations"
PLUGINS = sorted(path.name for path in UPSTREAM.glob("*.yaml"))
READINESS = ROOT / "components/node-readiness/rule.yaml"


def kustomized(directory: Path, resource: Path, *components: str) -> list[dict[str, Any]]:
    """The manifest with the component, made in `directory`."""
    try:
        program = cluster_build.program()
    except cluster_build.CannotStart as reason:
        cannot_start(reason)
    own = directory / "plugins"
    own.mkdir()
    shutil.copy(resource, own)
    shutil.copytree(COMPONENT, directory / "tolerations")
    words = {"kind": "Kustomization", "resources": [resource.name], "components": list(components)}
    (own / "kustomization.yaml").write_text(yaml.safe_dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", **words}))
    done = subprocess.run((program, "kubectl", "kustomize", own), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def judged(daemonset: dict[str, Any]) -> str:
    """What the check says of a pod that is made from it."""
    name = daemonset["metadata"]["name"]
    owner = {"apiVersion": daemonset["apiVersion"], "kind": daemonset["kind"], "name": name, "controller": True}
    metadata = {"name": f"{name}-x7k2p", "namespace": "kube-system", "ownerReferences": [owner]}
    pod = {"metadata": metadata, "spec": daemonset["spec"]["template"]["spec"]}
    return say(CHECK, cluster(pods=(cluster_objects.pod(pod),)))


@pytest.mark.parametrize("name", PLUGINS)
def test_each_plugin_tolerates_our_taints_with_it_and_not_without(name: str, tmp_path: Path) -> None:
    (before,) = yaml.safe_load_all((UPSTREAM / name).read_text())
    assert judged(before) == "warn NotTolerated"
    (after,) = kustomized(tmp_path, UPSTREAM / name, "../tolerations")
    assert judged(after) == "ok Tolerates"
    own = before["spec"]["template"]["spec"].get("tolerations", [])
    spec = after["spec"]["template"]["spec"]
    assert spec["tolerations"][: len(own)] == own
    assert spec | {"tolerations": own} == before["spec"]["template"]["spec"] | {"tolerations": own}


def test_they_tolerate_the_taint_of_the_node_readiness_rule_too(tmp_path: Path) -> None:
    """The check does not know that one."""
    taint = yaml.safe_load(READINESS.read_text())["spec"]["taint"]
    for name in PLUGINS:
        (tmp_path / name).mkdir()
        (after,) = kustomized(tmp_path / name, UPSTREAM / name, "../tolerations")
        wanted = {"key": taint["key"], "operator": "Exists"}
        assert after["spec"]["template"]["spec"]["tolerations"].count(wanted) == 1


def test_others_are_left_alone(tmp_path: Path) -> None:
    other = yaml.safe_load((UPSTREAM / "rdma-shared-dp-ds.yaml").read_text())
    other["metadata"]["name"] = "another-plugin"
    file = tmp_path / "another.yaml"
    file.write_text(yaml.safe_dump(other))
    (after,) = kustomized(tmp_path, file, "../tolerations")
    assert judged(after) == "warn NotTolerated"
