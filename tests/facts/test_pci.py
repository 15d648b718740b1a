"""PCI functions, read from trees as sysfs lays them out and as copies and faults mangle them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import pci
from nodeprep.facts.machine.pci import Aer, Auxiliary, Pci, PciDevice
from nodeprep.model import CannotLook, Unreadable, Why, raw
from tests import values
from tests.rigs.trees import Content, Link, Tree, write
from tests.values import nic

AT, ABOVE = "0000:5c:00.0", "0000:5b:01.0"
HOME = f"sys/devices/pci0000:5b/{ABOVE}/{AT}"
LISTED = "sys/bus/pci/devices"


def tree(**different: Content) -> Tree:
    """A ConnectX-7 below a root port, as the kernel lays it out; "gone" leaves a file out."""
    usual: Tree = {
        "class": "0x020000",
        "vendor": "0x15b3",
        "device": "0x1021",
        "modalias": "pci:v000015B3d00001021sv000015B3sd00000041bc02sc00i00",
        "driver": Link("../../../../bus/pci/drivers/mlx5_core"),
        "driver_override": "(null)",
        "config": bytes.fromhex("b3152110") + bytes(60),
        "power_state": "D0",
        "current_link_speed": "32.0 GT/s PCIe",
        "current_link_width": "16",
        "max_link_speed": "32.0 GT/s PCIe",
        "max_link_width": "16",
        "numa_node": "1",
        "uevent": "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1021",
        "infiniband/mlx5_3": None,
        "net/eth2": None,
    }
    files = {f"{HOME}/{name}": content for name, content in (usual | different).items() if content != "gone"}
    return files | {f"{LISTED}/{AT}": Link(f"../../../{HOME.removeprefix('sys/')}")}


def observed(root: Path, files: Tree, live: bool = False) -> Pci:
    write(files, root)
    seen = pci.observe(Host(str(root), live=live))
    assert isinstance(seen, Pci)
    return seen


def one(root: Path, **different: Content) -> PciDevice:
    (device,) = observed(root, tree(**different)).devices
    return device


def test_a_nic_as_the_kernel_shows_it(tmp_path: Path) -> None:
    assert one(tmp_path) == nic(numa=1, iommu=None, bridges=(ABOVE,), subsystem="15b3:0041")


FIELD_ROWS: list[tuple[str, Content, str, object]] = [
    ("class", "gone", "pci_class", "020000"),  # the uevent says it too
    ("class", "", "pci_class", "020000"),
    ("class", "0xgarbled", "pci_class", "020000"),
    ("vendor", "gone", "id", "15b3:1021"),  # the modalias says it too
    ("device", "gone", "id", "15b3:1021"),
    ("vendor", b"\xff\xfe", "id", "15b3:1021"),
    ("device", "0x10211", "id", "15b3:1021"),
    ("driver", "gone", "driver", None),
    ("driver", None, "driver", "mlx5_core"),  # a copy that followed links holds a directory
    ("driver_override", "vfio-pci", "driver_override", "vfio-pci"),
    ("driver_override", "(null)", "driver_override", None),
    ("driver_override", "", "driver_override", None),
    ("config", b"\xff" * 64, "answers", False),
    ("config", b"\xff" * 4 + bytes(60), "answers", False),
    ("config", b"\xff" * 3 + bytes(61), "answers", True),
    ("config", b"", "answers", None),
    ("config", b"\xff" * 3, "answers", None),
    ("config", "gone", "answers", None),
    ("config", None, "answers", Why.IO_ERROR),
    ("power_state", "D3cold", "power", "D3cold"),
    ("power_state", "gone", "power", None),
    ("power_state", "D4", "power", Why.MALFORMED),
    ("power_state", "", "power", Why.MALFORMED),
    ("current_link_speed", "2.5 GT/s PCIe", "speed", 2.5),
    ("current_link_speed", "16 GT/s", "speed", 16.0),
    ("current_link_speed", "Unknown", "speed", None),
    ("current_link_speed", "Unknown speed", "speed", None),
    ("current_link_speed", "gone", "speed", None),
    ("current_link_speed", "32.0 GT/", "speed", Why.MALFORMED),
    ("current_link_speed", "", "speed", Why.MALFORMED),
    ("current_link_speed", "3.0 GT/s PCIe", "speed", Why.MALFORMED),
    ("current_link_speed", "128.0 GT/s PCIe", "speed", 128.0),
    ("current_link_width", "8", "width", 8),
    ("current_link_width", "0", "width", None),
    ("current_link_width", "255", "width", None),
    ("current_link_width", "x16", "width", Why.MALFORMED),
    ("current_link_width", "-1", "width", Why.MALFORMED),
    ("current_link_width", "63", "width", Why.MALFORMED),
    ("current_link_width", "7", "width", Why.MALFORMED),
    ("current_link_width", "12", "width", 12),
    ("max_link_speed", "64.0 GT/s PCIe", "max_speed", 64.0),
    ("max_link_width", "gone", "max_width", None),
    ("numa_node", "-1", "numa", None),
    ("numa_node", "0", "numa", 0),
    ("numa_node", "gone", "numa", None),
    ("numa_node", "one", "numa", Why.MALFORMED),
    ("numa_node", "-2", "numa", Why.MALFORMED),
    ("iommu_group/type", "DMA-FQ", "iommu", "DMA-FQ"),
    ("physfn", Link("../nowhere"), "virtual_function", True),
    (
        "mlx5_core.rdma.0/driver",
        Link("../nowhere/mlx5_ib.rdma"),
        "auxiliaries",
        (Auxiliary("mlx5_core.rdma.0", "mlx5_ib.rdma"),),
    ),
    ("ice.iwarp.12/uevent", "", "auxiliaries", (Auxiliary("ice.iwarp.12", None),)),
    ("mlx5_core.eth.0/uevent", "", "auxiliaries", ()),
    ("mlx5_core.rdma-rep.0/uevent", "", "auxiliaries", ()),
    ("net", b"a file", "netdevs", ("eth2",)),
]


@pytest.mark.parametrize(("file", "content", "field", "value"), FIELD_ROWS)
def test_fields(tmp_path: Path, file: str, content: Content, field: str, value: object) -> None:
    different: dict[str, Any] = {file: content} if file != "net" else {}
    shown = raw(one(tmp_path, **different))[field]
    assert (shown.kind if isinstance(shown, Unreadable) else shown) == value


def test_a_driver_without_a_name_is_still_a_driver(tmp_path: Path) -> None:
    assert one(tmp_path, driver=None, uevent="gone").driver == "unnamed"


def test_a_virtual_function_always_hides_its_vendor_and_is_gone_only_if_all_is(tmp_path: Path) -> None:
    healthy = b"\xff" * 4 + bytes.fromhex("06041000") + bytes(56)
    assert one(tmp_path / "a", physfn=Link("../x"), config=healthy).answers is True
    assert one(tmp_path / "b", physfn=Link("../x"), config=b"\xff" * 64).answers is False


def test_a_virtio_netdev_hangs_one_level_deeper(tmp_path: Path) -> None:
    different: dict[str, Any] = {"net/eth2": "gone", "virtio3/net/ens3": None, "infiniband/mlx5_3": "gone"}
    assert one(tmp_path, **different).netdevs == ("ens3",)


@pytest.mark.parametrize(("pci_class", "kept"), [("0x030200", True), ("0x010802", False), ("0x060400", False)])
def test_only_nics_and_gpus_are_kept(tmp_path: Path, pci_class: str, kept: bool) -> None:
    different: dict[str, Any] = {"class": pci_class, "infiniband/mlx5_3": "gone"}
    assert bool(observed(tmp_path, tree(**different)).devices) is kept


def test_a_device_with_rdma_is_a_nic_whatever_its_class(tmp_path: Path) -> None:
    different: dict[str, Any] = {"class": "0x120000"}
    assert one(tmp_path, **different).is_nic


AER: dict[str, Content] = {
    "aer_dev_correctable": "RxErr 2\nTOTAL_ERR_COR 7",
    "aer_dev_nonfatal": "Undefined 0\nTOTAL_ERR_NONFATAL 1",
    "aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0",
}


def test_errors_reported(tmp_path: Path) -> None:
    assert one(tmp_path / "a", **AER).aer == Aer(7, 1, 0)
    assert one(tmp_path / "b", **(AER | {"aer_dev_fatal": "gone"})).aer is None
    cut = one(tmp_path / "c", **(AER | {"aer_dev_fatal": "Undefined 0"})).aer
    assert cut is not None
    assert (cut.correctable, cut.nonfatal) == (7, 1)
    with pytest.raises(CannotLook):
        _ = cut.fatal


def acs_at(offset: int, control: int, filler: int = 0x0001) -> bytes:
    """4 KiB of configuration space whose extended capabilities lead over AER to ACS."""
    config = bytearray(4096)
    config[0x100:0x104] = (filler | 1 << 16 | offset << 20).to_bytes(4, "little")
    config[offset : offset + 4] = (0x000D | 1 << 16).to_bytes(4, "little")
    config[offset + 6 : offset + 8] = control.to_bytes(2, "little")
    return bytes(config)


def bridge(root: Path, config: Content, live: bool = False) -> object:
    above: Tree = {f"{LISTED}/{ABOVE}": Link(f"../../../devices/pci0000:5b/{ABOVE}")}
    at = f"sys/devices/pci0000:5b/{ABOVE}/config"
    (found,) = observed(root, tree() | above | ({at: config} if config != "gone" else {}), live).bridges
    assert found.address == ABOVE
    acs = raw(found)["acs"]
    return acs.kind if isinstance(acs, Unreadable) else acs


def looping() -> bytes:
    config = bytearray(acs_at(0x200, 0))
    config[0x200:0x204] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    return bytes(config)


ACS_ROWS: list[tuple[Content, bool, object]] = [
    (acs_at(0x200, 0x1D), False, 0x1D),
    (acs_at(0xFF8, 0x5D), False, 0x5D),  # the last place that holds a whole word
    (acs_at(0xFFC, 0)[:4096], False, None),
    (looping(), False, None),
    (bytes(4096), False, None),
    (b"\xff" * 4096, False, None),
    (bytes(256), False, None),  # conventional PCI
    (bytes(64), True, Why.DENIED),
    (bytes(64), False, None),  # a copy that an ordinary user made
    ("gone", False, None),
    (None, False, Why.IO_ERROR),
    (bytes(4097), False, Why.MALFORMED),
]


@pytest.mark.parametrize(("config", "live", "acs"), ACS_ROWS)
def test_acs(tmp_path: Path, config: Content, live: bool, acs: object) -> None:
    assert bridge(tmp_path, config, live) == acs


@given(config=st.binary(min_size=0x100, max_size=0x140) | st.binary(max_size=300).map(lambda tail: bytes(0x100) + tail))
def test_the_walk_through_capabilities_ends_on_anything(
    tmp_path_factory: pytest.TempPathFactory, config: bytes
) -> None:
    assert bridge(tmp_path_factory.mktemp("acs"), config) is None or config.count(b"\x0d")


@given(st.lists(st.sampled_from(range(0x104, 0xFF0, 4)), unique=True, min_size=1, max_size=40), st.integers(0, 0xFFFF))
def test_acs_is_found_at_the_end_of_any_chain(
    tmp_path_factory: pytest.TempPathFactory, offsets: list[int], control: int
) -> None:
    spread = [offset for offset in offsets if not any(0 < abs(offset - other) < 8 for other in offsets)] or [0x200]
    chain = [0x100, *(offset for offset in spread if offset >= 0x108)]
    config = bytearray(4096)
    for here, there in zip(chain, [*chain[1:], 0], strict=True):
        kind = 0x0001 if there else 0x000D
        config[here : here + 4] = (kind | 1 << 16 | there << 20).to_bytes(4, "little")
    config[chain[-1] + 6 : chain[-1] + 8] = control.to_bytes(2, "little")
    assert bridge(tmp_path_factory.mktemp("acs"), bytes(config)) == control


def test_drivers_are_shown_if_any_function_shows_one(tmp_path: Path) -> None:
    disk: Tree = {f"{LISTED}/0000:01:00.0/class": "0x010802", f"{LISTED}/0000:01:00.0/driver": Link("../x/nvme")}
    assert observed(tmp_path / "a", tree(driver="gone")).drivers_shown is False
    assert observed(tmp_path / "b", tree(driver="gone") | disk).drivers_shown is True
    assert observed(tmp_path / "c", tree(driver="gone"), live=True).drivers_shown is True


def test_a_listing_that_is_not_there(tmp_path: Path) -> None:
    dead = pci.observe(Host(str(tmp_path), live=False))
    assert isinstance(dead, Unreadable)
    assert dead.not_recorded
    live = pci.observe(Host(str(tmp_path)))
    assert isinstance(live, Pci)
    assert live.devices == ()


def test_a_listing_that_is_damaged(tmp_path: Path) -> None:
    write({LISTED: "a file"}, tmp_path)
    seen = pci.observe(Host(str(tmp_path), live=False))
    assert isinstance(seen, Unreadable)
    assert not seen.not_recorded


def test_names_that_are_no_addresses_and_links_that_lead_nowhere(tmp_path: Path) -> None:
    extra: Tree = {
        f"{LISTED}/..data/class": "0x020000",
        f"{LISTED}/0000:5d:00.0": Link("../../../devices/nowhere"),
        f"{LISTED}/0000:5e:00.0": Link("0000:5e:00.0"),
        f"{LISTED}/0000:5f:00.0": "a file",
    }
    assert [device.address for device in observed(tmp_path, tree() | extra).devices] == [AT]


def test_what_blocks_or_leads_out_of_the_root_spoils_only_itself(tmp_path: Path) -> None:
    write(tree(), tmp_path)
    here = tmp_path / HOME
    for name in ("numa_node", "power_state"):
        (here / name).unlink()
    os.mkfifo(here / "numa_node")
    (here / "power_state").symlink_to("/../../../../../../../../etc/hostname")
    seen = pci.observe(Host(str(tmp_path), live=False))
    assert isinstance(seen, Pci)
    (device,) = seen.devices
    assert device.power is None
    assert device.speed == 32.0
    with pytest.raises(CannotLook):
        _ = device.numa


def test_a_label_does_not_depend_on_what_can_be_read() -> None:
    damage = Unreadable(Why.MALFORMED, "vendor")
    assert nic(id=damage).subject.name == "0000:5c:00.0 (mlx5_3/eth2)"
    assert nic(id="", rdma=(), netdevs=()).label == "0000:5c:00.0"
    assert nic(rdma=()).label == "0000:5c:00.0 (15b3:1021, eth2)"


OFFER_ROWS: list[tuple[dict[str, Any], bool]] = [
    ({"rdma": ()}, False),
    ({"rdma": ("mlx5_3",)}, True),
    ({"rdma": (), "pci_class": "020700"}, True),
    ({"rdma": (), "auxiliaries": (Auxiliary("ice.roce.0", None),)}, True),
]


@pytest.mark.parametrize(("different", "offers"), OFFER_ROWS)
def test_offers_rdma(different: dict[str, Any], offers: bool) -> None:
    assert nic(**different).offers_rdma is offers


def test_gpus_are_told_by_vendor_and_class() -> None:
    assert nic(id="10de:2330", pci_class="030200").is_gpu
    assert not nic(id="10de:22a3", pci_class="068000").is_gpu  # an NVSwitch
    assert not nic(id="1a03:2000", pci_class="030000").is_gpu  # the board's own display
    assert not nic(id=Unreadable(Why.MALFORMED, "vendor")).is_gpu


def test_this_machines_bus_can_be_read() -> None:
    seen = pci.observe(Host())
    assert isinstance(seen, Pci)
    classes = {path.parent.name: path.read_text() for path in Path(pci.DEVICES).glob("*/class")}
    assert {at for at, word in classes.items() if word.startswith("0x02")} == {
        one.address for one in seen.devices if one.pci_class.startswith("02")
    }
    assert {one.address for one in seen.bridges} == {at for one in seen.devices for at in one.bridges}


GPU_ROWS = [
    # class      id           what it is
    ("0x030200", "10de:2330", "GPU"),
    ("0x030000", "10de:2236", "GPU"),
    ("0x120000", "1002:74a1", "GPU"),  # MI300X
    ("0x038000", "1002:740f", "GPU"),  # MI210
    ("0x068000", "10de:22a3", "NVSwitch"),  # of HGX H100
    ("0x030000", "1a03:2000", "other"),  # the console's
    ("0x030000", "1002:1638", "other"),  # of a processor
    ("0x038000", "8086:56c0", None),
    ("0x120000", "1da3:1020", None),
    ("0x068000", "8086:09a2", None),
    ("0x068000", "15b3:c2d1", None),
    ("0x060400", "10de:22a3", None),
]
WITHOUT_RDMA: dict[str, Content] = {"modalias": "gone", "infiniband/mlx5_3": "gone", "net/eth2": "gone"}


@pytest.mark.parametrize(("pci_class", "identity", "what"), GPU_ROWS)
def test_gpus_and_nvswitches_by_class_and_vendor(
    tmp_path: Path, pci_class: str, identity: str, what: str | None
) -> None:
    vendor, device = identity.split(":")
    different: dict[str, Content] = {"class": pci_class, "vendor": f"0x{vendor}", "device": f"0x{device}"}
    seen = observed(tmp_path, tree(**different, **WITHOUT_RDMA))
    assert len(seen.devices) == (what is not None)
    assert [one.address for one in seen.gpus] == [AT] * (what == "GPU")
    assert [one.address for one in seen.nvswitches] == [AT] * (what == "NVSwitch")


def test_a_share_of_a_gpu_is_no_gpu() -> None:
    whole = nic(id="10de:20b2", pci_class="030200")
    assert values.pci(whole, nic(id="10de:20b2", pci_class="030200", virtual_function=True)).gpus == (whole,)


def test_a_device_of_a_gpus_class_whose_vendor_cannot_be_read_is_kept(tmp_path: Path) -> None:
    different: dict[str, Content] = {"class": "0x120000", "vendor": b"\xff"}
    seen = observed(tmp_path, tree(**different, **WITHOUT_RDMA))
    with pytest.raises(CannotLook):
        assert seen.gpus
