"""The hidden option that shortens the waits of repairs: what it reads, and that nothing that is shipped can set it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.cli.daemon import agent_command, repair_waits
from nodeprep.cli.usage import UsageError
from nodeprep.decide.repair_policy import SHIPPED_WAITS, RepairPolicy, RepairWaits
from nodeprep.values import field_names
from tests import test_docs_names
from tests.cli.program import nodeprep

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ROOT / "agent/nodeprep"
NAMES = "conviction, settled, passes, fresh, unknown, silent, retry, back_off, rest"
RANGE = "wanted a number of seconds, more than 0 and at most 600"

READ = [
    (None, SHIPPED_WAITS),
    ("settled=1", RepairWaits(settled=1.0)),
    ("settled=1,conviction=2,passes=3,fresh=30,unknown=2,silent=5", RepairWaits(2.0, 1.0, 3.0, 30.0, 2.0, 5.0)),
    ("passes=0.25, silent=600", RepairWaits(passes=0.25, silent=600.0)),
    ("back_off=2", RepairWaits(back_off=2.0)),
]


@pytest.mark.parametrize(("text", "waits"), READ)
def test_waits_are_read(text: str | None, waits: RepairWaits) -> None:
    assert repair_waits.read(text) == waits


def test_as_shipped_no_back_off_is_shorter_than_it_is_configured() -> None:
    policy = RepairPolicy(back_off=(60.0, 300.0, 86400.0))
    assert SHIPPED_WAITS.shorten(policy) == policy
    assert RepairWaits(back_off=90.0).shorten(policy).back_off == (60.0, 90.0, 90.0)


REFUSED = [
    ("", f"--repair-waits: found '', wanted one of {NAMES}"),
    ("settle=1", f"--repair-waits: found 'settle', wanted one of {NAMES}"),
    ("settled=1,", f"--repair-waits: found '', wanted one of {NAMES}"),
    ("settled=1;passes=1", f"--repair-waits: settled: found '1;passes=1', {RANGE}"),
    ("settled", f"--repair-waits: settled: found '', {RANGE}"),
    ("settled=", f"--repair-waits: settled: found '', {RANGE}"),
    ("settled=0", f"--repair-waits: settled: found '0', {RANGE}"),
    ("settled=0.000", f"--repair-waits: settled: found '0.000', {RANGE}"),
    ("settled=-1", f"--repair-waits: settled: found '-1', {RANGE}"),
    ("settled=600.1", f"--repair-waits: settled: found '600.1', {RANGE}"),
    ("settled=6000", f"--repair-waits: settled: found '6000', {RANGE}"),
    ("settled=nan", f"--repair-waits: settled: found 'nan', {RANGE}"),
    ("settled=inf", f"--repair-waits: settled: found 'inf', {RANGE}"),
    ("settled=1e1", f"--repair-waits: settled: found '1e1', {RANGE}"),
    ("settled=1s", f"--repair-waits: settled: found '1s', {RANGE}"),
    ("settled=1,settled=2", "--repair-waits: found settled twice, wanted it once"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_what_cannot_be_meant_is_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        repair_waits.read(text)
    assert str(error.value) == says


@given(st.text() | st.lists(st.sampled_from(["settled", "=", ",", "1", "0", ".", "\n", "passes"])).map("".join))
def test_whatever_stands_there_is_read_or_refused_in_one_line(text: str) -> None:
    waits, said = SHIPPED_WAITS, ""
    try:
        waits = repair_waits.read(text)
    except UsageError as error:
        said = str(error)
    assert said.isprintable()
    longest = {name: max(600.0, getattr(SHIPPED_WAITS, name)) for name in field_names(RepairWaits)}
    assert all(0.0 < getattr(waits, name) <= limit for name, limit in longest.items())


# --- nothing that is shipped sets it ---


def mentions(text: str) -> bool:
    return "repair_waits" in text.lower().replace("-", "_")


def test_no_manifest_has_the_option() -> None:
    files = {path: path.read_text(errors="replace") for path in (ROOT / "daemonset").rglob("*") if path.is_file()}
    assert any("--max-class" in text for text in files.values()), "arguments of containers stand here"
    assert [path for path, text in files.items() if mentions(text)] == []
    assert not mentions((ROOT / "docs/agent.md").read_text()), "which has a unit of systemd for the agent"


def options() -> dict[str, Any]:
    """The options of `agent`, also those that its help does not show."""
    agent = test_docs_names.inner(test_docs_names.PROGRAM)["agent"]
    return {name: one for one in agent.params for name in one.opts}


def test_the_help_does_not_show_it() -> None:
    assert "--repair-waits" in options()
    done = nodeprep("agent", "--help")
    assert done.returncode == 0
    assert "--socket-dir" in done.stdout
    assert not mentions(done.stdout)


def test_the_option_reaches_the_command_as_it_was_typed() -> None:
    assert "repair_waits" in field_names(agent_command.AgentOptions)
    assert agent_command.AgentOptions().repair_waits is None
    assert options()["--repair-waits"].default is None


def test_no_environment_variable_sets_it() -> None:
    """None of click's, by the option or by a prefix for all, and none of ours: its name stands at the option alone."""
    assert options()["--repair-waits"].envvar is None
    assert "auto_envvar_prefix" not in test_docs_names.PROGRAM.context_settings
    named = {path.relative_to(PRODUCT).as_posix() for path, text in texts() if mentions(text)}
    assert named == {"cli/daemon/daemon_commands.py", "cli/daemon/repair_waits.py"}


def test_no_configuration_can_make_such_waits() -> None:
    """Only the option and the shipped values do. The reader of configurations does not know them."""
    made = {path.relative_to(PRODUCT).as_posix() for path, name in calls() if name == "RepairWaits"}
    assert made == {"decide/repair_policy.py"}
    replaced = {path.relative_to(PRODUCT).as_posix() for path, name in uses() if name == "SHIPPED_WAITS"}
    assert "cli/daemon/repair_waits.py" in replaced
    assert not any(path.startswith("config/") for path in replaced)


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PRODUCT.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def texts() -> Iterator[tuple[Path, str]]:
    """Each text of the source that is a value."""
    for path, tree in trees():
        for one in ast.walk(tree):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield path, one.value


def calls() -> Iterator[tuple[Path, str]]:
    for path, tree in trees():
        for one in ast.walk(tree):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
                yield path, one.func.id


def uses() -> Iterator[tuple[Path, str]]:
    for path, tree in trees():
        for one in ast.walk(tree):
            if isinstance(one, ast.Name):
                yield path, one.id
