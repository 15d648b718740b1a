"""`nodeprep nodes` against a real kube-apiserver: the list, lint, and what may not be read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors.kube.watch import PAGE
from tests.cli.program import nodeprep
from tests.cluster.accounts import account
from tests.cluster.fleet import LEASES, NODES, POOL, RULES, cells, few_nodes, nodes
from tests.rigs.cluster import Cluster


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[Cluster]:
    with few_nodes(cluster):
        yield cluster


def test_the_fleet(fleet: Cluster) -> None:
    done = nodes(fleet, "-l", f"pool={POOL}")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert cells(done.stdout) == [
        ["fleet-1", "Ready", "rdma-roce", "-", "5/8"],
        ["fleet-2", "Unhealthy", "-", "NoSignal", "8/8"],
        ["fleet-3", "Silent", "rdma-roce", "AgentSilent", "8/8"],
        ["fleet-4", "-", "-", "-", "-"],
    ]


def test_by_name_and_for_programs(fleet: Cluster) -> None:
    done = nodes(fleet, "fleet-2", "fleet-1", "-o", "json")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["nodes"]
    assert (first["name"], first["readiness"], first["gpus"]) == ("fleet-1", "ready", {"free": 5, "total": 8})
    assert second["taints"] == ["nodeprep.io/unhealthy=NoSignal:NoSchedule"]


def test_it_asks_for_lists_and_no_more(fleet: Cluster) -> None:
    token = account(fleet, "nodes-reader", RULES)
    done = nodes(fleet, "-l", f"pool={POOL}", file=fleet.kubeconfig({"token": token}))
    assert (done.returncode, done.stderr) == (0, "")
    assert [one.partition("?")[0] for one in fleet.requests("system:serviceaccount:default:nodes-reader")] == [
        "get /apis/apps/v1/namespaces/nodeprep/daemonsets/nodeprep",
        "get /api/v1/namespaces/nodeprep/configmaps/nodeprep-config",
        f"list {NODES}",
        f"list {LEASES}",
        "list /api/v1/pods",
    ]


def test_what_may_not_be_read_is_a_question_mark(fleet: Cluster) -> None:
    file = fleet.kubeconfig({"token": account(fleet, "nodes-only", RULES[:1])})
    done = nodes(fleet, "-l", f"pool={POOL}", file=file)
    assert done.returncode == 0
    assert cells(done.stdout)[0] == ["fleet-1", "Ready?", "rdma-roce", "Ready", "?/8"]
    for may in ("list leases -n nodeprep", "list pods --all-namespaces", "get configmaps/nodeprep-config -n nodeprep"):
        assert f"see kubectl auth can-i {may}" in done.stderr
    # Whether an agent lives is not known, so nobody is promised to be ready.
    assert nodes(fleet, "fleet-1", "--wait", "0", file=file).returncode == 3


def test_who_may_not_list_nodes_sees_nothing(fleet: Cluster) -> None:
    done = nodes(fleet, file=fleet.kubeconfig({"token": account(fleet, "nodes-nobody")}))
    assert (done.returncode, done.stdout) == (3, "")
    assert (
        "cannot look at the fleet: nodes: denied (HTTP 403: may not; see kubectl auth can-i list nodes)" in done.stderr
    )
    stranger = nodes(fleet, file=fleet.kubeconfig({"token": "nobody"}))
    assert stranger.returncode == 3
    assert "HTTP 401" in stranger.stderr
    away = nodes(fleet, file=fleet.kubeconfig(cluster={"server": "https://127.0.0.1:1"}))
    assert away.returncode == 3
    assert "Connection refused" in away.stderr


@pytest.mark.parametrize(
    ("verbs", "denied"),
    [((), True), (("get",), True), (("create",), True), (("get", "create"), False)],
    ids=["nothing", "get", "create", "both"],
)
def test_who_may_not_exec_tries_no_configuration(
    fleet: Cluster, tmp_path: Path, verbs: tuple[str, ...], denied: bool
) -> None:
    """It says which node and which rights, and that no node answered. A WebSocket is a GET, and wants `create` too."""
    name = f"trier-{'-'.join(verbs) or 'nothing'}"
    rights = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": [verb]} for verb in verbs]
    file = fleet.kubeconfig({"token": account(fleet, name, [*RULES, *rights])})
    (tmp_path / "config.yaml").write_text("apiVersion: nodeprep.io/v1\nkind: Config\n")
    with agent_pod(fleet, "fleet-1"):
        done = nodeprep(
            "config", "try", str(tmp_path / "config.yaml"), "fleet-1", KUBECONFIG=str(file), HOME="/nonexistent"
        )
    assert done.returncode == 3, done.stdout + done.stderr
    assert "0 of 1 nodes answered" in done.stdout
    said = "fleet-1: pod nodeprep/agent-of-fleet-1: denied (HTTP 403: may not; see kubectl auth can-i get pods/exec and"
    assert (said in done.stderr) is denied, done.stderr  # who may gets as far as the kubelet, and there is none


@contextmanager
def agent_pod(cluster: Cluster, node: str) -> Iterator[None]:
    """A pod that looks like the agent's, on a Node without a kubelet."""
    labels = {"app.kubernetes.io/name": "nodeprep", "app.kubernetes.io/component": "agent"}
    spec = {"nodeName": node, "containers": [{"name": "agent", "image": "x"}]}
    metadata = {"name": f"agent-of-{node}", "labels": labels}
    path = "/api/v1/namespaces/nodeprep/pods"
    cluster.create(path, {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    try:
        yield
    finally:
        cluster.call("DELETE", f"{path}/agent-of-{node}?gracePeriodSeconds=0")


WRONG = [
    (("nobody",), "no Node nobody; nodeprep nodes lists them"),
    (("N1",), "'N1' is not a name of a Node; see kubectl get nodes"),
    (("-l", "a==b==c"), "--selector 'a==b==c': HTTP 400"),
    (("-l", "a=b", "fleet-1"), "exclude each other"),
    (("--wait", "soon"), "--wait: found 'soon'"),
    (("--wait", "1s", "--watch"), "give one of them"),
    (("--context", "other"), "no context 'other'; it has: rig"),
    (("release",), "nodes release: found neither, wanted Nodes (by name or --selector) or --all"),
    (("release", "--all", "fleet-1"), "nodes release: found both"),
    (("reset",), "nodes reset: found no Node"),
    (("-l", ""), "--selector '': found nothing, wanted labels such as a=b"),
    (("release", "-l", ""), "--selector '': found nothing, wanted labels such as a=b"),
    (("release", "-l", " ", "--dry-run"), "--selector ' ': found nothing, wanted labels such as a=b"),
    (("reset", "-l", ""), "--selector '': found nothing, wanted labels such as a=b"),
    (("-n", ""), "--namespace: found nothing, wanted the name of a namespace, such as nodeprep"),
    (("-n", "a/b"), "--namespace: found 'a/b', wanted the name of a namespace, such as nodeprep"),
    (("lint", "-n", "Typo"), "--namespace: found 'Typo', wanted the name of a namespace, such as nodeprep"),
    (("reset", "fleet-1", "-n", "-a"), "--namespace: found '-a', wanted the name of a namespace, such as nodeprep"),
    (("release", "--all", "-n", "a" * 64), "', wanted the name of a namespace, such as nodeprep"),
]


@pytest.mark.parametrize(("words", "says"), WRONG)
def test_wrong_use_is_one_line(cluster: Cluster, words: tuple[str, ...], says: str) -> None:
    done = nodes(cluster, *words)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_cluster_is_found_as_kubectl_finds_it(fleet: Cluster, tmp_path: Path) -> None:
    whole = json.loads(fleet.kubeconfig().read_text())
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube/config").write_text(json.dumps(whole))
    assert nodeprep("nodes", "fleet-1", KUBECONFIG="", HOME=str(home)).returncode == 0
    # Two files: the contexts of one, the rest of the other, with a certificate beside it; a third is not there.
    authority = Path(whole["clusters"][0]["cluster"]["certificate-authority"])
    (tmp_path / "ca.crt").write_bytes(authority.read_bytes())
    whole["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(json.dumps({"current-context": "rig", "contexts": whole.pop("contexts")}))
    second.write_text(json.dumps({**whole, "current-context": "other"}))
    several = f"{tmp_path}/none:{first}:{second}"
    done = nodeprep("nodes", "fleet-1", KUBECONFIG=several, HOME="/nonexistent")
    assert done.returncode == 0, done.stderr
    nowhere = nodeprep("nodes", KUBECONFIG="", HOME="/nonexistent")
    assert (nowhere.returncode, nowhere.stderr.count("\n")) == (2, 1)
    assert "wanted --kubeconfig FILE" in nowhere.stderr


def test_a_fleet_of_several_pages_and_whose_taints_have_other_names(fleet: Cluster) -> None:
    labels = {"pool": POOL, "many": "yes"}
    for number in range(PAGE + 1):
        fleet.create(NODES, {"metadata": {"name": f"many-{number}", "labels": labels}, "spec": {"taints": [OTHER]}})
    path = "/api/v1/namespaces/nodeprep/configmaps"
    data = {"config.yaml": "gate: {unhealthy-taint: example.com/broken}\nassign: [{use: [none.yaml]}]\n"}
    fleet.create(path, {"metadata": {"name": "nodeprep-config"}, "data": data})
    try:
        done = nodes(fleet, "-l", "many=yes", "-o", "json")
    finally:
        assert fleet.call("DELETE", f"{path}/nodeprep-config")[0] == 200
    found = json.loads(done.stdout)["nodes"]
    assert len(found) == PAGE + 1
    assert {tuple(one["taints"]) for one in found} == {("example.com/broken=x:NoSchedule",)}


OTHER = {"key": "example.com/broken", "value": "x", "effect": "NoSchedule"}


def daemon_set(name: str, tolerations: list[dict[str, str]]) -> dict[str, Any]:
    volume = {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    mount = {"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"}
    spec = {
        "containers": [{"name": "c", "image": "x", "volumeMounts": [mount]}],
        "volumes": [volume],
        "tolerations": tolerations,
    }
    labels = {"matchLabels": {"name": name}}
    template = {"metadata": {"labels": {"name": name}}, "spec": spec}
    return {"metadata": {"name": name}, "spec": {"selector": labels, "template": template}}


def test_lint_and_what_it_says_to_run(fleet: Cluster) -> None:
    path = "/apis/apps/v1/namespaces/kube-system/daemonsets"
    fleet.create(path, daemon_set("lint-plugin", [{"key": "nvidia.com/gpu", "operator": "Exists"}]))
    fleet.create(path, daemon_set("lint-bare", []))
    fleet.create(path, daemon_set("lint-good", [{"operator": "Exists"}]))
    fleet.create(path, daemon_set("lint-half", [{"key": "nodeprep.io/unhealthy", "operator": "Exists"}]))
    try:
        done = nodes(fleet, "lint")
        assert done.returncode == 1, done.stderr
        assert "lint-good" not in done.stdout
        told = done.stdout.split("\n\n")
        said = {name: next(one for one in told if f"/lint-{name}:" in one) for name in ("plugin", "bare", "half")}
        assert [name for name, one in said.items() if "so our taint is not set where one runs" in one] == [
            "plugin",
            "bare",
        ]
        assert "a new Node needs this pod to get ready, and would not get it" in said["half"]
        assert told[-1].startswith("3 of ")
        assert told[-1].endswith("; our taint is not set where pods of 2 of them run (plugin.tolerates-gate)\n")
        assert told.index(said["half"]) > max(told.index(said["plugin"]), told.index(said["bare"]))
        commands = [line.split("or run: ")[1] for line in done.stdout.splitlines() if "or run: " in line]
        ours = [line for line in commands if "lint-" in line]
        assert len(ours) == 3
        kubectl = f'kubectl() {{ {fleet.program} kubectl --kubeconfig {fleet.kubeconfig()} "$@"; }}\n'
        subprocess.run(("bash", "-ec", kubectl + "\n".join(ours)), check=True, capture_output=True)
        again = nodes(fleet, "lint")
        assert "lint-" not in again.stdout
        kept = fleet.call("GET", f"{path}/lint-plugin")[1]["spec"]["template"]["spec"]["tolerations"]
        assert {"key": "nvidia.com/gpu", "operator": "Exists"} in kept
    finally:
        for name in ("plugin", "bare", "good", "half"):
            fleet.call("DELETE", f"{path}/lint-{name}")
