"""One readable sign convicts: damage beside a sign of a fault hides it from no check, and damage alone is no fault.

Trees: each fault of tests/trees/cases, with each other file of the node damaged. Small nodes: each fault of one device,
with each file damaged in each way, and with all files of a netdev; the exit code must not fall, without a profile and
with a captured one. `make test` draws from these damages (tests/drawn.py). Values: each failing verdict of the tests of
checks, with each other field unreadable (tests/given.py collects them, tests/test_reasons.py runs it).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from nodeprep import check_round, facts
from nodeprep.checks import CHECKS
from nodeprep.doors.files.reader import LIMIT, Files
from nodeprep.doors.node_host import Host
from nodeprep.facts.expected import profile_capture, suited
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import DEVICES, Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.devnodes import DevNodes
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import Expectation, Profile
from nodeprep.look import Look
from nodeprep.model import CannotLook, Check, Severity, Status, Unreadable, Why
from tests import drawn
from tests.rigs import faults, trees
from tests.rigs.trees import ZERO_GID
from tests.test_monotone import ORDER, named

pytestmark = pytest.mark.slow

EVERY = tuple(CHECKS.values())
CASES = {path.stem: yaml.safe_load(path.read_text()) for path in trees.cases()}
NOBODY = Profile(name="nobody", expect=Expectation())
# Text that the kernel does not write: any text may stand there.
FAULTS_THEMSELVES = {
    ("cni.parse", "N-terway.conflist"): "a configuration: what its reader cannot parse is the fault",
    ("port.present", "hca_type"): "a driver's own word: another one is another card, where nothing else tells",
}
Content = bytes | None | Unreadable
Failing = dict[tuple[str, str, int | None], str]  # check, place and port; the message
OTHERS = ("garbage", "empty", "gone")  # the damages beside "unreadable"
# What stands between a sign and its meaning, by check and file: without it nobody can say that there is a fault.
LARGE = {"h100-ib", "h100-roce", "a100-azure"}  # the same files as on smaller nodes, at ten times the cost
LEFT_OUT = {
    ("port.gid", "N"): "the sign itself: the entry that cannot be read may be the address",
    ("cni.binaries", "N-terway.conflist"): "names the programs",
    ("cni.parse", "N-terway.conflist"): "the sign itself: what its reader cannot parse",
    ("cni.parse", "N-hostile.conflist"): "the sign itself: what its reader cannot parse",
    ("sysctl.arp", "eni_topo"): "the sign itself: that the file is there, whatever it holds",
    ("limits.memlock", "comm"): "names the process: another one's limit is nobody's concern",
}


class DamagedFiles(Files):
    """Files of which some have another content. They record what was asked for. The others are read once."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.instead: dict[str, Content] = {}
        self.asked: set[str] = set()
        self._was: dict[tuple[str, int, bool], Content] = {}

    def data(self, path: str, limit: int = LIMIT, head: bool = False) -> bytes | None | Unreadable:
        self.asked.add(path)
        if path in self.instead:
            return self.instead[path]
        key = path, limit, head
        if key not in self._was:
            self._was[key] = super().data(path, limit, head)
        return self._was[key]


