"""The API server's door and the fact Cluster against a real kube-apiserver."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli import kubernetes_access
from nodeprep.cli.kubernetes_access import ClusterOptions
from nodeprep.doors.kube import reader
from nodeprep.doors.kube.reader import ApiAccess, ApiReader
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import cluster_requests
from nodeprep.facts.kubernetes.cluster import Cluster as Seen
from nodeprep.model import Unreadable, Why, raw
from nodeprep.values import replace
from tests import api_objects
from tests.cluster.accounts import RULES, account
from tests.cluster.agents import SOON
from tests.rigs.cluster import ALIBABA, Cluster
from tests.rigs.waiting import until

V1 = "/api/v1"
TERWAY = f"/apis/{ALIBABA}/v1beta1"
SILENCE = 2.0  # seconds
SLACK = 60.0  # seconds that a busy machine may take longer


@pytest.fixture(scope="session")
def filled(cluster: Cluster) -> Cluster:
    """The node of tests/api_objects with all its records, and another that has none."""
    cluster.create(f"{V1}/nodes", api_objects.node())
    cluster.create(f"{V1}/nodes", api_objects.foreign_node("n1"))
    cluster.create(f"{V1}/namespaces/default/pods", api_objects.pod())
    cluster.create(f"{V1}/namespaces/default/pods", api_objects.pod("elsewhere", on="n1"))
    cluster.create(f"{V1}/namespaces/kube-system/pods", api_objects.terway_pod())
    cluster.create(f"{V1}/namespaces/kube-system/configmaps", api_objects.config_map())
    cluster.create(f"{TERWAY}/nodes", api_objects.terway_node())
    cluster.create(f"{TERWAY}/namespaces/default/podenis", api_objects.pod_eni())
    cluster.create(f"{TERWAY}/namespaces/default/podenis", api_objects.pod_eni("worker-9", on="n1"))
    cluster.create(f"{TERWAY}/networkinterfaces", api_objects.network_interface())
    cluster.create(f"/apis/{ALIBABA}/v1/erdmadevices", api_objects.erdma_device())
    return cluster


def reached(cluster: Cluster, node: str = api_objects.NODE, file: Path | None = None) -> ApiAccess:
    access = kubernetes_access.access(ClusterOptions(str(file or cluster.kubeconfig()), None, node), {})
    assert access is not None
    return access


def observe(cluster: Cluster, node: str = api_objects.NODE, file: Path | None = None) -> Seen | Unreadable:
    return in_time(patient(reached(cluster, node, file)))


def in_time(access: ApiAccess) -> Seen | Unreadable:
    return looks(access)[-1]


def looks(access: ApiAccess) -> list[Seen | Unreadable]:
    """Looks until one had the time that it takes: on a busy machine the answers may be later than one waits."""
    found = list[Seen | Unreadable]()

    def looked() -> bool:
        found.append(cluster_requests.observe(Host(kubernetes=access)))
        told = [found[-1], *(raw(found[-1]).values() if isinstance(found[-1], Seen) else ())]
        return not any(isinstance(one, Unreadable) and one.kind is Why.TIMEOUT for one in told)

    until(looked, "answers in time")
    return found


def patient(access: ApiAccess) -> ApiAccess:
    """A busy machine is no silent server."""
    return replace(access, connect=SOON, read=SOON)


def test_all_that_it_knows_of_a_node(filled: Cluster) -> None:
    found = observe(filled)
    assert isinstance(found, Seen)
    assert not [value for value in raw(found).values() if isinstance(value, Unreadable)]
    assert (found.node.provider_id, found.node.address) == ("cn-hangzhou.i-bp1node", "192.168.0.117")
    assert found.node.uid
    (condition,) = [one for one in found.node.conditions if one.type == "SufficientIP"]
    assert condition.age is not None
    assert 100 < condition.age < 900
    assert {pod.where for pod in found.pods} == {"default/client-b6989bf87-2bgtc", "kube-system/terway-eniip-x7k2p"}
    assert found.terway is not None
    assert [eni.id for eni in found.terway.enis] == [api_objects.ENI]
    assert [held.record for held in found.pod_enis] == ["default/worker-0"]
    assert found.erdma is not None
    assert [device.status for device in found.erdma.devices] == ["Failed", ""]
    assert found.eni_config is not None
    assert found.eni_config.settings["vswitches"] == {"cn-hangzhou-j": ("vsw-bp1first",)}
    assert "ipam_type" not in found.eni_config.settings, "no check asks for it (docs/adr/0032)"
    assert "SECRET" not in repr(found)


def test_with_its_own_account_it_asks_this_and_no_more(filled: Cluster) -> None:
    file = filled.kubeconfig({"token": account(filled, "agent", RULES)})
    everything, elsewhere = (looks(patient(reached(filled, one, file))) for one in (api_objects.NODE, "n1"))
    for found in (everything[-1], elsewhere[-1]):
        assert isinstance(found, Seen)
        assert not [value for value in raw(found).values() if isinstance(value, Unreadable)]
    name = api_objects.NODE
    asked = filled.requests("system:serviceaccount:default:agent")
    once = len(everything) == len(elsewhere) == 1
    wanted = [
        f"get {V1}/nodes/{name}",
        f"list {V1}/pods?fieldSelector=spec.nodeName%3D{name}&resourceVersion=0",
        f"get {TERWAY}/nodes/{name}",
        f"list {TERWAY}/podenis?labelSelector=k8s.aliyun.com%2Fnode%3D{name}",
        f"get /apis/{ALIBABA}/v1/erdmadevices/{name}",
        f"get {V1}/namespaces/kube-system/configmaps/eni-config",
        f"get {V1}/nodes/n1",
        f"list {V1}/pods?fieldSelector=spec.nodeName%3Dn1&resourceVersion=0",
    ]
    # A busy machine answers late. Then it is asked again, and the server logs a request when it has answered it.
    assert asked == wanted if once else set(asked) == set(wanted)


def test_a_record_that_is_not_there(filled: Cluster) -> None:
    filled.create(f"{V1}/nodes", api_objects.node("bare"))
    found = observe(filled, "bare")
    assert isinstance(found, Seen)
    assert (found.terway, found.pod_enis, found.erdma) == (None, (), None)


def test_enis_of_an_exclusive_node(filled: Cluster) -> None:
    labels = {"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}
    filled.create(f"{V1}/nodes", api_objects.node("exclusive", **labels))
    filled.create(f"{TERWAY}/nodes", api_objects.terway_node("exclusive"))
    found = observe(filled, "exclusive")
    assert isinstance(found, Seen)
    assert [(held.record, held.phase) for held in found.pod_enis] == [(api_objects.ENI, "Bind")]


def test_no_such_node(filled: Cluster) -> None:
    found = observe(filled, "nobody")
    assert found == Unreadable(Why.MISSING, "Node nobody", detail="the cluster has none of this name; see --node")


def test_an_account_that_may_nothing(filled: Cluster) -> None:
    found = observe(filled, file=filled.kubeconfig({"token": account(filled, "stranger")}))
    assert isinstance(found, Seen)
    told = raw(found)
    assert told["node"].kind is Why.DENIED
    assert told["node"].detail == f"HTTP 403: may not; see kubectl auth can-i get nodes/{api_objects.NODE}"
    assert told["pods"].detail == "HTTP 403: may not; see kubectl auth can-i list pods --all-namespaces"


def test_an_account_that_may_not_read_the_records(filled: Cluster) -> None:
    found = observe(filled, file=filled.kubeconfig({"token": account(filled, "half", RULES[:2])}))
    assert isinstance(found, Seen)
    assert found.node.name == api_objects.NODE
    told = {name: value.path for name, value in raw(found).items() if isinstance(value, Unreadable)}
    assert told == {
        "terway": f"nodes.{ALIBABA} {api_objects.NODE}",
        "pod_enis": f"podenis.{ALIBABA}",
        "erdma": f"erdmadevices.{ALIBABA} {api_objects.NODE}",
    }


def test_a_token_that_is_none(filled: Cluster) -> None:
    found = observe(filled, file=filled.kubeconfig({"token": "abc"}))
    detail = "HTTP 401: it does not know who we are; see kubectl auth whoami"
    assert isinstance(found, Unreadable)
    assert (found.kind, found.path, found.detail) == (Why.DENIED, filled.url, detail)


@pytest.fixture
def stranger(filled: Cluster) -> Path:
    """The certificate of another authority."""
    filled.certificate("stranger", "/CN=stranger")
    return filled.directory / "stranger.crt"


def test_an_authority_that_did_not_sign_it(filled: Cluster, stranger: Path) -> None:
    found = observe(filled, file=filled.kubeconfig(cluster={"certificate-authority": str(stranger)}))
    assert isinstance(found, Unreadable)
    assert (found.kind, found.path) == (Why.IO_ERROR, filled.url)
    assert found.detail.startswith("its certificate is not accepted: ")


SERVERS: list[tuple[Mapping[str, Any], bool]] = [
    ({"server": "https://localhost:{port}"}, True),
    ({"tls-server-name": "rig.example"}, True),
    ({"tls-server-name": "other.example"}, False),
    ({"tls-server-name": "other.example", "insecure-skip-tls-verify": True}, True),
    ({"certificate-authority": "/etc/ssl/certs/ca-certificates.crt", "insecure-skip-tls-verify": True}, True),
]


@pytest.mark.parametrize(("words", "answers"), SERVERS)
def test_whom_it_trusts(filled: Cluster, words: Mapping[str, Any], answers: bool) -> None:
    said = {key: value.format(port=filled.port) if isinstance(value, str) else value for key, value in words.items()}
    found = observe(filled, file=filled.kubeconfig(cluster=said))
    assert isinstance(found, Seen) is answers


def test_a_server_that_is_frozen(filled: Cluster) -> None:
    access = reached(filled)
    filled.signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        found = cluster_requests.observe(Host(kubernetes=access))
        assert time.monotonic() - began < 4.5 + SLACK
    finally:
        filled.signal(signal.SIGCONT)
    assert isinstance(found, Unreadable)
    assert (found.kind, found.path) == (Why.TIMEOUT, filled.url)


def test_one_that_freezes_in_the_middle(filled: Cluster) -> None:
    access = replace(patient(reached(filled)), read=SILENCE)
    with ExitStack() as stack:
        # A busy machine may be silent for as long at the first request. Then another connection is made.
        api = until(lambda: one_that_answered(access, stack), "first answer")
        assert api is not None
        filled.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            late = api.list("v1", "pods")
            assert time.monotonic() - began < SILENCE + SLACK
        finally:
            filled.signal(signal.SIGCONT)
    assert isinstance(late, Unreadable)
    assert (late.kind, late.path) == (Why.TIMEOUT, "pods")


def one_that_answered(access: ApiAccess, stack: ExitStack) -> ApiReader | None:
    """Its time is longer than what the silence may take here."""
    api = stack.enter_context(ApiReader(access, 2 * (SILENCE + SLACK)))
    return api if isinstance(api.get("v1", "nodes", api_objects.NODE), dict) else None


@pytest.fixture
def pod_files(filled: Cluster, tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_bytes(filled.authority.read_bytes())
    (tmp_path / "token").write_text(account(filled, f"pod-{time.monotonic_ns()}", RULES))
    return tmp_path


def test_in_a_pod_its_service_account_does(filled: Cluster, pod_files: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(filled.port)}
    found = reader.in_cluster(api_objects.NODE, environment, str(pod_files))
    assert found is not None
    seen = in_time(patient(found))
    assert isinstance(seen, Seen)
    assert seen.node.provider_id == "cn-hangzhou.i-bp1node"
