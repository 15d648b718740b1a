"""How long `check` takes where a node has 1,016 functions: eight cards with 126 virtual functions each.

    python tests/bench/devices.py

Once the virtual functions have netdevs, and once an RDMA device each, which is 20 files more to read. The same node
with half as many functions is judged in turn, so the ratio holds on a noisy machine. Only the ratio has a limit where
each has an RDMA device.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench import limits
from tests.bench.limits import Figure
from tests.rigs import trees

NODEPREP = Path(sys.executable).with_name("nodeprep")
CARDS, RUNS = 8, 5
SIZES = (508, 1016)
LIMIT_SECONDS, LIMIT_RATIO = 1.0, 2.2


def built(root: Path, functions: int, *, rdma: bool) -> Path:
    """Cards with so many functions in all. Each virtual one has a netdev, and if asked an RDMA device."""
    each = functions // CARDS
    places = [[f"0000:{16 + 20 * card:02x}:{one // 8:02x}.{one % 8}" for one in range(each)] for card in range(CARDS)]
    cards = [card[0] for card in places]
    virtual = [place for card in places for place in card[1:]]
    names = [f"ethv{number}" for number in range(len(virtual))]
    own: dict[str, Any] = {
        "kind": "cx7-roce",
        "at": cards,
        "rdma": [f"mlx5_{number}" for number in range(CARDS)],
        "netdev": [f"eth{number}" for number in range(CARDS)],
    }
    devices = [f"mlx5_{CARDS + number}" for number in range(len(virtual))] if rdma else None
    given = {"kind": "cx7-roce", "at": virtual, "rdma": devices, "netdev": names, "speed": None, "width": None}
    trees.write(trees.tree({"name": "many", "nics": [own, given]}), root)
    for place in virtual:
        (root / f"sys/bus/pci/devices/{place}/physfn").symlink_to("../none")
    return root


def seconds(root: Path) -> float:
    """Processor seconds of one `check`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(NODEPREP), "check", "--root", str(root)], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(*, rdma: bool) -> tuple[float, float]:
    """Processor seconds for the larger node, and times as much as for the smaller one."""
    with tempfile.TemporaryDirectory(prefix="nodeprep-devices-") as scratch:
        roots = [built(Path(scratch) / str(size), size, rdma=rdma) for size in SIZES]
        times = [[seconds(root) for root in roots] for _ in range(RUNS)]
    whole = statistics.median(last for _, last in times)
    ratio = statistics.median(last / first for first, last in times)
    what = "an RDMA device each" if rdma else "netdevs"
    print(f"{SIZES[-1]} functions with {what}: {whole:.2f} s of processor, {ratio:.2f} times as much as {SIZES[0]}")
    return whole, ratio


def main() -> int:
    whole, ratio = measured(rdma=False)
    _, with_rdma = measured(rdma=True)
    return limits.code(
        [
            Figure(f"check of {SIZES[-1]} functions, processor", whole, most=LIMIT_SECONDS, unit="s"),
            Figure(f"{SIZES[-1]} functions, times {SIZES[0]}", ratio, most=LIMIT_RATIO),
            Figure(f"{SIZES[-1]} functions with RDMA, times {SIZES[0]}", with_rdma, most=LIMIT_RATIO),
        ]
    )


if __name__ == "__main__":
    sys.exit(limits.ended(main))
