"""Which checks to run: `--only` and `--skip` take ids, families and globs."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from nodeprep.cli.usage import UsageError
from nodeprep.model import Check, Skipped

DESELECTED = "deselected"


def select(
    checks: tuple[Check, ...], only: Iterable[str], skip: Iterable[str]
) -> tuple[tuple[Check, ...], tuple[Skipped, ...]]:
    """The checks that are asked for, and the others as skipped. Raises UsageError if a pattern matches none."""
    only, skip = _patterns(only), _patterns(skip)
    wanted = _matching(checks, "--only", only) if only else {check.id for check in checks}
    wanted -= _matching(checks, "--skip", skip)
    if not wanted:
        raise UsageError("--only and --skip leave no check to run; `nodeprep list` names them all")
    chosen = tuple(check for check in checks if check.id in wanted)
    return chosen, tuple(Skipped(check.id, DESELECTED) for check in checks if check.id not in wanted)


def find(checks: tuple[Check, ...], wanted: str) -> Check:
    """The check of that id. Raises UsageError naming the nearest."""
    for check in checks:
        if check.id == wanted:
            return check
    raise UsageError(f"there is no check {wanted!r}; {nearest(wanted, [check.id for check in checks])}")


def nearest(wanted: str, names: list[str]) -> str:
    """The most similar names, or where to find all."""
    from difflib import get_close_matches

    close = get_close_matches(wanted, names, n=3, cutoff=0.5)
    return f"nearest: {', '.join(close)}" if close else "`nodeprep list` names them all"


def _patterns(given: Iterable[str]) -> list[str]:
    # An empty pattern stays and matches nothing: `--only "$UNSET"` must not silently mean everything.
    return [pattern.strip() for one in given for pattern in one.split(",")]


def _matching(checks: tuple[Check, ...], option: str, patterns: list[str]) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        ids = {check.id for check in checks if check.family == pattern or fnmatchcase(check.id, pattern)}
        if not ids:
            names = sorted({check.family for check in checks}) + [check.id for check in checks]
            raise UsageError(f"{option} {pattern!r} matches no check; {nearest(pattern, names)}")
        found |= ids
    return found
