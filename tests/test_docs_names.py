"""Commands, options, files, headings and `make` steps that the documentation names exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from nodeprep.cli.app import app
from nodeprep.cli.program import DefaultCommand

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "daemonset").rglob("*.md"),
    ]
)
PROGRAM = typer.main.get_command(app)
FENCED = re.compile(r"^ *```([a-z]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
# At the places where a shell or `kubectl exec` takes it as a program.
CALL = re.compile(r"(?:^|^\$ | -- |\bExecStart=)(?:[\w./]*/)?nodeprep((?: [^`]*)?)$")
OPERATOR = re.compile(r" (?:&&|\|\|?|;) ")
REST = re.compile(r" (?:>>?|2>|#).*$")
# A path of this repository. Names in capitals and globs are placeholders.
FILE = re.compile(r"(?<![\w./-])((?:agent|daemonset|dashboards|docs|playbooks|tests)/[\w./*-]+\w/?)")
STEP = re.compile(r"\bmake ((?:[a-z]+-)*[a-z]+)\b")
# kubectl's name of the agent's DaemonSet, and the files that a reader of CONTRIBUTING.md writes.
NO_FILES = {"daemonset/nodeprep", "agent/nodeprep/checks/port/rail.py", "tests/checks/port/test_rail.py"}


def inner(command: Any) -> dict[str, Any]:
    """The commands of a group by name, none of a single command. Each is made when it is asked for."""
    if not isinstance(command, TyperGroup):
        return {}
    context = typer.Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def code(page: Path) -> Iterator[str]:
    """All code: lines of blocks, and code spans of prose. Of a console, what was typed and not what it printed."""
    text = page.read_text(encoding="utf-8")
    for language, block in FENCED.findall(text):
        yield from (line for line in block.splitlines() if language != "console" or line.startswith("$ "))
    prose = FENCED.sub("\n", text)
    for block in INDENTED.findall(prose):
        yield from (line.strip() for line in block.splitlines())
    yield from (" ".join(span.split()) for span in SPAN.findall(INDENTED.sub("\n", prose)))


def calls(page: Path) -> Iterator[list[str]]:
    """The arguments of each call of `nodeprep`. `init|validate|show` are three calls."""
    for line in code(page):
        for part in OPERATOR.split(line):
            found = CALL.search(REST.sub("", part.strip()))
            if found is None:
                continue
            words = shlex.split(found[1])
            several = next((word for word in words if re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", word)), None)
            for one in several.split("|") if several else [""]:
                yield [one if word == several else word for word in words]


def wrong(words: list[str]) -> str:
    """The error of nodeprep for a call before it does anything, "" if none."""
    command, rest, context = PROGRAM, list(words), None
    try:
        while isinstance(command, TyperGroup):
            if not rest or rest[0].startswith("-"):
                return ""  # the program itself, or `--help`
            context = typer.Context(command, info_name=command.name, parent=context)
            if isinstance(command, DefaultCommand) and rest[0] not in inner(command):
                rest.insert(0, command.default)
            _, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command = found
        command.make_context(command.name, rest, parent=context)
    except typer.TyperException as error:
        said = error.format_message()
        return "" if said.startswith("Missing") else said
    return ""


EVERY = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@EVERY
def test_each_call_of_nodeprep_is_one_that_it_takes(page: Path) -> None:
    assert {" ".join(words): said for words in calls(page) if (said := wrong(words))} == {}


@EVERY
def test_each_file_of_ours_is_there(page: Path) -> None:
    named = {path for line in code(page) for path in FILE.findall(line) if not re.search(r"\b[A-Z]{2,}\b", path)}
    assert {path for path in named if not any(ROOT.glob(path.rstrip("/")))} <= NO_FILES


@EVERY
def test_each_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = FENCED.sub("\n", page.read_text(encoding="utf-8"))
    broken = set()
    for link in LINK.findall(SPAN.sub("", text)):
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" not in link and not (target.exists() and (not heading or heading in headings(target))):
            broken.add(link)
    assert broken == set()


@EVERY
def test_each_make_step_is_there(page: Path) -> None:
    steps = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {step for line in code(page) for step in STEP.findall(line)} <= steps


def headings(page: Path) -> set[str]:
    """Anchors as GitHub makes them of headings."""
    lines = FENCED.sub("\n", page.read_text(encoding="utf-8")).splitlines()
    titles = (line.lstrip("#").strip().lower() for line in lines if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


CALLS = [
    # words                                          the error
    ("check --profile rdma-roce -o json", ""),
    ("nodes -l pool=a --wait 10m", ""),
    ("nodes release --all", ""),
    ("wait-ready --stage device", ""),  # --profile is missing: prose leaves out options that it does not discuss
    ("chekc", "No such command 'chekc'."),
    ("nodes release --everything", "No such option"),
    ("config shw", "No such command"),
    ("check -o yaml", "yaml"),
]


@pytest.mark.parametrize(("words", "said"), CALLS)
def test_a_wrong_call_is_found(words: str, said: str) -> None:
    found = wrong(words.split())
    assert said in found
    assert bool(said) == bool(found)


def test_calls_are_found_where_a_shell_would(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Run `nodeprep check`, or\n```\n$ kubectl exec ds/nodeprep -- nodeprep list # all\nnodeprep nodes && ls\n"
        "kubectl -n nodeprep get pods\n```\n```console\n$ nodeprep version\nnodeprep nonsense\n```\n\n"
        "    curl x | nodeprep config show|init FILE > out\n"
    )
    assert sorted(calls(page)) == [
        ["check"],
        ["config", "init", "FILE"],
        ["config", "show", "FILE"],
        ["list"],
        ["nodes"],
        ["version"],
    ]
