"""Agents of nodes with tokens that are bound to pods, as the kubelet gets them, and who checks policies."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.doors.kube.writer import ApiWriter
from nodeprep.publish import admission_policy
from nodeprep.publish.node_writing import WriteRequest
from nodeprep.publish.side_writes import SideWrites
from tests.admission_policy_writes import (
    DENIED,
    ELSE,
    ENDLESS,
    FLEET,
    LASTS,
    LEASES,
    MERGE,
    MINE,
    NAMES,
    NAMESPACE,
    NEW_NODES,
    NODE,
    NODES,
    OTHER,
    OTHERS,
    OVER,
    PAUSE,
    SLOT,
    Write,
    fresh,
    lease,
    node,
    said,
    taints,
)
from tests.cluster.accounts import await_right
from tests.rigs.cluster import Cluster
from tests.rigs.cluster_client import ANSWER_SECONDS
from tests.rigs.waiting import until

Answer = tuple[int, dict[str, Any]]
Send = Callable[..., Answer]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = admission_policy.ServiceAccount()
SOON = 30.0  # seconds for what takes one where nothing else runs
PAUSED = said(PAUSE, "upgrade")
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
# More than the manifests grant, so that nothing but the admission policy is in the way.
GRANTED = [
    {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["*"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
]


def sender(cluster: Cluster, token: str = "", certificate: Path | None = None) -> Send:
    """A client that shows a token or a certificate."""

    def send(method: str, path: str, body: object = None, kind: str = MERGE) -> Answer:
        context = ssl.create_default_context(cafile=cluster.authority)
        if certificate is not None:
            context.load_cert_chain(certificate.with_suffix(".crt"), certificate.with_suffix(".key"))
        link = http.client.HTTPSConnection("127.0.0.1", cluster.port, timeout=ANSWER_SECONDS, context=context)
        headers = {"Content-Type": kind if method == "PATCH" else "application/json"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        try:
            link.request(method, path, json.dumps(body) if body else None, headers)
            answer = link.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            link.close()

    return send


def account(cluster: Cluster, name: str) -> None:
    """A service account that RBAC lets do everything to Nodes and Leases."""
    cluster.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})
    cluster.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": GRANTED})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name}
    cluster.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    await_right(cluster, f"system:serviceaccount:{NAMESPACE}:{name}", GRANTED)


def bound_token(cluster: Cluster, on: str, name: str = ACCOUNT.name) -> str:
    """The token of a pod that runs on a node, as the kubelet asks for it."""
    spec = {"nodeName": on, "serviceAccountName": name, "containers": [{"name": "agent", "image": "agent"}]}
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    pod = cluster.create(pods, {"metadata": {"generateName": f"{name}-"}, "spec": spec})["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
    code, made = cluster.call("POST", path, {"spec": {"boundObjectRef": bound}})
    assert code < 300, made
    return str(made["status"]["token"])


def agent(cluster: Cluster, on: str, name: str = ACCOUNT.name) -> Send:
    return sender(cluster, bound_token(cluster, on, name))


def enforce_policies(cluster: Cluster) -> None:
    """Two Nodes, all kinds of Leases, the agents' account, and the admission policy in force."""
    cluster.namespace(NAMESPACE)
    account(cluster, ACCOUNT.name)
    for name in (NODE, OTHER):
        cluster.create(NODES, node(name))
        cluster.call("PATCH", f"{NODES}/{name}", taints(ELSE))  # the server has added one: the node is not ready
    slots: dict[str, dict[str, Any]] = {
        SLOT: {},
        LASTS: lease(OTHER, seconds=3600),
        ENDLESS: lease(OTHER, None, None),
        OVER: lease(OTHER, renewed=3600),
        MINE: lease(NODE, 30, seconds=600),
        NEW_NODES: {},
        FLEET: {},
        OTHERS: lease("third"),
    }
    for path, spec in slots.items():
        metadata = {"name": path.rpartition("/")[2], **(PAUSED["metadata"] if path == FLEET else {})}
        cluster.create(f"{LEASES}?fieldManager=operator", {"metadata": metadata, "spec": spec})
    for one in admission_policy.admission_policies(NAMES, ACCOUNT):
        cluster.create(f"{ADMISSION}/{PLURALS[one['kind']]}", one)
    probe, asked = agent(cluster, NODE), [one for one in DENIED if one.why in ("another value", "without an end")]
    until(lambda: all(is_denied(probe, write) for write in asked), "the policies are in force")


def tried(send: Send, write: Write) -> Answer:
    return send(write.method, f"{write.path}?dryRun=All", fresh(write.body), write.kind)


def is_denied(send: Send, write: Write) -> bool:
    code, told = tried(send, write)
    return code == 422 and f"denied request: {admission_policy.RULE}{write.rule}" in told["message"]


def side_writes_of(policy_enforced: Cluster, token: str, namespace: str = NAMESPACE) -> SideWrites:
    """What tests the admission policy in an agent with this token."""
    who = partial(dict[str, str], Authorization=f"Bearer {token}")
    peer = Peer(f"https://127.0.0.1:{policy_enforced.port}", authority=str(policy_enforced.authority))
    access = ApiAccess(NODE, peer, who, namespace=namespace, connect=SOON, read=SOON)

    @contextmanager
    def connected() -> Iterator[WriteRequest]:
        with ApiWriter(access, SOON) as writer:
            yield writer.request

    return SideWrites(access, 60.0, Random(0), connected, lambda: True)


@contextmanager
def controllers(cluster: Cluster) -> Iterator[None]:
    """The one controller that fills in what the type checker says."""
    flags = ("--controllers=validatingadmissionpolicy-status-controller", "--leader-elect=false", "--secure-port=0")
    command = ("setpriv", "--pdeathsig", "KILL", str(cluster.program), "kube-controller-manager", *flags)
    process = subprocess.Popen(
        (*command, f"--kubeconfig={cluster.kubeconfig()}"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def type_checked(cluster: Cluster, path: str) -> Mapping[str, Any]:
    def checked() -> Mapping[str, Any]:
        status: Mapping[str, Any] = cluster.call("GET", path)[1].get("status", {})
        return status if "observedGeneration" in status else {}

    told: Mapping[str, Any] = until(checked, f"check of {path}")["typeChecking"]
    return told
