"""docs/security.md says of each resource whether the agent's account may read and write it, with all components."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import yaml

from tests.daemonset.manifests import ROOT, Object

ACCOUNT = {"kind": "ServiceAccount", "name": "nodeprep-agent", "namespace": "nodeprep"}
READING, WRITING = frozenset({"get", "list", "watch"}), frozenset({"create", "patch"})
# The first cell of each row, and the resources that it means.
ROWS = {
    "Nodes": {"nodes", "nodes/status"},
    "pods": {"pods"},
    "ConfigMaps": {"configmaps"},
    "Terway's and erdma-controller's records, on ACK": {
        "network.alibabacloud.com/nodes",
        "network.alibabacloud.com/networkinterfaces",
        "network.alibabacloud.com/erdmadevices",
        "network.alibabacloud.com/podenis",
    },
    "ResourceSlices, with `components/dra`": {"resource.k8s.io/resourceslices"},
    "Leases in the namespace `nodeprep`": {"coordination.k8s.io/leases"},
    "Events in `default`": {"events"},
    "Secrets": set(),
}


def shipped() -> Iterator[Object]:
    for file in sorted(ROOT.rglob("*.yaml")):
        yield from (one for one in yaml.safe_load_all(file.read_text()) if isinstance(one, dict))


def rights() -> dict[str, set[str]]:
    """What the account may do, as verbs by resource, with all components."""
    objects = [one for one in shipped() if one.get("apiVersion") == "rbac.authorization.k8s.io/v1"]
    bound = {
        (one["roleRef"]["kind"], one["roleRef"]["name"], one["metadata"].get("namespace"))
        for one in objects
        if ACCOUNT in one.get("subjects", ())
    }
    found: dict[str, set[str]] = {}
    for role in objects:
        if (role["kind"], role["metadata"]["name"], role["metadata"].get("namespace")) not in bound:
            continue
        for rule in role["rules"]:
            for group, resource in product(rule["apiGroups"], rule["resources"]):
                found.setdefault(f"{group}/{resource}".removeprefix("/"), set()).update(rule["verbs"])
    return found


def table() -> dict[str, tuple[str, str]]:
    page = (ROOT.parent / "docs/security.md").read_text().partition("\n## In the cluster\n")[2]
    rows = [line.strip("|").split("|") for line in page.partition("\n\nThe token")[0].splitlines() if line[:1] == "|"]
    return {what.strip(): (read.strip(), write.strip()) for what, read, write in rows[2:]}


def test_security_md_has_every_right_of_the_agent() -> None:
    found, told = rights(), table()
    assert found.keys() == {one for resources in ROWS.values() for one in resources}
    assert told.keys() == ROWS.keys()
    for row, resources in ROWS.items():
        verbs = {verb for one in resources for verb in found[one]}
        assert verbs <= READING | WRITING, row
        may_read, may_write = (cell not in {"", "no"} for cell in told[row])
        assert may_read == bool(verbs & READING), row
        assert may_write == bool(verbs & WRITING), row
