"""What starts up, and what must not: `--help` imports nothing that it does not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from nodeprep import __version__
from nodeprep.cli.app import COMMANDS, app
from tests.cli.program import node, nodeprep

HEAVY = (
    "yaml",
    "pyroute2",
    "nodeprep.facts",
    "nodeprep.checks",
    "nodeprep.check_round",
    "nodeprep.model",
    "rich",
    "json",
)


def imported(*arguments: str) -> set[str]:
    command = (sys.executable, "-X", "importtime", "-m", "nodeprep", *arguments)
    # coverage would start itself in the program, with imports of its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize("arguments", [("--help",), ("check", "--help"), ("explain", "-h"), ("version",)])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    modules = imported(*arguments)
    assert "typer" in modules
    assert not [heavy for heavy in HEAVY if heavy in modules]


def test_a_dead_tree_needs_no_netlink(tmp_path: Path) -> None:
    modules = imported("check", "--root", str(node("h100-ib", tmp_path)))
    assert "nodeprep.check_round" in modules
    assert not [heavy for heavy in ("pyroute2", "ctypes", "rich") if heavy in modules]


def test_the_line_of_a_command_in_the_list_is_the_first_of_its_own_help() -> None:
    """`--help` lists commands without importing them, so it has a copy of each line."""
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    context = typer.Context(program)
    own = {name: getattr(program.get_command(context, name), "help", "") for name in program.list_commands(context)}
    assert {name: line for name, (line, _) in COMMANDS.items()} == {
        name: " ".join(text.split("\n\n")[0].split()) for name, text in own.items()
    }


def test_version() -> None:
    done = nodeprep("version")
    assert (done.returncode, done.stdout) == (0, f"nodeprep {__version__}\n")


def test_nothing_asked_is_help_and_2() -> None:
    done = nodeprep()
    assert done.returncode == 2
    assert "Usage: nodeprep" in done.stdout + done.stderr
    for command in ("check", "list", "explain", "snapshot", "profile", "config", "version"):
        assert f"  {command} " in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [("chek",), ("check", "--rot", "x"), ("explain",), ("check", "-o", "yaml")])
def test_wrong_use_is_2(arguments: tuple[str, ...]) -> None:
    done = nodeprep(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: nodeprep" in done.stderr


def test_list_names_every_check_in_order() -> None:
    from nodeprep.checks import ALL

    told = json.loads(nodeprep("list", "-o", "json").stdout)
    assert [one["id"] for one in told] == [check.id for check in ALL]
    assert all(
        list(one) == ["id", "question", "severity", "stage", "confirmation", "needs", "after", "remedies", "reasons"]
        for one in told
    )
    state = next(one for one in told if one["id"] == "port.state")
    reasons = {(one["reason"], one["status"]): one["fix"] for one in state.pop("reasons")}
    assert reasons["Active", "ok"] == ""
    assert reasons["AdministrativelyDown", "fail"] == "ip link set INTERFACE up"
    assert reasons["NotActive", "fail"] == "ibstat, and dmesg | grep ADDRESS."
    assert state == {
        "id": "port.state",
        "question": "Is every RDMA port that this node needs up?",
        "severity": "gate",
        "stage": "device",
        "confirmation": "fast",
        "needs": ["rdma", "inventory"],
        "after": ["pci.rdma-driver", "port.present"],
        "remedies": ["link_up", "eri_netdev_up"],
    }
    table = nodeprep("list").stdout.splitlines()
    assert table[0].split() == ["CHECK", "SEVERITY", "STAGE", "QUESTION"]
    assert [line.split()[0] for line in table[1:]] == [check.id for check in ALL]


def test_completion_knows_the_checks() -> None:
    done = nodeprep(
        "explain", _NODEPREP_COMPLETE="complete_bash", COMP_WORDS="nodeprep explain port.st", COMP_CWORD="2"
    )
    assert done.stdout.split() == ["port.state"]
