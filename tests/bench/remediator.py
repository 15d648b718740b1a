"""What a remediator costs: idle, for one attempt, and for each message that it refuses.

    python tests/bench/remediator.py [--seconds N] [--messages N] [--runs N]

A real remediator beside a host in a mount namespace of its own, with a real playbook. Memory is the resident set (RSS)
of the one process, and at the peak, looked at each 50 ms, the sum of the proportional sets (PSS) of all. Processor time
is that of the scheduler (/proc/PID/schedstat).
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench import limits, repair
from tests.bench.limits import Figure
from tests.bench.options import Options, whole
from tests.rigs import remediator_process
from tests.rigs.remediator_process import HELLO, ID, Remediator

IDLE_MIB, PEAK_MIB, REFUSAL_SECONDS = 30.0, 200.0, 0.05  # issue 17
IDLE_SHARE = 0.001  # of a processor: what a process that wakes each second cannot be below
WAIT_SECONDS = 300.0  # for an attempt that takes 4
REMEDY = "terway_dirs"


def computed(pid: int) -> float:
    """Seconds of processors that the threads of a process have had."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def resident(pid: int) -> float:
    """MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


def refused() -> Iterator[bytes]:
    """Messages that must not run anything, of each kind by turns."""
    run = remediator_process.run_request(remedy="link_up", check=False, interface="eth7")["run"]
    bodies: list[Any] = [
        {"run": {**run, "remedy": "format_disk"}},
        {"run": {**run, "more": 1}},
        {"run": {**run, "args": {"interface": "../../etc"}}},
        {"run": {**run, "deadline": 3600}},
        {"exec": {"argv": ["sh"]}},
        {"status": {"attempt": "x" * 60_000}},
    ]
    lines = [json.dumps(one).encode() for one in bodies]
    return itertools.cycle([*lines, b"[" * 60_000, b"\xff" * 1000])


def refusals(remediator: Remediator, count: int) -> list[float]:
    """Seconds that each refusal took. Raises TimeoutError where one was none."""
    took = []
    with remediator.connected() as peer, peer.makefile("rwb") as lines:
        for line in itertools.chain([json.dumps(HELLO).encode()], itertools.islice(refused(), count)):
            began = time.monotonic()
            lines.write(line + b"\n")
            lines.flush()
            told = json.loads(lines.readline())
            took.append(time.monotonic() - began)
            if not told.keys() & {"error", "refused", "hello"}:
                raise TimeoutError(f"{line[:60]!r} was answered with {told}")
    return took[1:]


def peak(remediator: Remediator, pid: int, attempt: str) -> float:
    """MiB of everything that the remediator is and has started, at the most. Raises TimeoutError."""
    remediator.ask(HELLO, remediator_process.run_request(attempt, REMEDY))
    most, until = 0.0, time.monotonic() + WAIT_SECONDS
    while (told := remediator.ask({"status": {"attempt": attempt}})[0])["status"] == "running":
        most = max(most, sum(map(repair.pss, repair.descendants(pid))))
        if time.monotonic() > until:
            raise TimeoutError(f"{REMEDY} was not done within {WAIT_SECONDS:g} s")
        time.sleep(repair.PERIOD)
    if told["rc"] != 0:
        raise TimeoutError(f"{REMEDY} ended with {told}")
    return most


def measure(seconds: int, messages: int, runs: int) -> int:
    with tempfile.TemporaryDirectory(prefix="nodeprep-") as directory, remediator_process.host() as first:
        remediator = Remediator(Path(directory), "--host-process", f"/proc/{first.pid}", "--runs-a-day-each", "1000")
        with remediator.serving() as process:
            remediator.ask(HELLO, {"status": {"attempt": ID}})
            began, before = time.monotonic(), computed(process.pid)
            time.sleep(seconds)
            share = (computed(process.pid) - before) / (time.monotonic() - began)
            idle = resident(process.pid)
            took = refusals(remediator, messages)
            flooded = resident(process.pid)
            peaks = [peak(remediator, process.pid, f"{number:032x}") for number in range(runs)]
    print(f"idle: {idle:.1f} MiB, {share * 100:.3f} % of a processor over {seconds} s; limits {IDLE_MIB:g} MiB, 0.1 %")
    print(f"refusals of {messages} messages: {limits.quantiles(took)}; limit {REFUSAL_SECONDS * 1e3:g} ms")
    print(f"after them: {flooded:.1f} MiB")
    print(f"an attempt: {max(peaks):.0f} MiB at the peak of {runs} runs; limit {PEAK_MIB:g} MiB")
    return limits.code(
        [
            Figure("memory when idle", idle, most=IDLE_MIB, unit="MiB"),
            Figure("memory after the refusals", flooded, most=IDLE_MIB, unit="MiB"),
            Figure("share of a processor when idle", share, most=IDLE_SHARE),
            *limits.latencies("refusal of a message", took, most=REFUSAL_SECONDS),
            Figure("peak of the memory", max(peaks), most=PEAK_MIB, unit="MiB"),
        ]
    )


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--seconds", type=whole(1), default=60)
    parser.add_argument("--messages", type=whole(limits.FEWEST), default=2000)
    parser.add_argument("--runs", type=whole(1), default=3)
    asked = parser.parse_args()
    return measure(asked.seconds, asked.messages, asked.runs)


if __name__ == "__main__":
    sys.exit(limits.ended(main, OSError))
