"""The manifests as kubectl's kustomize renders them, and a rig's API server that has what they need."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.rigs import cluster_build
from tests.rigs.absent import cannot_start

ROOT = Path(__file__).resolve().parents[2] / "daemonset"
OVERLAYS = sorted(path.name for path in (ROOT / "overlays").iterdir())
UPSTREAM = Path(__file__).with_name("upstream")
HOST = "/host"
Object = dict[str, Any]


def rendered(directory: Path) -> list[Object]:
    try:
        program = cluster_build.program()
    except cluster_build.CannotStart as reason:
        cannot_start(reason)
    done = subprocess.run((program, "kubectl", "kustomize", directory), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def overlay(name: str) -> list[Object]:
    return rendered(ROOT / "overlays" / name)


def combined(directory: Path, resources: list[Path], *components: str) -> list[Object]:
    """What a user's own overlay in `directory` gives."""
    words = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(one, directory.resolve()) for one in resources],
        "components": [os.path.relpath(ROOT / "components" / one, directory.resolve()) for one in components],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(words))
    return rendered(directory)


def of(objects: list[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def agent(objects: list[Object]) -> tuple[Object, Object]:
    """The pod of the agent's DaemonSet, and its one container."""
    return pod_of(objects, "nodeprep")


def pod_of(objects: list[Object], name: str) -> tuple[Object, Object]:
    """The pod of a DaemonSet, and its one container."""
    (daemonset,) = (one for one in of(objects, "DaemonSet") if one["metadata"]["name"] == name)
    pod = daemonset["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


def mounts(objects: list[Object]) -> dict[str, Object]:
    """What a pod of the agent has of its host: the volume by the path of the node that it shows."""
    pod, container = agent(objects)
    volumes = {one["name"]: one for one in pod["volumes"]}
    shown = (one for one in container["volumeMounts"] if one["mountPath"].startswith(f"{HOST}/"))
    return {one["mountPath"].removeprefix(HOST): volumes[one["name"]] | {"mount": one} for one in shown}
