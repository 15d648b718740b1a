"""What Kubernetes says of a node: its objects as values, and what is asked for. A real server: tests/cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from nodeprep.codec import Codec
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import cluster_objects, cluster_records, cluster_requests
from nodeprep.facts.kubernetes.cluster import MULTUS, Cluster, EniConfig, ErdmaDevice, Owner, Pod, PodEni, Toleration
from nodeprep.facts.kubernetes.cluster_objects import OddObject
from nodeprep.model import Unreadable, Why, raw
from tests import api_objects as api
from tests.rigs.api_server import Answer, Server, refused, told

EXCLUSIVE = {"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}
V1, TERWAY = "/api/v1", "/apis/network.alibabacloud.com/v1beta1"
PATHS: dict[str, Answer] = {
    f"{V1}/nodes/{api.NODE}": told(api.node()),
    f"{V1}/pods": told({"items": [api.terway_pod(), api.pod()]}),
    f"{TERWAY}/nodes/{api.NODE}": told(api.terway_node()),
    f"{TERWAY}/podenis": told({"items": [api.pod_eni()]}),
    f"{TERWAY}/networkinterfaces/{api.ENI}": told(api.network_interface()),
    f"/apis/network.alibabacloud.com/v1/erdmadevices/{api.NODE}": told(api.erdma_device()),
    f"{V1}/namespaces/kube-system/configmaps/eni-config": told(api.config_map()),
    f"{V1}/namespaces/kube-system/configmaps/pool-a": told(api.config_map("pool-a", {"max_pool_size": 9})),
}


def seen(answers: Mapping[str, Answer] = PATHS, name: str = api.NODE) -> tuple[Cluster | Unreadable, list[str]]:
    """What is observed where a server answers so, and the paths that it was asked for."""
    with Server(answers) as server:
        access = ApiAccess(name, Peer(server.url), dict)
        return cluster_requests.observe(Host(kubernetes=access)), [path.partition("?")[0] for path in server.requests]


def observed(answers: Mapping[str, Answer] = PATHS) -> Cluster:
    found, _ = seen(answers)
    assert isinstance(found, Cluster)
    return found


def test_a_node_of_alibaba_cloud() -> None:
    found, asked = seen()
    assert isinstance(found, Cluster)
    node = found.node
    assert (node.name, node.address, node.provider_id) == (api.NODE, "192.168.0.117", "cn-hangzhou.i-bp1node")
    assert (node.capacity["aliyun/eni"], node.allocatable["cpu"]) == ("7", "63")
    assert node.limit("EniQuantity") == 8
    assert node.limit("EniTotalQuantity") is None
    assert node.annotations == {"alibabacloud.com/instance-type-info": '{"EniQuantity": 8, "EriQuantity": 2}'}
    (condition,) = node.conditions
    assert (condition.type, condition.status) == ("SufficientIP", "True")
    assert condition.age is not None
    assert 115 < condition.age < 7200  # the objects are as old as this module, which a whole run imports early
    assert len(asked) == 6


def test_pods() -> None:
    terway, client = observed().pods
    assert (client.where, client.phase, client.ready, client.host_network) == (
        "default/client-b6989bf87-2bgtc",
        "Running",
        True,
        False,
    )
    assert client.addresses == ("192.168.0.134", "fd00::86")
    assert client.requests == {"aliyun/eni": 2, "rdma/hca": 1000}
    assert client.annotations == {"k8s.aliyun.com/pod-eni": "true"}
    (running,) = client.containers
    assert (running.state, running.message) == ("running", "")
    init, daemon = terway.containers
    assert (terway.host_network, terway.ready) == (True, False)
    assert (init.name, init.init, init.restarts) == ("terway-init", True, 4)
    assert (init.state, init.message) == ("waiting: CrashLoopBackOff", "Error: ipvlan is unsupported\n")
    assert (daemon.state, daemon.message) == ("waiting: PodInitializing", "")


def test_what_a_pod_bears_and_who_makes_it_anew() -> None:
    told = api.pod()
    told["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "other"},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "plugin", "controller": True},
    ]
    told["spec"]["tolerations"] = [
        {"operator": "Exists"},
        {"key": "a/b", "value": "c", "effect": "NoExecute", "tolerationSeconds": 300},
    ]
    seen = cluster_objects.pod(told)
    assert seen.owner == Owner("apps/v1", "DaemonSet", "plugin")
    assert seen.tolerations == (Toleration("", "Exists", "", ""), Toleration("a/b", "", "c", "NoExecute"))
    assert cluster_objects.pod(api.pod()).owner is None


TOLERATED = [
    # key   operator  value  effect             a/b:NoSchedule whatever its value
    ("a/b", "Exists", "", "NoSchedule", True),
    ("a/b", "Exists", "", "", True),
    ("", "Exists", "", "", True),
    ("", "Exists", "", "NoSchedule", True),
    ("", "Exists", "", "NoExecute", False),
    ("a/c", "Exists", "", "", False),
    ("a/b", "", "c", "", False),
    ("a/b", "Equal", "c", "", False),
    ("a/b", "Gt", "1", "", False),
]


@pytest.mark.parametrize(("key", "operator", "value", "effect", "tolerated"), TOLERATED)
def test_what_a_toleration_tolerates(key: str, operator: str, value: str, effect: str, tolerated: bool) -> None:
    assert Toleration(key, operator, value, effect).tolerates("a/b", "NoSchedule") is tolerated


def mount(volume: str, **more: object) -> dict[str, object]:
    return {"name": volume, "mountPath": f"/{volume}", **more}


def test_where_a_pod_may_write() -> None:
    told = api.pod()
    told["spec"]["volumes"] = [
        {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins/"}},
        {"name": "root", "hostPath": {"path": "/"}},
        {"name": "network", "hostPath": {"path": "/etc/cni/net.d"}},
        {"name": "nobody", "hostPath": {"path": "/opt/cni/bin"}},
        {"name": "own", "emptyDir": {}},
    ]
    told["spec"]["initContainers"] = [
        {"name": "init", "volumeMounts": [mount("root", subPath="opt/cni"), mount("own")]}
    ]
    client, log = told["spec"]["containers"]
    client["volumeMounts"] = [mount("plugins"), mount("root", readOnly=True)]
    log["volumeMounts"] = [mount("network", readOnly=True), mount("plugins", readOnly=False)]
    assert cluster_objects.pod(told).writes == ("/opt/cni", "/var/lib/kubelet/device-plugins")


OPENING = [
    # the container, the host's path that it mounts, why it may open devices
    ({"securityContext": {"privileged": True}}, "", ("privileged",)),
    ({"securityContext": {"privileged": False}}, "", ()),
    ({"volumeMounts": [mount("host")]}, "/dev/infiniband", ("/dev/infiniband",)),
    ({"volumeMounts": [mount("host", readOnly=True)]}, "/dev", ("/dev",)),
    ({"volumeMounts": [mount("host", readOnly=True)]}, "/", ("/",)),
    ({"volumeMounts": [mount("host", subPath="dev/infiniband")]}, "/", ("/dev/infiniband",)),
    ({"volumeMounts": [mount("host")]}, "//dev/", ("/dev",)),
    ({"volumeMounts": [mount("host")]}, "/devices", ()),
    ({"volumeMounts": [mount("host", subPath="var")]}, "/", ()),
    ({}, "/dev", ()),
]


@pytest.mark.parametrize("key", ["containers", "initContainers"])
@pytest.mark.parametrize(("container", "path", "how"), OPENING)
def test_which_pods_may_open_devices(key: str, container: dict[str, Any], path: str, how: tuple[str, ...]) -> None:
    told = api.pod()
    told["spec"]["volumes"] = [{"name": "host", "hostPath": {"path": path}}] if path else []
    told["spec"][key] = [{"name": "one", **container}]
    assert cluster_objects.pod(told).devices == how


def test_what_a_pod_is_given_also_of_containers_that_only_begin() -> None:
    told = api.pod()
    own = cluster_objects.pod(told).requests
    told["spec"]["initContainers"] = [
        {"name": "begins", "resources": {"limits": {"nvidia.com/gpu": "1", "rdma/hca": "1"}}},
        {"name": "also", "resources": {"limits": {"nvidia.com/gpu": "2"}}},
        {"name": "beside", "restartPolicy": "Always", "resources": {"requests": {"aliyun/eni": "1", "cpu": "1"}}},
    ]
    assert cluster_objects.pod(told).requests == {**own, "nvidia.com/gpu": 2, "aliyun/eni": own["aliyun/eni"] + 1}


def test_of_other_networks_of_a_pod_only_that_there_are_some() -> None:
    told = api.pod()
    told["metadata"]["annotations"][MULTUS] = '[{"name": "rail0", "mac": "02:00:00:00:00:01"}]'
    assert cluster_objects.pod(told).annotations == {"k8s.aliyun.com/pod-eni": "true", MULTUS: ""}
    told["metadata"]["annotations"][MULTUS] = ""
    assert MULTUS not in cluster_objects.pod(told).annotations


def test_how_many_resource_claims_a_pod_names() -> None:
    told = api.pod()
    assert cluster_objects.pod(told).claims == 0
    told["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "two"}, {"name": "nic"}]
    assert cluster_objects.pod(told).claims == 2


def test_the_last_words_of_other_peoples_containers_are_not_kept() -> None:
    other = api.terway_pod()
    other["metadata"]["namespace"] = "default"
    assert [one.message for one in cluster_objects.pod(other).containers] == ["", ""]


def test_terways_record() -> None:
    record = observed().terway
    assert record is not None
    (eni,) = record.enis
    assert (record.instance, record.zone, record.labels) == ("i-bp1node", "cn-hangzhou-j", dict.fromkeys(EXCLUSIVE, ""))
    assert record.synced is not None
    assert 55 < record.synced < 7200
    assert (eni.id, eni.mac, eni.status, eni.type) == (api.ENI, "00:16:3e:aa:bb:01", "InUse", "Secondary")
    assert (eni.traffic_mode, eni.primary_address) == ("Standard", "192.168.0.130")
    assert [(one.address, one.primary, one.status, one.pod) for one in eni.addresses] == [
        ("192.168.0.130", True, "Valid", ""),
        ("192.168.0.134", False, "Valid", "default/client-b6989bf87-2bgtc"),
    ]
    assert eni.troubles == ("OperationErr: InvalidVSwitchId",)


def test_enis_of_pods() -> None:
    member = PodEni("default/worker-0", "Bind", "eni-bp1member", "00:16:3e:aa:bb:02", "Member", "eni-bp1trunk")
    assert observed().pod_enis == (member,)
    exclusive = PATHS | {f"{V1}/nodes/{api.NODE}": told(api.node(**EXCLUSIVE))}
    own = PodEni(api.ENI, "Bind", api.ENI, "00:16:3e:aa:bb:01", "Secondary", "")
    assert observed(exclusive).pod_enis == (member, own)
    assert observed(exclusive | {f"{TERWAY}/networkinterfaces/{api.ENI}": refused(404)}).pod_enis == (member,)


def test_enis_that_a_podeni_names_are_asked_for_once() -> None:
    held = api.pod_eni()
    held["spec"]["allocations"][0]["eni"]["id"] = api.ENI
    answers = PATHS | {
        f"{V1}/nodes/{api.NODE}": told(api.node(**EXCLUSIVE)),
        f"{TERWAY}/podenis": told({"items": [held]}),
    }
    found, asked = seen(answers)
    assert isinstance(found, Cluster)
    assert [one.record for one in found.pod_enis] == ["default/worker-0"]
    assert len(asked) == 6


def test_erdma() -> None:
    record = observed().erdma
    assert record is not None
    assert record.jumbo
    assert record.devices == (
        ErdmaDevice("eni-bp1eri", "00:16:3e:aa:bb:03", False, "Failed", "no quota"),
        ErdmaDevice("eni-bp1primary", "00:16:3e:aa:bb:00", True, "", ""),
    )


def test_no_secret_is_kept() -> None:
    found = observed()
    assert found.eni_config is not None
    assert found.eni_config.settings["max_pool_size"] == 5
    assert "SECRET" not in repr(found)


def test_of_the_settings_those_that_checks_ask_for() -> None:
    deep = {
        "ak": "SECRET",
        "enable_erdma": True,
        "security_groups": ["sg-1", {"a": "SECRET"}],
        "vswitches": {"zone-a": ["vsw-1", ["SECRET"]], "zone-b": {"a": "SECRET"}, "zone-c": []},
    }
    config = cluster_records.eni_config(api.config_map("eni-config", deep), None)
    vswitches = {"zone-a": ("vsw-1", True), "zone-b": True, "zone-c": ()}
    assert config.settings == {"enable_erdma": True, "security_groups": ("sg-1", True), "vswitches": vswitches}


MERGES = [
    # base                      patch                        merged (RFC 7396)
    ({"a": 1}, {"a": 2}, {"a": 2}),
    ({"a": 1}, {"a": None}, {}),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
    ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
]


@pytest.mark.parametrize(("base", "patch", "merged"), MERGES)
def test_the_configuration_of_a_pool_is_merged_in(base: object, patch: object, merged: object) -> None:
    assert cluster_records.merged(base, patch) == merged


def test_the_label_names_it() -> None:
    named = PATHS | {f"{V1}/nodes/{api.NODE}": told(api.node(**{"terway-config": "pool-a"}))}
    found, asked = seen(named)
    assert isinstance(found, Cluster)
    assert found.eni_config is not None
    assert found.eni_config.settings["max_pool_size"] == 9
    assert len(asked) == 7
    gone = PATHS | {f"{V1}/nodes/{api.NODE}": told(api.node(**{"terway-config": "pool-b"}))}
    assert observed(gone).eni_config == observed().eni_config


NO_JSON = [
    ('{\n  "a": 1,,\n}', "line 2 column 10: Expecting property name enclosed in double quotes"),
    ('{"a": NaN}', "JSON that nobody can read: too deep, or a number too long"),
    ('{"a": 1e999}', "JSON that nobody can read: too deep, or a number too long"),
    ("[1]", "no JSON object"),
    ('{"a":' * 50_000, "JSON that nobody can read: too deep, or a number too long"),
    ("", "line 1 column 1: Expecting value"),
]


@pytest.mark.parametrize(("text", "detail"), NO_JSON)
def test_a_configuration_that_is_no_json(text: str, detail: str) -> None:
    config = cluster_records.eni_config(api.config_map(settings=text), None)
    blind = raw(config)["settings"]
    assert (blind.kind, blind.path) == (Why.MALFORMED, "ConfigMap kube-system/eni-config, eni_conf")
    assert blind.detail == detail


def test_one_without_settings() -> None:
    empty = api.config_map()
    del empty["data"]["eni_conf"]
    assert cluster_records.eni_config(empty, None) == EniConfig("kube-system/eni-config", {})


def test_elsewhere_two_requests_and_no_more() -> None:
    answers = {f"{V1}/nodes/n1": told(api.foreign_node("n1")), f"{V1}/pods": told({"items": [api.pod(on="n1")]})}
    found, asked = seen(answers, "n1")
    assert isinstance(found, Cluster)
    assert asked == [f"{V1}/nodes/n1", f"{V1}/pods"]
    assert (found.terway, found.pod_enis, found.erdma, found.eni_config) == (None, (), None, None)


WHOSE: list[tuple[str, dict[str, str], bool]] = [
    ("cn-hangzhou.i-bp1node", {}, True),
    ("ap-southeast-1.i-t4n", {}, True),
    ("e01-ow037ccv4ux", {}, True),
    ("", {"alibabacloud.com/nodepool-id": "np1"}, True),
    ("", {"k8s.aliyun.com/trunk-on": "eni-1"}, True),
    ("", {}, False),
    ("aws:///us-west-2a/i-0abc", {"node.kubernetes.io/instance-type": "p5"}, False),
    ("gce://project/us-central1-a/gke-node", {"cloud.google.com/gke-nodepool": "a"}, False),
    ("azure:///subscriptions/x", {"notalibabacloud.com/x": "1"}, False),
]


@pytest.mark.parametrize(("provider", "labels", "ours"), WHOSE)
def test_whose_node_it_is(provider: str, labels: dict[str, str], ours: bool) -> None:
    bare = {"metadata": {"name": "n1", "labels": labels}, "spec": {"providerID": provider}}
    assert cluster_objects.node(bare, 0.0).is_alibaba is ours


NARROW = [
    # what may not be read                                           what is unknown then
    (f"{V1}/pods", {"pods"}),
    (f"{TERWAY}/nodes/{api.NODE}", {"terway"}),
    (f"{TERWAY}/podenis", {"pod_enis"}),
    (f"/apis/network.alibabacloud.com/v1/erdmadevices/{api.NODE}", {"erdma"}),
    (f"{V1}/namespaces/kube-system/configmaps/eni-config", {"eni_config"}),
    (f"{V1}/nodes/{api.NODE}", {"node", "terway", "pod_enis", "erdma", "eni_config"}),
]


@pytest.mark.parametrize(("path", "unknown"), NARROW)
@pytest.mark.parametrize(("answer", "kind"), [(refused(403), Why.DENIED), (refused(500), Why.IO_ERROR)])
def test_what_may_not_be_read_spoils_nothing_else(path: str, unknown: set[str], answer: Answer, kind: Why) -> None:
    blind = {name: value for name, value in raw(observed(PATHS | {path: answer})).items() if _is_blind(value)}
    assert set(blind) == unknown
    assert {value.kind for value in blind.values()} == {kind}


def _is_blind(value: object) -> bool:
    return isinstance(value, Unreadable)


def test_without_all_enis_of_pods_none_are_known() -> None:
    exclusive = PATHS | {f"{V1}/nodes/{api.NODE}": told(api.node(**EXCLUSIVE))}
    for path in (f"{TERWAY}/networkinterfaces/{api.ENI}", f"{TERWAY}/nodes/{api.NODE}"):
        assert _is_blind(raw(observed(exclusive | {path: refused(403)}))["pod_enis"])
    named = PATHS | {f"{V1}/nodes/{api.NODE}": told(api.node(**{"terway-config": "pool-a"}))}
    half = observed(named | {f"{V1}/namespaces/kube-system/configmaps/pool-a": refused(403)})
    assert _is_blind(raw(half)["eni_config"])


def test_a_cluster_without_terways_records() -> None:
    bare = {path: answer for path, answer in PATHS.items() if path.startswith(V1) and "configmaps" not in path}
    found = observed(bare)
    assert (found.terway, found.pod_enis, found.erdma, found.eni_config) == (None, (), None, None)


def test_no_such_node() -> None:
    found, asked = seen(PATHS, "n2")
    assert found == Unreadable(Why.MISSING, "Node n2", detail="the cluster has none of this name; see --node")
    assert len(asked) == 1


def test_a_server_that_does_not_know_us_is_asked_once() -> None:
    found, asked = seen({f"{V1}/nodes/{api.NODE}": refused(401)})
    assert isinstance(found, Unreadable)
    assert found.kind is Why.DENIED
    assert len(asked) == 1


ODD: list[tuple[str, Any, str]] = [
    (f"{V1}/nodes/{api.NODE}", {"metadata": {"labels": {"a": 1}}}, "node"),
    (f"{V1}/nodes/{api.NODE}", {"metadata": []}, "node"),
    (f"{V1}/nodes/{api.NODE}", {"status": {"conditions": [1]}}, "node"),
    (f"{V1}/pods", {"items": [{"spec": {"hostNetwork": "yes"}}]}, "pods"),
    (f"{V1}/pods", {"items": [{"status": {"containerStatuses": [{"restartCount": True}]}}]}, "pods"),
    (f"{V1}/pods", {"items": [{"spec": {"tolerations": ["all"]}}]}, "pods"),
    (f"{V1}/pods", {"items": [{"spec": {"volumes": [{"hostPath": "/"}]}}]}, "pods"),
    (f"{V1}/pods", {"items": [{"metadata": {"ownerReferences": [{"controller": "yes"}]}}]}, "pods"),
    (f"{TERWAY}/nodes/{api.NODE}", {"status": {"networkInterfaces": [1]}}, "terway"),
    (f"{TERWAY}/nodes/{api.NODE}", {"status": {"networkInterfaces": {"e": "f"}}}, "terway"),
    (f"{TERWAY}/podenis", {"items": [{"spec": {"allocations": {"a": 1}}}]}, "pod_enis"),
    (f"{TERWAY}/podenis", {"items": [{"spec": {"allocations": ["eni"]}}]}, "pod_enis"),
    (f"/apis/network.alibabacloud.com/v1/erdmadevices/{api.NODE}", {"spec": {"devices": "all"}}, "erdma"),
    (f"{V1}/namespaces/kube-system/configmaps/eni-config", {"data": "all"}, "eni_config"),
]


@pytest.mark.parametrize(("path", "thing", "name"), ODD)
def test_what_is_not_as_its_schema_says(path: str, thing: object, name: str) -> None:
    blind = raw(observed(PATHS | {path: told(thing)}))[name]
    assert isinstance(blind, Unreadable)
    assert blind.kind is Why.MALFORMED


def test_an_empty_object_is_one_without_fields() -> None:
    assert cluster_objects.pod({}) == Pod("", "", "", "", False, False, False, (), {}, {}, {}, ())
    assert cluster_objects.pod({"spec": None, "metadata": {"labels": None}}).labels == {}
    with pytest.raises(OddObject, match=r"above \.spec\.providerID is no object"):
        cluster_objects.node({"spec": "cn-hangzhou.i-SECRET"}, 0.0)


QUANTITIES = [("8", 8), ("1k", 1000), ("2Ki", 2048), ("1M", 10**6), ("0", 0), ("1.5", None), ("500m", None)]
QUANTITIES += [("", None), ("k", None), ("-1", None), ("1e3", None), ("²", None), ("9" * 5000, None), ("1kk", None)]


@pytest.mark.parametrize(("quantity", "number"), QUANTITIES)
def test_whole_quantities(quantity: str, number: int | None) -> None:
    assert cluster_objects.whole(quantity) == number


TIMES = [("2023-11-14T22:13:20Z", 0.0), ("2023-11-14T22:12:20Z", 60.0), ("2023-11-14T23:13:20+01:00", 0.0)]
NO_TIMES: list[tuple[str, float | None]] = [("", None), ("0001-01-01T00:00:00Z", None), ("soon", None)]
LATER: list[tuple[str, float | None]] = [("2033-11-14T22:13:20.123456Z", 0.0)]


@pytest.mark.parametrize(("time", "seconds"), [*TIMES, *NO_TIMES, *LATER])
def test_ages(time: str, seconds: float | None) -> None:
    assert cluster_objects.age(time, 1_700_000_000.0) == seconds


MOMENTS: list[tuple[object, float | None]] = [
    ("2023-11-14T22:13:20Z", 1_700_000_000.0),
    ("2023-11-14T22:13:20.5Z", 1_700_000_000.5),
    ("2023-11-14T22:13:20", 1_700_000_000.0),  # UTC, whatever the time zone of this machine
    ("2033-11-14T22:13:20Z", 2_015_619_200.0),
    ("0001-01-01T00:00:00Z", None),
    ("soon", None),
    (None, None),
    (7, None),
]


@pytest.mark.parametrize(("time", "seconds"), MOMENTS)
def test_moments(time: object, seconds: float | None) -> None:
    assert cluster_objects.moment(time) == seconds


def test_a_snapshot_keeps_all_of_it() -> None:
    codec = Codec((Cluster,), 1)
    found = observed()
    text = codec.dumps(found, by="test")
    assert "SECRET" not in text
    assert codec.loads(Cluster, text)[0] == found
    assert json.loads(text)
