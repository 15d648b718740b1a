"""Writes the outcomes into docs/jobs.md from proofs/jobs.tsv, which `make prove-jobs` writes. `make docs`.

A row of that file is a system, what was measured, seconds ("" where it is no time), and what was said, between tabs
(tests/systems/outcomes.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).with_name("jobs.md")
RESULTS = TARGET.parent.parent / "proofs" / "jobs.tsv"
LEAST = 0.1  # seconds; below it a watch of the API server tells nothing
LONGEST = 320  # characters of what was said
PLACE = re.compile(
    r"(<!-- `make docs` writes this from proofs/jobs\.tsv: (\w+) -->\n).*?(<!-- the end of it -->\n)", re.DOTALL
)


def page() -> str:
    """The whole of docs/jobs.md: what people wrote, and the tables."""
    results = RESULTS.read_text(encoding="utf-8")
    written = TARGET.read_text(encoding="utf-8")
    return PLACE.sub(lambda found: f"{found[1]}{''.join(table(results, found[2]))}{found[3]}", written)


def table(results: str, system: str) -> Iterator[str]:
    """The lines of a system's table."""
    yield "| measured | outcome |\n"
    yield "|---|---|\n"
    for row in results.splitlines():
        of, what, seconds, words = row.split("\t")
        if of == system:
            told = _seconds(float(seconds)) if seconds else ""
            said = f'"{shortened(words)}"'.replace("|", "\\|") if words else ""
            yield f"| {what} | {': '.join(filter(None, (told, said)))} |\n"


def _seconds(taken: float) -> str:
    return f"{taken:.1f} s" if abs(taken) >= LEAST else "less than 0.1 s"


def shortened(words: str) -> str:
    """The beginning of long words; proofs/jobs.tsv has the rest."""
    return words if len(words) <= LONGEST else f"{words[:LONGEST].rpartition(' ')[0]} ..."


def main() -> None:
    TARGET.write_text(page(), encoding="utf-8")
