"""Writes the boards: `make dashboards`. tests/dashboards proves that what is committed is current.

python dashboards/generate.py [--runbooks URL]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import fleet, node, prometheus_rule, repairs, rollout

HERE = Path(__file__).resolve().parent
BOARDS = (fleet, node, repairs, rollout)


def texts(runbooks: str = prometheus_rule.RUNBOOKS) -> dict[Path, str]:
    """The files and what should be in them."""
    return {HERE / f"{one.UID}.json": text(one.board(runbooks)) for one in BOARDS}


def text(board: Dashboard) -> str:
    """A board as Grafana reads it. Links stand in its head: the SDK would put them into a menu (`placement`)."""
    found: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True).encode(board.build()))
    for link in found["links"]:
        del link["placement"]
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runbooks", default=prometheus_rule.RUNBOOKS, metavar="URL", help="where docs/ of this version is served"
    )
    for path, board in texts(parser.parse_args().runbooks.rstrip("/")).items():
        path.write_text(board, encoding="utf-8")


if __name__ == "__main__":
    main()
