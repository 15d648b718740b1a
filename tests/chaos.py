"""Throws faults at a real agent on a node in namespaces, and checks that it never says anything untrue.

    python tests/chaos.py [--minutes 2] [--seed N] [--default-confirmation]

Real: links, routes, rules and files of the node (tests/rigs/netns.py), signals, a disk that is full or read-only, bytes
that flip in the state file, forged gate files, a shifted CLOCK_BOOTTIME. Not real: another boot is another boot id and
an empty run directory. tests/chaos_rules.py has the rules. A seed gives the same deeds, and not the same moments.
Prints what it did and saw. Exits 1 on a violation, 77 if such a node cannot be made.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Lock, Thread
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.chaos_agent import PORT, Process, now, pause
from tests.chaos_deeds import PROFILE, PROFILE_FILE, Deeds
from tests.rigs.netns import UNAVAILABLE, Node
from tests.rigs.netns_node import Shape, Unavailable

READ = "import sys, urllib.request as web; print(web.urlopen(sys.argv[1], timeout=60).read().decode())"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
FAST, DEFAULT = 3.0, 30.0  # seconds; confirmation.pass-span
USUAL = 0.5  # seconds; `nodeprep check` takes 0.3 on an idle machine
OPENS = 30.0  # seconds besides the span, until a gate opens when all is mended: metadata is asked every 15 s


class Watcher:
    """The process that watches. `tell` gives it the deeds, `violations` are those that it found."""

    def __init__(self, node: Node, place: Path, span: float, log: TextIO | None) -> None:
        self.violations: list[str] = []
        self._log = log
        self.seen: dict[str, Any] = {}
        self._lock = Lock()
        words = (f"{place}/run", str(PORT), str(span), f"{slower(node):.1f}")
        self._process = node.start("python", "-m", "tests.chaos_watch", *words)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def tell(self, event: str, **words: object) -> None:
        with self._lock:
            assert self._process.stdin is not None
            line = json.dumps({"at": round(now(), 3), "event": event, **words}) + "\n"
            self._process.stdin.write(line)
            self._process.stdin.flush()
            if self._log is not None:
                self._log.write(line)
                self._log.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self.seen = told.get("seen", self.seen)
            if "violation" in told:
                self.violations.append(told["violation"])
                print("\n".join([f"VIOLATION: {told['violation']}", *told["timeline"], ""]), flush=True)


def slower(node: Node) -> float:
    """This machine's time over the usual time, by the quickest of three checks."""

    def seconds() -> float:
        began = now()
        node.run("nodeprep", "check", "--settle", "0", check=False)
        return now() - began

    return max(1.0, min(seconds() for _ in range(3)) / USUAL)


def acts(deeds: Deeds, span: float) -> dict[Callable[[], None], int]:
    """The possible acts of the chaos, with their weights."""

    def calm() -> None:
        deeds.count("calm")
        deeds.mend_all()
        pause(deeds.rng.uniform(0, 2 * span + 3))

    often = 10 if span < DEFAULT else 40  # else no gate would ever open
    return {
        calm: often, deeds.make: 8, deeds.mend: 4, deeds.hold: 4, deeds.flap: 4, deeds.storm: 2, deeds.metadata: 1,
        deeds.slow: 1, deeds.full_disk: 2, deeds.read_only: 2, deeds.configuration: 3, deeds.sleep: 3, deeds.die: 5,
        deeds.die_proving: 4, deeds.die_deciding: 4, deeds.die_ready: 4,
    }  # fmt: skip


def chaos(deeds: Deeds, agent: Process, span: float, until: float) -> None:
    menu = acts(deeds, span)
    while now() < until:
        deeds.rng.choices(list(menu), list(menu.values()))[0]()
        pause(deeds.rng.choice((0.0, deeds.rng.uniform(0, 1), deeds.rng.uniform(0, 4))))
        if agent.latched or agent.state == "AwaitingHuman":
            deeds.count("reset")
            agent.reset()


