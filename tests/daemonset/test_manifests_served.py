"""A real API server takes every object of the manifests, and lets the agent do what it does and no more."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import cluster_requests
from nodeprep.facts.kubernetes.cluster import Cluster as Seen
from nodeprep.model import Unreadable, raw
from tests import api_objects
from tests.admission_policy_writes import lease
from tests.cluster.agents import Send, bound_token, sender
from tests.daemonset.manifests import OVERLAYS, ROOT, Object, combined, of, overlay, rendered
from tests.rigs.agent import PROGRAM, Agent
from tests.rigs.cluster import ALIBABA, Cluster
from tests.rigs.waiting import until

V1, NODE = "/api/v1", "cn-hangzhou.192.168.0.117"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLURALS = {"NodeReadinessRule": "nodereadinessrules", "ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
READINESS = Path(__file__).with_name("node_readiness.yaml")
USER = "system:serviceaccount:nodeprep:nodeprep-agent"


def listed(one: Object) -> str:
    """The path of the list that an object belongs to."""
    version, namespace = one["apiVersion"], one["metadata"].get("namespace")
    inside = f"/namespaces/{namespace}" if namespace else ""
    plural = PLURALS.get(one["kind"], f"{one['kind'].lower()}s")
    return f"/{'apis' if '/' in version else 'api'}/{version}{inside}/{plural}"


@pytest.fixture(scope="session")
def served(cluster: Cluster) -> Cluster:
    """The namespace, and the kind of rules that another project brings."""
    cluster.namespace("nodeprep")
    cluster.apply(READINESS)
    rules = "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules"
    until(lambda: cluster.call("GET", rules)[0] == 200, rules)
    return cluster


def tried(cluster: Cluster, one: Object) -> tuple[int, dict[str, Any]]:
    return cluster.call("POST", f"{listed(one)}?dryRun=All&fieldValidation=Strict", one)


def taken(cluster: Cluster, objects: list[Object]) -> None:
    """Every object is one that the server would make, and of a DaemonSet each pod too."""
    for one in objects:
        code, told = tried(cluster, one)
        # The server judges an object before it looks whether there is one of that name, from another test.
        there = code == 409 and told.get("reason") == "AlreadyExists"
        assert code == 201 or there, (one["kind"], one["metadata"]["name"], told.get("message"))
    for daemonset in of(objects, "DaemonSet"):
        template = daemonset["spec"]["template"]
        metadata = {"name": "one", "namespace": daemonset["metadata"]["namespace"], **template["metadata"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        code, told = tried(cluster, pod)
        assert code == 201, told.get("message")


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_api_server_takes_every_object(served: Cluster, name: str) -> None:
    taken(served, overlay(name))


def test_and_those_of_every_component(served: Cluster, tmp_path: Path) -> None:
    taken(
        served, combined(tmp_path, [ROOT / "overlays/ack"], "dra", "gate", "kubelet-books", "lingjun", "node-readiness")
    )


def test_and_of_that_which_needs_a_runtime_class(served: Cluster, tmp_path: Path) -> None:
    """NVIDIA's operator makes the class. Without it the API server refuses the pod."""
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    code, told = served.call("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)
    assert code in (201, 409), told
    taken(served, combined(tmp_path, [ROOT / "base"], "nvml"))


def test_a_misspelt_key_would_be_told(served: Cluster) -> None:
    objects = rendered(ROOT / "base")
    (daemonset,) = of(objects, "DaemonSet")
    daemonset["spec"]["template"]["spec"]["containers"][0]["securtyContext"] = {}
    code, told = tried(served, daemonset)
    assert (code, 'unknown field "spec.template.spec.containers[0].securtyContext"' in told["message"]) == (400, True)


def test_a_rule_that_its_controller_would_refuse_is_told(served: Cluster, tmp_path: Path) -> None:
    (rule,) = of(combined(tmp_path, [ROOT / "base"], "node-readiness"), "NodeReadinessRule")
    rule["spec"]["taint"]["key"] = "nodeprep.io/unhealthy"
    assert tried(served, rule)[0] == 422


@pytest.fixture(scope="session")
def installed(served: Cluster) -> Cluster:
    """The overlay for ACK, a Node with all its records, and another one."""
    served.apply(ROOT / "overlays/ack")
    served.create(f"{V1}/nodes", api_objects.node(NODE))
    served.create(f"{V1}/nodes", api_objects.foreign_node("elsewhere"))
    served.create(f"{V1}/namespaces/default/pods", api_objects.pod(on=NODE))
    served.create(f"{V1}/namespaces/kube-system/configmaps", api_objects.config_map())
    terway = f"/apis/{ALIBABA}/v1beta1"
    served.create(f"{terway}/nodes", api_objects.terway_node(NODE))
    served.create(f"{terway}/namespaces/default/podenis", api_objects.pod_eni(on=NODE))
    served.create(f"/apis/{ALIBABA}/v1/erdmadevices", api_objects.erdma_device(NODE))
    return served


@pytest.fixture(scope="session")
def token(installed: Cluster) -> str:
    return bound_token(installed, NODE)


@pytest.fixture(scope="session")
def send(installed: Cluster, token: str) -> Send:
    return sender(installed, token)


def test_it_may_read_all_that_its_facts_ask_for(installed: Cluster, token: str) -> None:
    peer = Peer(installed.url, authority=str(installed.authority))
    access = ApiAccess(NODE, peer, lambda: {"Authorization": f"Bearer {token}"})
    before = len(installed.requests(USER))

    def reads_all() -> bool:
        found = cluster_requests.observe(Host(kubernetes=access))
        return isinstance(found, Seen) and not [one for one in raw(found).values() if isinstance(one, Unreadable)]

    until(reads_all, "all is read: on a busy machine the server may be late for the agent's own limit of a second")
    assert {one.split()[0] for one in installed.requests(USER)[before:]} == {"get", "list"}


LEASES = "/apis/coordination.k8s.io/v1/namespaces/nodeprep/leases"
EVENT = {
    "metadata": {"name": "gate.1", "namespace": "default"},
    "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    "reason": "GateClosed",
    "message": "mlx5_0/1 is down",
    "type": "Warning",
    "source": {"component": "nodeprep"},
}
OWN_LEASE = {"metadata": {"name": f"agent-{NODE}"}, "spec": lease(NODE)}
CONDITION = {"type": "nodeprep.io/TrainingReady", "status": "False", "reason": "PortDown", "message": ""}
MAY = [
    ("PATCH", f"{V1}/nodes/{NODE}", {"metadata": {"labels": {"nodeprep.io/state": "Unhealthy"}}}),
    ("POST", LEASES, OWN_LEASE),
    ("PATCH", f"{LEASES}/agent-{NODE}", {"spec": {"leaseDurationSeconds": 180}}),
    ("POST", f"{V1}/namespaces/default/events", EVENT),
]


def test_it_may_write_what_the_publisher_writes(send: Send) -> None:
    for method, path, body in MAY:
        code, told = send(method, path, body)
        assert code < 300, (method, path, told)
    strategic = "application/strategic-merge-patch+json"
    code, told = send("PATCH", f"{V1}/nodes/{NODE}/status", {"status": {"conditions": [CONDITION]}}, strategic)
    assert code == 200, told


MAY_NOT = [
    ("GET", f"{V1}/nodes", None),
    ("DELETE", f"{V1}/nodes/{NODE}", None),
    ("PUT", f"{V1}/nodes/{NODE}", {"metadata": {"name": NODE}}),
    ("GET", f"{V1}/namespaces/default/pods/client-b6989bf87-2bgtc", None),
    ("DELETE", f"{V1}/namespaces/default/pods/client-b6989bf87-2bgtc", None),
    ("POST", f"{V1}/namespaces/default/pods/client-b6989bf87-2bgtc/eviction", {"metadata": {"name": "a"}}),
    ("GET", f"{V1}/namespaces/kube-system/secrets/a", None),
    ("GET", f"{V1}/namespaces/default/configmaps/a", None),
    ("GET", f"{V1}/namespaces/nodeprep/secrets", None),
    ("GET", f"{V1}/namespaces/default/events", None),
    ("POST", f"{V1}/namespaces/nodeprep/events", EVENT),
    ("PATCH", f"{V1}/namespaces/default/events/gate.1", {"count": 2}),
    ("GET", LEASES, None),
    ("GET", f"{LEASES}/agent-{NODE}", None),
    ("PUT", f"{LEASES}/agent-{NODE}", OWN_LEASE),
    ("DELETE", f"{LEASES}/agent-{NODE}", None),
    ("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}", None),
    ("POST", f"{V1}/namespaces/nodeprep/serviceaccounts/nodeprep-agent/token", {}),
    ("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/nodeprep-nodes", None),
    ("GET", f"/apis/{ALIBABA}/v1beta1/nodes", None),
]


@pytest.mark.parametrize(("method", "path", "body"), MAY_NOT)
def test_it_may_do_no_more(send: Send, method: str, path: str, body: object) -> None:
    assert send(method, path, body)[0] == 403


Right = tuple[str, str, str, str]  # namespace, "" for all; group; resource; verb


def granted(objects: list[Object]) -> set[Right]:
    found: set[Right] = set()
    for role in (*of(objects, "ClusterRole"), *of(objects, "Role")):
        for rule in role["rules"]:
            every = product(rule["apiGroups"], rule["resources"], rule["verbs"])
            found |= {(role["metadata"].get("namespace", ""), *one) for one in every}
    return found


def used(asked: str) -> Right:
    """The right that a request of the audit log needs."""
    verb, path = asked.partition("?")[0].split()
    kind, *words = path.strip("/").split("/")
    group, words = ("", words[1:]) if kind == "api" else (words[0], words[2:])
    namespace, words = (words[1], words[2:]) if words[0] == "namespaces" else ("", words)
    return namespace, group, "/".join(words[::2]), verb


def test_every_right_is_used(installed: Cluster, tmp_path: Path) -> None:
    """By a real agent in its first minutes; the test of its admission policy, a dry run, is no use."""
    name = "exclusive"
    installed.create(f"{V1}/nodes", api_objects.node(name, **{"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}))
    installed.create(f"/apis/{ALIBABA}/v1beta1/nodes", api_objects.terway_node(name))
    file = installed.kubeconfig({"token": bound_token(installed, name)})
    before = len(installed.requests(USER))

    def asked() -> set[Right]:
        return {used(one) for one in installed.requests(USER)[before:] if "dryRun" not in one}

    wanted = granted(overlay("ack"))
    with Agent(tmp_path, program=(*PROGRAM, "--kubeconfig", str(file), "--node", name)):
        try:
            until(lambda: wanted <= asked(), "a request for each right")
        except TimeoutError:
            raise AssertionError(f"granted and not used: {wanted - asked()}") from None
        assert asked() == wanted


def test_the_admission_policy_of_the_manifests_is_in_force(send: Send) -> None:
    until(
        lambda: send("PATCH", f"{V1}/nodes/{NODE}?dryRun=All", {"spec": {"unschedulable": True}})[0] == 422,
        "an admission policy",
    )
    own, other = {"metadata": {"labels": {"team": "a"}}}, {"metadata": {"labels": {"nodeprep.io/state": "Ready"}}}
    for path, body, rule in ((NODE, own, "labels"), ("elsewhere", other, "own-node")):
        code, told = send("PATCH", f"{V1}/nodes/{path}?dryRun=All", body)
        assert (code, told["message"].rpartition(" ")[2]) == (422, f"nodeprep:{rule}")
