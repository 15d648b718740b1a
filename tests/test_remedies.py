"""No output tells anybody to run a playbook or a command of ours that does not exist.

A remedy is the name of a plan (design 4). Output may only call it planned, until its playbook is in playbooks/.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from nodeprep.checks import CHECKS
from nodeprep.cli.check import check_sheet
from nodeprep.model import Check
from tests.test_docs_names import PAGES, PROGRAM, ROOT, inner

SHIPPED = frozenset(path.stem for path in (ROOT / "playbooks").glob("*.y*ml"))
NAMES = frozenset(remedy for check in CHECKS.values() for remedy in check.remedies)
# A name that is also an ordinary word: the words before it show which it is.
TOLD = re.compile(rf"\b({'|'.join(sorted(name for name in NAMES if '_' in name))})\b")
RUN = re.compile(r"(?:\bplaybooks?(?:[ =/]|\.yml )+|\bansible-playbook +(?:\S*/)?)[`'\"]?(\w+)(?=[`'\"(.]|\s*$|\s+\()")
# Lower-case words behind the program's name; "the nodeprep that" and the like are prose, "-n nodeprep" is kubectl's.
CALL = re.compile(r"(?<![\w./:-])(?<!-n )nodeprep ([a-z][a-z-]*)")
PROSE = frozenset(["and", "did", "that", "wrote", "writes", "acts", "has"])
PLANNED = re.compile(r"\bplanned\b", re.IGNORECASE)
# Planned commands. tests/test_docs_names.py tests whether all others exist.
UNBUILT = frozenset(["drill", "preflight", "provision", "remediator", "repair"])
COMMANDS = frozenset(inner(PROGRAM))


def ghosts(text: str) -> set[str]:
    """Things that a text tells to run and that do not exist; remedies that it does not call planned."""
    found = {f"playbook {one}" for one in RUN.findall(text) if one in NAMES and one not in SHIPPED}
    found |= {f"nodeprep {one}" for one in CALL.findall(text) if one not in COMMANDS | PROSE}
    if not PLANNED.search(text):
        found |= {f"remedy {one}" for one in TOLD.findall(text) if one not in SHIPPED}
    return found


def paragraphs(text: str) -> list[str]:
    """The paragraphs without line breaks. A row of a table and an item of a list are one each."""
    return [" ".join(one.split()) for one in re.split(r"\n\s*\n|\n(?=[|\-*#])", text)]


def of_page(text: str) -> set[str]:
    """The ghosts of a page. In its prose, ordinary words may follow the program's name."""
    found = {ghost for one in paragraphs(text) for ghost in ghosts(one)}
    return {one for one in found if not one.startswith("nodeprep ") or one.split()[1] in UNBUILT}


EVERY = pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.id)


@EVERY
def test_a_check_names_what_can_be_done_today(check: Check) -> None:
    words = (check.question, check.why, check.fix, check.source, *(one.fix for one in check.reasons))
    assert {ghost for text in words for ghost in ghosts(text)} == set()
    assert check.fix.strip(), "who has no remedy of ours needs to be told what to do"


@EVERY
def test_the_sheet_of_a_check_calls_its_remedies_planned(check: Check) -> None:
    sheet = " ".join(check_sheet.sheet(check, 10_000))
    assert ghosts(sheet) == set()
    assert ("planned: " in sheet) == bool(check.remedies)
    for name in set(check.remedies) - SHIPPED:
        (line,) = (line for line in check_sheet.sheet(check, 10_000) if line.startswith("repair"))
        assert name in line.partition("planned: ")[2]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "playbooks/README.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_documentation(page: Path) -> None:
    assert of_page(page.read_text(encoding="utf-8")) == set()


def helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    for one, found in inner(command).items():
        yield from helps(found, f"{name} {one}")
    yield name, command.get_help(typer.Context(command, info_name=name))


def test_help() -> None:
    pages = dict(helps(PROGRAM, "nodeprep"))
    assert len(pages) > 15
    assert {name: found for name, text in pages.items() if (found := of_page(text))} == {}


def strings(tree: ast.AST) -> Iterator[str]:
    """Every text of a module that may be output: no docstring, no declaration of a remedy's name."""
    silent = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            silent.add(node.body[0].value if isinstance(node.body[0], ast.Expr) else None)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Remedy":
            silent |= set(node.args)
        if isinstance(node, ast.keyword) and node.arg == "remedies" and isinstance(node.value, ast.Tuple):
            silent |= set(node.value.elts)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= set(node.values)
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "(" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in silent:
            yield node.value


def module_ghosts(paths: Iterable[Path]) -> dict[str, set[str]]:
    texts = {str(path): tuple(strings(ast.parse(path.read_text()))) for path in paths}
    found = {path: {ghost for one in said for ghost in ghosts(one)} for path, said in texts.items()}
    return {path: all_of_it for path, all_of_it in found.items() if all_of_it}


def test_messages_of_the_program() -> None:
    """A text that is only a remedy's name, as in a table of modules, is not a message."""
    modules = list((ROOT / "agent/nodeprep").rglob("*.py"))
    assert len(modules) > 150
    found = module_ghosts(modules)
    told = {path: {one for one in said if one.split()[1] not in whole(Path(path))} for path, said in found.items()}
    assert {path: said for path, said in told.items() if said} == {}


def whole(path: Path) -> set[str]:
    return {one for one in strings(ast.parse(path.read_text())) if one in NAMES}


def test_every_remedy_has_a_name_that_a_playbook_can_have() -> None:
    assert {name for name in NAMES if not re.fullmatch(r"[a-z0-9_]+", name)} == set()
    assert SHIPPED <= NAMES, "a playbook that no check names"


PLANTED = [
    ("NotLoaded: run playbook erdma_load.", {"playbook erdma_load", "remedy erdma_load"}),
    ("remedy  playbook link_up(interface=eth0) and 2 more", {"playbook link_up", "remedy link_up"}),
    ("ansible-playbook playbooks/memlock.yml", {"playbook memlock"}),
    ("run playbooks/mtu.yml", {"playbook mtu"}),
    ("playbook=mtu", {"playbook mtu"}),
    ("the remedy link_up mends it", {"remedy link_up"}),
    ("nodeprep repair port.state", {"nodeprep repair"}),
    ("then `nodeprep provision --profile rdma-roce`", {"nodeprep provision"}),
    ("planned: link_up", set()),
    ("nodeprep check, then ip link set eth0 mtu 9000", set()),
    ("what another nodeprep wrote", set()),
]


@pytest.mark.parametrize(("text", "found"), PLANTED, ids=[text for text, _ in PLANTED])
def test_what_is_not_there_is_found(text: str, found: set[str]) -> None:
    assert ghosts(text) == found


def test_a_planted_message_is_found(tmp_path: Path) -> None:
    """Also in an f-string, and not in a text that only names a remedy for programs."""
    module = tmp_path / "module.py"
    module.write_text(
        '"""Of playbook link_up."""\nup = Remedy("link_up")\ncheck = Check(remedies=("link_up",))\n'
        'def message(name: str) -> str:\n    return f"{name} is down: run playbook link_up({name})"\n'
    )
    assert module_ghosts([module]) == {str(module): {"playbook link_up", "remedy link_up"}}
