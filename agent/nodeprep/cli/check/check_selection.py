"""Which checks to run: `--only` and `--skip` take ids, families and globs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from nodeprep import typed_yaml
from nodeprep.cli.usage import UsageError
from nodeprep.model import Check, Skipped

DESELECTED = "deselected"


def select(
    ids: tuple[str, ...], only: Iterable[str], skip: Iterable[str], option: str = "--only"
) -> tuple[tuple[str, ...], tuple[Skipped, ...]]:
    """The ids that are asked for, and the others as skipped. Raises UsageError if a pattern matches none.

    `option` is what the operator knows `only` by.
    """
    only, skip = _patterns(only), _patterns(skip)
    wanted = _matching(ids, option, only) if only else set(ids)
    wanted -= _matching(ids, "--skip", skip)
    if not wanted:
        raise UsageError("--only and --skip leave no check to run; `nodeprep list` names them all")
    chosen = tuple(one for one in ids if one in wanted)
    return chosen, tuple(Skipped(one, DESELECTED) for one in ids if one not in wanted)


def find(checks: Mapping[str, Check], wanted: str) -> Check:
    """The check of that id. Raises UsageError naming the nearest."""
    if wanted not in checks:
        raise UsageError(f"there is no check {wanted!r}; {nearest(wanted, list(checks))}")
    return checks[wanted]


def nearest(wanted: str, names: list[str]) -> str:
    """The most similar names, or where to find all."""
    return typed_yaml.similar(wanted, names) or "`nodeprep list` names them all"


def _patterns(given: Iterable[str]) -> list[str]:
    # An empty pattern stays and matches nothing: `--only "$UNSET"` must not silently mean everything.
    return [pattern.strip() for one in given for pattern in one.split(",")]


def _matching(ids: tuple[str, ...], option: str, patterns: list[str]) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        matching = {one for one in ids if _family(one) == pattern or fnmatchcase(one, pattern)}
        if not matching:
            names = sorted({_family(one) for one in ids}) + list(ids)
            raise UsageError(f"{option} {pattern!r} matches no check; {nearest(pattern, names)}")
        found |= matching
    return found


def _family(check_id: str) -> str:
    return check_id.partition(".")[0]
