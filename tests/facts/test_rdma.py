"""What the RDMA class directory shows, read from trees as sysfs lays them out and as copies mangle them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.rdma import rdma
from nodeprep.facts.rdma.rdma import Gid, Port, Rdma, RdmaDevice
from nodeprep.model import CannotLook, Unreadable, Why, raw
from tests.bench import devices
from tests.rigs.trees import Content, Link, Tree, write

AT = "0000:5c:00.0"
HOME = f"sys/devices/pci0000:5b/0000:5b:01.0/{AT}"
CLASS = "sys/class/infiniband"
EMPTY = ":".join(["0000"] * 8)
LINK_LOCAL = "fe80:0000:0000:0000:5054:00ff:fe12:3456"
IPV4 = "0000:0000:0000:0000:0000:ffff:0a63:0002"


def port_files(**different: Content) -> Tree:
    """The files of a 400 Gb/s RoCE port below its own directory."""
    usual: Tree = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "Ethernet",
        "lid": "0x0",
        "sm_lid": "0x0",
        "gids/0": LINK_LOCAL,
        "gids/1": IPV4,
        "gid_attrs/types/0": "RoCE v2",
        "gid_attrs/types/1": "RoCE v2",
        "gid_attrs/ndevs/0": "eth2",
        "gid_attrs/ndevs/1": "eth2",
    }
    return {name: content for name, content in (usual | different).items() if content != "gone"}


def device_files(here: str, ports: dict[int, Tree] | None = None, **different: Content) -> Tree:
    """An mlx5 device's own files in this directory."""
    usual: Tree = {
        "node_type": "1: CA",
        "node_guid": "5054:00ff:fe12:3456",
        "sys_image_guid": "5054:00ff:fe12:3456",
        "fw_ver": "28.41.1000",
        "hca_type": "MT4129",
        "board_id": "MT_0000000838",
    }
    files = {f"{here}/{name}": content for name, content in (usual | different).items() if content != "gone"}
    for number, port in (ports or {1: port_files()}).items():
        files |= {f"{here}/ports/{number}/{name}": content for name, content in port.items()}
    return files


def kernel_tree(ports: dict[int, Tree] | None = None, **different: Content) -> Tree:
    """mlx5_3 as the kernel lays it out: the class entry and `device` are links."""
    here = f"{HOME}/infiniband/mlx5_3"
    return {
        f"{CLASS}/mlx5_3": Link(f"../../../{here}"),
        f"{here}/device": Link(f"../../../{AT}"),
        f"{HOME}/vendor": "0x15b3",
        f"{HOME}/device": "0x1021",
        **device_files(here, ports, **different),
    }


def look(tmp_path: Path, files: Tree) -> Rdma:
    write(files, tmp_path)
    seen = rdma.observe(Host(str(tmp_path), live=False))
    assert isinstance(seen, Rdma)
    return seen


def one_port(tmp_path: Path, files: Tree) -> Port:
    (port,) = look(tmp_path, files).ports
    return port


def test_a_port_as_the_kernel_shows_it(tmp_path: Path) -> None:
    seen = look(tmp_path, kernel_tree())
    assert seen.devices == (
        RdmaDevice(
            name="mlx5_3",
            bdf=AT,
            parent=None,
            node_type="1: CA",
            node_guid="5054:00ff:fe12:3456",
            system_guid="5054:00ff:fe12:3456",
            firmware="28.41.1000",
            hca_type="MT4129",
            board="MT_0000000838",
            id="15b3:1021",
            virtual_function=False,
            traffic_class=None,
        ),
    )
    assert seen.ports == (
        Port(
            device="mlx5_3",
            number=1,
            bdf=AT,
            netdev="eth2",
            state="4: ACTIVE",
            physical="5: LinkUp",
            rate=400.0,
            layer="Ethernet",
            lid="0x0",
            sm_lid="0x0",
            gids=(Gid(0, LINK_LOCAL, "RoCE v2", "eth2"), Gid(1, IPV4, "RoCE v2", "eth2")),
            like="15b3:1021 MT_0000000838 Ethernet",
        ),
    )
    (port,) = seen.ports
    assert (port.subject.key, port.name, port.where) == (f"{AT}/1", "mlx5_3/1", f"mlx5_3/1 at {AT}")
    assert port.hardware == "15b3:1021 MT_0000000838"


