"""What `nodeprep repair` costs: on a node that needs nothing, and for one play that sets a link up.

    python tests/bench/repair.py [--runs N]

On an ECS node in namespaces, with the real playbook. Processor time is that of the command with all its processes.
Memory is the highest sum of their proportional sets (PSS), looked at each 50 ms.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.bench import limits
from tests.bench.limits import Figure
from tests.bench.options import Options, whole
from tests.rigs.netns import ENVIRONMENT, NODE_PROCESS, REPOSITORY, Node
from tests.rigs.netns_node import GATEWAY, Shape, Unavailable

LINK = "eth1"
QUIET_SECONDS, PLAY_SECONDS, PEAK_MIB = 2.0, 3.0, 200.0  # issue 16
PERIOD = 0.05  # seconds between two looks at memory
ANSIBLE = b"ansible"


class Cost(NamedTuple):
    """Seconds by the clock and of processors, MiB at the peak, and whether a process of Ansible was seen."""

    seconds: float
    computed: float
    peak: float
    played: bool


def descendants(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from descendants(int(child))


def pss(pid: int) -> float:
    """MiB of a process, 0 if it has ended."""
    with suppress(OSError, IndexError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(rollup.split("Pss:", 1)[1].split()[0]) / 1024
    return 0.0


def is_ansible(pid: int) -> bool:
    with suppress(OSError):
        return ANSIBLE in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def cost(node: Node, check: str, code: int) -> Cost:
    """Of one `nodeprep repair CHECK`. Raises TimeoutError if it ends with another code."""
    enter = ("nsenter", "-t", str(node.pid), "-n", "-m", f"--wd={REPOSITORY}")
    command = (*enter, sys.executable, "-m", "nodeprep", "repair", check, "--yes")
    with tempfile.TemporaryFile("w+") as told:
        began = time.monotonic()
        environment = {**os.environ, **ENVIRONMENT, NODE_PROCESS: str(node.pid)}
        process = subprocess.Popen(command, stdout=told, stderr=told, env=environment)
        peak, played = 0.0, False
        while True:
            found = list(descendants(process.pid))
            peak, played = max(peak, sum(map(pss, found))), played or any(map(is_ansible, found))
            ended, left, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(PERIOD)
        process.returncode = os.waitstatus_to_exitcode(left)
        told.seek(0)
        if process.returncode != code:
            raise TimeoutError(f"nodeprep repair {check}: exit code {process.returncode}, wanted {code}: {told.read()}")
    return Cost(time.monotonic() - began, used.ru_utime + used.ru_stime, peak, played)


@contextmanager
def node() -> Iterator[Node]:
    with Node(Shape(enis=1, pods=2)) as made:
        made.run("mkdir", "-p", "/etc/kubernetes")
        kubeconfig = f"clusters:\n- cluster:\n    server: https://{GATEWAY}:6443\n"
        made.run("tee", "/etc/kubernetes/kubelet.conf", text=kubeconfig)
        yield made


def measure(runs: int) -> int:
    quiet: list[Cost] = []
    plays: list[Cost] = []
    with node() as here:
        for _ in range(runs):
            quiet.append(cost(here, "eni.up", 0))
            here.ip("link", "set", LINK, "down")
            plays.append(cost(here, "eni.up", 0))
            here.ip("link", "set", LINK, "up")
    if any(one.played for one in quiet) or not all(one.played for one in plays):
        raise TimeoutError("Ansible began where nothing was to do, or not where something was")
    least = min(one.seconds for one in quiet)
    own = statistics.median(one.computed for one in quiet)
    play = min(one.computed for one in plays) - own
    peak = max(one.peak for one in plays)
    print(f"nothing to do: {least:.2f} s in the least of {runs} runs, {own:.2f} s of a processor; no Ansible")
    print(f"one play: {play:.2f} s of a processor more in the least of {runs} runs; {peak:.0f} MiB at the peak")
    print(f"limits {QUIET_SECONDS:g} s, {PLAY_SECONDS:g} s and {PEAK_MIB:g} MiB")
    return limits.code(
        [
            Figure("nothing to do", least, most=QUIET_SECONDS, unit="s"),
            Figure("processor time of a play", play, most=PLAY_SECONDS, unit="s"),
            Figure("peak of the memory", peak, most=PEAK_MIB, unit="MiB"),
        ]
    )


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--runs", type=whole(1), default=5)
    return measure(parser.parse_args().runs)


if __name__ == "__main__":
    sys.exit(limits.ended(main, Unavailable))
