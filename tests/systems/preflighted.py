"""What `nodeprep preflight` says of a manifest on the rig: for a person, and for a program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.cli.program import nodeprep
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

Object = dict[str, Any]


def preflight(cluster: Cluster, directory: Path, manifest: Mapping[str, Any]) -> tuple[int, str, Object]:
    """Exit code, the page without its line breaks, and the answer for the job as a program reads it.

    It is asked again where this machine stood still, and it could not look.
    """
    file = directory / "job.yaml"
    file.write_text(yaml.safe_dump(dict(manifest), sort_keys=False))
    page, told = (_asked(cluster, "-f", str(file), *more) for more in ((), ("-o", "json")))
    print(page[1])
    document = json.loads(told[1])
    assert page[0] == told[0] == document["exitCode"]
    (answer,) = document["jobs"]
    return page[0], " ".join(page[1].split()), answer


def obstacles(answer: Object, role: str) -> dict[str, list[str]]:
    """By node, in words, what keeps pods of a role away, and what nodeprep knows behind it."""
    (found,) = (one for one in answer["roles"] if one["name"].lower() == role.lower())
    return {
        node["name"]: [f"{one['text']} ({one['behind']})" for one in node["obstacles"]] for node in found["refused"]
    }


def _asked(cluster: Cluster, *words: str) -> tuple[int, str]:
    environment = {"KUBECONFIG": str(cluster.directory / "admin.kubeconfig")}
    said: list[tuple[int, str]] = []

    def asked() -> str:
        done = nodeprep("preflight", *words, **environment)
        said.append((done.returncode, done.stdout))
        return done.stdout

    until(asked, "preflight looks at the cluster")
    return said[-1]
