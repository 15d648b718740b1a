"""How long a look at a tree takes with one thread, and with one for each fact: why the observer begins with one.

    python tests/bench/threads.py [--runs N]

Each run is a process of its own, because a warm interpreter hides the difference.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.limits import ended
from tests.bench.options import Options, whole
from tests.rigs import trees

LOOK = """
import sys, time
from threading import Thread
from nodeprep import facts
from nodeprep.doors.node_host import Host
from nodeprep.observer import Observer, observed
root, each = sys.argv[1], sys.argv[2] == "each"
host = Host(root, live=False)
began = time.perf_counter()
if each:
    threads = [Thread(target=observed, args=(fact, host)) for fact in facts.ALL if not fact.live]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
else:
    Observer(host).look(facts.ALL)
print((time.perf_counter() - began) * 1e3)
"""


def once(root: Path, how: str) -> float:
    done = subprocess.run([sys.executable, "-c", LOOK, str(root), how], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--runs", type=whole(1), default=9)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="nodeprep-bench-") as scratch:
        root = trees.build("h100-ib", Path(scratch) / "node")
        took = {how: [once(root, how) for _ in range(runs)] for how in ("one", "each")}
    one, each = (statistics.median(took[how]) for how in ("one", "each"))
    print(f"a look, {runs} runs: one thread {one:.0f} ms, a thread for each fact {each:.0f} ms, {each / one:.1f} times")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
