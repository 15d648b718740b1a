"""The rules of every check and every module. A newcomer's first failed test names the rule."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import pytest

from nodeprep import check_round, facts, typed_yaml
from nodeprep.checks import CHECKS, IDS, is_of_alibaba_cloud
from nodeprep.config import profile_files
from nodeprep.config.profile_files import BUILT_IN
from nodeprep.decide import fault_causes
from nodeprep.facts.alibaba import terway
from nodeprep.facts.expected import profile_capture
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.kubernetes import cluster, cluster_records
from nodeprep.model import Check, Severity, Status
from nodeprep.values import field_names, replace

PACKAGE = Path(importlib.import_module("nodeprep").__file__ or "").parent
TESTS = Path(__file__).resolve().parent
KINDS = {fact.kind for fact in facts.ALL} | {Expected}
CHECK_LINES = 170  # with its declared reasons and their fixes


def source(check: Check) -> Path:
    family, _, question = check.id.partition(".")
    return PACKAGE / "checks" / family / f"{question.replace('-', '_')}.py"


def each_check() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.id)


@each_check()
def test_the_id_is_the_path_and_the_docstring_is_the_question(check: Check) -> None:
    module = importlib.import_module(f"nodeprep.checks.{check.id.replace('-', '_')}")
    assert module.CHECK is check
    assert module.__doc__ == check.question
    assert check.question.endswith("?")


@each_check()
def test_it_says_why_what_to_do_and_where_it_is_from(check: Check) -> None:
    assert check.why
    assert check.fix
    assert check.source


@each_check()
def test_it_looks_at_facts_that_are_observed(check: Check) -> None:
    assert check.needs
    assert {*check.needs, *check.uses} <= KINDS


@each_check()
def test_it_follows_from_checks_that_exist(check: Check) -> None:
    assert set(check.after) <= CHECKS.keys()
    assert check.id not in check.after


@each_check()
def test_a_check_that_only_warns_never_fails(check: Check) -> None:
    if check.severity is not Severity.GATE:
        assert "Status.FAIL" not in source(check).read_text()


@each_check()
def test_its_remedies_are_those_that_it_names(check: Check) -> None:
    text = source(check).read_text()
    for remedy in check.remedies:
        assert f'"{remedy}"' in text.partition("CHECK = Check(")[0], f"{remedy} is promised and never offered"
    assert set(re.findall(r'Remedy\(\s*"(\w+)"', text)) <= set(check.remedies)


@each_check()
def test_an_operator_can_write_every_number(check: Check) -> None:
    if check.want is None:
        return
    check.want()  # every number has a default
    hints = get_type_hints(check.want)
    for name in field_names(check.want):
        assert callable(typed_yaml.of_type(hints[name]).read)


def test_every_check_file_is_listed_once() -> None:
    files = {path for path in (PACKAGE / "checks").glob("*/*.py") if "CHECK = Check(" in path.read_text()}
    assert sorted(files) == sorted(source(check) for check in CHECKS.values())


def test_an_id_that_is_not_listed_is_no_check() -> None:
    assert "port.names" in CHECKS
    assert "counter.limit" not in CHECKS
    with pytest.raises(KeyError):
        CHECKS["counter.limit"]  # a module of that name is there


def test_what_is_of_alibaba_cloud_explains_nothing_of_another_node() -> None:
    """Elsewhere these checks are not imported: without them the others follow from the same checks as with them."""
    after = {check.id: check.after for check in CHECKS.values()}
    others = {check_id: causes for check_id, causes in after.items() if not is_of_alibaba_cloud(check_id)}
    for check_id in others:
        with_them = fault_causes.ancestors(check_id, after)
        assert fault_causes.ancestors(check_id, others) == {one for one in with_them if one in others}


def test_what_is_of_alibaba_cloud_compares_no_looks() -> None:
    """How many looks to take is known before it is known which node this is."""
    assert check_round.comparing(IDS) == {check.id for check in CHECKS.values() if check.rates}


def test_all_checks_look_at_all_facts() -> None:
    needed = check_round.needed(CHECKS.values())
    assert needed == facts.ALL


@each_check()
def test_a_check_is_read_at_one_sitting(check: Check) -> None:
    """Other modules have no cap: they are split by what lives in them, never because of a number."""
    assert len(source(check).read_text().splitlines()) <= CHECK_LINES


def private_names(path: Path) -> set[str]:
    """Names with a leading underscore that a file uses from modules of the product."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    taken, modules = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE.name:
            taken |= {alias.name for alias in node.names}
            modules |= {alias.asname or alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            taken.add(node.attr)
    return {name for name in taken if name.startswith("_") and not name.endswith("__")}


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_tests_take_no_private_name_from_a_module(path: Path) -> None:
    """Tests use public names only: `check_round.run_check` runs one check on facts."""
    assert private_names(path) == set()


NAMED = {  # mappings of facts, and the keys that stand in them (docs/adr/0032)
    "labels": {*cluster.NODE_LABELS, *cluster.POD_LABELS},
    "annotations": {*cluster.NODE_ANNOTATIONS, *cluster.POD_ANNOTATIONS},
    "settings": set(cluster_records.SETTINGS_READ),
    "capabilities": set(terway.CAPABILITY_KEYS),
    "cmdline": set(),
}
# Keys of one call each that no constant tells: the check's own test proves that they are listed.
IN_LOOPS = {"imds.identity": {"node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"}}


def asked_keys(check: Check) -> Iterator[tuple[str, object]]:
    """What a check asks these mappings for: `(labels, key)`; None for a key that is no constant."""
    module = vars(importlib.import_module(f"nodeprep.checks.{check.id.replace('-', '_')}"))
    for node in ast.walk(ast.parse(source(check).read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            whose, key = node.func.value, node.args[0]
        elif isinstance(node, ast.Subscript):
            whose, key = node.value, node.slice
        else:
            continue
        names = {part.attr for part in ast.walk(whose) if isinstance(part, ast.Attribute)} & NAMED.keys()
        for name in names:
            yield name, key.value if isinstance(key, ast.Constant) else module.get(getattr(key, "id", ""))


@each_check()
def test_it_asks_only_for_keys_that_a_snapshot_keeps(check: Check) -> None:
    for name, key in asked_keys(check):
        keys = IN_LOOPS[check.id] if key is None else {key}
        assert keys <= NAMED[name], f"{check.id} reads {name} {keys}, which its fact does not keep"


# A GATE check that no built-in profile lists, and why.
OF_GPUS = "no built-in profile asks for a GPU; a profile that was captured on a node with GPUs lists it"
BY_WISH = {
    "qos.lossless": "it judges only what an operator states for the switches, who lists it as a gate too",
    "plugin.kubelet-socket": "the agent's pod does not see the socket without a component of its own",
    "plugin.sockets": "the agent's pod does not see the sockets without a component of its own",
    "gpu.nvml": "the agent's pod does not have the library without a component of its own",
    "kubelet.health": "a kubelet that is silent makes its Node NotReady, which keeps pods away without us",
    **dict.fromkeys(profile_capture.GPU_GATES, OF_GPUS),
}
GATES = {gate for name in BUILT_IN for gate in profile_files.effective(name).gates}


def never_closes(check: Check) -> list[str]:
    """Why a check that may close the gate never does."""
    if check.severity is not Severity.GATE:
        return []
    fails = any(one.status is Status.FAIL for one in check.reasons)
    listed = check.id in GATES or check.id in BY_WISH
    return [*(() if fails else ("no reason of it fails",)), *(() if listed else ("no profile lists it",))]


@each_check()
def test_a_check_that_may_close_the_gate_can(check: Check) -> None:
    assert never_closes(check) == []


@pytest.mark.parametrize("name", sorted(GATES | set(BY_WISH)))
def test_a_gate_of_a_profile_may_close_it(name: str) -> None:
    check = CHECKS[name]
    assert check.severity is Severity.GATE
    assert (name in GATES) != (name in BY_WISH)


def test_one_that_never_could_would_be_seen() -> None:
    gate = CHECKS["port.state"]
    tame = tuple(one for one in gate.reasons if one.status is not Status.FAIL)
    assert never_closes(replace(gate, reasons=tame)) == ["no reason of it fails"]
    assert never_closes(replace(gate, id="port.unlisted")) == ["no profile lists it"]


# What reads files or starts programs, whatever it is called by: modules, and names that need no import.
READING_MODULES = {
    *("pathlib", "os", "io", "glob", "shutil", "fileinput", "linecache", "mmap", "tempfile", "codecs", "tokenize"),
    *("subprocess", "socket", "ctypes", "importlib", "runpy", "pkgutil", "zipfile", "tarfile", "builtins", "_io"),
    *("posix", "fcntl", "select", "asyncio", "multiprocessing", "urllib", "http", "platform", "time", "random"),
}
READING_NAMES = {"open", "exec", "eval", "compile", "__import__", "input", "breakpoint", "globals", "vars", "getattr"}


def readings(text: str) -> set[str]:
    """By what the text of a module could read something itself."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names} & READING_MODULES
        elif isinstance(node, ast.ImportFrom):
            pure = all(alias.name.startswith("Pure") for alias in node.names)  # PurePosixPath only computes
            found |= set() if pure else {(node.module or "").partition(".")[0]} & READING_MODULES
        elif isinstance(node, ast.Name):
            found |= {node.id} & READING_NAMES
    return found


@pytest.mark.parametrize("path", sorted((PACKAGE / "checks").glob("*/*.py")), ids=lambda path: path.stem)
def test_a_check_reads_nothing_itself(path: Path) -> None:
    assert readings(path.read_text()) == set()


PLANTED = [
    "from pathlib import Path\nPath('/sys').read_text()",
    "import pathlib",
    "def judge(seen):\n    import pathlib as p",
    "with open('/proc/mounts') as file: pass",
    "read = open",
    "from io import FileIO",
    "import os.path",
    "__import__('os')",
    "from builtins import open as o",
    "from importlib import import_module",
]


@pytest.mark.parametrize("text", PLANTED)
def test_one_that_does_is_caught(text: str) -> None:
    assert readings(text)
