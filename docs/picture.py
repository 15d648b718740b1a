"""Draws what commands really print: docs/check.svg of a faulty node of the test trees, docs/history.svg of its week."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

import yaml

from nodeprep.history import node_record
from nodeprep.history.node_record import NAME, NodeRecord
from tests.history_values import EPOCH, outage, record, started
from tests.rigs import faults, trees

TARGET = Path(__file__).with_name("check.svg")
TIMELINE = Path(__file__).with_name("history.svg")
CASES = Path(__file__).resolve().parent.parent / "tests" / "trees" / "cases"
FAULTS = ("rail-without-signal", "rate-halved")
LINE, CHARACTER, MARGIN = 18, 8.43, 16  # pixels, for 14 px of a monospaced font
COLOURS = {"NOT READY": "#ff7b72", "FAIL": "#ff7b72", "WARN": "#e3b341", "  fix": "#7ee787", "fine": "#7ee787"}
GREY, WHITE = "#8b949e", "#e6edf3"
NODE = "gpu-17"
# Without what is fine: a new check changes no picture.
HISTORY = ("history",)
ARGUMENTS = ("check", "--root", NODE, "--profile", "rdma-infiniband", "--failing")


def printed() -> str:
    """The output of the real command, run on a tree with two faults."""
    with tempfile.TemporaryDirectory(prefix="nodeprep-picture-") as scratch:
        root = trees.build("h100-ib", Path(scratch) / NODE)
        for name in FAULTS:
            faults.apply(yaml.safe_load((CASES / f"{name}.yaml").read_text()), root)
        argv = [sys.executable, "-m", "nodeprep", *ARGUMENTS]
        return subprocess.run(argv, cwd=scratch, capture_output=True, text=True, check=False).stdout


def week() -> list[NodeRecord]:
    """A rail that fails twice, a configuration, a reboot, and a fault of the node that a remedy mended."""
    keys = {"mode": "4f83", "assign": "77ab"}
    return [
        *started(10.0)[:1],
        record("configuration", 10.0, digest="5eed5eed00", keys=keys),
        *started(10.0)[2:],
        *outage(82_318.0, seconds=140.0),
        *outage(170_000.0, seconds=35.0)[:3],
        record("repair-ended", 170_031.0, remedy="link_up", outcome="released"),
        *outage(170_000.0, seconds=35.0)[3:],
        record("closed-for-shutdown", 259_000.0, why="node is shutting down"),
        record("stopped", 259_001.0, signal="SIGTERM"),
        *started(42.0, "two", offset=EPOCH + 259_100.0)[:1],
        *started(42.0, "two", offset=EPOCH + 259_100.0)[2:],
    ]


def told() -> str:
    """The output of the real command, run on that week."""
    with tempfile.TemporaryDirectory(prefix="nodeprep-picture-") as scratch:
        names = ("STATE", "RUN", "SOCKET")
        Path(scratch, NAME).write_bytes(b"".join(map(node_record.line, week())))
        environment = {**os.environ, **{f"NODEPREP_{name}_DIR": scratch for name in names}}
        argv = [sys.executable, "-m", "nodeprep", *HISTORY]
        said = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False).stdout
        return said.partition("\n")[2]  # the first line has the time of now


def drawn(text: str, arguments: tuple[str, ...] = ARGUMENTS) -> str:
    lines = [f"$ nodeprep {' '.join(arguments)}", *text.splitlines()]
    width = int(max(map(len, lines)) * CHARACTER) + 2 * MARGIN
    height = (len(lines) + 1) * LINE + MARGIN
    rows = "\n".join(_rows(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n'
        '<g font-family="ui-monospace, DejaVu Sans Mono, monospace" font-size="14" xml:space="preserve">\n'
        f"{rows}\n</g>\n</svg>\n"
    )


def _rows(lines: list[str]) -> Iterator[str]:
    fill = WHITE
    for index, line in enumerate(lines):
        if not line.startswith(" "):
            fill = GREY if re.match(r"(node|profile|root|not run|note|absent)\b", line) else WHITE
        head = next((word for word in COLOURS if line.startswith(word)), "")
        start = f'<tspan fill="{COLOURS[head]}">{escape(head)}</tspan>' if head else ""
        y = MARGIN + (index + 1) * LINE - 4
        yield f'<text x="{MARGIN}" y="{y}" fill="{fill}">{start}{escape(line.removeprefix(head))}</text>'


def main() -> None:
    TARGET.write_text(drawn(printed()), encoding="utf-8")
    TIMELINE.write_text(drawn(told(), HISTORY), encoding="utf-8")


if __name__ == "__main__":
    main()