def test_a_device_is_found_by_its_name_and_known_by_its_address_if_it_has_one(tmp_path: Path) -> None:
    seen = look(tmp_path, kernel_tree() | device_files(f"{CLASS}/mlx5_4"))
    first, second = seen.devices
    assert (seen.device("mlx5_4"), seen.device("mlx5_3"), seen.device("mlx5_9")) == (second, first, None)
    assert (first.place, second.place) == (AT, "mlx5_4")


def test_half_a_pci_id_is_none(tmp_path: Path) -> None:
    files = {path: content for path, content in kernel_tree().items() if not path.endswith(f"{AT}/device")}
    assert [device.id for device in look(tmp_path, files).devices] == [""]


def test_no_class_directory_is_a_node_without_rdma(tmp_path: Path) -> None:
    seen = look(tmp_path, {"sys/class/net": None})
    assert (seen.devices, seen.ports) == ((), ())


def test_a_class_entry_whose_target_was_not_copied_is_no_device(tmp_path: Path) -> None:
    assert look(tmp_path, {f"{CLASS}/mlx5_3": Link(f"../../../{HOME}/infiniband/mlx5_3")}).devices == ()


class TestAddress:
    """Where a device sits, however much of that a copy kept."""

    def test_of_a_plain_directory_whose_device_link_dangles(self, tmp_path: Path) -> None:
        files = device_files(f"{CLASS}/mlx5_3") | {f"{CLASS}/mlx5_3/device": Link(f"../../../{AT}")}
        assert one_port(tmp_path, files).bdf == AT

    def test_of_a_copy_that_followed_the_links(self, tmp_path: Path) -> None:
        files = device_files(f"{CLASS}/mlx5_3")
        files[f"{CLASS}/mlx5_3/device/uevent"] = f"DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_SLOT_NAME={AT}"
        assert one_port(tmp_path, files).bdf == AT

    def test_by_the_pci_listing_that_holds_the_device(self, tmp_path: Path) -> None:
        files = device_files(f"{CLASS}/mlx5_3") | {
            "sys/bus/pci/devices/0000:5b:00.0/infiniband/mlx5_30": None,
            f"sys/bus/pci/devices/{AT}/infiniband/mlx5_3": None,
        }
        assert one_port(tmp_path, files).bdf == AT

    def test_is_the_name_where_nothing_shows_it(self, tmp_path: Path) -> None:
        port = one_port(tmp_path, device_files(f"{CLASS}/mlx5_3"))
        assert (port.bdf, port.place, port.where) == ("", "mlx5_3", "mlx5_3/1")
        assert port.like == "MT4129 MT_0000000838 Ethernet"

    def test_of_a_software_device_is_its_netdevs(self, tmp_path: Path) -> None:
        here = "sys/devices/virtual/infiniband/rxe0"
        files = device_files(here, parent="eth2", hca_type="gone", board_id="gone") | {
            f"{CLASS}/rxe0": Link(f"../../../{here}"),
            "sys/class/net/eth2": Link(f"../../../{HOME}/virtio2/net/eth2"),
            f"{HOME}/virtio2/net/eth2/device": Link("../../../virtio2"),
        }
        seen = look(tmp_path, files)
        assert (seen.ports[0].bdf, seen.ports[0].like) == (AT, "software Ethernet")
        assert seen.devices[0].parent == "eth2"

    def test_of_a_subfunction_is_not_its_parents(self, tmp_path: Path) -> None:
        here = f"{HOME}/mlx5_core.sf.4/infiniband/mlx5_8"
        files = device_files(here) | {
            f"{CLASS}/mlx5_8": Link(f"../../../{here}"),
            f"{here}/device": Link("../../../mlx5_core.sf.4"),
        }
        (device,) = look(tmp_path, files).devices
        assert (device.bdf, device.virtual_function) == ("", True)


