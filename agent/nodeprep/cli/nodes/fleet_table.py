"""Rows of the fleet as kubectl would print them, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from nodeprep.cli import terminal
from nodeprep.job_profile import API_VERSION
from nodeprep.newer_python import UTC
from nodeprep.publish import agent_lease
from nodeprep.publish.fleet_rows import FleetRow, Readiness
from nodeprep.values import Struct, field

COLUMN_GAP = "   "
NONE, UNKNOWN = "-", "?"
SHORT_COLUMNS = ("NAME", "STATE", "PROFILES", "REASON", "SINCE", "FREE/GPUS")
WIDE_COLUMNS = (*SHORT_COLUMNS, "AGENT", "TAINTS", "MESSAGE")
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400
# Below how many seconds an age is shown in which units (k8s.io/apimachinery/pkg/util/duration, HumanDuration).
AGES = (
    (2 * MINUTE, 1, "s", 0, ""),
    (10 * MINUTE, MINUTE, "m", 1, "s"),
    (3 * HOUR, MINUTE, "m", 0, ""),
    (8 * HOUR, HOUR, "h", MINUTE, "m"),
    (2 * DAY, HOUR, "h", 0, ""),
    (8 * DAY, DAY, "d", HOUR, "h"),
    (2 * YEAR, DAY, "d", 0, ""),
    (8 * YEAR, YEAR, "y", DAY, "d"),
)


class FleetTable(Struct):
    """Lines under one header. `width` is the terminal's; None: leave nothing out.

    On a narrow terminal profiles are left out: first all except one of each Node, then the column. A wide table is
    always complete.
    """

    wide: bool = False
    width: int | None = None
    _columns: tuple[str, ...] = ()
    _widths: list[int] = field(default_factory=list)
    _brief: bool = False

    def lines(self, rows: Sequence[FleetRow], now: float) -> list[str]:
        """The header and a line for each row."""
        self._columns = WIDE_COLUMNS if self.wide else SHORT_COLUMNS
        self._brief = False
        self._fit(rows, now)
        if self._too_wide():
            self._brief = True
            self._fit(rows, now)
        if self._too_wide():
            self._columns = tuple(one for one in self._columns if one != "PROFILES")
            self._fit(rows, now)
        return [self._line(self._columns), *(self.line(row, now) for row in rows)]

    def line(self, row: FleetRow, now: float, state: str | None = None) -> str:
        """One row, under the header that was made; `state` in place of its own."""
        return self._line(self._cells(row, now, state))

    def _fit(self, rows: Iterable[FleetRow], now: float) -> None:
        table = [self._columns, *(self._cells(row, now) for row in rows)]
        self._widths = [max(map(len, column)) for column in zip(*table, strict=True)]

    def _too_wide(self) -> bool:
        total = sum(self._widths) + len(COLUMN_GAP) * (len(self._widths) - 1)
        return self.width is not None and not self.wide and total > self.width

    def _line(self, cells: Sequence[str]) -> str:
        padded = (cell.ljust(size) for cell, size in zip(cells, self._widths, strict=True))
        return COLUMN_GAP.join(padded).rstrip()

    def _cells(self, row: FleetRow, now: float, state: str | None = None) -> tuple[str, ...]:
        doubt = "" if row.leases_known else UNKNOWN
        cells = {
            "NAME": row.name,
            "STATE": state or row.state + doubt + (",Cordoned" if row.cordoned else ""),
            "PROFILES": _profiles(row.profiles, brief=self._brief),
            "REASON": NONE if row.readiness is Readiness.READY and row.reason == "Ready" else row.reason or NONE,
            "SINCE": NONE if row.since is None else age(now - row.since),
            "FREE/GPUS": _gpus(row),
            "AGENT": _agent(row, now),
            "TAINTS": ",".join(row.taints) or NONE,
            "MESSAGE": row.message or NONE,
        }
        return tuple(terminal.clean(cells[one]) for one in self._columns)


def document(rows: Iterable[FleetRow], now: float) -> dict[str, Any]:
    """The fleet as plain values."""
    return {"apiVersion": API_VERSION, "kind": "Fleet", "nodes": [plain(row, now) for row in rows]}


def plain(row: FleetRow, now: float) -> dict[str, Any]:
    """A row as plain values; null is what is not known."""
    silent = None if row.renewed is None else not agent_lease.is_fresh(row.renewed, now)
    return {
        "name": row.name,
        "state": row.state,
        "readiness": str(row.readiness),
        "profiles": list(row.profiles),
        "reason": row.reason,
        "message": row.message,
        "since": _stamp(row.since),
        "gpus": {"free": row.free, "total": row.gpus},
        "agent": {"known": row.leases_known, "renewed": _stamp(row.renewed), "silent": silent},
        "taints": list(row.taints),
        "cordoned": row.cordoned,
        "repeats": row.repeats,
    }


def age(seconds: float) -> str:
    """An age as kubectl prints it: 45s, 5m30s, 27m, 3d4h, 12d."""
    whole = max(0, int(seconds))
    for below, unit, word, rest_unit, rest_word in AGES:
        if whole < below:
            rest = whole % unit // rest_unit if rest_unit else 0
            return f"{whole // unit}{word}" + (f"{rest}{rest_word}" if rest else "")
    return f"{whole // YEAR}y"


def _profiles(names: tuple[str, ...], *, brief: bool) -> str:
    if not names:
        return NONE
    return f"{names[0]},+{len(names) - 1}" if brief and len(names) > 1 else ",".join(names)


def _gpus(row: FleetRow) -> str:
    if not row.gpus:
        return NONE
    return f"{UNKNOWN if row.free is None else row.free}/{row.gpus}"


def _agent(row: FleetRow, now: float) -> str:
    if not row.leases_known:
        return UNKNOWN
    return NONE if row.renewed is None else age(now - row.renewed)


def _stamp(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