class Node:
    """A tree, its facts by kind, and the files that each fact read."""

    def __init__(self, root: Path, profile: Profile | None = None) -> None:
        self.host = Host(str(root), live=False)
        self.files = DamagedFiles(str(root))
        self.host.files = self.files
        self.read: dict[type, set[str]] = {}
        self.facts: dict[type, object] = {}
        for fact in facts.ALL:
            if not fact.live:
                self.files.asked = set()
                self.facts[fact.kind] = observed(fact.observe, self.host)
                self.read[fact.kind] = self.files.asked
        self.profile = profile or self.captured()

    def captured(self) -> Profile:
        look = Look(0.0, False, self.facts)
        rdma = look.get(Rdma)
        shown = {kind: look.get(kind) for kind in (Pci, Links, DevNodes, Modules)}
        given = dict(zip(("pci", "links", "devnodes", "modules"), shown.values(), strict=True))
        return (profile_capture.capture("captured", rdma, **given) if rdma else None) or NOBODY  # type: ignore[arg-type]

    def content(self, path: str) -> Content:
        return Files.data(self.files, path)

    def look(self, **instead: Content) -> Look:
        """What is seen, with other contents of some files."""
        self.files.instead = instead
        seen = self.facts | {
            fact.kind: observed(fact.observe, self.host)
            for fact in facts.ALL
            if not self.read.get(fact.kind, set()).isdisjoint(instead)
        }
        self.files.instead = {}
        return Look(0.0, False, seen)

    def failing(self, asked: tuple[Check, ...], **instead: Content) -> Failing:
        """The failures of these checks, with other contents of some files."""
        found = check_round.unfolded(asked, self.look(**instead), None, self.profile, {}).findings
        return {
            (one.check, one.subject.place, one.subject.port): one.verdict.message
            for one in found
            if one.status is Status.FAIL
        }

    def code(self, profile: Profile | None, likely: tuple[Check, ...] = EVERY, **instead: Content) -> int:
        """The exit code. The checks that fail `likely` are asked first; None is the profile that hardware chooses."""
        look = self.look(**instead)
        profile = profile or named(suited.suited(look.get(Pci), look.get(Rdma), look.get(Links)).profile)
        if any(one.status is Status.FAIL for one in check_round.unfolded(likely, look, None, profile, {}).findings):
            return 1
        found = check_round.unfolded(EVERY, look, None, profile, {}).findings
        if any(one.status is Status.FAIL for one in found):
            return 1
        return 3 if any(one.status is Status.UNKNOWN and one.severity is Severity.GATE for one in found) else 0

    def files_of(self, asked: tuple[Check, ...]) -> list[str]:
        """Every file that these checks read, by their facts."""
        kinds = {fact.kind for fact in check_round.needed(asked)}
        paths = {path for kind in kinds for path in self.read.get(kind, ())}
        return sorted(path for path in paths if isinstance(self.content(path), bytes))


def observed(observe: Any, host: Host) -> object:
    try:
        return observe(host)
    except CannotLook as cannot:
        return cannot.blind


def damaged(path: str) -> Iterator[tuple[str, Content]]:
    yield "unreadable", Unreadable(Why.IO_ERROR, path, errno.EIO)
    yield "garbage", b"garbage\n"
    yield "empty", b""
    yield "gone", None


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Node]:
    at = tmp_path_factory.mktemp("nodes")
    return {name: Node(trees.build(name, at / name)) for name in trees.names()}


def kind_of(path: str) -> str:
    """A path without what tells one device from another."""
    return re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "N", path)


@drawn.shares(0.5)
@pytest.mark.parametrize("name", sorted(CASES))
def test_damage_beside_a_sign_hides_no_fault(good: dict[str, Node], tmp_path: Path, name: str, share: float) -> None:
    case = CASES[name]
    root = trees.build(case["node"], tmp_path / "node")
    faults.apply(case, root)
    node = Node(root, good[case["node"]].profile)
    failing = node.failing(EVERY)
    asked = tuple(check for check in EVERY if any(check.id == one for one, _, _ in failing))
    wrong, pairs = [], 0
    for path, hows in drawn.some(chosen(node, asked, failing), share):
        healthy = good[case["node"]].content(path)
        kept = node.failing(asked, **{path: healthy}) if healthy != node.content(path) else failing
        for how, content in damaged(path):
            if how in hows:
                now = node.failing(asked, **{path: content})
                still = {check for check, _, _ in now}  # of a device that cannot be named, the node has the verdict
                wrong += [(one, path, how) for one in failing if one in kept and one[0] not in still]
                wrong += [(one, path, f"{how} fails") for one in failing if one not in kept and one in now]
                pairs += 1
    told = {
        (check, kind_of(path), how)
        for (check, _, _), path, how in wrong
        if how != "gone fails" and (check, kind_of(path).rpartition("/")[2]) not in LEFT_OUT
    }
    assert not told, "\n".join(map(str, sorted(told)))
    assert pairs or not failing


