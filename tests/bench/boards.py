"""How long the boards' queries take on a thousand nodes: every query of every panel, asked of a real Prometheus.

    python tests/bench/boards.py [--nodes N] [--minutes N]

The history has every series of every node (tests/dashboards/history.py), a sample a minute, and is made in parts of ten
minutes. A query over the time of the board is asked as Grafana does, with a point each 30 s or at the
panel's own interval; one of now is asked once.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench import limits
from tests.bench.limits import Figure
from tests.bench.options import Options, whole
from tests.dashboards import asked, history
from tests.rigs import prometheus_server
from tests.rigs.prometheus_server import Server

NODES, MINUTES, PART_MINUTES = 1000, 120, 10
POINT_SECONDS = 30.0
QUERY_SECONDS = 1.0  # issue 15
ON_NODE = {"nodeprep-node": {"node": "gpu-0005"}}  # the variables of boards that are of one node


def stored(place: Path, nodes: int, minutes: int) -> tuple[int, float]:
    """The history in the storage of Prometheus; how many samples it has, and the seconds that it took to store."""
    series, count, took = history.page(place / "node"), 0, 0.0
    text = place / "history.txt"
    for begin in range(0, minutes, PART_MINUTES):
        count += history.write(text, nodes, series, range(begin, min(minutes, begin + PART_MINUTES)), minutes)
        took += prometheus_server.backfill(place / "data", text)
        print(
            f"  {begin + PART_MINUTES} of {minutes} minutes: {count} samples, {took:.0f} s", file=sys.stderr, flush=True
        )
    text.unlink()
    return count, took


Span = tuple[float, float, float]  # of a query: begin, end and the time between two points


def seconds(server: Server, expression: str, target: dict[str, Any], span: Span) -> tuple[float, int]:
    """How long a query takes, the better of two, and how many series it gives."""
    begin, end, step = span
    best, found = float("inf"), 0
    for _ in range(2):
        began = time.monotonic()
        if target.get("instant"):
            found = len(server.ask(expression, end))
        else:
            found = len(server.ask_range(expression, begin, end, step))
        best = min(best, time.monotonic() - began)
    return best, found


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--nodes", type=whole(1), default=NODES)
    parser.add_argument("--minutes", type=whole(PART_MINUTES), default=MINUTES)
    given = parser.parse_args()
    slowest = 0.0
    with tempfile.TemporaryDirectory(prefix="nodeprep-boards-") as scratch:
        place = Path(scratch)
        count, took = stored(place, given.nodes, given.minutes)
        print(f"{given.nodes} nodes, {given.minutes} minutes, {count} samples, stored in {took:.0f} s")
        begin = float(history.BEGIN)
        end = begin + (given.minutes - 1) * history.STEP_SECONDS
        with prometheus_server.serving(place / "prometheus", data=place / "data") as server:
            for name, board in asked.BOARDS.items():
                print(name)
                for panel in board["panels"]:
                    step = max(POINT_SECONDS, 60 * float(panel.get("interval", "0m").removesuffix("m")))
                    for target in panel["targets"]:
                        variables = ON_NODE.get(name, {})
                        expression = asked.substituted(target["expr"], variables, hours=(end - begin) / 3600)
                        spent, found = seconds(server, expression, target, (begin, end, step))
                        slowest = max(slowest, spent)
                        print(f"  {spent:6.3f} s {found:5} series  {panel['title']} {target['refId']}")
    return limits.code([Figure("the slowest query", slowest, most=QUERY_SECONDS, unit="s")])


if __name__ == "__main__":
    sys.exit(main())
