"""plugin.tolerates-gate: whose pods serve something, and which of them our taints would keep away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeprep import profile_selection
from nodeprep.checks.plugin.tolerates_gate import CHECK, DAEMONSET_TOLERATIONS, GIVEN_ON_HOST_NETWORK, Want
from nodeprep.config import wants
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.document import ConfigError
from nodeprep.decide import taint_toleration
from nodeprep.decide.desired import GatePolicy
from nodeprep.facts.kubernetes.cluster import Owner, Pod, Toleration
from nodeprep.facts.network.cni import Cni
from nodeprep.job_profile import NO_PROFILE
from nodeprep.model import Finding, Unreadable, Why
from nodeprep.values import field_names
from tests.agent_state_values import agent_state
from tests.cluster_values import cluster, pod
from tests.config_files import settings
from tests.values import say, verdicts

UNHEALTHY, BOOTSTRAP = "nodeprep.io/unhealthy", "nodeprep.io/bootstrap"
PLUGINS = "/var/lib/kubelet/device-plugins"
SET = Owner("apps/v1", "DaemonSet", "rdma-shared-dp-ds")
RENAMED = Want(unhealthy_taint="example.com/bad", bootstrap_taint="example.com/new")


def exists(key: str = "", effect: str = "") -> Toleration:
    return Toleration(key, "Exists", "", effect)


BOTH = (exists(UNHEALTHY), exists(BOOTSTRAP))
# What the DaemonSet controller gives each pod of the shared RDMA plugin, which has none of its own.
OF_THE_CONTROLLER = tuple(exists(*one) for one in sorted({*DAEMONSET_TOLERATIONS, GIVEN_ON_HOST_NETWORK}))


def plugin(*tolerations: Toleration, **different: Any) -> Pod:
    """A pod of the shared RDMA plugin."""
    usual: dict[str, Any] = {
        "namespace": "kube-system",
        "name": "rdma-shared-dp-ds-x7k2p",
        "host_network": True,
        "owner": SET,
        "tolerations": tolerations,
        "writes": (PLUGINS, "/var/lib/kubelet/plugins_registry", "/dev"),
    }
    return pod(**(usual | different))


TOLERATIONS: list[tuple[tuple[Toleration, ...], str]] = [
    ((), "warn NotTolerated"),
    (OF_THE_CONTROLLER, "warn NotTolerated"),
    ((exists("nvidia.com/gpu", "NoSchedule"),), "warn NotTolerated"),
    (BOTH, "ok Tolerates"),
    ((*OF_THE_CONTROLLER, *BOTH), "ok Tolerates"),
    ((exists(),), "ok Tolerates"),
    ((exists(effect="NoSchedule"),), "ok Tolerates"),
    ((exists(effect="NoExecute"),), "warn NotTolerated"),
    ((exists(UNHEALTHY, "NoSchedule"), exists(BOOTSTRAP, "NoSchedule")), "ok Tolerates"),
    ((exists(UNHEALTHY, "NoExecute"), exists(BOOTSTRAP)), "warn NotTolerated"),
    ((exists(UNHEALTHY, "PreferNoSchedule"), exists(BOOTSTRAP)), "warn NotTolerated"),
    ((exists(UNHEALTHY),), "warn BootstrapNotTolerated"),
    ((exists(BOOTSTRAP),), "warn NotTolerated"),
    # The taint's value is the reason, so one value will not do; an empty operator is Equal.
    ((Toleration(UNHEALTHY, "Equal", "PortNoSignal", ""), exists(BOOTSTRAP)), "warn NotTolerated"),
    ((Toleration(UNHEALTHY, "", "", ""), exists(BOOTSTRAP)), "warn NotTolerated"),
    ((Toleration(UNHEALTHY, "Gt", "1", ""), exists(BOOTSTRAP)), "warn NotTolerated"),
]


@pytest.mark.parametrize(("tolerations", "says"), TOLERATIONS)
def test_says(tolerations: tuple[Toleration, ...], says: str) -> None:
    assert say(CHECK, cluster(pods=(plugin(*tolerations), pod()))) == says


@pytest.mark.parametrize("tolerations", [row for row, _ in TOLERATIONS])
@pytest.mark.parametrize("want", [Want(), RENAMED, Want(effect="PreferNoSchedule")])
def test_the_agent_does_with_the_taint_what_the_message_says(tolerations: tuple[Toleration, ...], want: Want) -> None:
    (one,) = verdicts(CHECK, cluster(pods=(plugin(*tolerations),)), want=want)
    after = taint_toleration.with_tolerations(
        agent_state(), [Finding(CHECK.id, CHECK.severity, one)], 100.0, full_round=True
    )
    assert after.taint_tolerated is ("no taint is set" not in one.message)


SERVES: list[tuple[tuple[str, ...], bool]] = [
    ((PLUGINS,), True),
    (("/var/lib/kubelet/plugins_registry",), True),
    (("/var/lib/kubelet",), True),  # the SR-IOV device plugin
    (("/var",), True),
    ((f"{PLUGINS}/kubelet.sock",), True),
    (("/opt/cni/bin",), True),
    (("/etc/cni/net.d",), True),
    (("/opt",), True),  # Weave Net
    (("/etc/cni/net.d/multus.d",), True),
    ((), False),
    (("/",), False),
    (("/", "/opt/cni"), True),
    (("/var/lib/kubelet/pod-resources", "/var/lib/kubelet/pods"), False),
    (("/var/lib/kubelet/device-plugins-old",), False),
    (("/etc/cni2", "/dev", "/var/log"), False),
    (("/run/nvidia",), True),  # the GPU operator's driver container
    (("/run/nvidia/driver",), True),
    (("/var/run/nvidia/driver",), True),
    (("/run/nvidia/validations",), False),
    (("/run/mellanox/drivers",), True),  # the network operator's OFED container
    (("/run/mellanox/drivers/usr/src",), True),
    (("/lib/modules",), True),
    (("/lib/modules/6.8.0-45-generic",), True),
    (("/usr/lib/modules",), True),
    (("/run",), False),
    (("/run/containerd", "/var/run/docker.sock"), False),
    (("/lib",), False),
    (("/lib/modules-load.d",), False),
]


@pytest.mark.parametrize(("writes", "serves"), SERVES)
def test_whoever_may_put_something_there_serves(writes: tuple[str, ...], serves: bool) -> None:
    assert say(CHECK, cluster(pods=(plugin(writes=writes),))) == ("warn NotTolerated" if serves else "absent Nothing")


def cni(**different: Any) -> Cni:
    usual: dict[str, Any] = {
        "at": 0.0,
        "directory": "/var/lib/rancher/k3s/agent/etc/cni/net.d",
        "files": (),
        "binaries": (),
        "paths": ("/var/lib/rancher/k3s/data/cni",),
        "kubelet": True,
    }
    return Cni(**(usual | different))


PLACES = [
    ("/var/lib/rancher/k3s/agent/etc/cni/net.d", {}, "warn NotTolerated"),
    ("/var/lib/rancher/k3s/data/cni", {}, "warn NotTolerated"),
    ("/etc/cni/net.d", {}, "absent Nothing"),
    ("/etc/cni/net.d", {"directory": Unreadable(Why.DENIED, "config.toml")}, "warn NotTolerated"),
    ("/opt/cni/bin", {}, "absent Nothing"),
    ("/opt/cni/bin", {"paths": Unreadable(Why.DENIED, "config.toml")}, "warn NotTolerated"),
]


@pytest.mark.parametrize(("path", "different", "says"), PLACES)
def test_networks_lie_where_this_nodes_runtime_looks(path: str, different: dict[str, Any], says: str) -> None:
    assert say(CHECK, cluster(pods=(plugin(writes=(path,)),)), cni(**different)) == says


NOT_MADE_ANEW = [
    (plugin(owner=None), "ok NoController"),
    (plugin(owner=Owner("v1", "Node", "n1")), "ok NoController"),  # static: the kubelet's own
    (plugin(deleted=True), "absent Nothing"),  # whoever was seen before keeps the taint away for a while yet
    (plugin(*BOTH, deleted=True), "absent Nothing"),
    (plugin(phase="Succeeded"), "absent Nothing"),
    (plugin(phase="Failed"), "absent Nothing"),
    (plugin(phase="Pending"), "warn NotTolerated"),
    (plugin(owner=Owner("apps.kruise.io/v1alpha1", "DaemonSet", "p")), "warn NotTolerated"),
    # A tenant's own pods: nothing that they mount opens a gate.
    (plugin(owner=Owner("batch/v1", "Job", "train"), writes=("/opt",)), "ok NoDaemonSet"),
    (plugin(owner=Owner("apps/v1", "ReplicaSet", "p-7c9")), "ok NoDaemonSet"),
    (plugin(owner=Owner("apps/v1", "StatefulSet", "p")), "ok NoDaemonSet"),
    (plugin(*BOTH, owner=Owner("batch/v1", "Job", "train")), "ok NoDaemonSet"),
    (plugin(owner=Owner("batch/v1", "Job", "train"), writes=("/home",)), "absent Nothing"),
]


@pytest.mark.parametrize(("one", "says"), NOT_MADE_ANEW)
def test_only_what_somebody_makes_anew_can_be_kept_away(one: Pod, says: str) -> None:
    assert say(CHECK, cluster(pods=(one,))) == says


def test_a_pod_that_never_ends_keeps_no_taint_away() -> None:
    """The one that came beside it bears the taint; and where none came, the name counts for ten minutes."""
    stuck, new = plugin(deleted=True), plugin(*BOTH, name="rdma-shared-dp-ds-new")
    seen = known = taint_toleration.with_tolerations(agent_state(), _found(plugin()), 100.0, full_round=True)
    assert taint_toleration.with_tolerations(seen, _found(stuck, new), 110.0, full_round=True).taint_tolerated
    for at in (110.0, 400.0, 709.0):
        known = taint_toleration.with_tolerations(known, _found(stuck), at, full_round=True)
        assert not known.taint_tolerated
    for at in (710.0, 720.0):
        known = taint_toleration.with_tolerations(known, _found(stuck), at, full_round=True)
        assert known.taint_tolerated


def _found(*pods: Pod) -> list[Finding]:
    return [Finding(CHECK.id, CHECK.severity, one) for one in verdicts(CHECK, cluster(pods=pods))]


def test_each_pod_is_judged() -> None:
    pods = (plugin(), plugin(*BOTH, name="nvidia-1"), pod())
    assert say(CHECK, cluster(pods=pods)) == "warn NotTolerated; ok Tolerates"
    assert [one.subject.place for one in verdicts(CHECK, cluster(pods=pods))] == [
        "kube-system/rdma-shared-dp-ds-x7k2p",
        "kube-system/nvidia-1",
    ]


def test_a_verdict_names_the_daemonset_whose_pods_come_and_go() -> None:
    alone = Owner("v1", "Node", "n1")
    named = [one.subject.name for one in verdicts(CHECK, cluster(pods=(plugin(), plugin(name="kube-1", owner=alone))))]
    assert named == ["kube-system/rdma-shared-dp-ds", "kube-system/kube-1"]


def test_pods_that_may_not_be_listed_are_not_missing() -> None:
    assert say(CHECK, cluster(pods=Unreadable(Why.DENIED, "pods"))) == "unknown CannotLook"


def test_messages() -> None:
    (alone,) = verdicts(CHECK, cluster(pods=(plugin(*OF_THE_CONTROLLER),)))
    assert alone.message == (
        "kube-system/rdma-shared-dp-ds-x7k2p may write to /var/lib/kubelet/device-plugins and does not tolerate "
        "nodeprep.io/unhealthy:NoSchedule and nodeprep.io/bootstrap:NoSchedule: under it DaemonSet rdma-shared-dp-ds "
        "never makes it anew, so no taint is set. Its pods want tolerations: [{key: nodeprep.io/unhealthy, operator: "
        "Exists}, {key: nodeprep.io/bootstrap, operator: Exists}]: kubectl -n kube-system patch daemonset "
        "rdma-shared-dp-ds --type json -p '"
        '[{"op":"add","path":"/spec/template/spec/tolerations","value":[{"key":"nodeprep.io/unhealthy","operator":'
        '"Exists"},{"key":"nodeprep.io/bootstrap","operator":"Exists"}]}]'
        "'"
    )
    (job,) = verdicts(CHECK, cluster(pods=(plugin(owner=Owner("batch/v1", "Job", "train"), writes=("/opt",)),)))
    assert job.message == (
        "kube-system/rdma-shared-dp-ds-x7k2p may write to /opt; it is of Job train, and only a DaemonSet owes this "
        "very node a pod"
    )
    (half,) = verdicts(CHECK, cluster(pods=(plugin(exists(UNHEALTHY)),)))
    assert half.message.endswith(
        ' -p \'[{"op":"add","path":"/spec/template/spec/tolerations/-","value":{"key":"nodeprep.io/bootstrap",'
        '"operator":"Exists"}}]\''
    )


LISTS = [
    # tolerations                                              on the host's network   its own list is there
    ((), True, False),
    (OF_THE_CONTROLLER, True, False),
    (OF_THE_CONTROLLER, False, True),  # the controller gives network-unavailable to the host's network alone
    ((exists(*min(DAEMONSET_TOLERATIONS)),), False, False),
    ((*OF_THE_CONTROLLER, exists("nvidia.com/gpu", "NoSchedule")), True, True),
    ((Toleration("node.kubernetes.io/not-ready", "Equal", "", "NoExecute"),), True, True),
    ((exists("node.kubernetes.io/not-ready", "NoSchedule"),), True, True),
]


@pytest.mark.parametrize(("tolerations", "host_network", "there"), LISTS)
def test_a_list_that_is_there_is_added_to(tolerations: tuple[Toleration, ...], host_network: bool, there: bool) -> None:
    (one,) = verdicts(CHECK, cluster(pods=(plugin(*tolerations, host_network=host_network),)))
    assert ("tolerations/-" in one.message) is there
    assert ('tolerations","value":[' in one.message) is not there


OWNERS = [
    (SET, ": kubectl -n kube-system patch daemonset rdma-shared-dp-ds --type json"),
    (Owner("apps.kruise.io/v1alpha1", "DaemonSet", "p"), ": kubectl -n kube-system patch daemonset.apps.kruise.io p"),
]


@pytest.mark.parametrize(("owner", "says"), OWNERS)
def test_who_is_to_be_patched(owner: Owner, says: str) -> None:
    (one,) = verdicts(CHECK, cluster(pods=(plugin(owner=owner),)))
    assert says in one.message


NAMES = [
    (RENAMED, BOTH, "warn NotTolerated"),
    (RENAMED, (exists("example.com/bad"), exists("example.com/new")), "ok Tolerates"),
    (RENAMED, (exists("example.com/bad"), exists(BOOTSTRAP)), "warn BootstrapNotTolerated"),
    # It keeps no pod of a DaemonSet away.
    (Want(effect="PreferNoSchedule"), (exists(BOOTSTRAP),), "ok Tolerates"),
    (Want(effect="PreferNoSchedule"), (), "warn BootstrapNotTolerated"),
]


@pytest.mark.parametrize(("want", "tolerations", "says"), NAMES)
def test_the_taints_in_force_count(want: Want, tolerations: tuple[Toleration, ...], says: str) -> None:
    assert say(CHECK, cluster(pods=(plugin(*tolerations),)), want=want) == says


def test_the_defaults_are_those_of_the_gate() -> None:
    gate = GatePolicy()
    assert {name: getattr(Want(), name) for name in field_names(Want)} == {
        name: getattr(gate, name) for name in field_names(Want)
    }
    assert AgentSettings().wanted_of_plugins == {}


def test_the_configuration_names_them(tmp_path: Path) -> None:
    keys = "gate: {unhealthy-taint: example.com/bad, bootstrap-taint: example.com/new, effect: PreferNoSchedule}\n"
    configured = settings(tmp_path, keys)
    in_force = Want("example.com/bad", "example.com/new", "PreferNoSchedule")
    assert wants.wants(configured.over(NO_PROFILE)) == {CHECK.id: in_force}
    assert wants.wants(profile_selection.by_option("rdma-roce", configured).profile)[CHECK.id] == in_force


def test_it_names_them_in_one_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"want\.plugin\.tolerates-gate: .* wanted nothing here: `gate` names"):
        settings(tmp_path, "want: {plugin.tolerates-gate: {effect: NoSchedule}}\n")
