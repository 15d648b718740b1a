"""A captured profile holds for the node it was taken from and for its siblings, and for no broken one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeprep import check_round, facts, job_profile
from nodeprep.agent import profile_state
from nodeprep.agent_state import AgentState
from nodeprep.checks import CHECKS
from nodeprep.config import yaml_document
from nodeprep.doors.node_host import Host
from nodeprep.facts.expected import inventory, profile_capture
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma.devnodes import DevNodes
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import BondWant, DeviceWant, GpuWant, PortWant, Profile
from nodeprep.look import Look
from nodeprep.model import Status, Unreadable, Why
from nodeprep.observer import Observer
from tests import cluster_values
from tests.erdma_values import FIRST, erdma_0, eri
from tests.gpu_values import AT, OTHER, gpu, nvswitch
from tests.rigs import trees
from tests.values import BDF, device, gid, link, links, nic, pci, port, rdma

pytestmark = pytest.mark.slow

GONE = Unreadable(Why.IO_ERROR, "/sys/x", 5)
CAPTURED = ["h100-ib", "h100-roce", "h100-flat", "a100-azure", "efa", "iwarp", "hgx-h100", "gb200", "mi300"]


def look_at(root: Path) -> Look:
    """A look in which no fact was late, as one can be on a busy machine."""
    for _ in range(10):
        look = Observer(Host(str(root), live=False)).look(facts.ALL)
        if not any(isinstance(fact, Unreadable) and fact.kind is Why.TIMEOUT for fact in look.facts.values()):
            return look
    pytest.fail("some fact was late ten times")


def of(look: Look) -> Profile:
    seen = look.get(Rdma)
    assert seen is not None
    found = profile_capture.capture(
        "site", seen, pci=look.get(Pci), links=look.get(Links), devnodes=look.get(DevNodes), modules=look.get(Modules)
    )
    assert found is not None
    return job_profile.parse(yaml_document.read(yaml_document.dump(job_profile.mapping(found)).encode(), "F").value)


def bad(look: Look, profile: Profile) -> list[str]:
    found = check_round.judge(CHECKS.values(), look, None, profile, {}).findings
    return [f"{one.check} {one.verdict.message}" for one in found if one.status not in (Status.OK, Status.ABSENT)]


@pytest.mark.parametrize("name", CAPTURED)
def test_a_node_meets_its_own_profile(tmp_path: Path, name: str) -> None:
    look = look_at(trees.build(name, tmp_path))
    profile = of(look)
    expected = inventory.derive(profile, look.get(Pci), look.get(Rdma))
    assert set(expected.devices) == set(profile.expect.devices)
    assert set(expected.firm) == set(profile.expect.ports)
    assert (expected.missing_devices, expected.missing_ports, expected.moved) == ((), (), frozenset())
    assert (set(expected.gpus), expected.missing_gpus) == (set(profile.expect.gpus), ())
    assert bad(look, profile) == []


def sibling(name: str) -> dict[str, Any]:
    """The same node with everything on other buses, in the same order."""
    description = trees.described(name)
    for group in description["nics"]:
        group["at"] = list(map(moved, group["at"]))
    gpus = [
        one | {"at": list(map(moved, one["at"]))} if isinstance(one, dict) else moved(one)
        for one in description.get("gpus", [])
    ]
    return description | {"gpus": gpus}


def moved(at: str) -> str:
    return f"{at[:5]}{int(at[5:7], 16) + 2:02x}{at[7:]}"


@pytest.mark.parametrize("name", [name for name in CAPTURED if name != "h100-flat"])
def test_a_sibling_with_other_addresses_meets_it_too(tmp_path: Path, name: str) -> None:
    profile = of(look_at(trees.build(name, tmp_path / "good")))
    trees.write(trees.tree(sibling(name)), tmp_path / "other")
    look = look_at(tmp_path / "other")
    expected = inventory.derive(profile, look.get(Pci), look.get(Rdma))
    assert not set(expected.devices) & set(profile.expect.devices)
    assert len(expected.devices) == len(profile.expect.devices)
    assert len(expected.firm) == len(profile.expect.ports)
    assert bad(look, profile) == []


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("state", ["1: DOWN", "2: INIT"])
def test_each_required_port_that_goes_down_is_found(tmp_path: Path, name: str, state: str) -> None:
    look = look_at(trees.build(name, tmp_path))
    profile = of(look)
    required = {key for key, want in profile.expect.ports.items() if want.required}
    assert required
    seen = look.get(Rdma)
    assert seen is not None
    for one in seen.ports:
        if one.subject.key in required:
            path = tmp_path / f"sys/class/infiniband/{one.device}/ports/{one.number}/state"
            good = path.read_text()
            path.write_text(f"{state}\n")
            assert any(
                found.startswith("port.state") and one.name in found for found in bad(look_at(tmp_path), profile)
            )
            path.write_text(good)


def test_ports_that_nobody_used_are_nobodys_concern(tmp_path: Path) -> None:
    ports = of(look_at(trees.build("h100-ib", tmp_path))).expect.ports
    unused = {key for key, want in ports.items() if not want.required}
    assert unused == {"0000:2a:00.1/1", "0000:ab:00.0/1", "0000:ab:00.1/1"}
    assert all(ports[key] == PortWant(layer="Ethernet", required=False) for key in unused)


def wants(*, devices: Any = None, ports: Any = None, **seen: Any) -> Profile:
    found = profile_capture.capture("site", rdma(*(ports or (port(),)), devices=devices or (device(),)), **seen)
    assert found is not None
    return found


def test_what_a_healthy_roce_nic_comes_to() -> None:
    profile = wants(pci=pci(nic()), links=links(link()))
    assert profile.extends == "rdma-roce"
    assert profile.expect.devices == {
        BDF: DeviceWant(
            id="15b3:1021",
            rdma="mlx5_3",
            driver="mlx5_core",
            firmware="28.41.1000",
            board="MT_0000000838",
            width=16,
            speed=32.0,
        )
    }
    assert profile.expect.ports == {f"{BDF}/1": PortWant(400.0, "Ethernet", "eth2", 9000, True, True)}


def test_a_capture_is_for_siblings_with_other_slots_too() -> None:
    seen = rdma(port(), devices=(device(),))
    profile = profile_capture.capture("good", seen)
    assert profile is not None
    assert job_profile.mapping(profile)["expect"]["any-slot"] is True


def test_nothing_that_tells_one_node_from_the_next_is_kept() -> None:
    text = yaml_document.dump(job_profile.mapping(wants(pci=pci(nic()), links=links(link()))))
    assert not [word for word in ("5054", "00:16:3e", "0a63", "10.99", "downs") if word in text]


PORTS = [
    # port                                           link                            wants
    ({}, {}, PortWant(400.0, "Ethernet", "eth2", 9000, True)),
    ({"state": "1: DOWN"}, {}, PortWant(layer="Ethernet", required=False)),
    ({"state": "2: INIT"}, {}, PortWant(layer="Ethernet", required=False)),
    ({"state": GONE}, {}, PortWant(layer="Ethernet", required=False)),
    ({}, {"up": False}, PortWant(layer="Ethernet", required=False)),
    ({}, {"up": GONE}, PortWant(400.0, "Ethernet", "eth2", 9000, True)),
    ({}, {"mtu": GONE}, PortWant(400.0, "Ethernet", "eth2", None, True)),
    ({}, {"mtu": -5}, PortWant(400.0, "Ethernet", "eth2", None, True)),
    ({"rate": GONE}, {}, PortWant(None, "Ethernet", "eth2", 9000, True)),
    ({"layer": GONE}, {}, PortWant(400.0, None, "eth2", 9000, None)),
    ({"gids": ()}, {}, PortWant(400.0, "Ethernet", "eth2", 9000, False)),
    ({"gids": None}, {}, PortWant(400.0, "Ethernet", "eth2", 9000, None)),
    ({"gids": (gid(kind="IB/RoCE v1"),)}, {}, PortWant(400.0, "Ethernet", "eth2", 9000, False)),
    ({"gids": (gid(kind=None),)}, {}, PortWant(400.0, "Ethernet", "eth2", 9000, None)),
    ({"gids": (gid(value=GONE),)}, {}, PortWant(400.0, "Ethernet", "eth2", 9000, None)),
    (
        {"gids": (gid(value="fe80:0000:0000:0000:0216:3eff:feaa:bb02"),)},
        {},
        PortWant(400.0, "Ethernet", "eth2", 9000, False),
    ),
    ({"layer": "InfiniBand"}, {}, PortWant(400.0, "InfiniBand", "eth2", 9000)),
    ({"layer": "InfiniBand"}, {"up": False}, PortWant(400.0, "InfiniBand")),
    ({"layer": "InfiniBand", "netdev": None}, {"bdf": ""}, PortWant(400.0, "InfiniBand")),
    ({"netdev": "eth9"}, {}, PortWant(400.0, "Ethernet", "eth9", None, True)),
]


@pytest.mark.parametrize(("shows", "net", "wanted"), PORTS, ids=range(len(PORTS)))
def test_what_is_wanted_of_a_port(shows: dict[str, Any], net: dict[str, Any], wanted: PortWant) -> None:
    assert wants(ports=(port(**shows),), links=links(link(**net))).expect.ports == {f"{BDF}/1": wanted}


def test_without_a_record_of_netdevs_the_name_is_kept() -> None:
    assert wants().expect.ports == {f"{BDF}/1": PortWant(400.0, "Ethernet", "eth2", None, True)}


@pytest.mark.parametrize("shown", ["eth2", "bond0"])
def test_a_leg_of_a_bond_has_no_netdev_and_no_gid_to_count_on(shown: str) -> None:
    bond: Link = link(name="bond0", bdf="", kind="bond", mtu=1500)
    profile = wants(ports=(port(netdev=shown),), links=links(link(master="bond0", mtu=1500), bond))
    assert profile.expect.ports == {f"{BDF}/1": PortWant(400.0, "Ethernet", None, 1500, None)}


def test_legs_that_share_a_bond_are_nobodys_concern_each() -> None:
    bond = link(name="bond0", bdf="", kind="bond")
    other = {"bdf": "0000:5c:00.1"}
    profile = wants(
        devices=(device(), device(name="mlx5_4", **other)),
        ports=(port(), port(device="mlx5_4", netdev="eth3", **other)),
        links=links(link(master="bond0"), link(name="eth3", master="bond0", **other), bond),
    )
    leg = PortWant(rate=400.0, layer="Ethernet", mtu=9000, required=False, bonded=True)
    assert list(profile.expect.ports.values()) == [leg] * 2
    assert profile.expect.bonds == {"bond0": BondWant((BDF, "0000:5c:00.1"), carrier=True, mtu=9000, gid=True)}
    assert profile.extends == "rdma-roce"


CAPTURED_BONDS = [
    # the bond                                  kept
    ({}, BondWant((BDF, "0000:5c:00.1"), carrier=True, mtu=9000, gid=True, lag=True)),
    ({"carrier": False}, BondWant((BDF, "0000:5c:00.1"), carrier=False, mtu=9000, gid=True, lag=True)),
    ({"operstate": GONE}, BondWant((BDF, "0000:5c:00.1"), mtu=9000, gid=True, lag=True)),
    ({"mtu": GONE}, BondWant((BDF, "0000:5c:00.1"), carrier=True, gid=True, lag=True)),
]


@pytest.mark.parametrize(("shows", "kept"), CAPTURED_BONDS)
@pytest.mark.parametrize("shown", ["eth2", "bond0"])
def test_the_bond_of_a_roce_lag_is_kept_with_the_leg_that_has_no_rdma_device(
    shows: dict[str, Any], kept: BondWant, shown: str
) -> None:
    bond = link(**({"name": "bond0", "bdf": "", "kind": "bond"} | shows))
    other = link(name="eth3", bdf="0000:5c:00.1", master="bond0")
    profile = wants(ports=(port(netdev=shown),), links=links(link(master="bond0"), other, bond))
    assert profile.expect.bonds == {"bond0": kept}
    assert job_profile.parse(job_profile.mapping(profile)) == profile


GIDS_OF_LEGS = [
    # of one leg                                of the other                                    kept
    ({"gids": (gid(),)}, {"gids": ()}, True),  # active-backup: the backup has none
    ({"gids": ()}, {"gids": ()}, False),
    ({"gids": (gid(),), "state": "1: DOWN"}, {"gids": ()}, False),
    ({"gids": (gid(),)}, {"gids": None}, None),
    ({"gids": (gid(),), "layer": "InfiniBand"}, {"gids": (), "layer": "InfiniBand"}, None),
    ({"state": "1: DOWN"}, {"state": "1: DOWN"}, None),
]


@pytest.mark.parametrize(("one", "other", "kept"), GIDS_OF_LEGS)
def test_whether_a_bond_has_an_address(one: dict[str, Any], other: dict[str, Any], kept: bool | None) -> None:
    second = {"bdf": "0000:5c:00.1"}
    bond = link(name="bond0", bdf="", kind="bond")
    profile = wants(
        devices=(device(), device(name="mlx5_4", **second)),
        ports=(port(**one), port(**({"device": "mlx5_4", "netdev": "eth3"} | second | other))),
        links=links(link(master="bond0"), link(name="eth3", master="bond0", **second), bond),
    )
    assert profile.expect.bonds["bond0"].gid is kept


def test_a_bond_that_carries_no_rdma_is_not_kept() -> None:
    other = link(name="eth9", bdf="0000:9c:00.0", master="bond0")
    assert wants(links=links(link(), other, link(name="bond0", bdf="", kind="bond"))).expect.bonds == {}
    assert wants(links=links(link(master="br0"), link(name="br0", bdf="", kind="bridge"))).expect.bonds == {}
    assert wants().expect.bonds == {}


PARENTS = [
    # ports (layer, state) of two NICs                                     extends
    ((("Ethernet", "4: ACTIVE"), ("Ethernet", "4: ACTIVE")), "rdma-roce"),
    ((("InfiniBand", "4: ACTIVE"), ("InfiniBand", "4: ACTIVE")), "rdma-infiniband"),
    ((("InfiniBand", "4: ACTIVE"), ("Ethernet", "4: ACTIVE")), "rdma"),  # equally fast
    ((("InfiniBand", "1: DOWN"), ("Ethernet", "4: ACTIVE")), "rdma-roce"),
    ((("Unknown", "4: ACTIVE"), ("Unknown", "4: ACTIVE")), "rdma"),
    ((("InfiniBand", "1: DOWN"), ("Ethernet", "1: DOWN")), "base"),
]


@pytest.mark.parametrize(("shows", "extends"), PARENTS)
def test_it_extends_the_profile_of_the_network_in_use(shows: tuple[tuple[str, str], ...], extends: str) -> None:
    devices = tuple(device(name=f"mlx5_{index}", bdf=f"0000:0{index}:00.0") for index in range(2))
    ports = tuple(
        port(device=one.name, bdf=one.bdf, layer=layer, state=state)
        for one, (layer, state) in zip(devices, shows, strict=True)
    )
    profile = wants(devices=devices, ports=ports)
    assert profile.extends == extends
    if extends == "rdma-infiniband":
        assert all(want.gid is None for want in profile.expect.ports.values())


ELASTIC = [
    # state        GPUs   extends
    ("4: ACTIVE", (), "rdma-erdma-cpu"),
    ("4: ACTIVE", (nic(address="0000:00:0a.0", id="10de:2330", pci_class="030200", rdma=()),), "rdma-erdma-gpu"),
    ("1: DOWN", (), "base"),
]


@pytest.mark.parametrize(("state", "gpus", "extends"), ELASTIC)
def test_elastic_rdma_has_profiles_of_its_own(state: str, gpus: tuple[PciDevice, ...], extends: str) -> None:
    shows = port(device="erdma_0", bdf=FIRST, state=state)
    assert wants(devices=(erdma_0(),), ports=(shows,), pci=pci(eri(), *gpus)).extends == extends


def test_an_unreadable_value_is_expected_of_nobody() -> None:
    profile = wants(
        devices=(device(firmware=GONE, board="B\x1b[2J", hca_type=GONE, id=""),),
        pci=pci(nic(id="", driver="unnamed", width=GONE, speed=None)),
    )
    assert profile.expect.devices == {BDF: DeviceWant(rdma="mlx5_3")}


def test_a_device_without_pci_is_known_by_its_name_and_chip() -> None:
    profile = wants(devices=(device(bdf="", id=""),), ports=(port(bdf=""),))
    assert list(profile.expect.ports) == ["mlx5_3/1"]
    assert profile.expect.devices["mlx5_3"].id == "MT4129"


def test_a_software_device_is_said_to_be_one() -> None:
    soft = device(name="rxe0", parent="eth2", id="", hca_type=None, board=None, firmware=None)
    profile = wants(devices=(soft,), ports=(port(device="rxe0"),), pci=pci(nic(driver="virtio-pci")))
    assert profile.expect.devices == {
        BDF: DeviceWant("15b3:1021", "rxe0", "rxe", "virtio-pci", None, None, width=16, speed=32.0)
    }


def modules(*loaded: str) -> Modules:
    return Modules(0.0, loaded, (), None, (), ())


def test_modules_of_the_rdma_core_are_kept_and_no_others() -> None:
    loaded = modules("ext4", "ib_core", "ib_ipoib", "ib_umad", "ib_uverbs", "mlx5_core", "mlx5_ib", "nvme")
    assert wants(pci=pci(nic()), modules=loaded).expect.modules == ("ib_core", "ib_uverbs", "ib_umad")


def test_virtual_functions_and_subfunctions_are_left_out() -> None:
    virtual = device(name="mlx5_9", bdf="0000:5c:00.2", virtual_function=True)
    profile = wants(devices=(device(), virtual), ports=(port(), port(device="mlx5_9", bdf="0000:5c:00.2")))
    assert list(profile.expect.devices) == [BDF]
    assert list(profile.expect.ports) == [f"{BDF}/1"]
    assert profile_capture.capture("site", rdma(devices=(virtual,))) is None


@pytest.mark.parametrize("name", CAPTURED)
def test_the_whole_profile_knows_ports_by_name_only(tmp_path: Path, name: str) -> None:
    profile = of(look_at(trees.build(name, tmp_path)))
    parent = Profile(
        "parent",
        expect=job_profile.parse({**job_profile.mapping(profile), "expect": {"ports": {"at-least": 1}}}).expect,
    )
    assert job_profile.extend(profile, parent).expect.at_least is None


OFFERED = [
    # capacity                            allocatable                      expected of a sibling
    ({"nvidia.com/gpu": "8", "cpu": "64"}, None, {"nvidia.com/gpu": 8}),
    ({"nvidia.com/gpu": "8", "rdma/hca": "1k"}, None, {"nvidia.com/gpu": 8, "rdma/hca": 1000}),
    ({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "7"}, {}),  # one is sick: how many belong here is not known
    ({"nvidia.com/gpu": "0"}, None, {}),
    ({"hugepages-2Mi": "4Gi", "requests.kubernetes.io/x": "1"}, None, {}),
]


@pytest.mark.parametrize(("capacity", "offers", "resources"), OFFERED, ids=range(len(OFFERED)))
def test_what_plugins_advertise_is_kept(capacity: Any, offers: Any, resources: dict[str, int]) -> None:
    node = cluster_values.node_object(capacity=capacity, allocatable=capacity if offers is None else offers)
    told = cluster_values.cluster(node=node)
    found = profile_capture.capture("site", rdma(port(), devices=(device(),)), cluster=told)
    assert found is not None
    assert found.expect.resources == resources
    assert inventory.derive(found, None, None).resources == resources
    state = profile_state.with_baseline(AgentState(), {Rdma: rdma(port(), devices=(device(),)), Cluster: told})
    assert job_profile.parse(state.baseline).expect.resources == resources


def test_gpus_are_kept_and_gate() -> None:
    bus = pci(nic(), gpu(), gpu(address=OTHER, driver="vfio-pci"), nvswitch())
    found = profile_capture.capture("site", rdma(port(), devices=(device(),)), pci=bus)
    assert found is not None
    assert found.expect.gpus == {AT: GpuWant("10de:2330")}
    assert found.gates == profile_capture.GPU_GATES
    assert found.extends == "rdma-roce"


OPERATORS = [
    # a pod here                                                              gates on gpu.fabric-manager
    ({"name": "nvidia-driver-daemonset-x", "writes": ("/run/nvidia",)}, False),
    ({"name": "nvidia-driver-daemonset-x", "writes": ("/run/nvidia",), "host_network": True}, True),
    ({"name": "nvidia-container-toolkit-daemonset-x", "writes": ("/run/nvidia",)}, True),
]


@pytest.mark.parametrize(("pod", "is_gate"), OPERATORS)
def test_a_check_that_can_never_look_is_no_gate(pod: dict[str, Any], is_gate: bool) -> None:
    """Fabric Manager in the GPU operator's driver container listens in a network of its own."""
    told = cluster_values.cluster(pods=(cluster_values.pod(**pod),))
    found = profile_capture.capture("site", rdma(), pci=pci(gpu(), nvswitch()), cluster=told)
    assert found is not None
    assert ("gpu.fabric-manager" in found.gates) == is_gate
    assert set(found.gates) | {"gpu.fabric-manager"} == set(profile_capture.GPU_GATES)


def test_a_node_with_gpus_and_without_rdma_has_a_profile() -> None:
    found = profile_capture.capture("site", rdma(), pci=pci(gpu()))
    assert found is not None
    assert (found.extends, found.expect.gpus, found.expect.devices) == ("base", {AT: GpuWant("10de:2330")}, {})
    assert profile_capture.capture("site", rdma(), pci=pci(gpu(driver="vfio-pci"))) is None
    assert profile_capture.capture("site", rdma(), pci=pci(gpu(id=GONE))) is None
