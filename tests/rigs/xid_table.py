"""Makes the module of Xid and SXid classes that nodeprep ships from docs/kernel_log/xids.tsv.

.venv/bin/python -m tests.rigs.xid_table
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[2]
TABLE = HERE / "docs" / "kernel_log" / "xids.tsv"
SHIPPED = HERE / "agent" / "nodeprep" / "facts" / "machine" / "xid_codes.py"
HEAD = '''"""Xids and SXids by class; made by tests/rigs/xid_table.py from docs/kernel_log/xids.tsv."""

# fmt: off
# ruff: noqa: E501
'''


class Row(NamedTuple):
    """One code, or a range of them, with its class and what it means."""

    kind: str
    first: int
    last: int
    name: str
    meaning: str

    @property
    def codes(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def rows() -> Iterator[Row]:
    """The rows of the committed table. Raises ValueError for a code that stands in it twice."""
    seen: set[tuple[str, int]] = set()
    for line in TABLE.read_text().splitlines():
        if line.startswith("#"):
            continue
        kind, codes, name, meaning, _ = line.split("\t")
        first, _, last = codes.partition("-")
        row = Row(kind, int(first), int(last or first), name, meaning)
        for code in range(row.first, row.last + 1):
            if (kind, code) in seen:
                raise ValueError(f"{kind} {code} stands in the table twice")
            seen.add((kind, code))
        yield row


def shipped() -> str:
    """The text of the module."""
    found = list(rows())
    meanings = {row.codes: row.meaning for row in found if row.kind == "Xid"}
    parts = [HEAD]
    for kind, name in (("Xid", "XIDS"), ("SXid", "SXIDS")):
        classes = dict.fromkeys(row.name for row in found if row.kind == kind)
        told = {one: " ".join(row.codes for row in found if (row.kind, row.name) == (kind, one)) for one in classes}
        parts.append(f"{name} = {{\n" + "".join(f'    "{one}": "{codes}",\n' for one, codes in told.items()) + "}\n")
    parts.append("MEANINGS = {\n" + "".join(f'    "{codes}": "{text}",\n' for codes, text in meanings.items()) + "}\n")
    return "\n".join(parts[:1]) + "\n" + "".join(parts[1:])


if __name__ == "__main__":
    SHIPPED.write_text(shipped())
    sys.exit(0)
