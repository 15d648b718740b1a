"""plugin.allocatable: what a gap comes to, and what it follows from."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep import check_round, checks
from nodeprep.checks.plugin.allocatable import CHECK, Want
from nodeprep.facts.kubernetes.resource_slices import ResourceSlices, SliceDevice
from nodeprep.model import NODE, Finding, Seen, Severity, Status, Unreadable, Verdict, Why
from tests import values
from tests.cluster_values import advertising
from tests.gpu_values import bus, gpu, gpus, listing, uuids
from tests.kubelet_values import GPU, allocatable, kubelet
from tests.values import expected, say, verdicts

DRA, HCA = "gpu.nvidia.com", "rdma/hca"
ERI = values.device(name="erdma_0", id="1ded:107f")
WANTED = expected(profile="hgx", resources={GPU: 8})


def sliced(count: int, *, first: int = 0, **different: Any) -> ResourceSlices:
    """So many GPUs that NVIDIA's driver of dynamic resource allocation offers."""
    devices = tuple(SliceDevice(DRA, f"GPU-{first + number}", is_tainted=False) for number in range(count))
    usual: dict[str, Any] = {"at": 4000.0, "asked": True, "drivers": (DRA,), "devices": devices}
    return ResourceSlices(**(usual | different))


TAINTED = (SliceDevice(DRA, "GPU-0", is_tainted=True), *(SliceDevice(DRA, f"GPU-{one}", False) for one in range(1, 8)))
REFUSED: Any = Unreadable(Why.DENIED, "resourceslices.resource.k8s.io", detail="HTTP 403: may not")
SLICES = [
    # slices                            Node       wanted  says
    (sliced(8), {}, 0, "ok InResourceSlices"),
    (sliced(8), {}, 8, "ok InResourceSlices"),
    (sliced(8), {GPU: "0"}, 8, "ok InResourceSlices"),  # a plugin of former times
    (sliced(7), {}, 0, "warn FewerInSlices"),
    (sliced(7), {}, 7, "warn FewerInSlices"),
    (sliced(7), {}, 8, "fail FewerInSlices"),
    (sliced(8, devices=TAINTED), {}, 8, "fail FewerInSlices"),
    (sliced(0), {}, 8, "fail FewerInSlices"),
    (sliced(9), {}, 8, "fail AdvertisedButDead"),
    (sliced(8, first=1), {}, 8, "fail AdvertisedButDead"),  # GPU-8 is no GPU of this node
    (sliced(7, incomplete=(DRA,)), {}, 8, "ok InResourceSlices"),
    (sliced(8, devices=tuple(SliceDevice(DRA, f"gpu-{one}", False) for one in range(8))), {}, 8, "ok InResourceSlices"),
    (ResourceSlices(4000.0, False), {}, 8, "fail NotAdvertised"),
    (ResourceSlices(4000.0, True), {}, 8, "fail NotAdvertised"),
    (sliced(8, drivers=("gpu.amd.com",)), {}, 8, "fail NotAdvertised"),
    (REFUSED, {}, 8, "fail NotAdvertised"),
    (REFUSED, {}, 0, "absent Nothing"),
    (sliced(8), {GPU: "8"}, 8, "ok All"),  # both, while a cluster moves from one to the other
]


@pytest.mark.parametrize(("slices", "told", "wanted", "says"), SLICES, ids=range(len(SLICES)))
def test_gpus_that_are_offered_by_claims(slices: Any, told: dict[str, str], wanted: int, says: str) -> None:
    hope = expected(profile="hgx", resources={GPU: wanted} if wanted else {})
    ids = {GPU: uuids(8)} if told.get(GPU) == "8" else {}
    facts = (
        kubelet(pods=()),
        allocatable(ids),
        advertising(told),
        bus(8),
        values.rdma(),
        hope,
        listing(8),
    )
    if isinstance(slices, ResourceSlices):
        every = verdicts(CHECK, *facts, slices)
    else:
        seen = Seen({type(one): one for one in (*facts, Want())} | {ResourceSlices: slices})
        every = list(check_round.run_check(CHECK, seen))
    found = [f"{one.status} {one.reason}" for one in every if one.subject.place == GPU]
    assert ("; ".join(found) or "absent Nothing") == says


