"""A command imports what it uses and nothing else."""

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
from nodeprep.checks import CHECKS, IDS, is_of_alibaba_cloud
from nodeprep.cli.app import COMMANDS, app
from nodeprep.cli.daemon.directories import OPTIONS
from nodeprep.config.configuration import DEFAULT_FILE
from nodeprep.doors.files.reader import Files
from nodeprep.facts.alibaba.imds import ECS, PRODUCT
from nodeprep.model import OTHER_PLATFORM
from tests.cli.program import node, nodeprep

# Modules and packages that a command does without. What typer imports itself is in no row: inspect, uuid, subprocess,
# shutil, pathlib and urllib.parse. msgspec imports decimal.
NEVER = ("asyncio", "concurrent", "hashlib", "random", "rich", "tempfile")
SERVERS = (
    "email",
    "h11",
    "http",
    "kubernetes",
    "nodeprep.agent",
    "nodeprep.doors.events",
    "nodeprep.doors.http",
    "nodeprep.doors.kube",
    "prometheus_client",
    "ssl",
    "urllib.request",
    "urllib3",
)
KERNEL = ("ctypes", "logging", "nodeprep.doors.netlink", "pyroute2", "socket")
FILES = ("base64", "yaml")
VALUES = (
    "decimal",
    "json",
    "msgspec",
    "nodeprep.model",
    "nodeprep.shown",
    "nodeprep.values",
)
ROOMS = (
    "nodeprep.check_round",
    "nodeprep.checks",
    "nodeprep.config",
    "nodeprep.decide",
    "nodeprep.doors",
    "nodeprep.facts",
)
AGENT = ("dataclasses", "nodeprep.publish")
ALWAYS = (*NEVER, *SERVERS)
LOOK = (*ALWAYS, *FILES, *AGENT, "nodeprep.cli.nodes")
HELP = (*ALWAYS, *KERNEL, *FILES, *VALUES, *ROOMS, *AGENT, "queue", "struct")
TEXT = (*ALWAYS, *KERNEL, *FILES, *AGENT, "nodeprep.check_round", "nodeprep.doors", "queue", "struct")
WAIT = ("wait-ready", "--profile", "x", "--stage", "device", "--timeout", "0", "--run-dir", "/nowhere")
COMMANDS_WITHOUT = (
    # a command, a module that shows that it ran, and what it does without
    (("--help",), "typer", (*HELP, "nodeprep.cli.options")),
    (("check", "--help"), "nodeprep.cli.options", HELP),
    (("explain", "-h"), "nodeprep.cli.options", HELP),
    (("agent", "--help"), "nodeprep.cli.options", HELP),
    (("nodes", "--help"), "nodeprep.cli.nodes", HELP),
    (("preflight", "--help"), "nodeprep.cli.jobs", HELP),
    (("version",), "nodeprep.cli.version_command", HELP),
    (("explain", "port.state"), "nodeprep.checks.port.state", TEXT),
    (("list",), "nodeprep.checks.port.state", TEXT),
    (("config", "show"), "nodeprep.config.configuration", (*ALWAYS, *KERNEL, *AGENT)),
    (WAIT, "nodeprep.publish.gate_files", (*ALWAYS, *KERNEL, *FILES, "nodeprep.checks", "nodeprep.facts", "queue")),
)
# A command says at its end what it imported. `-X importtime` says nothing of what import_module imports.
IMPORTS = """\
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from nodeprep.__main__ import main
sys.exit(main())
"""
CONFIGURED = Path(DEFAULT_FILE).exists()  # then YAML is read
ON_ECS = Files().text(PRODUCT) == ECS  # then the metadata server is asked


def imported(*arguments: str, **environment: str) -> frozenset[str]:
    """The modules that a command imports, and the packages that they are in."""
    # coverage would start itself in the program, with imports of its own.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = (sys.executable, "-c", IMPORTS, *arguments)
    done = subprocess.run(command, env=inherited | environment, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1, 3}, done.stderr
    modules = [name.split(".") for name in done.stderr.splitlines()[-1].split()]
    return frozenset(".".join(parts[:length]) for parts in modules for length in range(1, len(parts) + 1))


@pytest.mark.parametrize(("arguments", "shows", "without"), COMMANDS_WITHOUT, ids=lambda one: " ".join(one[:2]))
def test_a_command_imports_nothing_that_it_does_not_use(
    arguments: tuple[str, ...], shows: str, without: tuple[str, ...]
) -> None:
    modules = imported(*arguments)
    assert shows in modules
    assert not modules.intersection(without)


def test_a_dead_tree_needs_no_netlink(tmp_path: Path) -> None:
    modules = imported("check", "--root", str(node("h100-ib", tmp_path)))
    assert "nodeprep.check_round" in modules
    assert not modules.intersection((*LOOK, *KERNEL, "struct"))


@pytest.mark.skipif(CONFIGURED or ON_ECS, reason="this host has a configuration, or a metadata server to ask")
def test_a_live_node_asks_the_kernel_and_no_server(tmp_path: Path) -> None:
    no_agent = dict.fromkeys(OPTIONS, str(tmp_path))
    modules = imported("check", "--settle", "0", NODE_NAME="", **no_agent)
    assert {"nodeprep.check_round", "nodeprep.doors.netlink.routing", "pyroute2"} <= modules
    assert not modules.intersection(LOOK)


