"""How long `nodeprep check` takes on an ACK node (netns rig) with 8 ENIs, 60 pods and 200 rules.

    python tests/bench/network.py [--runs N]

The commands of one run take turns, beside `python -c pass`. A test proves that a check forks nothing.
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import ExitStack

from tests.bench import limits
from tests.bench.limits import Figure
from tests.bench.options import Options, whole
from tests.rigs.netns import Node
from tests.rigs.netns_node import Shape, Unavailable

CHECK = ("nodeprep", "check", "--settle", "0")
BUDGET, MORE = 400, 2000  # milliseconds, with metadata (issue 4), and in addition without an answer


def shape(metadata: str) -> Shape:
    return Shape(enis=7, pods=60, unused_rules=80, metadata=metadata)


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--runs", type=whole(1), default=9)
    runs = parser.parse_args().runs
    walls: dict[str, list[float]] = {}
    with ExitStack() as stack:
        nodes = {mode: stack.enter_context(Node(shape(mode))) for mode in ("optional", "hang", "drip")}
        contenders = {
            "python -c pass": (nodes["optional"], ("python", "-c", "pass")),
            "check": (nodes["optional"], CHECK),
            "check, metadata hangs": (nodes["hang"], CHECK),
            "check, metadata drips": (nodes["drip"], CHECK),
        }
        for number in range(runs + 1):
            for name, (node, argv) in contenders.items():
                began = time.perf_counter()
                node.run(*argv, check=False)
                if number:  # the first turn warms the page cache
                    walls.setdefault(name, []).append((time.perf_counter() - began) * 1e3)
        rules = len(nodes["optional"].ip("rule").splitlines())
    floor = statistics.median(walls["python -c pass"])
    print(f"{runs} runs in turn; milliseconds of wall clock, nsenter included; {rules} rules")
    for name, took in walls.items():
        median = statistics.median(took)
        told = f"median {median:7.1f}  min {min(took):7.1f}  max {max(took):7.1f}  x python {median / floor:6.1f}"
        print(f"{name:24} {told}")
    print(f"budget: {BUDGET} ms; with metadata that does not answer, {MORE} ms more than with metadata that does")
    usual = statistics.median(walls["check"])
    figures = [Figure("check", usual, most=BUDGET, unit="ms")]
    for mute in ("check, metadata hangs", "check, metadata drips"):
        more = statistics.median(walls[mute]) - usual
        figures.append(Figure(f"{mute}: more than where it answers", more, most=MORE, unit="ms"))
    return limits.code(figures)


if __name__ == "__main__":
    sys.exit(limits.ended(main, Unavailable))
