"""Service accounts that may do something and no more."""

from __future__ import annotations

from typing import Any

from tests.rigs.cluster import ALIBABA, Cluster
from tests.rigs.waiting import until

V1, RBAC = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
# What nodeprep's account may do: what README and docs say that it needs.
RULES = [
    {"apiGroups": [""], "resources": ["nodes", "configmaps"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [ALIBABA], "resources": ["nodes", "networkinterfaces", "erdmadevices"], "verbs": ["get"]},
    {"apiGroups": [ALIBABA], "resources": ["podenis"], "verbs": ["list"]},
]


def account(cluster: Cluster, name: str, rules: list[dict[str, Any]] | None = None) -> str:
    """The token of a new service account that may do what `rules` say."""
    cluster.create(f"{V1}/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    cluster.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules or []})
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    cluster.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    await_right(cluster, f"system:serviceaccount:default:{name}", rules or [])
    return cluster.token("default", name)


def remove(cluster: Cluster, name: str) -> None:
    """Deletes what `account` made."""
    for path in (f"{V1}/namespaces/default/serviceaccounts", f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"):
        cluster.call("DELETE", f"{path}/{name}")


def await_right(cluster: Cluster, user: str, rules: list[dict[str, Any]]) -> None:
    """Returns when the server knows of a role with these rules, which it hears of some moments after it was bound."""
    if not rules:
        return
    last = rules[-1]
    resource, _, subresource = last["resources"][-1].partition("/")
    what = {"group": last["apiGroups"][-1], "resource": resource, "subresource": subresource, "verb": last["verbs"][-1]}
    review = {"spec": {"user": user, "resourceAttributes": what}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    until(lambda: cluster.create(path, review)["status"]["allowed"], f"right of {user}")
