"""Which reasons a check can give, read from its source: for `nodeprep explain` and docs/checks.md.

A reason is a word in CamelCase. Right after a status, as in `Verdict(subject, Status.FAIL, "NoSignal", ...)`, its
status is known too; handed around in another way it stands alone. tests/test_docs.py holds both against what the
check's own test has seen it say.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TypeGuard

from nodeprep.model import Check

WORD = re.compile(r"[A-Z][a-z]+[A-Za-z0-9]*")
REASON_LETTERS = 4  # letters; a unit such as GiB is no reason
STATUSES = ("OK", "WARN", "FAIL")

Found = tuple[int, int, str, frozenset[str]]  # line, column, reason, statuses


def reasons(check: Check) -> tuple[tuple[str, str], ...]:
    """Each reason with its statuses, as ("BelowRate", "fail, warn"); "" where the source does not say them together.

    UNKNOWN CannotLook, which every check can give, is not among them.
    """
    said: dict[str, set[str]] = {}
    for module in _modules(check):
        tree = ast.parse(inspect.getsource(module))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        helpers = {function.name: helper for function in functions if (helper := _helper(function))}
        known = [found for function in functions for found in _beside_a_status(function, helpers)]
        others = [found for found in _handed_around(tree) if found[2] not in {reason for _, _, reason, _ in known}]
        for _, _, reason, statuses in sorted(known + others, key=lambda found: found[:2]):
            said.setdefault(reason, set()).update(statuses)
    return tuple((reason, ", ".join(sorted(statuses))) for reason, statuses in said.items())


def _modules(check: Check) -> tuple[ModuleType, ...]:
    """The check's own module, and what the checks of its family share."""
    own = sys.modules[check.judge.__module__]
    family = own.__name__.rpartition(".")[0] + "."
    values = vars(own).values()
    homes = {one.__name__ if isinstance(one, ModuleType) else getattr(one, "__module__", None) for one in values}
    shared = sorted(home for home in homes if isinstance(home, str) and home.startswith(family))
    others = (sys.modules[home] for home in shared if home != own.__name__)
    return (own, *(module for module in others if not hasattr(module, "CHECK")))


def _pairs(function: ast.FunctionDef) -> Iterator[tuple[frozenset[str], ast.expr]]:
    """What stands right after a status in any call, and that status."""
    variables = _variables(function)
    for call in ast.walk(function):
        for status, reason in zip(call.args, call.args[1:], strict=False) if isinstance(call, ast.Call) else ():
            statuses = variables.get(status.id, frozenset()) if isinstance(status, ast.Name) else _statuses(status)
            if statuses:
                yield statuses, reason


def _helper(function: ast.FunctionDef) -> tuple[int, frozenset[str]] | None:
    """For a function that puts a status before one of its parameters: which one, and the status."""
    parameters = [one.arg for one in function.args.args]
    for statuses, reason in _pairs(function):
        if isinstance(reason, ast.Name) and reason.id in parameters:
            return parameters.index(reason.id), statuses
    return None


def _beside_a_status(function: ast.FunctionDef, helpers: dict[str, tuple[int, frozenset[str]]]) -> Iterator[Found]:
    for statuses, reason in _pairs(function):
        yield from (_found(word, statuses) for word in ast.walk(reason) if _is_reason(word))
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in helpers:
            index, statuses = helpers[call.func.id]
            for argument in call.args[index : index + 1]:
                yield from (_found(word, statuses) for word in ast.walk(argument) if _is_reason(word))


def _handed_around(tree: ast.Module) -> Iterator[Found]:
    """Words that no status stands beside and that nothing else explains: a constant by name, a comparison."""
    explained: set[int] = set()
    for top in tree.body:
        if isinstance(top, ast.Assign) and (isinstance(top.value, ast.Constant) or _names(top) == {"CHECK"}):
            explained |= {id(word) for word in ast.walk(top)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            explained |= {id(word) for word in ast.walk(node)}
        if isinstance(node, ast.Call):
            # What follows a reason is its message, remedy, observed and expected.
            first = next((index for index, one in enumerate(node.args) if _is_reason(one)), len(node.args))
            explained |= {id(word) for argument in node.args[first + 1 :] for word in ast.walk(argument)}
            explained |= {id(word) for keyword in node.keywords for word in ast.walk(keyword.value)}
    yield from (_found(node, frozenset()) for node in ast.walk(tree) if _is_reason(node) and id(node) not in explained)


def _found(word: ast.Constant, statuses: frozenset[str]) -> Found:
    return (word.lineno, word.col_offset, str(word.value), statuses)


def _is_reason(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and WORD.fullmatch(node.value) is not None


def _variables(function: ast.FunctionDef) -> dict[str, frozenset[str]]:
    """The statuses that a function assigns to names, as in `status = Status.FAIL if firm else Status.WARN`."""
    found: dict[str, frozenset[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for name in _names(node):
                found[name] = found.get(name, frozenset()) | _statuses(node.value)
    return found


def _names(assign: ast.Assign) -> set[str]:
    return {target.id for target in assign.targets if isinstance(target, ast.Name)}


def _statuses(expression: ast.expr) -> frozenset[str]:
    return frozenset(
        node.attr.lower()
        for node in ast.walk(expression)
        if isinstance(node, ast.Attribute)
        and node.attr in STATUSES
        and isinstance(node.value, ast.Name)
        and node.value.id == "Status"
    )
