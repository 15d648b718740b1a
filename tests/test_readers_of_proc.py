"""docs/adr/0021 has each reader of /proc, and what it sees in a pod: nobody adds one without looking there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "agent/nodeprep"
READ = re.compile(r"/proc(/|$)")
# They compare or print such a path, and open none.
NO_READERS = {"cli/files/output_file"}


def literals(tree: ast.AST) -> Iterator[str]:
    """Every text that stands by itself, and not as a docstring."""
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value


def readers() -> set[str]:
    """Modules of the layers that open files, of which a text begins with /proc."""
    return {
        str(path.relative_to(PACKAGE).with_suffix(""))
        for room in ("cli", "doors", "facts", "publish", "repair")
        for path in sorted((PACKAGE / room).rglob("*.py"))
        if any(READ.match(one) for one in literals(ast.parse(path.read_text())))
    }


def test_the_decision_about_proc_names_each_reader() -> None:
    (page,) = (ROOT / "docs/adr").glob("0021-*.md")
    named = set(re.findall(r"`((?:cli|doors|facts|publish|repair)(?:/[a-z_]+)+)(?:[.]py)?`", page.read_text()))
    found = readers() - NO_READERS
    assert len(found) > 15
    assert found - named == set()
    assert {one for one in named if not (PACKAGE / f"{one}.py").exists()} == set()


def test_and_who_no_longer_compares_such_a_path_is_no_exception() -> None:
    assert readers() >= NO_READERS