@pytest.mark.parametrize("physfn", [Link("../0000:5c:00.0"), Link("../not-copied"), None])
def test_a_virtual_function_is_known_by_its_physfn_wherever_that_leads(tmp_path: Path, physfn: Content) -> None:
    (device,) = look(tmp_path, kernel_tree() | {f"{HOME}/physfn": physfn}).devices
    assert device.virtual_function


GARBLED = [
    # file          content                    why
    ("state", "1000: UNKNOWN", Why.MALFORMED),
    ("state", "9: NEWER", Why.MALFORMED),
    ("state", "40: ACTIVE", Why.MALFORMED),
    ("state", "4: UNKNOWN", Why.MALFORMED),
    ("state", ": UNKNOWN", Why.MALFORMED),
    ("phys_state", "9: LinkUp", Why.MALFORMED),
    ("state", "4: ACTI", Why.MALFORMED),
    ("state", "ACTIVE", Why.MALFORMED),
    ("state", "5: ACTIVE", Why.MALFORMED),
    ("state", "", Why.MALFORMED),
    ("state", "gone", Why.MISSING),
    ("state", b"4: ACT\xff", Why.MALFORMED),
    ("state", None, Why.IO_ERROR),
    ("phys_state", "5: LinkDown", Why.MALFORMED),
    ("phys_state", "gone", Why.MISSING),
    ("rate", "400 Gb/sec (4X", Why.MALFORMED),
    ("rate", "40 Gb/sec (4X NDR)", Why.MALFORMED),
    ("rate", "999999 Gb/sec (4X)", Why.MALFORMED),
    ("rate", "gone", Why.MISSING),
    ("link_layer", "Ether", Why.MALFORMED),
    ("link_layer", "gone", Why.MISSING),
    ("lid", "0x", Why.MALFORMED),
    ("sm_lid", "none", Why.MALFORMED),
]
FIELDS = {"phys_state": "physical", "link_layer": "layer"}


@pytest.mark.parametrize(("file", "content", "why"), GARBLED)
def test_damage_spoils_its_own_field_only(tmp_path: Path, file: str, content: Content, why: Why) -> None:
    port = one_port(tmp_path, kernel_tree({1: port_files(**{file: content})}))
    name = FIELDS.get(file, file)
    with pytest.raises(CannotLook) as caught:
        getattr(port, name)
    assert (caught.value.blind.kind, caught.value.blind.path) == (why, f"/{CLASS}/mlx5_3/ports/1/{file}")
    spoiled = [other for other, value in raw(port).items() if isinstance(value, Unreadable)]
    assert spoiled == [name]


TAKEN = [
    ("state", "9: UNKNOWN", "9: UNKNOWN"),
    ("state", "5: ACTIVE_DEFER", "5: ACTIVE_DEFER"),
    ("state", "999: UNKNOWN", "999: UNKNOWN"),
    ("phys_state", "9: <unknown>", "9: <unknown>"),
    ("phys_state", "3: Disabled", "3: Disabled"),
    ("rate", "2.5 Gb/sec (1X SDR)", 2.5),
    ("rate", "2.5 Gb/sec (1X)", 2.5),
    ("rate", "20 Gb/sec (4X DDR)", 20.0),
    ("rate", "40 Gb/sec (4X QDR)", 40.0),
    ("rate", "56 Gb/sec (4X FDR)", 56.0),
    ("rate", "25 Gb/sec (1X EDR)", 25.0),
    ("rate", "200 Gb/sec (4X HDR)", 200.0),
    ("rate", "40 Gb/sec (4X FDR10)", 40.0),
    ("rate", "200 Gb/sec (2X NDR)", 200.0),
    ("rate", "800 Gb/sec (4X XDR)", 800.0),
    ("rate", "1600 Gb/sec (4X NEW)", 1600.0),
    ("link_layer", "Unknown", "Unknown"),
    ("lid", "gone", None),
    ("lid", "0x1f", "0x1f"),
]