def checks_imported(*arguments: str) -> list[str]:
    """The ids of the checks that a command imports."""
    prefix = "nodeprep.checks."
    paths = (one.removeprefix(prefix) for one in imported(*arguments) if one.startswith(prefix))
    return sorted(path.replace("_", "-") for path in paths if "." in path)


@pytest.mark.parametrize("tree", ["h100-ib", "plain-vm"])
def test_a_node_elsewhere_needs_no_check_of_alibaba_cloud(tree: str, tmp_path: Path) -> None:
    told = checks_imported("check", "--root", str(node(tree, tmp_path)))
    assert "port.state" in told
    assert not [one for one in told if is_of_alibaba_cloud(one)]


def test_a_program_is_told_of_every_check(tmp_path: Path) -> None:
    told = json.loads(nodeprep("check", "-o", "json", "--root", str(node("h100-ib", tmp_path))).stdout)
    elsewhere = {one["check"]: one["severity"] for one in told["findings"] if one["reason"] == OTHER_PLATFORM.name}
    assert elsewhere == {one: CHECKS[one].severity for one in IDS if is_of_alibaba_cloud(one)}


def test_only_the_checks_that_are_asked_for_are_imported(tmp_path: Path) -> None:
    told = checks_imported("check", "--only", "limits", "--root", str(node("h100-ib", tmp_path)))
    assert told == ["limits.memlock", "limits.shm-hugepages"]


def test_a_configuration_without_numbers_needs_no_check_of_alibaba_cloud(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: nodeprep.io/v1\nkind: Config\n")
    told = checks_imported("config", "validate", str(file))
    assert not [one for one in told if is_of_alibaba_cloud(one)]


def test_the_line_of_a_command_in_the_list_is_the_first_of_its_own_help() -> None:
    """`--help` lists commands without importing them, so it has a copy of each line."""
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    context = typer.Context(program)
    own = {name: getattr(program.get_command(context, name), "help", "") for name in program.list_commands(context)}
    assert {name: line for name, (line, _) in COMMANDS.items()} == {
        name: " ".join(text.split("\n\n")[0].split()) for name, text in own.items()
    }


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version(word: str) -> None:
    done = nodeprep(word)
    assert (done.returncode, done.stdout) == (0, f"nodeprep {__version__}\n")


def test_nothing_asked_is_help_and_2() -> None:
    done = nodeprep()
    assert done.returncode == 2
    assert "Usage: nodeprep" in done.stdout + done.stderr
    for command in ("check", "list", "explain", "snapshot", "profile", "config", "version"):
        assert f"  {command} " in done.stdout + done.stderr


WRONG_USE = [
    # words                         the command         what is wrong with it
    (("chek",), "nodeprep", "no such command 'chek'"),
    (("--nope",), "nodeprep", "no such option: --nope"),
    (("check", "--rot", "x"), "nodeprep check", "no such option: --rot"),
    (("list", "foo"), "nodeprep list", "got unexpected extra argument"),
    (("check", "-o", "xml"), "nodeprep check", "invalid value for '--output' / '-o': 'xml' is not one of "),
    (("check", "--fail-on", "nope"), "nodeprep check", "invalid value for '--fail-on': 'nope' is not one of "),
    (("explain",), "nodeprep explain", "missing argument 'ID|FAMILY|REASON'; see "),
    (("profile", "validate"), "nodeprep profile validate", "missing argument 'FILE...'; see "),
    (("nodes", "--nope"), "nodeprep nodes list", "no such option: --nope; see "),
]


@pytest.mark.parametrize(("words", "command", "says"), WRONG_USE)
def test_wrong_use_is_one_line_and_2(words: tuple[str, ...], command: str, says: str) -> None:
    done = nodeprep(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith(f"{command}: {says}")
    assert done.stderr.endswith(f"; see {command} --help\n")


@pytest.mark.parametrize("group", ["profile", "config"])
def test_a_group_without_a_command_is_its_help_and_2(group: str) -> None:
    done = nodeprep(group)
    assert done.returncode == 2
    assert f"Usage: nodeprep {group}" in done.stdout + done.stderr
    assert "  validate " in done.stdout + done.stderr


def test_list_names_every_check_in_order() -> None:

    told = json.loads(nodeprep("list", "-o", "json").stdout)
    assert [one["id"] for one in told] == list(IDS)
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
        "after": ["pci.rdma-driver", "port.present", "port.layer"],
        "remedies": ["link_up", "eri_netdev_up"],
    }
    table = nodeprep("list").stdout.splitlines()
    assert table[0].split() == ["CHECK", "SEVERITY", "STAGE", "QUESTION"]
    assert [line.split()[0] for line in table[1:]] == list(IDS)


def test_completion_knows_the_checks() -> None:
    done = nodeprep(
        "explain", _NODEPREP_COMPLETE="complete_bash", COMP_WORDS="nodeprep explain port.st", COMP_CWORD="2"
    )
    assert done.stdout.split() == ["port.state"]
