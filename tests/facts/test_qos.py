"""Lossless-Ethernet settings: files of OFED drivers from trees, DCB from this kernel and from a driver's words."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nodeprep.doors.netlink.dcbnl import App, Dcb
from nodeprep.doors.node_host import Host
from nodeprep.facts.rdma import qos as qos_facts
from nodeprep.facts.rdma.qos import NetdevQos, QosSettings
from nodeprep.model import Unreadable, Why, raw

ECN = "sys/class/net/eth2/ecn"


class Told(Host):
    """A host whose drivers answer what a test has them answer."""

    def __init__(self, root: Path, answer: Dcb | None | Unreadable) -> None:
        super().__init__(str(root))
        self.answer = answer
        self.asked: list[str] = []

    def dcb(self, netdev: str) -> Dcb | None | Unreadable:
        self.asked.append(netdev)
        return self.answer


def put(root: Path, path: str, text: str = "") -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """mlx5_3 at 0000:5c:00.0 with eth2."""
    home = tmp_path / "sys/devices/pci0000:5b/0000:5c:00.0"
    (home / "net/eth2").mkdir(parents=True)
    (home / "net/eth2/device").symlink_to("../..")
    (home / "infiniband/mlx5_3/ports/1").mkdir(parents=True)
    (home / "infiniband/mlx5_3/device").symlink_to("../..")
    (tmp_path / "sys/class/infiniband").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband/mlx5_3").symlink_to("../../devices/pci0000:5b/0000:5c:00.0/infiniband/mlx5_3")
    (tmp_path / "sys/class/net").mkdir()
    (tmp_path / "sys/class/net/eth2").symlink_to("../../devices/pci0000:5b/0000:5c:00.0/net/eth2")
    return tmp_path


def one(settings: object) -> NetdevQos:
    assert isinstance(settings, QosSettings)
    (qos,) = settings.netdevs
    return qos


def test_a_dead_tree_of_an_inbox_driver_shows_nothing(root: Path) -> None:
    shown = qos_facts.observe(Host(str(root), live=False))
    assert isinstance(shown, QosSettings)
    assert not shown.asked
    assert one(shown) == NetdevQos("eth2", "0000:5c:00.0", None, None, None, None)


def test_files_of_an_ofed_driver(root: Path) -> None:
    put(root, "sys/class/net/eth2/qos/trust", "dscp")
    for priority in range(8):
        put(root, f"{ECN}/roce_np/enable/{priority}", str(int(priority in {3, 5})))
        put(root, f"{ECN}/roce_rp/enable/{priority}", str(int(priority in {3, 4})))
    shown = one(qos_facts.observe(Host(str(root), live=False)))
    assert (shown.trust, shown.ecn) == ("dscp", (3,))


def test_ecn_all_off_is_not_ecn_unknown(root: Path) -> None:
    (root / ECN).mkdir()
    assert one(qos_facts.observe(Host(str(root), live=False))).ecn is None
    put(root, f"{ECN}/roce_np/enable/0", "0")
    assert one(qos_facts.observe(Host(str(root), live=False))).ecn == ()


def test_one_unreadable_priority_spoils_ecn_only(root: Path) -> None:
    put(root, "sys/class/net/eth2/qos/trust", "pcp")
    (root / ECN / "roce_np/enable/3").mkdir(parents=True)
    shown = one(qos_facts.observe(Host(str(root), live=False)))
    assert shown.trust == "pcp"
    assert isinstance(raw(shown)["ecn"], Unreadable)


def test_what_a_driver_says(root: Path) -> None:
    apps = (App("dscp", 46, 5), App("dscp", 26, 3), App("ethertype", 0x8915, 4), App("pcp", 3, 3))
    host = Told(root, Dcb(dcbx=("host", "ieee"), pfc=0b1_1000_1000, ets=None, apps=apps))
    shown = qos_facts.observe(host)
    assert isinstance(shown, QosSettings)
    assert shown.asked
    assert host.asked == ["eth2"]
    assert (one(shown).pfc, one(shown).dscp) == ((3, 7), ((26, 3), (46, 5)))


def test_flow_control_off_is_not_flow_control_unknown(root: Path) -> None:
    assert one(qos_facts.observe(Told(root, Dcb(None, 0, None, ())))).pfc == ()
    silent = one(qos_facts.observe(Told(root, Dcb(None, None, None, ()))))
    assert (silent.pfc, silent.dscp) == (None, ())


@pytest.mark.parametrize("answer", [None, Unreadable(Why.IO_ERROR, "netlink dcb eth2", 19, "No such device")])
def test_a_driver_without_dcb_and_a_netdev_that_left(root: Path, answer: Unreadable | None) -> None:
    shown = one(qos_facts.observe(Told(root, answer)))
    assert (shown.pfc, shown.dscp) == (None, None)


def test_a_refusal_is_no_answer(root: Path) -> None:
    refusal = Unreadable(Why.DENIED, "netlink dcb eth2", 1)
    shown = one(qos_facts.observe(Told(root, refusal)))
    assert (raw(shown)["pfc"], raw(shown)["dscp"]) == (refusal, refusal)
    assert shown.trust is None


def test_netdevs_of_software_devices_gids_and_bonds(root: Path) -> None:
    put(root, "sys/class/infiniband/rxe0/parent", "eth0")
    put(root, "sys/class/infiniband/mlx5_3/ports/1/gid_attrs/ndevs/0", "bond0")
    put(root, "sys/class/net/bond0/bonding/slaves", "eth2 eth3")
    host = Told(root, None)
    shown = qos_facts.observe(host)
    assert isinstance(shown, QosSettings)
    assert [qos.netdev for qos in shown.netdevs] == host.asked == ["bond0", "eth0", "eth2", "eth3"]
    assert [qos.bdf for qos in shown.netdevs] == ["", "", "0000:5c:00.0", ""]
    leg = shown.of("eth2")
    assert leg is not None
    assert leg.bdf == "0000:5c:00.0"
    assert shown.of("eth9") is None
    assert shown.of(None) is None


def test_names_that_cannot_be_read_are_no_netdevs(root: Path) -> None:
    put(root, "sys/class/infiniband/mlx5_3/ports/1/gid_attrs/ndevs/0", "")
    (root / "sys/class/infiniband/mlx5_3/parent").mkdir()
    host = Told(root, None)
    qos_facts.observe(host)
    assert host.asked == ["eth2"]


def test_a_file_in_place_of_the_class_is_damage(tmp_path: Path) -> None:
    put(tmp_path, "sys/class/infiniband")
    assert isinstance(qos_facts.observe(Host(str(tmp_path))), Unreadable)


def test_no_rdma_no_netdevs(tmp_path: Path) -> None:
    shown = qos_facts.observe(Host(str(tmp_path)))
    assert isinstance(shown, QosSettings)
    assert shown.netdevs == ()


def test_this_kernel_is_asked_for_a_real_netdev(tmp_path: Path) -> None:
    """The loopback stands under a software device, and has no DCB on any kernel."""
    put(tmp_path, "sys/class/infiniband/rxe0/parent", "lo")
    shown = one(qos_facts.observe(Host(str(tmp_path))))
    assert (shown.netdev, shown.pfc, shown.dscp) == ("lo", None, None)


def test_a_netdev_that_this_kernel_does_not_have(tmp_path: Path) -> None:
    put(tmp_path, "sys/class/infiniband/rxe0/parent", "no-such-netdev")
    shown = one(qos_facts.observe(Host(str(tmp_path))))
    assert (shown.pfc, shown.dscp) == (None, None)


def test_settings_that_cannot_be_reached_are_not_settings_that_are_not_shown(root: Path) -> None:
    (root / ECN).parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root / ECN, ignore_errors=True)
    (root / ECN).symlink_to("ecn")
    assert isinstance(raw(one(qos_facts.observe(Host(str(root), live=False))))["ecn"], Unreadable)
