"""From a pulled cable of an RDMA port to the taint, with the shipped manifests on a real node.

    python tests/bench/port.py [--flaps N]

The node is a QEMU guest with a RoCE port, in software emulation, which is slow. So its figures are upper bounds.
tests/bench/taint.py has those of many agents at this machine's speed. The agent convicts by its defaults. Times are of
this machine's monotonic clock: a command to QEMU pulls the cable, and a raw watch of the Node says when the server
announced the change.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from daemonset.image.debian import CannotBuild
from tests.bench import limits
from tests.bench.limits import Figure, latencies, quantiles
from tests.bench.options import Options, whole
from tests.kubernetes.shipped import UNHEALTHY, Object, overlay, taints
from tests.kubernetes.training import Announced, announced, labelled, open_to_training, trains
from tests.rigs import images, lab
from tests.rigs.cluster import CannotStart, Cluster
from tests.rigs.guest import Guest
from tests.rigs.lab_setup import RAIL
from tests.rigs.waiting import until

NAME = "guest"
MOST = 100  # flaps
# Convictions of port.state have their defaults. Proof and release are short, because the link must flap here.
CONFIGURATION = f"""\
apiVersion: nodeprep.io/v1
kind: Config
mode: gate
default: rdma-roce
confirmation: {{passes: 2, pass-span: 2, pass-every: 1, flap-count: {MOST}}}
every: {{pci: 5}}
want: {{port.flap: {{fail-at: 1000}}}}
"""
LIMIT, LEAST = 1.0, 0.45  # seconds; design 7; a value below the least says that confirmation was off
SETTLE = 4.0  # seconds from ready to the next fault: calm, so that its first event starts a look at once
LONG = 300.0
WANTED = {
    "taint": lambda node: UNHEALTHY in taints(node),
    "condition": lambda node: not trains(node),
    "label gone": lambda node: not labelled(node),
}


def measure(flaps: int) -> int:
    print(f"configuration:\n{CONFIGURATION}", end="", flush=True)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        cluster = stack.enter_context(Cluster(controllers=True))
        guest = stack.enter_context(Guest(cluster, NAME, images=[images.archive("good")]))
        with announced(cluster, "/api/v1/nodes", NAME) as said:
            cluster.apply(overlay(Path(scratch) / "own", {"config.yaml": CONFIGURATION}))
            took = list(flapped(guest, said, flaps))
    print(f"{len(took)} times the cable of {NAME}'s RDMA port")
    figures = [Figure("pulled cables that the Node told of", len(took), least=flaps)]
    for number, what in enumerate(WANTED):
        seconds = [one[number] for one in took]
        print(f"cable out -> {what:10} {quantiles(seconds)}  limit of p99 {LIMIT * 1e3:.0f} ms, none below {LEAST} s")
        figures += latencies(f"cable out -> {what}", seconds, LIMIT, LEAST)
    return limits.code(figures)


def flapped(guest: Guest, said: Announced, flaps: int) -> Iterator[list[float]]:
    """The times of each flap, up to the first that the Node does not show."""
    for _ in range(flaps):
        try:
            yield flap(guest, said)
        except TimeoutError as error:
            limits.complain(error)
            return


def flap(guest: Guest, said: Announced) -> list[float]:
    """Seconds from the command to each change in WANTED."""
    until(lambda: open_to_training(newest(said)), "the guest is ready for training", LONG)
    time.sleep(SETTLE)
    began = time.monotonic()
    guest.lab.set_link(RAIL.id, up=False)
    took = [said.when(holds, what, began) - began for what, holds in WANTED.items()]
    guest.lab.set_link(RAIL.id, up=True)
    return took


def newest(said: Announced) -> Object:
    return said.seen[-1][1] if said.seen else {"spec": {}, "metadata": {"labels": {}}}


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--flaps", type=whole(2, MOST), default=30, help=f"at most {MOST}: more would be latched")
    return measure(parser.parse_args().flaps)


if __name__ == "__main__":
    sys.exit(limits.ended(main, CannotStart, CannotBuild, lab.CannotStart))
