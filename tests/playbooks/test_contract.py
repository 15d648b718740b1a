"""The contract of remedies: what checks name is there, takes what they give, and says of itself what is true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from nodeprep.checks import CHECKS
from nodeprep.checks.gpu import driver
from nodeprep.checks.limits import memlock
from nodeprep.checks.module import core
from nodeprep.checks.pci import rdma_driver
from nodeprep.checks.rdma import verbs_class
from nodeprep.config import remedy_files
from nodeprep.decide.remedy_header import Idle, ParameterKind, RemedyHeader, SafetyClass
from nodeprep.decide.repair_plan import UNBUILT_REMEDIES

ROOT = Path(__file__).resolve().parents[2]
CHECKS_DIRECTORY = ROOT / "agent/nodeprep/checks"
CHECK_FILES = sorted(CHECKS_DIRECTORY.rglob("*.py"))
PLAYBOOKS = ROOT / "playbooks"
# Calls that take the name from a variable, and what it is.
BY_VARIABLE = {"plugin/advertised.py": {"plugin_restart"}, "pci/driver_bound.py": {"erdma_load"}}
PLAY_KEYS = {"name", "hosts", "connection", "gather_facts", "vars", "tasks"}
COMMAND = "ansible.builtin.command"
MODULES = {"assert", "blockinfile", "command", "copy", "file", "lineinfile", "set_fact"}
READS = {"cat", "find", "grep", "stat", "systemctl"}  # the last one to show, and to act elsewhere
BRACES = re.compile(r"\{(\w+)\}")
WORD = re.compile(r"'([^']*)'")
TEMPLATE, TEMPLATES = re.compile(r"\{\{ (\w+) \}\}"), {"named": "interface"}  # variables of plays that are an argument
OWN_FILE = re.compile(r"[\w{}./ -]*nodeprep[\w{} -]*\.(?:conf|rules|cfg|network|service)\b")


@cache
def headers() -> Mapping[str, RemedyHeader]:
    return remedy_files.headers()


@cache
def play(name: str) -> dict[str, Any]:
    (found,) = yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text(encoding="utf-8"))
    return dict(found)


def tasks(name: str) -> list[dict[str, Any]]:
    """The tasks of a playbook, those of an imported file in their place."""
    found: list[dict[str, Any]] = []
    for task in play(name)["tasks"]:
        path = task.get("ansible.builtin.import_tasks")
        found += yaml.safe_load((PLAYBOOKS / path).read_text(encoding="utf-8")) if path else [task]
    return found


def module_of(task: Mapping[str, Any]) -> str:
    (found,) = (key for key in task if "." in key)
    return found


PLAYBOOK_NAMES = sorted(name for name, header in headers().items() if not header.is_act)
EVERY = pytest.mark.parametrize("name", sorted(headers()))
EACH_PLAYBOOK = pytest.mark.parametrize("name", PLAYBOOK_NAMES)


def test_each_remedy_of_a_check_has_a_file_and_each_file_a_check() -> None:
    assert {remedy for check in CHECKS.values() for remedy in check.remedies} == set(headers()) | set(UNBUILT_REMEDIES)
    assert not set(headers()) & set(UNBUILT_REMEDIES)
    assert {name for name, header in headers().items() if header.is_act} == {"terway_restart", "plugin_restart"}


class Call(NamedTuple):
    """A `Remedy(...)` in the code of a check: which remedies it may name, and the names of the arguments."""

    where: str
    remedies: frozenset[str]
    arguments: frozenset[str]


@cache
def calls() -> tuple[Call, ...]:
    return tuple(call for path in CHECK_FILES for call in calls_of(path))


def calls_of(path: Path) -> Iterator[Call]:
    where = str(path.relative_to(CHECKS_DIRECTORY))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    mappings = dict(assigned(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Remedy":
            names = {one.value for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant)}
            given = node.args[1] if len(node.args) > 1 else ast.Dict([], [])
            keys = mappings[given.id] if isinstance(given, ast.Name) else keys_of(given)
            assert keys is not None, f"{where}:{node.lineno}: which arguments?"
            yield Call(where, frozenset(map(str, names or BY_VARIABLE[where])), keys)


def assigned(tree: ast.AST) -> Iterator[tuple[str, frozenset[str]]]:
    """Variables that hold a literal mapping, and its keys. The mappings of one name in a file have the same keys."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        names, values = ([*one.elts] if isinstance(one, ast.Tuple) else [one] for one in (node.targets[0], node.value))
        for name, value in zip(names, values, strict=False):  # a call that returns a tuple is one value
            if isinstance(name, ast.Name) and (keys := keys_of(value)):
                yield name.id, keys


def keys_of(given: ast.expr) -> frozenset[str] | None:
    """The keys of a literal mapping, also where it is given only under a condition."""
    given = given.body if isinstance(given, ast.IfExp) else given
    if not isinstance(given, ast.Dict):
        return None
    return frozenset(str(key.value) for key in given.keys if isinstance(key, ast.Constant))


def test_all_calls_are_found() -> None:
    assert {remedy for call in calls() for remedy in call.remedies} == set(headers()) | set(UNBUILT_REMEDIES)


@EVERY
def test_its_parameters_are_the_arguments_that_checks_give(name: str) -> None:
    given = [call.arguments for call in calls() if name in call.remedies]
    parameters = headers()[name].parameters
    assert frozenset().union(*given) == set(parameters), "a parameter that no check gives, or an argument without one"
    needed = {key for key, parameter in parameters.items() if parameter.required}
    assert needed == set(parameters).intersection(*given), "what every check gives is required, and nothing else"