def chosen(node: Node, asked: tuple[Check, ...], failing: Failing) -> Iterator[tuple[str, tuple[str, ...]]]:
    """One file of each kind: of the faulty devices with every damage, of others and of the node with one."""
    seen: set[tuple[str, bool]] = set()
    places = {place for _, place, _ in failing if place}
    for path in node.files_of(asked):
        own = any(part in places for part in node.files.place(path).split("/")) or not path.startswith("/sys/class")
        own = (own and not path.startswith(f"{DEVICES}/")) or any(f"/{place}/" in path for place in places)
        if (kind_of(path), own) not in seen:
            seen.add((kind_of(path), own))
            yield path, ("unreadable", OTHERS[len(seen) % 3]) if own else ("unreadable",)


@drawn.shares(0.5)
@pytest.mark.parametrize("name", sorted(set(trees.names()) - LARGE))
def test_damage_alone_is_no_fault(good: dict[str, Node], name: str, share: float) -> None:
    node = good[name]
    one_of_each = {kind_of(path): path for path in node.files_of(EVERY)}
    found = []
    for kind, path in drawn.some(one_of_each.items(), share):
        for how, content in (*damaged(path), ("-1", b"-1\n")):
            if how not in ("gone", "empty"):
                found += [(check, kind, how) for check, _, _ in node.failing(EVERY, **{path: content})]
    told = {one for one in found if (one[0], one[1].rpartition("/")[2]) not in FAULTS_THEMSELVES}
    assert not told, "\n".join(map(str, sorted(told)))


IB, ROCE = "sys/class/infiniband/mlx5_4/ports/1", "sys/class/infiniband/mlx5_2"
NIC = "sys/bus/pci/devices/0000:5d:00.0"
ETH = "sys/class/net/eth2"
EXAMPLES = [
    # node        a sign                                   damage beside it                      check
    ("h100-roce", {f"{ETH}/operstate": "down"}, {f"{ETH}/flags": "garbage"}, "port.netdev"),
    ("h100-roce", {f"{ETH}/operstate": "down"}, {f"{ETH}/flags": {"directory": True}}, "port.netdev"),
    ("h100-roce", {f"{ETH}/operstate": "down"}, {f"{ETH}/carrier": "garbage"}, "port.netdev"),
    ("h100-roce", {f"{ETH}/carrier": "0"}, {f"{ETH}/operstate": None}, "port.netdev"),
    ("h100-roce", {f"{ETH}/carrier": "0"}, {f"{ETH}/operstate": "garbage"}, "port.netdev"),
    ("h100-roce", {f"{ETH}/carrier": "0"}, {f"{ROCE}/ports/1/state": "garbage"}, "port.netdev"),
    ("h100-ib", {f"{IB}/state": "1: DOWN"}, {f"{IB}/phys_state": ""}, "port.state"),
    ("h100-ib", {f"{IB}/phys_state": "2: Polling"}, {f"{IB}/state": ""}, "port.state"),
    ("h100-ib", {f"{IB}/sm_lid": "0x0"}, {f"{IB}/lid": "garbage"}, "port.guid"),
    ("h100-ib", {f"{IB}/lid": "0x0"}, {f"{IB}/sm_lid": {"fifo": True}}, "port.guid"),
    ("h100-ib", {f"{IB}/sm_lid": "0x0"}, {f"{IB}/state": "garbage"}, "port.guid"),
    ("h100-ib", {f"{IB}/rate": "200 Gb/sec (4X HDR)"}, {f"{IB}/state": "garbage"}, "port.rate"),
    ("h100-ib", {f"{NIC}/current_link_speed": "2.5 GT/s PCIe"}, {f"{NIC}/current_link_width": "garbage"}, "pci.link"),
    ("h100-ib", {f"{NIC}/current_link_speed": "2.5 GT/s PCIe"}, {f"{NIC}/current_link_width": None}, "pci.link"),
    ("h100-ib", {f"{NIC}/current_link_width": "1"}, {f"{NIC}/current_link_speed": "garbage"}, "pci.link"),
    ("h100-ib", {f"{NIC}/power_state": "D3cold"}, {f"{NIC}/config": {"directory": True}}, "pci.answers"),
    ("h100-ib", {f"{NIC}/config": {"hex": "ff" * 64}}, {f"{NIC}/power_state": "garbage"}, "pci.answers"),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example[1:3]))