def ends_well(deeds: Deeds, agent: Process, span: float) -> str:
    """The gate must open when all is mended: "" or why not."""
    deeds.mend_all()
    deeds.configure(agent.place / "etc/config.yaml", "gate")
    agent.reset()
    pause(1.0)  # it closes first
    began = now()
    until = began + span + OPENS
    while not (agent.run_directory / f"{PROFILE}.ready").exists():
        if now() > until:
            return f"all is mended, and no gate opened in {span + OPENS:g} s; the log: {agent.lines[-3:]}"
        time.sleep(0.2)
    print(f"chaos: all is mended, the gate opened {now() - began:.1f} s later", flush=True)
    page = agent.node.run("python", "-c", READ, f"http://127.0.0.1:{PORT}/metrics").stdout.splitlines()
    sick = [name for name in ("nodeprep_config_ok", "nodeprep_state_file_ok") if f"{name} 1.0" not in page]
    return f"all is mended, and {', '.join(sick)} is not 1" if sick else ""


def run(minutes: float, seed: int, place: Path, *, default: bool, log: TextIO | None) -> int:
    span = DEFAULT if default else FAST
    with Node(Shape(enis=3, pods=4)) as node:
        for directory in ("etc", "run", "socket", "state"):
            (place / directory).mkdir()
        (place / "etc/profile.yaml").write_text(PROFILE_FILE)
        (place / "boot_id").write_text("\n")
        node.run("mount", "-t", "tmpfs", "-o", "size=256k", "chaos", f"{place}/state")
        node.run("mount", "--bind", f"{place}/boot_id", BOOT_ID)
        watcher = Watcher(node, place, span, log)
        agent = Process(node, place, watcher.tell)
        deeds = Deeds(node, agent, Random(seed), watcher.tell, span)
        deeds.set_boot()
        deeds.configure(place / "etc/config.yaml", "gate")
        agent.start()
        began = now()
        chaos(deeds, agent, span, began + 60 * minutes)
        trouble = ends_well(deeds, agent, span)
        if trouble:
            watcher.tell("wrong", text=trouble)
        agent.end(signal.SIGTERM)
        watcher.close()
    summary(deeds, agent, watcher, seed, (now() - began) / 60)
    if not watcher.seen.get("openings"):
        print("chaos: no gate was ever seen to open, so nothing was shown", flush=True)
        return 1
    return 1 if watcher.violations else 0


def summary(deeds: Deeds, agent: Process, watcher: Watcher, seed: int, minutes: float) -> None:
    done = ", ".join(f"{kind} {count}" for kind, count in sorted(deeds.counted.items()))
    seen = dict(watcher.seen) or dict.fromkeys(("openings", "closings", "rss", "threads", "descriptors", "slowest"), 0)
    convicted, latched, died = (agent.events[event] for event in ("convicted", "latched", "event-source-died"))
    print(
        f"chaos: seed {seed}, {minutes:.1f} min, {sum(deeds.counted.values())} deeds: {done}\n"
        f"seen: gate opened {seen['openings']} times and closed {seen['closings']}, {agent.starts} starts, "
        f"{convicted} convictions, {latched} latches, {died} event sources died\n"
        f"most: {seen['rss'] >> 20} MiB, {seen['threads']} threads, {seen['descriptors']} descriptors; "
        f"a gate stood open {seen['slowest']:.2f} s with a fault\n"
        f"violations: {len(watcher.violations)}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--default-confirmation", action="store_true", help="as nodes have it: passes take 30 s")
    parser.add_argument("--log", type=argparse.FileType("w"), help="a file for all that is done, line by line")
    given = parser.parse_args()
    print(f"chaos: seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="nodeprep-chaos-") as place:
        try:
            return run(given.minutes, given.seed, Path(place), default=given.default_confirmation, log=given.log)
        except Unavailable as error:
            print(f"chaos: {error}", file=sys.stderr)
            return UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
