"""Writes the drill table of the README from proofs/drills.tsv, which `make prove-drills` writes. `make docs`.

A row of that file is a fault, its remedies, and seconds since the fault, between tabs, as `LEGS` names them.
tests/kubernetes/test_repair_drills.py measures them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "README.md"
RESULTS = TARGET.parent / "proofs" / "drills.tsv"
BEGIN, END = "<!-- `make docs` writes this from proofs/drills.tsv. -->\n", "<!-- the end of it -->\n"
LIMIT_SECONDS = 300.0  # from the fault to the open gate, in the emulated guest (issue 18)
# When the Node says each, and at last of which the plays took.
LEGS = ("condition", "label gone", "taint", "repairing", "gate open", "pod runs", "plays")


def page() -> str:
    """The whole README: what people wrote, and the table."""
    before, begin, rest = TARGET.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + "".join(f"{line}\n" for line in table(RESULTS.read_text(encoding="utf-8"))) + end + after


def table(results: str) -> Iterator[str]:
    """The lines of the table: of the gate open also what is left without the plays, which emulation makes long."""
    yield "| fault | mended by | condition, label, taint | remedy begins | gate open | without the plays | pod runs |"
    yield "|---|---|---|---|---|---|---|"
    for row in results.splitlines():
        story, remedies, *times = row.split("\t")
        at = dict(zip(LEGS, map(float, times), strict=True))
        told = max(at["condition"], at["label gone"], at["taint"])
        names = ", ".join(f"`{one}`" for one in remedies.split(", "))
        rest = at["gate open"] - at["plays"]
        seconds = (told, at["repairing"], at["gate open"], rest, at["pod runs"])
        yield f"| {story} | {names} | {' | '.join(f'{one:.1f} s' if one < 10 else f'{one:.0f} s' for one in seconds)} |"


def main() -> None:
    TARGET.write_text(page(), encoding="utf-8")