def test_one_readable_sign_convicts(good: dict[str, Node], tmp_path: Path, example: Any) -> None:
    name, sign, damage, check = example
    root = trees.build(name, tmp_path / "node")
    faults.apply({"change": sign | damage}, root)
    failing = Node(root, good[name].profile).failing(EVERY)
    assert check in {one for one, _, _ in failing}


# Small nodes, and what breaks on them at one device: the fault leaves other signs, of which each must do alone.
AT = ["0000:19:00.0", "0000:3b:00.0", "0000:4c:00.0"]
RAILS = {"rdma": ["mlx5_0", "mlx5_1", "mlx5_2"], "at": AT}
FRONT = {"kind": "cx6dx", "rdma": ["mlx5_3", "mlx5_4"], "at": ["0000:2a:00.0", "0000:2a:00.1"], "netdev": ["e3", "e4"]}
LEGS = {"rdma": ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"], "netdev": ["e0", "e1", "e2", "e3"]}
PAIRS = {"at": ["0000:19:00.0", "0000:19:00.1", "0000:4c:00.0", "0000:4c:00.1"], "bond": ["b0", "b0", "b1", "b1"]}
SMALL: dict[str, dict[str, Any]] = {
    "roce": {
        "name": "roce",
        "nics": [
            {"kind": "cx7-roce", "netdev": ["e0", "e1", "e2"], **RAILS},
            FRONT | {"gids": False, "bond": "b0"},
        ],
    },
    "ib": {"name": "ib", "nics": [{"kind": "cx7-ib", "netdev": ["e0", "e1", "e2"], **RAILS}, FRONT]},
    "bonds": {"name": "bonds", "nics": [{"kind": "cx7-roce", **LEGS, **PAIRS}]},
}
Change = dict[str, Any]


def at_port(name: str, **files: Any) -> Change:
    return {f"sys/class/infiniband/{name}/ports/1/{file}": content for file, content in files.items()}


def at_netdev(*names: str, **files: Any) -> Change:
    return {f"sys/class/net/{name}/{file}": content for name in names for file, content in files.items()}


def at_function(**files: Any) -> Change:
    return {f"sys/bus/pci/devices/{AT[2]}/{file}": content for file, content in files.items()}


CABLE_OUT = {"state": "1: DOWN", "phys_state": "3: Disabled", "rate": "40 Gb/sec (4X QDR)"}  # as mlx5 shows it
SILENT = {"state": "1: DOWN", "phys_state": "2: Polling", "rate": "10 Gb/sec (4X SDR)"}
WITHOUT_CARRIER = {"carrier": "0", "operstate": "down"}
SET_DOWN = {"carrier": None, "operstate": "down", "flags": "0x1002"}
LEGS_OUT = at_port("mlx5_2", **CABLE_OUT) | at_port("mlx5_3", **CABLE_OUT)
ANY_NETWORK: dict[str, dict[str, Any]] = {
    "driver gone": {"unbind": [AT[2]]},
    "config reads as all ones": {"change": at_function(config={"hex": "ff" * 64})},
    "without power": {"change": at_function(power_state="D3cold")},
    "narrow": {"change": at_function(current_link_width="4")},
    "slow slot": {"change": at_function(current_link_speed="2.5 GT/s PCIe")},
    "GUID of zeros": {"change": {"sys/class/infiniband/mlx5_2/node_guid": "0000:0000:0000:0000"}},
    "uverbs entry gone": {"change": {"sys/class/infiniband_verbs/uverbs2": None}},
    "uverbs node gone": {"change": {"dev/infiniband/uverbs2": None}},
    "no link under an active port": {"change": at_port("mlx5_2", phys_state="2: Polling")},
}
BROKEN: dict[str, dict[str, dict[str, Any]]] = {
    "roce": ANY_NETWORK
    | {
        "cable out": {"change": at_port("mlx5_2", **CABLE_OUT) | at_netdev("e2", **WITHOUT_CARRIER)},
        "set down": {"change": at_port("mlx5_2", **CABLE_OUT) | at_netdev("e2", **SET_DOWN)},
        "netdev set down": {"change": at_netdev("e2", **SET_DOWN)},
        "netdev without carrier": {"change": at_netdev("e2", **WITHOUT_CARRIER)},
        "no routable GID": {"change": at_port("mlx5_2", **{"gids/3": ZERO_GID})},
        "in the other mode": {
            "change": at_port("mlx5_2", link_layer="InfiniBand", **SILENT) | at_function(**{"class": "0x020700"})
        },
    },
    "ib": ANY_NETWORK
    | {
        "no signal": {"change": at_port("mlx5_2", **SILENT) | at_netdev("e2", **WITHOUT_CARRIER)},
        "disabled": {"change": at_port("mlx5_2", **CABLE_OUT) | at_netdev("e2", **WITHOUT_CARRIER)},
        "INIT": {"change": at_port("mlx5_2", state="2: INIT", sm_lid="0x0", lid="0x0")},
        "no subnet manager": {"change": at_port("mlx5_2", sm_lid="0x0")},
        "no LID": {"change": at_port("mlx5_2", lid="0x0")},
        "in the other mode": {
            "change": at_port("mlx5_2", link_layer="Ethernet", lid="0x0", sm_lid="0x0", **CABLE_OUT)
            | at_function(**{"class": "0x020000"})
        },
    },
    "bonds": {
        "cables of both legs out": {"change": LEGS_OUT | at_netdev("e2", "e3", "b1", **WITHOUT_CARRIER)},
        "both legs set down": {
            "change": LEGS_OUT | at_netdev("e2", "e3", **SET_DOWN) | at_netdev("b1", **WITHOUT_CARRIER)
        },
        "bond set down": {"change": LEGS_OUT | at_netdev("b1", **SET_DOWN)},
        "bond without carrier": {"change": at_netdev("b1", **WITHOUT_CARRIER)},
        "narrow": {"change": at_function(current_link_width="4")},
    },
}
PLACES = {
    "roce": (AT[2], "mlx5_2", "e2", "uverbs2", "umad2"),
    "ib": (AT[2], "mlx5_2", "e2", "uverbs2", "umad2"),
    "bonds": (AT[2], AT[2][:-1] + "1", "mlx5_2", "mlx5_3", "e2", "e3", "b1"),
}
# The damaged file is the sign itself, or the only other thing that could be one, so nobody can tell any more.
UNTOLD = {
    ("narrow", AT[0]): "of two functions the only other one",
    ("no routable GID", "gids"): "the entry that cannot be read may be the address",
    ("no routable GID", "types"): "without its type an entry may be one of RoCE v2",
}


def damages(node: Node, places: tuple[str, ...], changed: set[str]) -> Iterator[tuple[str, dict[str, Content]]]:
    """Each file damaged in each way; of other devices one of each kind. Then all files of a netdev that are no sign."""
    kinds: set[str] = set()
    directories: dict[str, list[str]] = {}
    for path in node.files_of(EVERY):
        own = any(place in path.split("/") for place in places) or not path.startswith("/sys/")
        if own or kind_of(path) not in kinds:
            kinds.add(kind_of(path))
            yield from ((f"{how} {path}", {path: content}) for how, content in damaged(path))
        if own and path.startswith("/sys/class/net/") and path.removeprefix("/") not in changed:
            directories.setdefault(str(PurePosixPath(path).parent), []).append(path)
    for directory, paths in directories.items():
        for how in ("unreadable", "gone"):
            yield f"{how} {directory}/*", {path: dict(damaged(path))[how] for path in paths}


@drawn.shares(0.25)
@pytest.mark.parametrize("with_profile", [False, True], ids=["no profile", "captured"])
@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, known in BROKEN.items() for fault in known])
def test_damage_beside_a_fault_never_lowers_the_exit_code(
    tmp_path: Path, name: str, fault: str, with_profile: bool, share: float
) -> None:
    for at in ("good", "bad"):
        trees.write(trees.tree(SMALL[name]), tmp_path / at)
    faults.apply(BROKEN[name][fault], tmp_path / "bad")
    good = Node(tmp_path / "good")
    node, profile = Node(tmp_path / "bad", good.profile), good.profile if with_profile else None
    before = node.code(profile)
    changed = set(BROKEN[name][fault].get("change", {}))
    assert before == 1
    likely = tuple(check for check in EVERY if any(check.id == one for one, *_ in node.failing(EVERY)))
    wrong, pairs = [], 0
    for told, instead in drawn.some(damages(node, PLACES[name], changed), share):
        pairs += 1
        if ORDER[node.code(profile, likely, **instead)] >= ORDER[before]:
            continue
        healthy = {path: good.content(path) for path in instead}
        signs = any(path.removeprefix("/") in changed for path in instead)
        if not (signs and node.code(profile, likely, **healthy) == 0):
            wrong.append(told)
    left_out = {part for one, part in UNTOLD if one == fault}
    assert [told for told in wrong if left_out.isdisjoint(told.split("/"))] == []
    assert pairs > 50 * share


