"""What each driver shows of a port that is down, and what port.state makes of it: on trees made from their sources.

The sources are those of Debian's linux-source-6.1 (6.1.192). rxe alone tells the two causes apart by itself, so the lab
cannot show what the others do.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from nodeprep.checks.port.state import CHECK
from nodeprep.doors.node_host import Host
from nodeprep.facts.network import links
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma import rdma
from nodeprep.facts.rdma.rdma import Rdma
from tests.rigs.trees import Link, Tree, write
from tests.values import say, wanted

AT = "0000:5c:00.0"
HOME = f"sys/devices/pci0000:5b/0000:5b:01.0/{AT}"
PORT = f"{HOME}/infiniband/rdma_a/ports/1"
UP, DOWN = "4: ACTIVE", "1: DOWN"
INIT, TRAINING = "2: INIT", "4: PortConfigurationTraining"
LINK_UP, DISABLED, POLLING = "5: LinkUp", "3: Disabled", "2: Polling"


class Driver(NamedTuple):
    """What `state` and `phys_state` say, by the file and function below drivers/infiniband that writes it.

    `off` is without IFF_UP, `bare` with IFF_UP and without a carrier.
    """

    name: str
    node_type: str
    off: tuple[str, str]
    bare: tuple[str, str]
    file: str
    function: str


DEAD = (DOWN, DISABLED)
DRIVERS = [
    Driver("mlx5", "1: CA", DEAD, DEAD, "hw/mlx5/main.c", "mlx5_query_port_roce"),
    Driver("mlx4", "1: CA", DEAD, DEAD, "hw/mlx4/main.c", "eth_link_query_port, state_to_phys_state"),
    Driver("hns", "1: CA", DEAD, DEAD, "hw/hns/hns_roce_main.c", "hns_roce_query_port"),
    Driver("bnxt_re", "1: CA", DEAD, DEAD, "hw/bnxt_re/ib_verbs.c", "bnxt_re_query_port"),
    Driver("irdma RoCE", "1: CA", DEAD, DEAD, "hw/irdma/verbs.c", "irdma_query_port"),
    Driver("irdma iWARP", "4: RNIC", DEAD, DEAD, "hw/irdma/verbs.c", "irdma_query_port, after iw_query_port"),
    Driver("qedr", "1: CA", DEAD, DEAD, "hw/qedr/verbs.c", "qedr_query_port"),
    Driver("ocrdma", "1: CA", DEAD, DEAD, "hw/ocrdma/ocrdma_verbs.c", "ocrdma_query_port"),
    Driver("usnic", "6: usNIC UDP", DEAD, DEAD, "hw/usnic/usnic_ib_verbs.c", "usnic_ib_query_port"),
    Driver("cxgb4", "4: RNIC", DEAD, DEAD, "core/device.c", "iw_query_port (c4iw_query_port leaves both)"),
    Driver("erdma", "4: RNIC", DEAD, DEAD, "hw/erdma/erdma_verbs.c", "erdma_query_port"),
    Driver("siw", "4: RNIC", DEAD, DEAD, "sw/siw/siw_verbs.c", "siw_query_port"),
    Driver("rxe", "1: CA", DEAD, (DOWN, POLLING), "sw/rxe/rxe_verbs.c", "rxe_query_port"),
    Driver("efa", "7: <unknown>", (UP, LINK_UP), (UP, LINK_UP), "hw/efa/efa_verbs.c", "efa_query_port"),
]


def tree(shows: tuple[str, str], netdev: Tree, node_type: str = "1: CA") -> Tree:
    """One RoCE or iWARP port and its netdev eth2. What is "gone" is not recorded."""
    state, physical = shows
    usual: Tree = {"flags": "0x1003", "operstate": "up", "carrier": "1", "mtu": "9000"}
    files: Tree = {
        "sys/class/infiniband/rdma_a": Link(f"../../../{HOME}/infiniband/rdma_a"),
        f"{HOME}/infiniband/rdma_a/device": Link(f"../../../{AT}"),
        f"{HOME}/infiniband/rdma_a/node_type": node_type,
        f"{PORT}/state": state,
        f"{PORT}/phys_state": physical,
        f"{PORT}/link_layer": "Ethernet",
        f"{PORT}/rate": "40 Gb/sec (4X QDR)",
        f"{PORT}/gid_attrs/ndevs/0": "eth2",
        "sys/class/net/eth2": Link(f"../../../{HOME}/net/eth2"),
        f"{HOME}/net/eth2/device": Link(f"../../../{AT}"),
    }
    return files | {f"{HOME}/net/eth2/{name}": text for name, text in (usual | netdev).items() if text != "gone"}


def judged(tmp_path: Path, files: Tree) -> str:
    write(files, tmp_path)
    host = Host(str(tmp_path), live=False)
    ports, netdevs = rdma.observe(host), links.observe(host)
    assert isinstance(ports, Rdma)
    assert isinstance(netdevs, Links)
    return say(CHECK, ports, wanted(ports.ports[0], "profile rails"), netdevs)


# What the kernel shows of the netdev: reading the carrier is EINVAL while IFF_UP is clear (carrier_show).
OFF: Tree = {"flags": "0x1002", "operstate": "down", "carrier": "gone"}
BARE: Tree = {"flags": "0x1003", "operstate": "down", "carrier": "0"}
UNRECORDED: Tree = {"flags": "gone", "operstate": "down", "carrier": "gone"}
DAMAGED: Tree = {"flags": "garbage", "operstate": "down", "carrier": "gone"}
ALWAYS_UP = "efa"
SET_UP = "fail AdministrativelyDown link_up(interface=eth2)"


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_netdev_that_was_set_down(tmp_path: Path, driver: Driver) -> None:
    says = "ok Active" if driver.name == ALWAYS_UP else SET_UP
    assert judged(tmp_path, tree(driver.off, OFF, driver.node_type)) == says


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_cable_that_is_out_was_set_down_by_nobody(tmp_path: Path, driver: Driver) -> None:
    says = "ok Active" if driver.name == ALWAYS_UP else "fail NoSignal"
    assert judged(tmp_path, tree(driver.bare, BARE, driver.node_type)) == says


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("flags", [UNRECORDED, DAMAGED], ids=["not recorded", "damaged"])
def test_where_no_flag_tells_nobody_is_accused(tmp_path: Path, driver: Driver, flags: Tree) -> None:
    """rxe shows Polling only while IFF_UP is set, so there the port itself tells."""
    told = {ALWAYS_UP: "ok Active", "rxe": "fail NoSignal"}.get(driver.name, "fail NoLink")
    assert judged(tmp_path, tree(driver.bare, flags, driver.node_type)) == told


OTHERS: list[tuple[str, tuple[str, str], Tree, str]] = [
    ("the carrier proves IFF_UP", DEAD, {"flags": "gone", "operstate": "down", "carrier": "0"}, "fail NoSignal"),
    (
        "so does the state",
        DEAD,
        {"flags": "gone", "operstate": "lowerlayerdown", "carrier": "gone"},
        "fail NoSignal",
    ),
    ("one readable sign is enough", DEAD, BARE | {"operstate": "garbage"}, "fail NoSignal"),
    ("a carrier, and the driver denies it", DEAD, {}, "fail NotActive"),
    ("iWARP without an address: iw_query_port", (INIT, TRAINING), {}, "fail NoAddress"),
    ("usnic without an address: usnic_ib_query_port", (INIT, TRAINING), {}, "fail NoAddress"),
    ("set down in between", (INIT, TRAINING), OFF, SET_UP),
    ("no driver of Ethernet shows it", ("3: ARMED", LINK_UP), {}, "fail NotActive"),
    ("erdma before its netdev: erdma_query_port", ("0: NOP", DISABLED), {}, "fail NotActive"),
]


@pytest.mark.parametrize(("shows", "netdev", "says"), [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS])
def test_other_states(tmp_path: Path, shows: tuple[str, str], netdev: Tree, says: str) -> None:
    assert judged(tmp_path, tree(shows, netdev)) == says


def bonded(leg: Tree, bond: Tree) -> Tree:
    """RoCE LAG: the driver takes the bond above the netdev for it (mlx5_query_port_roce: lag_active)."""
    above = "sys/devices/virtual/net/bond0"
    files: Tree = {
        "sys/class/net/bond0": Link("../../devices/virtual/net/bond0"),
        f"{above}/bonding/mode": "802.3ad 4",
        f"{HOME}/net/eth2/master": Link("../../../../../virtual/net/bond0"),
    }
    usual: Tree = {"flags": "0x1403", "operstate": "up", "carrier": "1", "mtu": "9000"}
    files |= {f"{above}/{name}": text for name, text in (usual | bond).items() if text != "gone"}
    return tree(DEAD, leg) | files


BONDS: list[tuple[str, Tree, Tree, str, str]] = [
    ("the bond was set down", {}, OFF, "eth2", "fail AdministrativelyDown link_up(interface=bond0)"),
    ("no leg has a carrier", BARE, BARE, "eth2", "fail NoSignal"),
    ("as its driver names the bond", BARE, BARE, "bond0", "fail NoSignal"),
    ("its only leg was set down", OFF, BARE, "bond0", SET_UP),
    ("the cable of the leg, whatever the bond is", BARE, OFF, "eth2", "fail NoSignal"),
]


@pytest.mark.parametrize(("leg", "bond", "named", "says"), [row[1:] for row in BONDS], ids=[row[0] for row in BONDS])
def test_a_bond_under_the_port(tmp_path: Path, leg: Tree, bond: Tree, named: str, says: str) -> None:
    assert judged(tmp_path, bonded(leg, bond) | {f"{PORT}/gid_attrs/ndevs/0": named}) == says
