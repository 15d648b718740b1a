"""Draws the boards in Chromium with Grafana's own components, from a fleet's history: docs/dashboards/*.png.

    python tests/dashboards/pictures.py [--nodes N] [--hours N]

It needs Debian's chromium and prometheus, npm, and 500 MB in ~/.cache/nodeprep/drawing. No Grafana server can be had
here: how Grafana loads a board is not proved by a picture.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.dashboards import asked, history
from tests.rigs import cache, prometheus_server

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "dashboards" / "drawing"
TARGET = REPOSITORY / "docs" / "dashboards"
# A board, the variables that are not "All", and the name of its picture.
SHOTS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("nodeprep-fleet", {}, "fleet.png"),
    ("nodeprep-node", {"node": "gpu-0005"}, "node.png"),
    ("nodeprep-repairs", {}, "repairs.png"),
    ("nodeprep-rollout", {}, "rollout.png"),
)
WINDOW_HOURS, POINTS = 6, 240


def built(place: Path) -> Path:
    """The page, built by vite; npm's packages stay in the cache."""
    place.mkdir(parents=True, exist_ok=True)
    for file in SOURCES.iterdir():
        shutil.copy(file, place / file.name)
    install = [
        "npm",
        "install",
        "--legacy-peer-deps",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
    ]
    for command in (install, ["npx", "vite", "build", "--logLevel", "error"]):
        subprocess.run(command, cwd=place, check=True)
    return place / "dist"


def filled(board: dict[str, Any], variables: dict[str, str], end: int, hours: int) -> dict[str, Any]:
    """A board with its variables filled in, for the last hours before a moment."""
    parts = [
        {
            **panel,
            "targets": [{**one, "expr": asked.substituted(one["expr"], variables, hours)} for one in panel["targets"]],
        }
        for panel in board["panels"]
    ]
    shown = f"{board['title']}" + "".join(f" \N{MIDDLE DOT} {name} {value}" for name, value in variables.items())
    seconds = hours * 3600
    return {"shown": shown, "panels": parts, "from": end - seconds, "to": end, "step": seconds // POINTS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--hours", type=int, default=WINDOW_HOURS)
    given = parser.parse_args()
    for program in ("npm", "node", "chromium", prometheus_server.BINARY, prometheus_server.TOOL):
        if shutil.which(program) is None:
            print(
                f"pictures.py: {program} is not on PATH; wanted: npm, and Debian's chromium and prometheus",
                file=sys.stderr,
            )
            return 2
    with cache.locked("drawing") as home:
        place = home / "drawing"
        page = built(place)
    TARGET.mkdir(exist_ok=True)
    minutes = given.hours * 60
    end = history.BEGIN + (minutes - 1) * history.STEP_SECONDS
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        count = history.write(here / "history.txt", given.nodes, history.page(here / "node"), range(minutes), minutes)
        took = prometheus_server.backfill(here / "data", here / "history.txt")
        print(f"{count} samples of {given.nodes} nodes, stored in {took:.0f} s")
        with prometheus_server.serving(here / "prometheus", data=here / "data") as server:
            for name, variables, picture in SHOTS:
                board = here / "board.json"
                board.write_text(json.dumps(filled(asked.BOARDS[name], variables, end, given.hours)))
                shot = ["node", "shoot.mjs", str(page), str(board), server.url, str(TARGET / picture)]
                subprocess.run(shot, cwd=place, check=True)
                print(TARGET / picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
