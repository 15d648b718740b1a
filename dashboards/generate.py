"""Writes the boards: `make dashboards`. tests/dashboards proves that what is committed is current.

python dashboards/generate.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import fleet, node, rollout

HERE = Path(__file__).resolve().parent
BOARDS = (fleet, node, rollout)


def texts() -> dict[Path, str]:
    """The files and what should be in them."""
    return {
        HERE / f"{one.UID}.json": JSONEncoder(sort_keys=True, indent=2).encode(one.board().build()) + "\n"
        for one in BOARDS
    }


def main() -> None:
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