@pytest.mark.parametrize(("file", "content", "value"), TAKEN)
def test_what_a_kernel_writes_is_taken(tmp_path: Path, file: str, content: str, value: object) -> None:
    port = one_port(tmp_path, kernel_tree({1: port_files(**{file: content})}))
    assert getattr(port, FIELDS.get(file, file)) == value


@pytest.mark.parametrize("guid", ["5054:00ff:fe12", "5054:00ff:fe12:345g", "garbage"])
def test_a_garbled_guid_is_unreadable(tmp_path: Path, guid: str) -> None:
    (device,) = look(tmp_path, kernel_tree(node_guid=guid)).devices
    with pytest.raises(CannotLook):
        _ = device.node_guid
    assert device.system_guid == "5054:00ff:fe12:3456"


class TestGids:
    """The table, with holes, without types, and where it is not shown."""

    def test_holes_are_no_entries(self, tmp_path: Path) -> None:
        port = one_port(tmp_path, kernel_tree({1: port_files(**{"gids/0": EMPTY, "gids/2": EMPTY, "gids/17": IPV4})}))
        assert [gid.index for gid in port.gids or ()] == [1, 17]

    def test_the_rest_is_taken_for_empty_after_sixteen_empty_entries(self, tmp_path: Path) -> None:
        holes = {f"gids/{index}": EMPTY for index in range(2, 18)}
        port = one_port(tmp_path, kernel_tree({1: port_files(**holes, **{"gids/18": IPV4})}))
        assert [gid.index for gid in port.gids or ()] == [0, 1]
        fewer = {f"gids/{index}": EMPTY for index in range(2, 17)}
        port = one_port(tmp_path / "fewer", kernel_tree({1: port_files(**fewer, **{"gids/17": IPV4})}))
        assert [gid.index for gid in port.gids or ()] == [0, 1, 17]

    def test_also_before_the_first_entry(self, tmp_path: Path) -> None:
        late = {f"gids/{index}": EMPTY for index in range(15)} | {"gids/15": IPV4}
        assert [gid.index for gid in one_port(tmp_path, kernel_tree({1: port_files(**late)})).gids or ()] == [15]
        later = {f"gids/{index}": EMPTY for index in range(16)} | {"gids/16": IPV4}
        assert one_port(tmp_path / "later", kernel_tree({1: port_files(**later)})).gids == ()

    def test_is_none_where_no_table_is_shown_and_empty_where_it_holds_nothing(self, tmp_path: Path) -> None:
        bare = {"gids/0": "gone", "gids/1": "gone"}
        assert one_port(tmp_path / "none", kernel_tree({1: port_files(**bare)})).gids is None
        assert one_port(tmp_path / "uncopied", kernel_tree({1: port_files(**bare, gids=None)})).gids is None
        zeros = {"gids/0": EMPTY, "gids/1": EMPTY}
        assert one_port(tmp_path / "zeros", kernel_tree({1: port_files(**zeros)})).gids == ()

    def test_attributes_that_are_not_recorded_are_none(self, tmp_path: Path) -> None:
        lacks = dict.fromkeys(("gid_attrs/types/1", "gid_attrs/ndevs/1"), "gone")
        gids = one_port(tmp_path, kernel_tree({1: port_files(**lacks)})).gids or ()
        assert [(gid.kind, gid.netdev) for gid in gids] == [("RoCE v2", "eth2"), (None, None)]

    def test_a_garbled_entry_is_unreadable_beside_readable_ones(self, tmp_path: Path) -> None:
        gids = one_port(tmp_path, kernel_tree({1: port_files(**{"gids/0": "fe80::1"})})).gids or ()
        assert [gid.readable for gid in gids] == [False, True]
        with pytest.raises(CannotLook):
            _ = gids[0].value

    def test_those_of_infiniband_are_not_read(self, tmp_path: Path) -> None:
        assert one_port(tmp_path, kernel_tree({1: port_files(link_layer="InfiniBand")})).gids is None
        assert one_port(tmp_path / "unknown", kernel_tree({1: port_files(link_layer="Unknown")})).gids != ()


