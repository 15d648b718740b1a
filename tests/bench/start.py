"""How long `nodeprep --help` and `nodeprep check` take, beside `python -c pass` and a C program reading the same files.

    python tests/bench/start.py [--runs N]

Everything takes turns within one run, so the ratios hold on a slow machine, and the milliseconds do not. Both have
budgets, and both need a machine that does nothing else.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nodeprep import facts
from nodeprep.doors.files.reader import LIMIT, Files
from nodeprep.doors.node_host import Host
from nodeprep.model import Unreadable
from nodeprep.observer import Observer
from tests.bench import limits
from tests.bench.limits import Figure
from tests.bench.options import Options, whole
from tests.rigs import trees

HERE = Path(__file__).resolve().parent
NODEPREP = Path(sys.executable).with_name("nodeprep")


@dataclass(frozen=True, slots=True)
class Contender:
    """A command to time, and what it reads.

    Its budgets (design 7), if it has any, are milliseconds and how many times as long as `python -c pass` it may take.
    """

    name: str
    argv: list[str]
    milliseconds: float | None = None
    times: float | None = None
    stdin: str = ""

    def figures(self, took: float, floor: float) -> Iterator[Figure]:
        """What was measured beside the budgets; `took` and `floor`, that of `python -c pass`, in milliseconds."""
        if self.milliseconds is not None:
            yield Figure(self.name, took, most=self.milliseconds, unit="ms")
        if self.times is not None:
            yield Figure(self.name, took / floor, most=self.times, unit="times python -c pass")


class Recording(Files):
    """Files that record the paths that were asked for."""

    asked: list[str]

    def data(self, path: str, limit: int = LIMIT, head: bool = False) -> bytes | None | Unreadable:
        self.asked.append(path)
        return super().data(path, limit, head)


def paths_read(root: Path) -> str:
    """Every file that a look at this tree opens, as paths of this machine."""
    host = Host(str(root), live=False)
    host.files = Recording(str(root))
    host.files.asked = []
    Observer(host).look(facts.ALL)
    return "\n".join(str(root) + path for path in host.files.asked)


def compiled(scratch: Path) -> str:
    program = scratch / "read_files"
    subprocess.run(["gcc", "-O2", "-o", str(program), str(HERE / "read_files.c")], check=True)
    return str(program)


def contenders(scratch: Path) -> list[Contender]:
    tree = trees.build("h100-ib", scratch / "node")
    profile = scratch / "profile.yaml"
    capture = [str(NODEPREP), "profile", "capture", "--root", str(tree), "-o", str(profile)]
    subprocess.run(capture, check=True, stdout=subprocess.DEVNULL)
    dead = [str(NODEPREP), "check", "--root", str(tree)]
    return [
        Contender("python -c pass", [sys.executable, "-c", "pass"]),
        Contender("C, the same files", [compiled(scratch)], stdin=paths_read(tree)),
        Contender("nodeprep --help", [str(NODEPREP), "--help"], 60, 5.5),
        Contender("check, dead tree, 12 NICs and 8 GPUs", dead, 150, 11),
        Contender("the same with a captured profile", [*dead, "--profile", str(profile)], 150),
        Contender("check, this live node", [str(NODEPREP), "check", "--settle", "0"], 200, 13),
    ]


def once(contender: Contender) -> tuple[float, float, float]:
    """Wall and CPU milliseconds, and the peak memory of the largest child so far in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        contender.argv,
        input=contender.stdin,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1e3, cpu * 1e3, after.ru_maxrss / 1024


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--runs", type=whole(1), default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="nodeprep-bench-") as scratch:
        every = contenders(Path(scratch))
        walls: dict[str, list[float]] = {one.name: [] for one in every}
        cpus: dict[str, list[float]] = {one.name: [] for one in every}
        for number in range(runs + 1):
            for one in every:
                wall, cpu, _ = once(one)
                if number:  # the first turn warms the page cache
                    walls[one.name].append(wall)
                    cpus[one.name].append(cpu)
    floor = statistics.median(walls["python -c pass"])
    print(f"{runs} runs in turn; milliseconds of wall clock")
    medians = [(one, statistics.median(walls[one.name])) for one in every]
    print(f"{'':38} {'median':>7} {'min':>6} {'max':>6} {'cpu':>6} {'budget':>7} {'x python':>9} {'budget':>7}")
    for one, median in medians:
        took, cpu = walls[one.name], statistics.median(cpus[one.name])
        budgets = [f"{most:g}" if most else "-" for most in (one.milliseconds, one.times)]
        figures = f"{median:7.1f} {min(took):6.1f} {max(took):6.1f} {cpu:6.1f} {budgets[0]:>7}"
        print(f"{one.name:38} {figures} {median / floor:9.2f} {budgets[1]:>7}")
    return limits.code(figure for one, median in medians for figure in one.figures(median, floor))


if __name__ == "__main__":
    sys.exit(limits.ended(main))