BARE = [
    # node        signs                                                  damage beside them
    ("roce", at_netdev("e2", flags="0x1002", carrier=None), at_netdev("e2", operstate=None)),
    ("roce", at_netdev("e2", flags="0x1002", carrier=None), at_netdev("e2", operstate="garbage")),
    (
        "bonds",
        LEGS_OUT | at_netdev("e2", **WITHOUT_CARRIER),
        at_netdev("e3", operstate=None, carrier=None, flags=None),
    ),
    ("ib", at_port("mlx5_2", sm_lid="0x0"), at_port("mlx5_2", link_layer=None)),
]


@pytest.mark.parametrize("example", BARE, ids=lambda example: str(example[1:]))
def test_one_readable_sign_convicts_without_a_profile(tmp_path: Path, example: tuple[str, Change, Change]) -> None:
    name, signs, damage = example
    trees.write(trees.tree(SMALL[name]), tmp_path)
    faults.apply({"change": signs | damage}, tmp_path)
    assert Node(tmp_path, NOBODY).code(None) == 1


def test_a_front_end_bond_without_carrier_is_told_whatever_its_state_says(tmp_path: Path) -> None:
    codes, told = [], []
    for number, operstate in enumerate(("down", "garbage")):
        root = tmp_path / str(number)
        trees.write(trees.tree(SMALL["roce"]), root)
        faults.apply({"change": at_netdev("b0", carrier="0", operstate=operstate)}, root)
        node = Node(root, NOBODY)
        codes.append(node.code(None))
        bond = CHECKS["port.bond"]
        look = node.look()
        profile = named(suited.suited(look.get(Pci), look.get(Rdma), look.get(Links)).profile)
        told.append([str(one.status) for one in check_round.unfolded([bond], look, None, profile, {}).findings])
    assert told == [["warn"], ["unknown"]]
    assert codes == [0, 3]