def test_choices_are_what_checks_may_name() -> None:
    module = headers()["kernel_modules"].parameters["module"]
    loads = (verbs_class.LOAD_UVERBS.args["module"], verbs_class.LOAD_UMAD.args["module"])
    tables = (*rdma_driver.AUXILIARY_DRIVERS.values(), *rdma_driver.SOFTWARE.values(), *core.CORE)
    assert {*tables, *loads, driver.NVIDIA, driver.AMDGPU} <= set(module.choices)
    assert set(headers()["rdma_link_add"].parameters["type"].choices) == set(rdma_driver.SOFTWARE)
    assert set(headers()["memlock"].parameters["unit"].choices) == set(memlock.UNITS.values())
    # A driver that can be bound was loaded under the name of its module.
    drivers = {one.replace("-", "_") for one in headers()["driver_bind"].parameters["driver"].choices}
    assert drivers <= set(module.choices)


@EVERY
def test_what_a_header_says(name: str) -> None:
    header = headers()[name]
    assert all(one.endswith(".") for one in (header.purpose, header.why, *filter(None, [header.reboot])))
    assert {"cloud", "metal"} <= set(re.findall(r"cloud|metal", header.why)), "why the class is right in both"
    assert set(header.disturbs) <= set(CHECKS)
    assert header.writes or header.reboot, "what becomes of it at a reboot"
    assert header.safety in (SafetyClass.S1, SafetyClass.S2)
    assert (header.safety is SafetyClass.S1) == (header.idle in (Idle.NOTHING, Idle.PLUGIN))
    for parameter in header.parameters.values():
        assert bool(parameter.choices) == (parameter.kind in (ParameterKind.CHOICE, ParameterKind.SYSCTL))
        assert (parameter.least < parameter.most) == (parameter.kind is ParameterKind.INTEGER)


@EVERY
def test_braces_are_parameters(name: str) -> None:
    header = headers()[name]
    assert {one for text in (*header.undo, *header.writes) for one in BRACES.findall(text)} <= set(header.parameters)
    needed = {key for key, parameter in header.parameters.items() if parameter.required}
    assert needed <= {one for text in header.by_hand for one in BRACES.findall(text)} <= set(header.parameters)


@EACH_PLAYBOOK
def test_it_is_one_local_play_that_can_cross(name: str) -> None:
    found = play(name)
    assert set(found) == PLAY_KEYS
    assert (found["hosts"], found["connection"], found["gather_facts"]) == ("localhost", "local", False)
    assert (found["vars"]["on_host"], found["vars"]["host_root"]) == ([], "")
    text = repr([{**found["vars"], "remedy": None}, tasks(name)])
    assert {one for one in headers()[name].parameters if not re.search(rf"\b{one}\b", text)} == set()


@EACH_PLAYBOOK
def test_its_tasks_are_of_ansible_itself_and_none_is_a_shell(name: str) -> None:
    modules = {module_of(task) for task in tasks(name)}
    assert {one.rpartition(".")[0] for one in modules} == {"ansible.builtin"}
    assert {one.rpartition(".")[2] for one in modules} <= MODULES
    assert not any("ignore_errors" in task for task in tasks(name)), "a task that fails ends the play"


@EACH_PLAYBOOK
def test_its_tools_are_the_programs_that_its_tasks_call(name: str) -> None:
    assert {tool for task in tasks(name) for tool in tools(task)} == set(headers()[name].tools)


def tools(task: Mapping[str, Any]) -> Iterator[str]:
    """The program of a command, and the one that xargs calls."""
    if COMMAND not in task:
        return
    argv = str(task[COMMAND]["argv"])
    assert argv.startswith("{{ on_host + ['"), "a command crosses to the host"
    words = WORD.findall(argv)
    yield words[0]
    if words[0] == "xargs":
        yield words[-1]


@EACH_PLAYBOOK
def test_a_command_reads_or_tells_what_it_changes(name: str) -> None:
    """`creates` and `removes` let `--check` report a change that it does not make; without them it reports none."""
    for task in tasks(name):
        if COMMAND not in task:
            assert "changed_when" not in task
            continue
        probes = task.get("changed_when") is False
        assert probes == (task.get("check_mode") is False), task["name"]
        assert ("register" in task) == (probes or "failed_when" in task), task["name"]
        assert probes == (not {"creates", "removes"} & set(task[COMMAND])), task["name"]
        assert not probes or next(tools(task)) in READS, task["name"]


@EACH_PLAYBOOK
def test_what_it_writes_is_below_the_root(name: str) -> None:
    for task in tasks(name):
        written = task[module_of(task)]
        path = written.get("path", written.get("dest")) if isinstance(written, Mapping) else None
        if path is not None:
            known = {**play(name)["vars"], **task.get("vars", {}), "item": task.get("loop", "")}
            assert "host_root" in resolved(path, known), task["name"]


def resolved(text: str, known: Mapping[str, Any]) -> str:
    """A text with the variables that it names, and what those name."""
    more = [
        str(known[word]) for word in re.findall(r"\w+", text) if word in known and word not in ("host_root", "remedy")
    ]
    return " ".join([text, *(resolved(one, {k: v for k, v in known.items() if str(v) != one}) for one in more)])


@EACH_PLAYBOOK
def test_its_own_files_are_those_that_it_names(name: str) -> None:
    variables = {key: value for key, value in play(name)["vars"].items() if key != "remedy"}
    found = {Path(one).name for one in OWN_FILE.findall(repr([variables, tasks(name)]))}
    told = {TEMPLATE.sub(lambda one: "{" + TEMPLATES.get(one[1], one[1]) + "}", one) for one in found}
    assert told == {Path(one).name for one in headers()[name].writes}


def test_the_page_names_every_key_and_kind() -> None:
    page = (PLAYBOOKS / "README.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([\w-]+)`", page, re.MULTILINE))
    assert rows == {*remedy_files.HEADER_KEYS, *ParameterKind}
