"""The cost of events for an agent that listens once a second while the kernel announces 10,000 link changes a second.

    python tests/bench/storm.py [--seconds N] [--rate N]

Another process makes the changes, in a network namespace of both. Also measured: the same without changes, without the
pause (each event is read at once, which no agent does), with uevents, and the poll of 8 InfiniBand ports.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from nodeprep.doors.events.event_source import EventSource
from nodeprep.doors.events.kernel_events import DeviceEvents, LinkEvents
from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.events.port_events import PortEvents
from nodeprep.model import Topic
from tests.bench import limits
from tests.bench.limits import Figure
from tests.bench.options import Options, decimal, whole

LISTEN_AGAIN = 1.0  # seconds between two looks (design 3.2)
BUDGET = 20.0  # percent of a core
RTM_NEWLINK, NLM_F_REQUEST, IFLA_TXQLEN = 16, 1, 13


def change_links(rate: int, seconds: float) -> int:
    """Change the queue length of a link `rate` times a second: one notice each. Returns how many."""
    index = socket.if_nametoindex("a0")
    began, made = time.monotonic(), 0
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        while (passed := time.monotonic() - began) < seconds:
            for _ in range(int(passed * rate) - made):
                body = struct.pack("=BBHiIIHHI", 0, 0, 0, index, 0, 0, 8, IFLA_TXQLEN, 100 + made % 2)
                kernel.send(struct.pack("=IHHII", 16 + len(body), RTM_NEWLINK, NLM_F_REQUEST, made, 0) + body)
                made += 1
            time.sleep(0.001)
    return made


def change_devices(rate: int, seconds: float) -> int:
    """The same with uevents, of an irrelevant device."""
    began, made = time.monotonic(), 0
    event = os.open("/sys/class/mem/null/uevent", os.O_WRONLY)
    while (passed := time.monotonic() - began) < seconds:
        for _ in range(int(passed * rate) - made):
            os.write(event, b"change")
            made += 1
        time.sleep(0.001)
    os.close(event)
    return made


def looks(event_sources: EventSources, seconds: float, deaf: frozenset[Topic]) -> int:
    """Wait as an agent that looks once a second. Returns how often an event woke it."""
    end, rings = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        rings += bool(event_sources.wait(left))
        if deaf:
            event_sources.wait(min(LISTEN_AGAIN, max(0.0, end - time.monotonic())), deaf)
    return rings


def measured(name: str, source: EventSource, seconds: float, deaf: frozenset[Topic], *storm: str) -> float:
    """Percent of a core that this event source took."""
    event_sources = EventSources(sources=[source])
    event_sources.wait(0)
    made = None
    if storm:
        made = subprocess.Popen([sys.executable, __file__, "--make", *storm], stdout=subprocess.PIPE, text=True)
        time.sleep(0.3)
    before = time.process_time()
    rings = looks(event_sources, seconds, deaf)
    spent = (time.process_time() - before) / seconds * 100
    events = made.communicate()[0].strip() if made else "0"
    restarts = event_sources.states()[source.name].restarts
    event_sources.close()
    print(f"{name:44} {spent:7.3f} {int(events) / (seconds + 1):10.0f} {rings:7} {restarts:9}")
    return spent


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--seconds", type=decimal(1), default=10)
    parser.add_argument("--rate", type=whole(1), default=10_000)
    parser.add_argument("--make", nargs=3, metavar=("WHAT", "RATE", "SECONDS"), help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        makers: dict[str, Callable[[int, float], int]] = {"links": change_links, "devices": change_devices}
        print(makers[asked.make[0]](int(asked.make[1]), float(asked.make[2])))
        return 0
    if not asked.inside:
        words = ["unshare", "--net", sys.executable, __file__, "--inside", "--seconds", f"{asked.seconds:g}"]
        return subprocess.run([*words, "--rate", f"{asked.rate}"], check=False).returncode
    subprocess.run(["ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0"], check=True)
    storm = (str(asked.rate), f"{asked.seconds + 1:g}")
    nobody: frozenset[Topic] = frozenset()
    print(f"{f'each for {asked.seconds:g} s':44} {'% core':>7} {'events/s':>10} {'rings':>7} {'restarts':>9}")
    measured("silence", LinkEvents(), asked.seconds, frozenset({Topic.LINK}))
    spent = measured("links, deaf 1 s at a time", LinkEvents(), asked.seconds, frozenset({Topic.LINK}), "links", *storm)
    measured("links, never deaf", LinkEvents(), asked.seconds, nobody, "links", *storm)
    measured("uevents that say nothing, never deaf", DeviceEvents(), asked.seconds, nobody, "devices", *storm)
    with tempfile.TemporaryDirectory(prefix="nodeprep-bench-") as scratch:
        for number in range(8):
            port = Path(scratch, f"sys/class/infiniband/mlx5_{number}/ports/1")
            port.mkdir(parents=True)
            for name, text in (("link_layer", "InfiniBand"), ("state", "4: ACTIVE"), ("phys_state", "5: LinkUp")):
                (port / name).write_text(text)
        measured("states of 8 InfiniBand ports", PortEvents(scratch), asked.seconds, nobody)
    print(f"budget: {BUDGET:g} % of a core for a storm of links (issue 5), deaf as an agent is")
    return limits.code([Figure("a storm of links", spent, most=BUDGET, unit="% of a core")])


if __name__ == "__main__":
    sys.exit(limits.ended(main))
