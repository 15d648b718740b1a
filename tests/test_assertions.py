"""A test can fail: what of that can be seen in its text. `tests/sabotage.py` proves the rest for the checks."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import tomllib

TESTS = Path(__file__).resolve().parent
# Functions of libraries that raise where what they look at is wrong: pytest, hypothesis, jsonschema, subprocess, mypy.
RAISING = {"raises", "fail", "check_schema", "validate", "check_call", "check_output"}
RUNNING = ("subprocess.run", "run")  # with check=False, the exit code has to be looked at
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def is_test(function: Function) -> bool:
    return function.name.startswith("test_")


def called(function: ast.AST) -> set[str]:
    """The names of the functions that it calls, without their modules."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in calls}


def asserts_itself(function: Function) -> bool:
    nodes = list(ast.walk(function))
    asserts = any(isinstance(node, ast.Assert | ast.Raise) for node in nodes)
    return asserts or any(map(runs_checked, nodes)) or bool(called(function) & RAISING)


def runs_checked(node: ast.AST, check: bool = True) -> bool:
    """Whether it is a call that runs a program with this `check`."""
    keywords = node.keywords if isinstance(node, ast.Call) else ()
    return any(one.arg == "check" and is_constant(one.value, check) for one in keywords)


def is_constant(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def asserting(trees: Iterable[ast.AST]) -> set[str]:
    """The names of all functions that assert, themselves or by a function that they call. Names stand for functions."""
    found = [one for tree in trees for one in functions(tree)]
    names = {one.name for one in found if asserts_itself(one)}
    calls = {one.name: set[str]() for one in found}
    for one in found:
        calls[one.name] |= called(one)
    while more := {name for name, others in calls.items() if name not in names and others & names}:
        names |= more
    return names


def cannot_fail(test: ast.expr) -> bool:
    """Whether an assertion of this holds for any value: `x or True`, a tuple, `x if y else True`, a comprehension."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(map(cannot_fail, test.values))
    if isinstance(test, ast.IfExp):
        return cannot_fail(test.body) or cannot_fail(test.orelse)
    if isinstance(test, ast.Compare):
        return all(ast.dump(one) == ast.dump(test.left) for one in test.comparators) or (
            isinstance(test.left, ast.Call)
            and ast.unparse(test.left.func) == "len"
            and isinstance(test.ops[0], ast.GtE)
            and is_constant(test.comparators[0], 0)
        )
    if isinstance(test, ast.Call) and ast.unparse(test.func) in ("all", "any") and test.args:
        return isinstance(test.args[0], ast.List | ast.Tuple) and not test.args[0].elts
    return isinstance(test, ast.Constant | ast.Tuple | ast.Lambda | ast.GeneratorExp | ast.JoinedStr)


def runs_unseen(function: Function) -> bool:
    """Whether it runs a program with check=False, and nothing looks at an exit code."""
    nodes = list(ast.walk(function))
    looked_at = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in RUNNING]
    return "returncode" not in looked_at and any(runs_checked(one, check=False) for one in calls)


def faults(tree: ast.AST, asserts: set[str]) -> list[str]:
    """What is wrong with the tests of a file, by name."""
    tests = [one for one in functions(tree) if is_test(one)]
    found = [f"{one.name} asserts nothing" for one in tests if one.name not in asserts]
    found += [f"{one.name} looks at no exit code" for one in tests if runs_unseen(one)]
    lines = (node for node in ast.walk(tree) if isinstance(node, ast.Assert) and cannot_fail(node.test))
    return found + [f"line {one.lineno} holds for any value: {ast.unparse(one.test)}" for one in lines]


def test_each_test_can_fail() -> None:
    """In one test: what a module reads when it is imported, each process of xdist reads."""
    trees = {str(path.relative_to(TESTS)): ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}
    asserts = asserting(trees.values())
    found = {path: faults(tree, asserts) for path, tree in trees.items()}
    assert len(found) > 100
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


PLANTED = [
    # a test, what is wrong with it
    ("def test_it(): json.dumps(read())", "asserts nothing"),
    ("def test_it():\n    for one in (): read(one)", "asserts nothing"),
    ("def test_it(): assert read() or True", "any value"),
    ("def test_it(): assert (read() == 1, 'told')", "any value"),
    ("def test_it(): assert read() == 1 if size else True", "any value"),
    ("def test_it(): assert now() <= now()", "any value"),
    ("def test_it(): assert len(read()) >= 0", "any value"),
    ("def test_it(): assert (one == 1 for one in read())", "any value"),
    ("def test_it(): assert all([])", "any value"),
    ("def test_it():\n    subprocess.run(read(), check=False)\n    assert written()", "no exit code"),
    ("def test_it():\n    done = subprocess.run(read(), check=False)\n    assert not done.stderr", "no exit code"),
]
SOUND = [
    "def test_it(): assert read() == 1",
    "def test_it():\n    with pytest.raises(OSError): read()",
    "def test_it(): subprocess.run(read(), check=True)",
    "def test_it(): holds(read())\ndef holds(one): assert one",
    "def test_it(): settled(lambda: holds(read()))\ndef holds(one): assert one",
    "def test_it(): assert read() or other()",
    "def test_it(): assert len(read()) > 0",
    "def test_it():\n    done = subprocess.run(read(), check=False)\n    assert done.returncode == 2",
]


@pytest.mark.parametrize(("text", "says"), PLANTED)
def test_one_that_cannot_is_caught(text: str, says: str) -> None:
    tree = ast.parse(text)
    (fault,) = faults(tree, asserting([tree]))
    assert says in fault


@pytest.mark.parametrize("text", SOUND)
def test_one_that_can_is_not(text: str) -> None:
    tree = ast.parse(text)
    assert faults(tree, asserting([tree])) == []


def test_an_empty_table_fails_its_test() -> None:
    """pytest skips a test of an empty table, unless it is told otherwise."""
    options = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert options["empty_parameter_set_mark"] == "fail_at_collect"
