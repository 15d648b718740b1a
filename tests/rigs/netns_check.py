"""Faults of a node of the netns rig as data, and the verdicts of `nodeprep check` on it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.netns import UNAVAILABLE, Node
from tests.rigs.netns_node import GATEWAY, Shape, Unavailable
from tests.rigs.repeating import repeating

BAD = ("warn", "fail", "unknown")
# Checks of this machine itself: its clock, and the limits of its container runtime.
SKIPPED = ("--skip", "time.sync,limits")
LATE = ("timeout", "busy")  # why a fact could not be read
BEAT, STILL, TIMES = 0.1, 1.0, 3  # seconds, seconds and looks of `steadily`
ORDER = "order "
SHELL = f'python() {{ {sys.executable} "$@"; }}\n'
# Setting a link down removes its routes. This restores them.
ETH0_UP = f"ip link set eth0 up\nip route add default via {GATEWAY} dev eth0"


def brought_up(eni: str, table: int | str = "{table}") -> str:
    """The command that brings an ENI up, and its route back.

    It is one process: a route that comes half a second after its link is a fault of its own.
    """
    route = f"route replace default via {GATEWAY} dev {eni} onlink table {table}"
    return f"printf 'link set {eni} up\\n{route}\\n' | ip -batch -"


ETH1_UP = brought_up("eth1")  # {table} is eth1's

Seen = TypeVar("Seen")


def steadily(
    look: Callable[[], Seen], forget: Callable[[], None] = lambda: None, late: Callable[[Seen], bool] = lambda _: False
) -> Seen:
    """The result of a look. Looks again if this machine stood still meanwhile: an answer may then be late.

    It also looks again after a `late` result, because a machine may be busy and never stand still. A thing that hangs
    is late again. `forget` is called before another look.
    """
    for _ in range(TIMES - 1):
        seen, longest = with_longest_gap(look)
        if longest < STILL and not late(seen):
            return seen
        forget()
    return look()


def is_late(report: dict[str, Any], hung: Collection[str] = ()) -> bool:
    """Whether a report has anything that could not be read in time. Checks in `hung` should hang, and do not count."""
    blind = (one["blind"] for one in report["findings"] if one["check"] not in hung)
    return any(one is not None and one["kind"] in LATE for one in blind)


def with_longest_gap(look: Callable[[], Seen]) -> tuple[Seen, float]:
    """The result, and the longest gap in seconds between two wake-ups of a periodic thread meanwhile."""
    beats = [time.monotonic()]
    with repeating(lambda: beats.append(time.monotonic()), BEAT):
        seen = look()
    beats.append(time.monotonic())
    return seen, max(after - before for before, after in pairwise(beats))


@dataclass(frozen=True, slots=True)
class Fault:
    """Lines that make it and undo it: shell commands on the node ({table} is eth1's), and `order ` with its words.

    `roots` are the expected faults ("STATUS CHECK REASON"), `follow` their consequences ("CHECK STATUS REASON < ROOT").
    `words` stand in a root's message.
    """

    name: str
    make: str
    undo: str
    roots: tuple[str, ...]
    follow: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        said = {root.partition(" ")[0] for root in self.roots}
        return 1 if "fail" in said else 3 if "unknown" in said else 0


@dataclass(frozen=True, slots=True)
class Said:
    """A report of `nodeprep check -o json`, and its seconds."""

    report: dict[str, Any]
    exit_code: int
    seconds: float

    def findings(self, *statuses: str) -> list[dict[str, Any]]:
        return [one for one in self.report["findings"] if one["status"] in statuses]

    @property
    def roots(self) -> set[str]:
        return {f"{one['status']} {one['check']} {one['reason']}" for one in self.findings(*BAD) if not one["root"]}

    @property
    def follow(self) -> set[str]:
        found = [one for one in self.findings(*BAD) if one["root"]]
        return {f"{one['check']} {one['status']} {one['reason']} < {one['root']}" for one in found}

    @property
    def messages(self) -> str:
        return "\n".join(one["message"] for one in self.findings(*BAD) if not one["root"])

    def verdicts(self, *without: str) -> set[tuple[str, ...]]:
        """The verdict of each check on each device, except of the checks `without`."""
        found = [one for one in self.report["findings"] if one["check"] not in without]
        return {(one["check"], one["status"], one["reason"], one["subject"]["place"]) for one in found}


class Checked:
    """A node for faults."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._table = node.table(1)

    def check(self, hung: Collection[str] = ()) -> Said:
        """The report of `nodeprep check`. Checks in `hung` get no answer."""
        return steadily(self._check, late=lambda said: is_late(said.report, hung))

    def _check(self) -> Said:
        begun = time.monotonic()
        done = self.node.run("nodeprep", "check", "--settle", "0", "-o", "json", *SKIPPED, check=False)
        assert not done.stderr
        return Said(json.loads(done.stdout), done.returncode, time.monotonic() - begun)

    def shows(self, form: str = "table") -> str:
        """The output that an operator reads."""
        words = ("nodeprep", "check", "--settle", "0", "-o", form, *SKIPPED)
        return steadily(lambda: self.node.run(*words, check=False)).stdout

    def do(self, script: str) -> None:
        """Run lines of a Fault."""
        for line in script.strip().splitlines():
            if line.startswith(ORDER):
                self.node.order(*line.removeprefix(ORDER).split())
                continue
            done = self.node.run("sh", "-ec", SHELL + line.replace("{table}", str(self._table)), check=False)
            if done.returncode == UNAVAILABLE:
                cannot_start(done.stderr)
            assert done.returncode == 0, f"{line}: {done.stderr}"

    @contextmanager
    def fault(self, make: str, undo: str) -> Iterator[None]:
        """Make a fault for the block. `undo` runs even if `make` failed."""
        try:
            self.do(make)
            yield
        finally:
            self.do(undo)

    def holds(self, fault: Fault) -> None:
        """The fault shows its roots and consequences and nothing else, and goes away again."""
        with self.fault(fault.make, fault.undo):
            said = self.check()
            assert said.roots == set(fault.roots)
            assert said.follow == set(fault.follow)
            assert said.exit_code == fault.exit_code
            for word in fault.words:
                assert word in said.messages
        assert self.check().roots == set()


@contextmanager
def checked(shape: Shape | None = None) -> Iterator[Checked]:
    """A node of this shape; skips if this machine cannot have one."""
    try:
        node = Node(shape).__enter__()
    except Unavailable as error:
        cannot_start(error)
    try:
        yield Checked(node)
    finally:
        node.__exit__(None, None, None)


def each(faults: list[Fault]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fault", faults, ids=lambda fault: fault.name)
