"""The vocabulary of docs/glossary.md: its names exist, no class name stands twice, names say what they mean."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ROOT / "agent"
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
NAME = re.compile(r"`([A-Za-z_.]+)`")

# Adjectives, verbs and adverbs that name neither a thing nor a unit, as `_SECONDS` does.
BARE = frozenset(
    """MOST LEAST LONGEST SHORTEST LARGEST SMALLEST NARROWEST WIDEST PATIENCE AGAIN SELDOM SLOW FAST QUICK OLD NEW DEEP
    WHOLE FULL EMPTY SAFE SHORT LONG WIDE PLAIN SINGLE STANDARD STRICT APART TOGETHER LATER SOON EARLY LATE RECENT
    SETTLED SHOWN ASKED WANTED KEPT GIVEN GONE NAMED SENT RECEIVED ANSWERED LISTED DEFERRED DISABLED LOCKED BOUND
    RETURNED PROBED CLOSED HELD BORN UNSAID MISSED WATCHED COLLECTED RENEWED PIPED UNKEPT ENDING WAITING HASTY FUTILE
    ALIVE DEAD HOT STARVED PLUGGED UNPLUGGED SILENT FATAL REMOTE WILD BUSY EVERY CUT SEE HOLD STALL SPREAD
    """.split()  # noqa: SIM905 - fifty words
)
# Former names. If one comes back, two words are in use for one thing.
FORMER = frozenset(
    """
    bell bells Bells BellState fence fenced damping Damping DampingPolicy Past Mind Keeper Standing Errands errands
    Tally tally Happening happenings Wishes wishes Glance glance spared disputed awaited held_up turns turn_window
    OperatorWishes profile_request GuardedSelection AssignedProfiles untold looked_for seen_longer
    believe_anew beliefs says_the_same gates_stand would_run locked_out kept_state plausible_state streak_rules
    """.split()  # noqa: SIM905
)


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PRODUCT.rglob("*.py"))}


def dotted(path: Path) -> str:
    parts = path.relative_to(PRODUCT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def identifiers(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name):
                yield from name.split(".")
            case ast.keyword(arg=str(name)):
                yield name
            case _:
                pass


@cache
def known() -> frozenset[str]:
    modules = {part for path in trees() for part in (dotted(path), dotted(path).rpartition(".")[2])}
    return frozenset(modules).union(*(identifiers(tree) for tree in trees().values()))


ROWS = [line for line in GLOSSARY.splitlines() if line.startswith("| ") and not line.startswith(("| Word", "|---"))]


def test_the_glossary_has_some_fifty_words() -> None:
    assert 35 <= len(ROWS) <= 60


@pytest.mark.parametrize("name", sorted({name for row in ROWS for name in NAME.findall(row.split(" | ")[-1])}))
def test_a_name_of_the_glossary_exists(name: str) -> None:
    assert name in known(), f"docs/glossary.md names {name}, and nothing in agent/ is called so"


def test_no_class_name_stands_in_two_modules() -> None:
    """The exception is `Want`: each check may have one."""
    where = defaultdict(set)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].add(dotted(path))
    assert {name: at for name, at in where.items() if len(at) > 1 and name != "Want"} == {}


def test_a_constant_says_of_what_and_in_which_unit() -> None:
    bare = []
    for path, tree in trees().items():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            bare += [f"{dotted(path)}.{one.id}" for one in targets if isinstance(one, ast.Name) and one.id in BARE]
    assert bare == []


def test_a_function_is_called_through_its_module() -> None:
    """As kopf and ops do: `active_faults.roots(...)` says whose roots. The words of all parts are imported by name."""
    words = {"nodeprep.model", "nodeprep.shown", "nodeprep.values"}
    functions = {
        f"{dotted(path)}.{node.name}"
        for path, tree in trees().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    bare = [
        f"{dotted(path)}: from {node.module} import {alias.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module not in words
        for alias in node.names
        if f"{node.module}.{alias.name}" in functions
    ]
    assert bare == []


def test_no_former_name_is_used() -> None:
    used = {f"{dotted(path)}: {name}" for path, tree in trees().items() for name in identifiers(tree) if name in FORMER}
    assert used == set()


STEPS = re.findall(
    r"^\| \d+ \| `([a-z_.]+)` `([A-Za-z_.]+)` \|.*\| ([^|]*) \|$",
    (ROOT / "docs/architecture.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_the_way_from_a_file_to_the_taint_is_short() -> None:
    assert 10 <= len(STEPS) <= 12
    assert len({name for _, _, types in STEPS for name in NAME.findall(types)}) <= 25


@pytest.mark.parametrize(("module", "function", "types"), STEPS, ids=[function for _, function, _ in STEPS])
def test_a_step_of_it_exists(module: str, function: str, types: str) -> None:
    found: object = importlib.import_module(f"nodeprep.{module}")
    for part in function.split("."):
        found = getattr(found, part)
    assert callable(found)
    classes = {node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    assert set(NAME.findall(types)) <= classes