def test_the_words_of_slices() -> None:
    hope = expected(profile="hgx", resources={GPU: 8})
    facts = (kubelet(pods=()), allocatable({}), advertising({}), bus(8), values.rdma(), hope, listing(8))
    (verdict,) = verdicts(CHECK, *facts, sliced(8, devices=TAINTED))
    assert verdict.message == (
        "nvidia.com/gpu: hardware 8, allocatable 0, in ResourceSlices of gpu.nvidia.com 7: 1 of the 8 GPUs of this "
        "node are not in them, or have a taint (0000:00:00.0); profile hgx wants 8"
    )
    (verdict,) = verdicts(CHECK, *facts, sliced(8, first=1))
    assert "that this node does not have (GPU-8); jobs that get one die" in verdict.message
    seen = Seen({type(one): one for one in (*facts, Want())} | {ResourceSlices: REFUSED})
    (verdict,) = check_round.run_check(CHECK, seen)
    assert verdict.message.endswith(
        "whether ResourceSlices offer them is not known: resourceslices.resource.k8s.io: denied (HTTP 403: may not); "
        "daemonset/components/dra gives the right; profile hgx wants 8"
    )


FOLDED = [
    # what also fails on the node       what the gap of each resource follows from
    ("port.present", {GPU: None, HCA: "port.present"}),
    ("gpu.driver", {GPU: "gpu.driver", HCA: None}),
    ("plugin.kubelet-socket", {GPU: "plugin.kubelet-socket", HCA: "plugin.kubelet-socket"}),
]


@pytest.mark.parametrize(("cause", "roots"), FOLDED)
def test_a_gap_follows_from_faults_of_its_own_devices(cause: str, roots: dict[str, str | None]) -> None:
    """A missing RDMA module once hid that a GPU was not advertised."""
    hope = expected(profile="hgx", resources={GPU: 8, HCA: 63})
    told = advertising({GPU: "8", HCA: "63"}, {GPU: "7", HCA: "62"})
    devices = allocatable({GPU: uuids(7), HCA: tuple(map(str, range(62)))})
    gaps = verdicts(CHECK, kubelet(pods=()), devices, told, bus(8), values.rdma(devices=(ERI,)), hope)
    other = Verdict(NODE, Status.FAIL, "Broken", "it is broken")
    findings = [Finding(cause, Severity.GATE, other), *map(CHECK.finding, gaps)]
    folded = check_round.fold(findings, {check.id: check.after for check in checks.CHECKS.values()})
    assert {one.subject.place: one.root for one in folded if one.check == CHECK.id} == roots


DEAD_GPU = [
    # the eighth GPU                       says while the plugin calls eight healthy
    ({}, "ok All"),
    ({"answers": False}, "fail AdvertisedButDead"),
    ({"driver": None}, "fail AdvertisedButDead"),
    ({"driver": "vfio-pci"}, "fail AdvertisedButDead"),
]


@pytest.mark.parametrize(("different", "says"), DEAD_GPU, ids=range(len(DEAD_GPU)))
def test_a_gpu_that_no_container_can_use_is_no_hardware(different: dict[str, Any], says: str) -> None:
    bus = values.pci(*gpus(7), gpu(address="0000:07:00.0", **different))
    facts = (kubelet(pods=()), allocatable({GPU: uuids(8)}), advertising({GPU: "8"}), bus, values.rdma(), WANTED)
    assert say(CHECK, *facts) == says


def test_an_id_that_the_driver_does_not_list_is_dead_whatever_the_counts_say() -> None:
    """Of eight GPUs on the bus the driver lists seven, and the plugin claims the eighth."""
    lists = listing(8, gpus=tuple(one for one in listing(8).gpus or () if one.uuid != "GPU-7"))
    facts = (
        kubelet(pods=()),
        allocatable({GPU: uuids(8)}),
        advertising({GPU: "8"}),
        bus(8),
        values.rdma(),
        expected(),
    )
    (verdict,) = verdicts(CHECK, *facts, lists)
    assert (verdict.reason, "(GPU-7)" in verdict.message) == ("AdvertisedButDead", True)
    claims = allocatable({GPU: (*uuids(7), "GPU-of-another-node")})
    (verdict,) = verdicts(CHECK, facts[0], claims, *facts[2:], listing(8))
    assert (verdict.reason, "(GPU-of-another-node)" in verdict.message) == ("AdvertisedButDead", True)