ADDRESSES = [
    # value                                     routable  address
    (LINK_LOCAL, False, LINK_LOCAL),
    ("febf:0000:0000:0000:0000:0000:0000:0001", False, "febf:0000:0000:0000:0000:0000:0000:0001"),
    ("fec0:0000:0000:0000:0000:0000:0000:0001", True, "fec0:0000:0000:0000:0000:0000:0000:0001"),
    ("2001:0db8:0000:0000:0000:0000:0000:0007", True, "2001:0db8:0000:0000:0000:0000:0000:0007"),
    (IPV4, True, "10.99.0.2"),
    ("0000:0000:0000:0000:0000:ffff:a9fe:0102", False, "169.254.1.2"),
    ("0000:0000:0000:0000:0000:ffff:c0a8:0182", True, "192.168.1.130"),
    ("0000:0000:0000:0000:0000:0000:0000:0001", False, "0000:0000:0000:0000:0000:0000:0000:0001"),
]


@pytest.mark.parametrize(("value", "routable", "address"), ADDRESSES)
def test_which_gids_routers_carry(value: str, routable: bool, address: str) -> None:
    gid = Gid(3, value, "RoCE v2", "eth2")
    assert (gid.routable, gid.address) == (routable, address)


class TestNetdev:
    """The network interface of a port, by GID, by software parent, by PCI function."""

    def test_is_that_of_the_first_gid_of_several(self, tmp_path: Path) -> None:
        vlan = {"gids/0": EMPTY, "gids/2": IPV4, "gid_attrs/ndevs/1": "eth2", "gid_attrs/ndevs/2": "eth2.7"}
        assert one_port(tmp_path, kernel_tree({1: port_files(**vlan)})).netdev == "eth2"
        other = {"gids/2": IPV4, "gid_attrs/ndevs/2": "eth2.7", "gid_attrs/ndevs/1": "eth2.7"}
        assert one_port(tmp_path / "other", kernel_tree({1: port_files(**other)})).netdev == "eth2"

    def test_else_is_what_a_software_device_sits_on(self, tmp_path: Path) -> None:
        bare = port_files(**dict.fromkeys(("gids/0", "gids/1", "gid_attrs/ndevs/0", "gid_attrs/ndevs/1"), "gone"))
        assert one_port(tmp_path, device_files(f"{CLASS}/rxe0", {1: bare}, parent="eth5")).netdev == "eth5"

    def test_comes_from_the_first_gid(self, tmp_path: Path) -> None:
        other: Tree = {f"{HOME}/net/eth9/dev_port": "0"}
        assert one_port(tmp_path, kernel_tree() | other).netdev == "eth2"

    @pytest.mark.parametrize("dev_port", ["0", "1", "garbage"])  # bnxt_en counts its functions there
    def test_else_is_the_only_one_of_a_function_with_one_port(self, tmp_path: Path, dev_port: str) -> None:
        port = port_files(**{"gid_attrs/ndevs/0": "gone"}, **{"gid_attrs/ndevs/1": "gone"})
        files = kernel_tree({1: port}) | {f"{HOME}/net/ib0/dev_port": dev_port}
        assert one_port(tmp_path, files).netdev == "ib0"

    def test_else_is_the_one_with_the_ports_number_less_one(self, tmp_path: Path) -> None:
        bare = port_files(**dict.fromkeys(("gids/0", "gids/1", "gid_attrs/ndevs/0", "gid_attrs/ndevs/1"), "gone"))
        files = kernel_tree({1: bare, 2: bare})
        files |= {f"{HOME}/net/eth7/dev_port": "1", f"{HOME}/net/eth8/dev_port": "0"}
        assert [port.netdev for port in look(tmp_path, files).ports] == ["eth8", "eth7"]

    @pytest.mark.parametrize(("parent", "child"), [("ib0", "a0"), ("ib0", "ib0.8001"), ("z", "a"), ("10", "9")])
    @pytest.mark.parametrize("told", ["iflink", "parent", "ifindex", "phys_port_name"])
    def test_is_the_parent_of_its_children_whatever_they_are_called(
        self, tmp_path: Path, parent: str, child: str, told: str
    ) -> None:
        """ipoib_get_iflink; the file `parent` of a child that sysfs made; the parent is the older one."""
        bare = port_files(**{"gid_attrs/ndevs/0": "gone"}, **{"gid_attrs/ndevs/1": "gone"}, link_layer="InfiniBand")
        files = kernel_tree({1: bare})
        files |= {f"{HOME}/net/{name}/dev_port": "0" for name in (parent, child)}
        match told:
            case "iflink":  # the parent came back from another namespace and is the younger one
                indices = {parent: ("9", "9"), child: ("7", "9")}
                files |= {f"{HOME}/net/{name}/ifindex": own for name, (own, _) in indices.items()}
                files |= {f"{HOME}/net/{name}/iflink": link for name, (_, link) in indices.items()}
            case "parent":
                files |= {f"{HOME}/net/{child}/parent": parent}
            case "ifindex":
                files |= {f"{HOME}/net/{parent}/ifindex": "7", f"{HOME}/net/{child}/ifindex": "11"}
            case "phys_port_name":
                files |= {f"{HOME}/net/{parent}/phys_port_name": "p0", f"{HOME}/net/{child}/phys_port_name": "pf0vf3"}
        assert one_port(tmp_path, files).netdev == parent

    def test_is_unknown_where_only_names_would_tell(self, tmp_path: Path) -> None:
        bare = port_files(**{"gid_attrs/ndevs/0": "gone"}, **{"gid_attrs/ndevs/1": "gone"}, link_layer="InfiniBand")
        files = kernel_tree({1: bare}) | {f"{HOME}/net/{name}/dev_port": "0" for name in ("ib0", "ib0.8001")}
        assert one_port(tmp_path, files).netdev is None

    def test_is_not_the_other_ports(self, tmp_path: Path) -> None:
        bare = port_files(**dict.fromkeys(("gids/0", "gids/1", "gid_attrs/ndevs/0", "gid_attrs/ndevs/1"), "gone"))
        files = kernel_tree({1: bare, 2: bare}) | {f"{HOME}/net/eth8/dev_port": "0"}
        assert [port.netdev for port in look(tmp_path, files).ports] == ["eth8", None]

    def test_is_none_where_nothing_shows_it(self, tmp_path: Path) -> None:
        bare = port_files(**dict.fromkeys(("gids/0", "gids/1", "gid_attrs/ndevs/0", "gid_attrs/ndevs/1"), "gone"))
        assert one_port(tmp_path, kernel_tree({1: bare})).netdev is None


def test_places_lists_ports_by_number_not_by_name(tmp_path: Path) -> None:
    write(kernel_tree({10: port_files(), 9: port_files()}), tmp_path)
    host = Host(str(tmp_path), live=False)
    assert rdma.places(host.files) == (("mlx5_3", 9, AT), ("mlx5_3", 10, AT))


def test_a_class_directory_that_does_not_list_is_unreadable(tmp_path: Path) -> None:
    write({CLASS: "a file"}, tmp_path)
    assert isinstance(rdma.observe(Host(str(tmp_path), live=False)), Unreadable)


def test_of_a_virtual_function_no_table_of_addresses_is_read(tmp_path: Path) -> None:
    """Nobody judges them: its addresses are where its user is. Of 1,016 functions they are half of what is read."""
    found = rdma.observe(Host(str(devices.built(tmp_path, 16, rdma=True))))
    assert isinstance(found, Rdma)
    virtual = {device.name for device in found.devices if device.virtual_function}
    assert [len(port.gids or ()) for port in found.ports if port.device not in virtual] == [3] * 8
    given = [(port.gids, port.netdev) for port in found.ports if port.device in virtual]
    assert sorted(given, key=str) == [(None, f"ethv{number}") for number in range(8)]
