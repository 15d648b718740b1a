"""Watches an agent every 50 ms and reports violations (tests/chaos_rules.py); a process of its own, on the node.

    python tests/chaos_watch.py RUN_DIRECTORY PORT PASS_SPAN SLOWER

Reads the deeds as lines of JSON, and writes each violation as such a line. At the end of its input it writes a summary.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from tests.chaos_rules import Rules, Sample, Turn, waited

EVERY = 0.05  # seconds
SCRAPE = 0.25  # seconds between two requests to the agent
PATIENCE = 3.0
RECENT = 1.0  # seconds for which an answer counts as current
SUFFIX = ".ready"
PLAIN = {"nodeprep_rounds_total": "rounds", "nodeprep_last_round_timestamp_seconds": "last-round"}


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Asked:
    """The last answers of the agent's pages, asked in a thread: a stopped agent delays nobody."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.metrics: tuple[float, dict[str, float]] = (0.0, {})
        self.healthy: tuple[float, bool] = (0.0, False)
        Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        while True:
            with suppress(OSError, http.client.HTTPException, ValueError):
                self.healthy = (now(), self._page("/healthz")[0] == http.client.OK)
                status, page = self._page("/metrics")
                if status == http.client.OK:
                    self.metrics = (now(), read(page))
            time.sleep(SCRAPE)

    def _page(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def read(page: str) -> dict[str, float]:
    """The metrics that the rules need, from Prometheus' text format."""
    found = {}
    for line in page.splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith('nodeprep_ready{profile="'):
            found[f"ready {name.split(chr(34))[1]}"] = float(value)
        elif name in PLAIN:
            found[PLAIN[name]] = float(value)
    return found


def gates(directory: Path) -> dict[str, str]:
    found = {}
    for one in directory.glob(f"[!.]*{SUFFIX}"):
        with suppress(FileNotFoundError):
            found[one.name.removesuffix(SUFFIX)] = one.read_text(errors="replace")
    return found


def sizes(pid: int) -> dict[str, int]:
    try:
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except (OSError, ValueError):
        return {}
    if "VmRSS" not in lines:
        return {}
    return {"rss": int(lines["VmRSS"].split()[0]) << 10, "threads": int(lines["Threads"]), "descriptors": descriptors}


def turns(pid: int) -> dict[str, Turn]:
    """The agent's threads, by their number; none where the kernel does not count their waits."""
    found = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # it has ended
                ran, waits, _ = (task / "schedstat").read_text().split()
                wants = (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
                found[task.name] = Turn(int(ran) / 1e9, int(waits) / 1e9, wants)
    return found


def main(directory: str, port: str, span: str, slower: str) -> int:
    rules, asked, told = Rules(float(span), float(slower)), Asked(int(port)), SimpleQueue[dict[str, Any] | None]()
    Thread(target=listen, args=(told,), daemon=True).start()
    pid, most, wrong, left = 0, dict.fromkeys(("rss", "threads", "descriptors"), 0), 0, False
    seen_at, threads = now(), turns(pid)
    while not left:
        found = []
        with suppress(Empty):
            while not left:
                event = told.get_nowait()
                left = event is None
                if event is not None:
                    pid = event.get("pid", pid)
                    found.append(rules.tell(event))
        at = now()
        own = sizes(pid) if pid else {}
        before, threads = threads, turns(pid) if pid else {}
        lost, seen_at = waited(before, threads, at - seen_at), at
        most = {name: max(size, own.get(name, 0)) for name, size in most.items()}
        metrics = asked.metrics[1] if at - asked.metrics[0] < RECENT else None
        healthy = asked.healthy[1] if at - asked.healthy[0] < RECENT else None
        found += rules.see(Sample(at, gates(Path(directory)), metrics, healthy, own, time.time(), lost))
        for text in filter(None, found):
            wrong += 1
            print(json.dumps({"violation": text, "timeline": rules.timeline()}), flush=True)
        time.sleep(EVERY)
    seen = {"violations": wrong, "openings": rules.openings, "closings": rules.closings, "slowest": rules.slowest}
    print(json.dumps({"seen": seen | most}), flush=True)
    return 0


def listen(told: SimpleQueue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        told.put(json.loads(line))
    told.put(None)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
