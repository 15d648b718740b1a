"""What `nodeprep preflight` says of a manifest on the rig: for a person, and for a program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tests.cli.program import nodeprep
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

Object = dict[str, Any]

SCHEMA = Path(__file__).resolve().parents[2] / "docs/preflight.schema.json"


def preflight(
    cluster: Cluster, directory: Path, manifest: Mapping[str, Any], user: Path | None = None
) -> tuple[int, str, Object]:
    """Exit code, the page without its line breaks, and the answer for the job as a program reads it, by its schema.

    `user` is a kubeconfig, by default the administrator's. It is asked again where this machine stood still, and it
    could not look.
    """
    kubeconfig = user or cluster.directory / "admin.kubeconfig"
    file = directory / "job.yaml"
    file.write_text(yaml.safe_dump(dict(manifest), sort_keys=False))
    page, told = (_asked(kubeconfig, "-f", str(file), *more) for more in ((), ("-o", "json")))
    print(page[1])
    document = json.loads(told[1])
    jsonschema.validate(document, json.loads(SCHEMA.read_text()), cls=jsonschema.Draft202012Validator)
    assert page[0] == told[0] == document["exitCode"]
    (answer,) = document["jobs"]
    return page[0], " ".join(page[1].split()), answer


def refused(answer: Object, role: str) -> dict[str, list[Object]]:
    """By node, what keeps pods of a role away."""
    (found,) = (one for one in answer["roles"] if one["name"].lower() == role.lower())
    return {node["name"]: node["obstacles"] for node in found["refused"]}


def obstacles(answer: Object, role: str) -> dict[str, list[str]]:
    """The same in words, and what nodeprep knows behind it."""
    kept = refused(answer, role)
    return {name: [f"{one['text']} ({one['behind']})" for one in found] for name, found in kept.items()}


def _asked(kubeconfig: Path, *words: str) -> tuple[int, str]:
    environment = {"KUBECONFIG": str(kubeconfig)}
    said: list[tuple[int, str]] = []

    def asked() -> str:
        done = nodeprep("preflight", *words, **environment)
        said.append((done.returncode, done.stdout))
        return done.stdout

    until(asked, "preflight looks at the cluster")
    return said[-1]
