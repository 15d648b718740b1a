"""plugin.allocatable: the six states of capacity, allocatable and hardware, and whose word they rest on."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep import check_round
from nodeprep.checks.plugin.allocatable import CHECK, Want
from nodeprep.config import profile_files
from nodeprep.doors.files.kmsg import KmsgRecord
from nodeprep.facts.expected.inventory import MissingDevice
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine import kernel_log
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.look import Look
from nodeprep.model import Seen, Status, Subject, Unreadable, Why, not_mounted
from tests import cluster_values, values
from tests.gpu_values import bus, information, listing, uuids
from tests.kubelet_values import GPU, allocatable, holding, kubelet, plugins
from tests.values import expected, say, verdicts

HCA, ERDMA, FOO = "rdma/hca", "aliyun/erdma", "example.com/foo"
UNSEEN: Any = not_mounted("/var/lib/kubelet/pod-resources", "daemonset/base/daemonset.yaml")
LATE: Any = Unreadable(Why.TIMEOUT, "/var/lib/kubelet/pod-resources/kubelet.sock", detail="no answer in 1 s")
SERVES = ("/var/lib/kubelet/device-plugins",)
PLUGIN = cluster_values.pod(namespace="gpu", name="plugin-x", writes=SERVES)
WAITS = cluster_values.container(name="wait-ready", init=True)
HELD = cluster_values.pod(namespace="gpu", name="plugin-x", writes=SERVES, phase="Pending", containers=(WAITS,))
RESTART = "plugin_restart(pod=gpu/plugin-x)"
HARDWARE = 8
DRA = "gpu.nvidia.com"
ERI = values.device(name="erdma_0", id="1ded:107f")


def cluster(capacity: dict[str, str], offers: dict[str, str] | None = None, *pods: Any) -> Any:
    return cluster_values.advertising(capacity, offers, pods=pods)


def judged(ids: Any, told: Any, wanted: int = 0, **different: Any) -> str:
    healthy = allocatable({GPU: ids} if ids else {}) if ids is not None else AllocatableDevices(4000.0, True, LATE)
    usual: dict[str, Any] = {"kubelet": kubelet(pods=()), "pci": bus(HARDWARE), "want": None}
    given = usual | different
    hope = expected(profile="hgx", resources={GPU: wanted} if wanted else {})
    return say(CHECK, given["kubelet"], healthy, told, given["pci"], values.rdma(), hope, want=given["want"])


ROWS = [
    # ids          capacity  allocatable  wanted  says
    (uuids(8), "8", "8", 8, "ok All"),
    (uuids(8), "8", "8", 0, "ok All"),
    (None, "8", "8", 8, "ok All"),
    # absent
    ((), None, None, 8, "fail NotAdvertised"),
    (None, None, None, 8, "fail NotAdvertised"),
    ((), None, None, 0, "absent Nothing"),
    # 0/0
    ((), "0", "0", 8, f"fail NothingLeft {RESTART}"),
    ((), "0", "0", 0, "absent Nothing"),  # a plugin that somebody removed
    # N/0
    ((), "8", "0", 8, "fail NoneHealthy"),
    ((), "8", "8", 8, "fail NoneHealthy"),  # the Node is 10 s late
    (None, "8", "0", 0, "warn NoneHealthy"),
    # N/M
    (uuids(7), "8", "7", 8, "fail SomeUnhealthy"),
    (uuids(7), "8", "8", 8, "fail SomeUnhealthy"),
    (uuids(7), "8", "7", 7, "warn SomeUnhealthy"),
    (uuids(7), "8", "7", 0, "warn SomeUnhealthy"),
    (None, "8", "7", 8, "fail SomeUnhealthy"),
    # N below the hardware
    (uuids(7), "7", "7", 8, "fail AliveNotAdvertised"),
    (uuids(7), "7", "7", 7, "warn AliveNotAdvertised"),
    (uuids(7), "7", "7", 0, "warn AliveNotAdvertised"),
    # N above the hardware
    (uuids(9), "9", "9", 8, "fail AdvertisedButDead"),
    (uuids(9), "9", "9", 0, "fail AdvertisedButDead"),
    (uuids(8, 4), "32", "32", 32, "ok Shared"),
    (("MIG-a", "MIG-b", *map("MIG-{}".format, range(54))), "56", "56", 56, "ok Shared"),
    (None, "32", "32", 8, "ok Shared"),  # without ids nobody can say
    (uuids(9, 4), "36", "36", 8, "fail AdvertisedButDead"),
    # as the hardware, and the profile wants more
    (uuids(8), "8", "8", 32, "fail TooFew"),
]


@pytest.mark.parametrize(("ids", "capacity", "offers", "wanted", "says"), ROWS, ids=range(len(ROWS)))
def test_the_six_states(ids: Any, capacity: Any, offers: Any, wanted: int, says: str) -> None:
    told = [{GPU: one} if one is not None else {} for one in (capacity, offers)]
    assert judged(ids, cluster(*told, PLUGIN), wanted) == says


def test_a_missing_gpu_is_not_mended_by_a_restart() -> None:
    told = cluster({GPU: "0"}, None, PLUGIN)
    assert judged((), told, 8, pci=bus(0)) == "fail NothingLeft"
    assert judged((), told, 8, pci=bus(8)) == f"fail NothingLeft {RESTART}"


def test_all_devices_of_another_plugin_are_unhealthy() -> None:
    """Of a GPU plugin an Xid may be the reason, which a restart would hide."""
    hope = expected(resources={FOO: 4, GPU: 8})
    told = cluster({FOO: "4", GPU: "8"}, {FOO: "0", GPU: "0"}, PLUGIN)
    said = say(CHECK, kubelet(), allocatable({}), told, bus(8), values.rdma(), hope)
    assert said == f"fail NoneHealthy {RESTART}; fail NoneHealthy"


EXCUSED = [
    # kubelet began  pods      Node                    says
    (3800.0, (PLUGIN,), ({}, {}), "unknown Starting"),
    (3800.0, (PLUGIN,), ({GPU: "0"}, {GPU: "0"}), "unknown Starting"),
    (3800.0, (PLUGIN,), ({GPU: "8"}, {GPU: "0"}), "unknown Starting"),
    (3600.0, (), ({}, {}), "fail NotAdvertised"),
    (400.0, (HELD,), ({}, {}), "ok HeldByGate"),
    (400.0, (HELD,), ({GPU: "0"}, {GPU: "0"}), "ok HeldByGate"),
    (400.0, (HELD,), ({GPU: "8"}, {GPU: "0"}), "ok HeldByGate"),
    (UNSEEN, (PLUGIN,), ({GPU: "8"}, {GPU: "8"}), "unknown NotMounted"),
    (LATE, (PLUGIN,), ({}, {}), "unknown CannotLook"),
]


@pytest.mark.parametrize(("started", "pods", "told", "says"), EXCUSED, ids=range(len(EXCUSED)))
def test_plugins_that_may_still_register(started: Any, pods: Any, told: Any, says: str) -> None:
    assert judged((), cluster(*told, *pods), 8, kubelet=kubelet(started=started, pods=())) == says


def test_a_kubelet_that_began_lately_excuses_no_dead_device() -> None:
    began = kubelet(started=3990.0, pods=())
    assert judged(uuids(8), cluster({GPU: "8"}), 8, kubelet=began, pci=bus(7)) == "fail AdvertisedButDead"


RDMA = [
    # ids                               devices  per device  says
    ({HCA: tuple(map(str, range(63)))}, (ERI,), {}, "ok Shared"),
    ({HCA: tuple(map(str, range(63)))}, (), {}, "fail AdvertisedButDead"),
    ({ERDMA: tuple(f"erdma_0/{one}" for one in range(200))}, (ERI,), {}, "ok Shared"),
    ({ERDMA: tuple(f"erdma_0/{one}" for one in range(200))}, (), {}, "fail AdvertisedButDead"),
    ({ERDMA: ("erdma_0/0", "erdma_1/0")}, (ERI,), {}, "fail AdvertisedButDead"),
    ({ERDMA: tuple(map(str, range(400)))}, (ERI,), {}, "ok Shared"),
    ({ERDMA: tuple(map(str, range(400)))}, (ERI,), {ERDMA: 200}, "fail AdvertisedButDead"),
    ({ERDMA: tuple(map(str, range(200)))}, (ERI,), {ERDMA: 200}, "ok Shared"),
]


@pytest.mark.parametrize(("ids", "devices", "factor", "says"), RDMA, ids=range(len(RDMA)))
def test_plugins_that_call_everything_healthy(ids: Any, devices: Any, factor: Any, says: str) -> None:
    seen = (kubelet(pods=()), allocatable(ids), cluster({}), values.pci(), values.rdma(devices=devices), expected())
    assert say(CHECK, *seen, want=Want(per_device=factor)) == says


ENIS = [
    # resource, capacity   says
    ("aliyun/eni", "7", "ok All"),
    ("aliyun/eni", "8", "warn MoreThanAllowed"),
    ("aliyun/member-eni", "12", "ok All"),
    ("aliyun/member-eni", "13", "warn MoreThanAllowed"),
]


@pytest.mark.parametrize(("resource", "capacity", "says"), ENIS)
def test_no_more_enis_than_the_instance_type_allows(resource: str, capacity: str, says: str) -> None:
    """Eight ENIs with the primary one, and twenty with those of a trunk (cluster_values.LIMITS)."""
    told = cluster({resource: capacity})
    assert say(CHECK, kubelet(pods=()), allocatable({}), told, values.pci(), values.rdma(), expected()) == says


def test_no_kubelet_is_no_question() -> None:
    none = kubelet(present=False, started=None, healthz=None, pods=())
    assert judged(None, cluster({GPU: "7"}, {GPU: "0"}), 8, kubelet=none) == "absent Nothing"


def test_what_controllers_write_is_the_nodes_word() -> None:
    hope = expected(resources={"aliyun/eni": 7})
    told = cluster({"aliyun/eni": "7"})
    assert say(CHECK, kubelet(pods=()), allocatable({}), told, values.pci(), values.rdma(), hope) == "ok All"


def test_a_silent_api_server_leaves_the_local_books() -> None:
    silent: Any = Unreadable(Why.TIMEOUT, "https://10.0.0.1:443", detail="no answer in 5 s")
    hope = expected(resources={GPU: 8, HCA: 63})
    facts = (
        kubelet(pods=()),
        allocatable({GPU: uuids(8)}),
        bus(8),
        values.rdma(),
        hope,
        Want(),
        plugins(),
    )
    seen = Seen({type(one): one for one in facts} | {Cluster: silent})
    found = list(check_round.run_check(CHECK, seen))
    assert [(one.subject.place, one.reason) for one in found] == [(GPU, "All"), (HCA, "CannotLook")]


def xid(number: int, place: str = "0000:05:00") -> KernelLog:
    text = f"NVRM: Xid (PCI:{place}): {number}, pid=3, name=python, Contained error"
    return KernelLog(4000.0, (kernel_log.line(KmsgRecord(1, 3601.0, 5, 0, text)),))


EXPLAINED = [
    # what the driver lists                        the log                  the line ends with
    (listing(8), (), "0000:05:00.0 is not advertised"),
    (listing(8), (xid(94),), "0000:05:00.0 is not advertised: Xid 94, 3601 s after boot"),
    (listing(8), (xid(31),), "0000:05:00.0 is not advertised"),  # what a program did
    (listing(8), (xid(94, "0000:06:00"),), "0000:05:00.0 is not advertised"),
    (listing(8, gpus=(information(uuid=None),)), (xid(94),), "in use 0"),  # persistence is off: nobody knows which
    (listing(8, gpus=LATE), (xid(94),), "in use 0"),
]


@pytest.mark.parametrize(("lists", "log", "ends"), EXPLAINED, ids=range(len(EXPLAINED)))
def test_which_gpu_is_not_advertised_and_why(lists: GpuDriver, log: tuple[KernelLog, ...], ends: str) -> None:
    ids = tuple(uuid for uuid in uuids(8) if uuid != "GPU-5")
    told = cluster({GPU: "8"}, {GPU: "7"})
    facts = (
        kubelet(pods=()),
        allocatable({GPU: ids}),
        told,
        bus(8),
        values.rdma(),
        expected(),
        lists,
        *log,
    )
    (verdict,) = verdicts(CHECK, *facts)
    assert verdict.reason == "SomeUnhealthy"
    assert verdict.message.partition(": 1 unhealthy")[0].endswith(ends)


def test_several_that_are_not_advertised() -> None:
    facts = (
        kubelet(pods=()),
        allocatable({GPU: ("GPU-0", "GPU-1")}),
        cluster({GPU: "8"}),
        bus(8),
        values.rdma(),
    )
    (verdict,) = verdicts(CHECK, *facts, expected(), listing(8), xid(94))
    assert (
        "; 0000:02:00.0, 0000:03:00.0, 0000:04:00.0, 0000:05:00.0 and 2 more are not advertised "
        "(0000:05:00.0: Xid 94, 3601 s after boot): 6 unhealthy"
    ) in verdict.message


def test_a_gpu_that_the_driver_is_told_to_leave_alone_is_no_hardware() -> None:
    found = (*(raw_gpu for raw_gpu in listing(8).gpus or () if raw_gpu.uuid != "GPU-5"),)
    left = information(address="0000:05:00.0", uuid="GPU-5", excluded=True)
    ids = tuple(uuid for uuid in uuids(8) if uuid != "GPU-5")
    facts = (
        kubelet(pods=()),
        allocatable({GPU: ids}),
        cluster({GPU: "7"}),
        bus(8),
        values.rdma(),
        expected(),
    )
    (verdict,) = verdicts(CHECK, *facts, listing(8, gpus=(*found, left)))
    assert verdict.reason == "All"
    assert verdict.message == "nvidia.com/gpu: hardware 7, capacity 7, allocatable 7, in use 0"


MENDED = [
    # beside the plugin                                  planned
    ((), f"fail NothingLeft {RESTART}"),
    ((xid(31),), f"fail NothingLeft {RESTART}"),
    ((xid(94),), "fail NothingLeft"),
]


@pytest.mark.parametrize(("beside", "says"), MENDED, ids=range(len(MENDED)))
def test_no_restart_of_a_plugin_is_planned_where_an_xid_explains_it(beside: Any, says: str) -> None:
    hope = expected(profile="hgx", resources={GPU: 8})
    facts = (
        kubelet(pods=()),
        allocatable({}),
        cluster({GPU: "0"}, None, PLUGIN),
        bus(8),
        values.rdma(),
        hope,
    )
    assert say(CHECK, *facts, *beside) == says


def test_no_restart_of_a_plugin_is_planned_where_a_gpu_is_missing() -> None:
    lost = (MissingDevice(Subject("0000:09:00.0"), "10de:2330", "profile hgx"),)
    hope = expected(profile="hgx", resources={GPU: 8}, missing_gpus=lost)
    facts = (
        kubelet(pods=()),
        allocatable({}),
        cluster({GPU: "0"}, None, PLUGIN),
        bus(7),
        values.rdma(),
        hope,
    )
    assert say(CHECK, *facts) == "fail NothingLeft"


def test_its_words() -> None:
    pods = (holding("ns/pod-a", GPU, "GPU-0", "GPU-1"), holding("ns/pod-b", GPU, "GPU-2", "GPU-3"))
    hope = expected(profile="hgx", resources={GPU: 8})
    told = cluster({GPU: "8"}, {GPU: "7"})
    seen = (kubelet(pods=pods), allocatable({GPU: uuids(7)}), told, bus(8), values.rdma(), hope)
    (verdict,) = verdicts(CHECK, *seen)
    assert verdict.message == (
        "nvidia.com/gpu: hardware 8, capacity 8, allocatable 7, in use 4 (ns/pod-a 2, ns/pod-b 2): 1 unhealthy; "
        "profile hgx wants 8"
    )
    assert (verdict.observed, verdict.expected, verdict.subject.place) == ("7", "8", GPU)
    lies = (kubelet(pods=()), allocatable({ERDMA: ("erdma_0/0",)}), cluster({}), values.pci(), values.rdma(), hope)
    dead = next(one for one in verdicts(CHECK, *lies) if one.reason == "AdvertisedButDead")
    assert dead.message == (
        "aliyun/erdma: hardware 0, allocatable 1, in use 0: it stands for devices that this node does not have "
        "(erdma_0); jobs that get one die"
    )


@pytest.mark.parametrize("name", ["rdma-erdma-cpu", "rdma-erdma-gpu", "rdma-infiniband", "rdma-lingjun", "rdma-roce"])
def test_under_former_manifests_the_gate_stays_closed(name: str) -> None:
    """They do not mount the kubelet's socket, and what nobody can ask must not pass."""
    silent = AllocatableDevices(4000.0, True, UNSEEN)
    facts = (kubelet(started=UNSEEN, pods=UNSEEN), silent, cluster({HCA: "63"}), values.pci(), values.rdma())
    look = Look(4000.0, True, {type(one): one for one in facts})
    told = check_round.judge([CHECK], look, None, profile_files.effective(name), {CHECK.id: Want()})
    assert [(one.status, one.verdict.reason) for one in told.findings] == [(Status.UNKNOWN, "NotMounted")]
