"""All commands: the line of each in `--help`, and its module. A command is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nodeprep.cli import program

# In the order of `--help`: a name, its line, and its module and Typer.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "check": ("Judge this node, a copy of one, or a recording.", "check.check_commands:app"),
    "list": ("List the checks, in the order in which a person would look.", "check.check_commands:app"),
    "explain": ("Say what a check asks, why, what it needs and what to do when it fails.", "check.check_commands:app"),
    "compare": (
        "Say in what recorded hosts differ: machine, kernel, firmware, rates, MTU, versions, missing devices.",
        "check.check_commands:app",
    ),
    "snapshot": (
        "Record everything that `check` looks at in one file, for `check --snapshot`.",
        "check.check_commands:app",
    ),
    "history": ("Say what happened to a node, and whether it was ready at a time.", "history.history_commands:app"),
    "why": ("Say what happened on the nodes of a job when its pods ended.", "history.history_commands:app"),
    "agent": ("Judge this node continuously: gates, metrics, state file.", "daemon.daemon_commands:app"),
    "wait-ready": ("Wait until the agent has opened a profile's gate.", "daemon.daemon_commands:app"),
    "reset": (
        "Make the agent start over: it forgets the faults and passes of this node.",
        "daemon.daemon_commands:app",
    ),
    "kubelet-books": (
        "Tell the agent of this node what lies in the kubelet's directory of plugins.",
        "daemon.daemon_commands:app",
    ),
    "nvml": (
        "Tell the agent of this node what NVIDIA's library says of its GPUs.",
        "daemon.daemon_commands:app",
    ),
    "provision": ("Make this host ready for a profile, by our playbooks.", "repair.repair_commands:app"),
    "repair": (
        "Mend faults of this host by our playbooks; `repair history` shows what was done.",
        "repair.repair_commands:repairs",
    ),
    "drill": (
        "Make a fault of this host on purpose, watch until it is seen, and undo it.",
        "repair.drill_commands:drills",
    ),
    "remediator": (
        "Run what the agent of this node asks for, within limits of its own.",
        "repair.remediator_commands:app",
    ),
    "version": ("Print the version.", "version_command:app"),
    "profile": ("Capture, show and validate what a node should have.", "files.files_commands:profiles"),
    "config": ("Show and validate configuration files.", "files.files_commands:configs"),
    "nodes": (
        "The fleet: list, watch, wait for, release or reset the Nodes of a cluster.",
        "nodes.nodes_commands:nodes",
    ),
    "preflight": (
        "Say whether a job can start now, and if not, what keeps it from each node.",
        "jobs.jobs_commands:app",
    ),
}


class Program(TyperGroup):
    """Makes a command from its function when it is called. For all of them that takes 20 ms, and `--help` has 60."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment] # their names are all that typer asks for

    def get_command(self, ctx: Any, name: str) -> Any:  # noqa: ARG002 - typer's signature
        """The command of this name; None if there is none."""
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][1].partition(":")
        return _command(getattr(import_module(f"nodeprep.cli.{module}"), attribute), name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's signature
        """List them in a help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (line, _) in COMMANDS.items()])


def _command(owner: typer.Typer, name: str) -> Any:
    """One command of several, or a group of commands as it is."""
    single = [one for one in owner.registered_commands if (one.name or getattr(one.callback, "__name__", "")) == name]
    if not single:
        return typer.main.get_command(owner)
    alone = program.commands()
    alone.registered_commands = single
    return typer.main.get_command(alone)


app = program.commands(cls=Program, name="nodeprep", add_completion=True, no_args_is_help=True)
app.info.context_settings = {"help_option_names": ["-h", "--help"]}


def _version(asked: bool) -> None:
    if asked:
        from nodeprep.cli import version_command

        version_command.version()


@app.callback()
def nodeprep(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Proves that a node is ready for distributed training."""


def run() -> int:
    """Run what the command line says; returns the exit code."""
    return program.run(app)
