"""The faults that chaos makes on a node of the netns rig, and how it mends them. It does not talk to the agent."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from tests.chaos_agent import Tell, pause
from tests.rigs.netns import Node
from tests.rigs.netns_node import CONFLIST, GATEWAY

HARD = 3.0  # seconds; two looks half a second apart, the first up to a second late in a storm: 0.5 to 1.6 s
POLLED = 6.0  # seconds; faults without an event source are looked at every 2 s, and two such looks are 1 s apart
MANY = 6  # faults that stand at once
CNI, TORN = "/etc/cni/net.d", CONFLIST[:60]


@dataclass(frozen=True, slots=True)
class Breakage:
    """A fault that the profile's gates see: how it is made and mended, and within how many seconds it is believed.

    `on` is its object; only one fault at a time may have it. `by_metadata`: the agent needs the metadata service to see
    it.
    """

    name: str
    make: Callable[[], object]
    mend: Callable[[], object]
    limit: float
    on: str = ""
    by_metadata: bool = False


class Faults:
    """Faults of a node. `standing` are the breakages that stand. `counted` counts each kind of deed."""

    def __init__(self, node: Node, rng: Random, tell: Tell) -> None:
        self.node, self.rng, self.tell = node, rng, tell
        self.standing: dict[str, Breakage] = {}
        self.counted: Counter[str] = Counter()
        self.breakages = [*self._of_enis(), *self._of_pods(), *self._of_files()]

    def _of_enis(self) -> list[Breakage]:
        ip, found = self.node.ip, []
        for number in range(self.node.shape.enis + 1):
            name = f"eth{number}"
            own = ("onlink", "table", str(self.node.table(number))) if number else ()
            route = ("default", "via", GATEWAY, "dev", name, *own)
            back = partial(ip, "route", "replace", *route)
            down = partial(ip, "link", "set", name, "down")
            found.append(Breakage(f"link {name}", down, partial(self._up, name, back), HARD, name, by_metadata=True))
            found.append(Breakage(f"route {name}", partial(ip, "route", "del", *route), back, POLLED, name))
        return found

    def _up(self, name: str, route_back: Callable[[], object]) -> None:
        """As Terway does it: set the link up, and restore the route that went with it."""
        self.node.ip("link", "set", name, "up")
        route_back()

    def _of_pods(self) -> list[Breakage]:
        ip, shape, found = self.node.ip, self.node.shape, []
        for number in range(shape.pods):
            table = str(self.node.table(shape.eni_of(number)))
            rule = ("from", f"{shape.pod(number)}/32", "lookup", table, "pref", "2048")
            gone, back = partial(ip, "rule", "del", *rule), partial(ip, "rule", "add", *rule)
            found.append(Breakage(f"rule {number}", gone, back, POLLED))
        return found

    def _of_files(self) -> list[Breakage]:
        conflist, before = self._on_node(f"{CNI}/10-terway.conflist"), self._on_node(f"{CNI}/00-first.conflist")
        whole = partial(self._whole, conflist)
        return [
            Breakage("conflist torn", partial(conflist.write_text, TORN), whole, HARD, CNI),
            Breakage("conflist gone", conflist.unlink, whole, HARD, CNI),
            Breakage("conflist before it", partial(before.write_text, "{"), before.unlink, HARD, CNI),
            Breakage("forwarding", partial(self._forwarding, 0), partial(self._forwarding, 1), POLLED),
        ]

    def _whole(self, conflist: Path) -> None:
        fresh = conflist.with_name(".fresh")
        fresh.write_text(CONFLIST)
        fresh.rename(conflist)

    def _forwarding(self, value: int) -> None:
        self.node.sysctl("net.ipv4.ip_forward", value)

    def _on_node(self, path: str) -> Path:
        return Path(f"/proc/{self.node.pid}/root{path}")

    def count(self, kind: str) -> None:
        self.counted[kind] += 1
        self.tell("done", what=kind)

    def make(self) -> None:
        if len(self.standing) < MANY:
            self.make_one(self._another())

    def _another(self) -> Breakage:
        """A breakage that does not stand, and with another object: mending the one would mend the other."""
        taken = {one.on for one in self.standing.values() if one.on}
        free = [one for one in self.breakages if one.name not in self.standing and one.on not in taken]
        return self.rng.choice(free)

    def make_one(self, one: Breakage) -> None:
        self.count(f"break {one.name.split()[0]}")
        one.make()
        self.standing[one.name] = one
        self.tell("fault", name=one.name, limit=one.limit, by_metadata=one.by_metadata)

    def mend(self) -> None:
        if self.standing:
            self.mend_one(self.rng.choice(list(self.standing)))

    def mend_one(self, name: str) -> None:
        self.tell("mending", name=name)
        self.standing.pop(name).mend()

    def mend_all(self) -> None:
        for name in tuple(self.standing):
            self.mend_one(name)

    def hold(self) -> None:
        """A fault that stands longer than its limit."""
        self.make()
        pause(self.rng.uniform(3, 9))

    def flap(self) -> None:
        """A fault that comes and goes faster than looks."""
        one = self._another()
        for _ in range(self.rng.randint(2, 12)):
            self.make_one(one)
            pause(self.rng.choice((0.0, 0.05, 0.3, 0.7)))
            self.mend_one(one.name)
            pause(self.rng.choice((0.0, 0.05, 0.3)))

    def storm(self) -> None:
        """Thousands of events, in which a fault hides."""
        self.count("storm")
        many = range(self.rng.randint(500, 5000))
        lines = [f"link set eth{self.rng.randint(0, self.node.shape.enis)} alias a{number}" for number in many]
        beside = self.node.start("ip", "-batch", "-")
        assert beside.stdin is not None
        try:
            beside.stdin.write("\n".join(lines[:400]))  # as much as the pipe takes at once; the rest while ip works
            if self.rng.random() < 0.5:
                self.make()
            beside.stdin.write("\n".join(["", *lines[400:]]))
        finally:
            beside.communicate()

    def metadata(self) -> None:
        """The metadata service hangs, drips or refuses."""
        how = self.rng.choice(("hang", "drip", "stopped"))
        self.count("metadata")
        self.tell("metadata", fine=False, how=how)
        self.node.order("metadata", how)
        pause(self.rng.uniform(1, 8))
        self.node.order("metadata", "as-ever")
        self.tell("metadata", fine=True)

    def slow(self) -> None:
        """Another process takes the processor."""
        seconds = self.rng.uniform(1, 4)
        self.count("slow processor")
        self.tell("slow", seconds=seconds)
        loops = [subprocess.Popen(["timeout", f"{seconds:.1f}", "sh", "-c", "while :; do :; done"]) for _ in range(2)]
        self.make()
        for loop in loops:
            loop.wait()
