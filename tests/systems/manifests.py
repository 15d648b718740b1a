"""The manifests of docs/jobs, as the rig can run them: another image and command, and less of processors and memory.

All else is as a user submits it: kinds, replicas, selectors, devices, volumes. The rig has no registry, and two
processors. The gang (gangs.py) and the pod with an RDMA device (tests/kubernetes/training.py) fit theirs themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.rigs.cluster_tools import BASE

Object = dict[str, Any]

DIRECTORY = Path(__file__).resolve().parents[2] / "docs/jobs"
SMALL = {"cpu": "50m", "memory": "32Mi"}


def shipped(name: str) -> Object:
    """The manifest docs/jobs/NAME.yaml, the same object each time."""
    found: Object = yaml.safe_load((DIRECTORY / f"{name}.yaml").read_text())
    return found


def fitted(manifest: Mapping[str, Any], commands: Mapping[str, str]) -> Object:
    """A copy whose pods run on the rig. `commands` are the shell's words by role ("Worker"), or by "" for all."""
    made: Object = copy.deepcopy(dict(manifest))
    for role, template in templates(made):
        spec = template["spec"]
        spec["terminationGracePeriodSeconds"] = 0
        for init in spec.get("initContainers", []):
            init |= {"image": BASE, "imagePullPolicy": "Never", "command": ["true"], "resources": {"limits": SMALL}}
        (container,) = spec["containers"]
        limits = container.get("resources", {}).get("limits", {})
        container |= {
            "image": BASE,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", commands.get(role) or commands[""]],
            "resources": {"limits": {**limits, **SMALL}},
        }
    return made


def templates(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Object]]:
    """The pod templates of a job of Kubeflow by their roles."""
    (replicas,) = (value for key, value in manifest["spec"].items() if key.lower().endswith("replicaspecs"))
    for role, spec in replicas.items():
        yield role, spec["template"]
