"""Twice the devices are twice the work: counted by instruction and by file, in every function, and not timed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import pytest

from nodeprep import check_round, facts
from nodeprep.checks import CHECKS
from nodeprep.config import profile_files, wants
from nodeprep.doors.files.reader import LIMIT, Files
from nodeprep.doors.node_host import Host
from nodeprep.facts.expected import profile_capture
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.look import Look
from nodeprep.model import Unreadable
from nodeprep.observer import observed
from tests.rigs import faults, trees

pytestmark = pytest.mark.slow

SIZES = (6, 12, 24)  # devices; from one to the next, twice as many
MOST = 2.2  # times the work, from one size to the next
FEW = 40  # instructions or files more or less that say nothing
PACKAGE = str(Path(facts.__file__).parents[1])
FACTS = [fact for fact in facts.ALL if not fact.live]

# Shapes of nodes: what each device of the upper half is like.
SHAPES: dict[str, dict[str, Any]] = {
    "like the others": {},
    "virtual functions": {"virtual": True},
    "down": {"state": "1: DOWN", "physical": "3: Disabled"},
    "without an RDMA device": {"rdma": None},
    "without a netdev": {"netdev": None},
    "without addresses": {"gids": False},
    "slower": {"rate": "100 Gb/sec (2X HDR)"},
    "narrower": {"width": 8},
    "with other firmware": {"firmware": "1.2.3"},
    "in the other mode": {"layer": "InfiniBand", "state": "1: DOWN", "physical": "2: Polling"},
    "with a small MTU": {"mtu": 1500},
    "of a bond": {"bond": "bond0"},
    "without a driver": {"unbound": True},
}


class Recording(Files):
    """Files that count what was asked of them."""

    reads: int = 0

    def data(self, path: str, limit: int = LIMIT, head: bool = False) -> bytes | None | Unreadable:
        self.reads += 1
        return super().data(path, limit, head)

    def names(self, path: str) -> tuple[str, ...] | None | Unreadable:
        self.reads += 1
        return super().names(path)

    def exists(self, path: str) -> bool:
        self.reads += 1
        return super().exists(path)


def node(count: int, shape: dict[str, Any]) -> dict[str, Any]:
    at = [f"0000:{0x10 + number:02x}:00.0" for number in range(count)]
    half = count // 2
    usual = {"kind": "cx7-roce", "numa": 0}
    names = [
        {"at": at[part], "rdma": [f"mlx5_{n}" for n in numbers], "netdev": [f"eth{n}" for n in numbers]}
        for part, numbers in ((slice(0, half), range(half)), (slice(half, None), range(half, count)))
    ]
    return {"name": "many", "nics": [usual | names[0], usual | names[1] | shape]}


def built(root: Path, count: int, shape: dict[str, Any]) -> Path:
    described = node(count, shape)
    trees.write(trees.tree(described), root)
    for address in described["nics"][1]["at"] if shape.get("virtual") else ():
        (root / f"sys/bus/pci/devices/{address}/physfn").symlink_to("../none")
    for address in described["nics"][1]["at"] if shape.get("unbound") else ():
        faults.unbind(root, address)
    return root


class Instructions:
    """How many instructions each function executed, by its code."""

    def __init__(self) -> None:
        self.of: Counter[CodeType] = Counter()

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, _: str, __: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._executed

    def _executed(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            self.of[frame.f_code] += 1
        return self._executed


def work(root: Path, profile_of: str) -> tuple[Counter[CodeType], int]:
    """What judging a tree takes: instructions by function, and files."""
    host = Host(str(root), live=False)
    host.files = files = Recording(str(root))
    with Instructions() as counted:
        look = Look(1.0, False, {fact.kind: observed(fact, host) for fact in FACTS})
    profile = profile_files.effective("rdma-roce")
    if profile_of == "captured":
        captured = profile_capture.capture("x", look.facts[Rdma], pci=look.get(Pci), links=look.get(Links))  # type: ignore[arg-type]
        assert captured is not None
        profile = captured
    with counted:
        report = check_round.judge(CHECKS.values(), look, None, profile, wants.wants(profile))
    assert len(report.findings) > len(CHECKS)
    return counted.of, files.reads


class SystemCalls:
    """How many calls of the module os were made: each is a system call, or a few."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _called(self, _: FrameType, event: str, called: Any) -> None:
        self.count += event == "c_call" and called.__module__ == "posix"


def system_calls(root: Path) -> int:
    host = Host(str(root), live=False)
    with SystemCalls() as counted:
        for fact in FACTS:
            observed(fact, host)
    return counted.count


# Calls of os that all facts make for one more function. They were 424 and 132 when a thousand functions took a second.
MOST_CALLS = {"with an RDMA device": 300, "bare and virtual": 100}


def test_a_device_costs_few_system_calls(tmp_path: Path) -> None:
    added = {}
    for name, shape in (("with an RDMA device", {}), ("bare and virtual", {"rdma": None, "virtual": True})):
        few, more = (built(tmp_path / name / str(size), size, shape) for size in SIZES[:2])
        system_calls(few)  # what is imported once is no work
        added[name] = (system_calls(more) - system_calls(few)) / (SIZES[1] - SIZES[0])
    usual = added["with an RDMA device"]
    added["bare and virtual"] = 2 * added["bare and virtual"] - usual  # half of the functions are usual ones
    assert min(added.values()) > 50  # else nothing was counted
    assert {name: calls for name, calls in added.items() if calls > MOST_CALLS[name]} == {}


def grown(
    few: Counter[CodeType], more: Counter[CodeType], most: Counter[CodeType], inside: str = PACKAGE
) -> Iterator[str]:
    """Functions whose work grew faster than the devices, with how many times as fast."""
    for code, last in most.items():
        first, second = more[code] - few[code], last - more[code]
        if not code.co_filename.startswith(inside):
            continue
        if second > MOST * max(first, 0) + FEW:
            where = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
            yield f"{code.co_qualname} ({where}): {first} then {second} more"


def shapes() -> Iterator[Any]:
    """Each shape with one of the two profiles by turns, and in `make prove` with the other one too."""
    for number, shape in enumerate(SHAPES):
        for turn, profile in enumerate(("built-in", "captured")):
            marks = (pytest.mark.prove,) if (number + turn) % 2 else ()
            yield pytest.param(shape, profile, marks=marks, id=f"{shape}-{profile}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("shape", "profile"), list(shapes()))
def test_work_grows_as_the_devices_do(tmp_path: Path, shape: str, profile: str) -> None:
    roots = [built(tmp_path / str(count), count, SHAPES[shape]) for count in SIZES]
    work(roots[0], profile)  # what is compiled and imported once is no work
    (few, read), (more, read_more), (most, read_most) = (work(root, profile) for root in roots)
    assert list(grown(few, more, most)) == []
    assert read_most - read_more <= MOST * (read_more - read) + FEW


def test_this_would_be_seen() -> None:
    def quadratic(things: range) -> int:
        return sum(1 for one in things for other in things if one == other)

    counts = []
    for size in SIZES:
        with Instructions() as counted:
            quadratic(range(size))
        counts.append(counted.of)
    assert len(list(grown(counts[0], counts[1], counts[2], str(Path(__file__).parent)))) == 1
