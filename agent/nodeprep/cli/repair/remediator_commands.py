"""The command `remediator`."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli import program
from nodeprep.decide.remedy_header import SafetyClass

# As in decide/remediator_limits, for the help.
RUNS, RUNS_EACH, RESTARTS, ATTEMPTS, SECONDS = 24, 6, 3, 240, 600.0
MOST_ATTEMPTS = 500  # the ledger keeps them for more than a day (KEPT_ATTEMPTS in repair/attempt_ledger, and its file)
app = program.commands()


@app.command()
def remediator(
    *,
    socket_dir: Annotated[
        str, typer.Option("--socket-dir", metavar="DIR", help="Where its socket is; only the agent may mount it.")
    ] = "/run/nodeprep-remediator",
    ledger_dir: Annotated[
        str, typer.Option("--ledger-dir", metavar="DIR", help="Where its ledger is; nobody else may mount it.")
    ] = "/var/lib/nodeprep-remediator",
    lock_dir: Annotated[
        str, typer.Option("--lock-dir", metavar="DIR", help="Where on the host `nodeprep repair` has its lock.")
    ] = "/var/lib/nodeprep-repair",
    host_process: Annotated[
        str,
        typer.Option(
            "--host-process",
            metavar="DIR",
            help="The host's first process in its /proc, such as /host/proc/1; by default, we are on the host.",
        ),
    ] = "",
    remedies: Annotated[
        list[str] | None, typer.Option("--remedy", metavar="NAME", help="A remedy that may run; by default, all.")
    ] = None,
    max_class: Annotated[
        SafetyClass, typer.Option("--max-class", help="The highest safety class of them.")
    ] = SafetyClass.S2,
    third_class: Annotated[
        list[str] | None,
        typer.Option("--allow-s3", metavar="NAME", help="A remedy of class S3 that may run, whoever asks."),
    ] = None,
    runs: Annotated[int, typer.Option("--runs-a-day", min=0, help="Runs of all remedies in 24 hours.")] = RUNS,
    runs_each: Annotated[int, typer.Option("--runs-a-day-each", min=0, help="Runs of one remedy.")] = RUNS_EACH,
    restarts: Annotated[int, typer.Option("--restarts-a-day", min=0, help="Restarts of containers.")] = RESTARTS,
    attempts: Annotated[
        int,
        typer.Option(
            "--attempts-a-day",
            min=0,
            max=MOST_ATTEMPTS,
            help="All that begins, with checks and what is refused then.",
        ),
    ] = ATTEMPTS,
    seconds: Annotated[
        float, typer.Option("--max-deadline", min=1.0, max=3600.0, help="The longest deadline of a run, in seconds.")
    ] = SECONDS,
) -> None:
    """Run what the agent of this node asks for, within limits of its own.

    It runs in a pod of its own (daemonset/components/repair), which is privileged. It takes one JSON object a line on
    its socket: hello, run, status and cancel. It believes no approval: its own options say what may run.
    """

    def body() -> int:
        from nodeprep.cli.repair import remediator_command as command
        from nodeprep.decide.remediator_limits import RemediatorLimits

        limits = RemediatorLimits(
            None if remedies is None else frozenset(remedies),
            max_class,
            frozenset(third_class or ()),
            runs,
            runs_each,
            restarts,
            seconds,
            attempts,
        )
        return command.run(command.RemediatorOptions(socket_dir, ledger_dir, lock_dir, host_process, limits))

    program.end(body)
