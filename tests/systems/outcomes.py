"""What the tests of whole training systems measured, row by row, for the page that shows it."""

from __future__ import annotations

import os
from pathlib import Path

TABLE = "NODEPREP_JOBS_TABLE"  # names a file; without it a row is only printed
SYSTEMS = ("mpijob", "rdma", "pytorchjob", "tfjob")


def record(system: str, what: str, seconds: float | None, words: str = "") -> None:
    """Adds a row: system, what was measured, seconds ("" where it is no time), and what was said or seen.

    Tests run beside each other. A row is written at once, so rows of two do not mix.

    Raises:
        ValueError: no page knows this system.
    """
    if system not in SYSTEMS:
        raise ValueError(f"system: found {system!r}, wanted one of {', '.join(SYSTEMS)}")
    taken = "" if seconds is None else f"{seconds:.2f}"
    row = "\t".join(" ".join(cell.split()) for cell in (system, what, taken, words))
    print(f"outcome: {row}")
    if path := os.environ.get(TABLE):
        with Path(path).open("a") as table:
            table.write(f"{row}\n")
