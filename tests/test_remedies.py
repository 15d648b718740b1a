"""No output tells anybody to run a playbook or a command of ours that does not exist.

A remedy is a name (design 4). Output may only call it planned, until its file is in playbooks/.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from nodeprep.checks import CHECKS
from nodeprep.cli.check import check_sheet
from nodeprep.config import remedy_files
from nodeprep.model import Check
from tests.test_docs_names import PAGES, PROGRAM, ROOT, inner

SHIPPED = frozenset(remedy_files.headers())
# An act of the container runtime is a remedy too, but there is no playbook to run.
PLAYBOOKS = frozenset(name for name, header in remedy_files.headers().items() if not header.is_act)
NAMES = frozenset(remedy for check in CHECKS.values() for remedy in check.remedies)
# A name that is also an ordinary word: the words before it show which it is.
TOLD = re.compile(rf"\b({'|'.join(sorted(name for name in NAMES if '_' in name))})\b")
RUN = re.compile(r"(?:\bplaybooks?(?:[ =/]|\.yml )+|\bansible-playbook +(?:\S*/)?)[`'\"]?(\w+)(?=[`'\"(.]|\s*$|\s+\()")
# Lower-case words behind the program's name; "the nodeprep that" and the like are prose, "-n nodeprep" is kubectl's.
CALL = re.compile(r"(?<![\w./:-])(?<!-n )nodeprep ([a-z][a-z-]*)")
PROSE = frozenset(["and", "did", "that", "wrote", "writes", "acts", "has", "lists", "on"])
PLANNED = re.compile(r"\bplanned\b", re.IGNORECASE)
COMMANDS = frozenset(inner(PROGRAM))
GROUPS = {name: frozenset(found) for name, command in inner(PROGRAM).items() if (found := inner(command))}
IN_GROUP = re.compile(rf"(?<![\w./:-])(?<!-n )nodeprep ({'|'.join(GROUPS)}) ([a-z][a-z-]*)(?![\w.])")


def ghosts(text: str) -> set[str]:
    """Things that a text tells to run and that do not exist; remedies that it does not call planned."""
    found = {f"playbook {one}" for one in RUN.findall(text) if one in NAMES and one not in PLAYBOOKS}
    found |= {f"nodeprep {one}" for one in CALL.findall(text) if one not in COMMANDS | PROSE}
    found |= {f"nodeprep {one} {two}" for one, two in IN_GROUP.findall(text) if two not in GROUPS[one] | PROSE}
    if not PLANNED.search(text):
        found |= {f"remedy {one}" for one in TOLD.findall(text) if one not in SHIPPED}
    return found


def paragraphs(text: str) -> list[str]:
    """The paragraphs without line breaks. A row of a table and an item of a list are one each."""
    return [" ".join(one.split()) for one in re.split(r"\n\s*\n|\n(?=[|\-*#])", text)]


def of_page(text: str) -> set[str]:
    """The ghosts of a page, but for commands: in its prose, ordinary words may follow the program's name.

    tests/test_docs_names.py tests whether its commands exist.
    """
    found = {ghost for one in paragraphs(text) for ghost in ghosts(one)}
    return {one for one in found if not one.startswith("nodeprep ")}


EVERY = pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.id)


@EVERY
def test_a_check_names_what_can_be_done_today(check: Check) -> None:
    words = (check.question, check.why, check.fix, check.source, *(one.fix for one in check.reasons))
    assert {ghost for text in words for ghost in ghosts(text)} == set()
    assert check.fix.strip(), "who has no remedy of ours needs to be told what to do"


@EVERY
def test_the_sheet_of_a_check_says_what_repairs_it(check: Check) -> None:
    """A remedy without a file is planned, and no command runs it."""
    sheet = check_sheet.sheet(check, 10_000)
    assert ghosts(" ".join(sheet)) == set()
    (line,) = (line for line in sheet if line.startswith("repair"))
    runs, _, planned = line.partition("; planned: ")
    shipped = set(check.remedies) & SHIPPED
    assert set(filter(None, planned.split(", "))) == set(check.remedies) - SHIPPED
    assert (f"nodeprep repair {check.id} (" in runs) == bool(shipped)
    assert all(name in runs for name in shipped)


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


def test_what_alerts_tell_to_run() -> None:
    rules = yaml.safe_load((ROOT / "dashboards/rules.yaml").read_text())
    told = [rule["annotations"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    assert len(told) > 20
    assert {ghost for one in told for text in one.values() for ghost in ghosts(text)} == set()


def whole(path: Path) -> set[str]:
    return {one for one in strings(ast.parse(path.read_text())) if one in NAMES}


def test_every_remedy_has_a_name_that_a_playbook_can_have() -> None:
    assert {name for name in NAMES if not re.fullmatch(r"[a-z0-9_]+", name)} == set()
    assert SHIPPED <= NAMES, "a playbook that no check names"


PLANTED = [
    ("NotInstalled: run playbook erdma_install.", {"playbook erdma_install", "remedy erdma_install"}),
    ("remedy  playbook erdma_install(a=b) and 2 more", {"playbook erdma_install", "remedy erdma_install"}),
    ("ansible-playbook playbooks/erdma_install.yml", {"playbook erdma_install", "remedy erdma_install"}),
    ("playbook=erdma_install", {"playbook erdma_install", "remedy erdma_install"}),
    ("the remedy erdma_install mends it", {"remedy erdma_install"}),
    ("planned: erdma_install", set()),
    ("run playbooks/terway_restart.yml", {"playbook terway_restart"}),
    ("the remedy terway_restart mends it", set()),
    ("the remedy link_up mends it", set()),
    ("run playbooks/mtu.yml", set()),
    ("nodeprep forecast -f job.yaml", {"nodeprep forecast"}),
    ("then `nodeprep forecast job.yaml`", {"nodeprep forecast"}),
    ("nodeprep repair port.state", set()),
    ("then nodeprep repair resmue --remedy mtu", {"nodeprep repair resmue"}),
    ("nodeprep nodes forget n1", {"nodeprep nodes forget"}),
    ("nodeprep nodes reset n1", set()),
    ("then `nodeprep provision --profile rdma-roce`", set()),
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
        '"""Of playbook erdma_install."""\nup = Remedy("erdma_install")\ncheck = Check(remedies=("erdma_install",))\n'
        'def message(name: str) -> str:\n    return f"{name} is down: run playbook erdma_install({name})"\n'
    )
    assert module_ghosts([module]) == {str(module): {"playbook erdma_install", "remedy erdma_install"}}
