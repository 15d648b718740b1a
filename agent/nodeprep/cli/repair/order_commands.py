"""The commands by which humans order about repairs by agents: `repair pause`, `resume` and `approve`."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli import program
from nodeprep.cli.nodes import nodes_commands
from nodeprep.cli.nodes.nodes_commands import Context, Kubeconfig, Meant, Namespace, Selector

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")]
Everything = Annotated[bool, typer.Option("--all", help="The whole fleet, by its Lease nodeprep-repair.")]


def pause(
    names: Meant = None,
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, in a few words. Everybody sees it.")],
    lasts: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long (90s, 30m, 8h); by default until it is resumed."),
    ] = None,
    everything: Everything = False,
    selector: Selector = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
) -> None:
    """Let agents begin no repair on these Nodes, or in the whole fleet. A play that runs goes on to its end.

    \b
    Exit codes:
      0  written
      1  a Node or the Lease of the fleet was not written
      2  wrong use
      3  it could not look
    \b
    Examples:
      nodeprep repair pause --all --reason "switch upgrade" --for 8h
      nodeprep repair pause gpu-17 --reason "RMA 4711"
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.repair import pause_command as command

        where = nodes_commands.where_of((kubeconfig, context), namespace, None, names, selector)
        return command.run(command.PauseOptions(where, reason, lasts, everything, dry_run))

    program.end(body)


def resume(
    names: Meant = None,
    *,
    remedies: Annotated[
        list[str] | None,
        typer.Option("--remedy", metavar="REMEDY", help="A remedy that is held in the fleet; repeatable."),
    ] = None,
    everything: Everything = False,
    selector: Selector = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
) -> None:
    """End the pause of Nodes or of the fleet, or let a remedy run again that is held because it did not help.

    A Node that was paused by name stays so after --all, and the other way round.

    \b
    Exit codes:
      0  written, or there was nothing to resume
      1  a Node or the Lease of the fleet was not written, or a remedy stays held
      2  wrong use
      3  it could not look
    \b
    Examples:
      nodeprep repair resume --all
      nodeprep repair resume gpu-17
      nodeprep repair resume --remedy driver_bind
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.repair import resume_command as command

        where = nodes_commands.where_of((kubeconfig, context), namespace, None, names, selector)
        return command.run(command.ResumeOptions(where, tuple(remedies or ()), everything, dry_run))

    program.end(body)


def approve(
    remedy: Annotated[str, typer.Argument(metavar="REMEDY", help="A remedy of class S3.")],
    names: Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of Nodes.")],
    *,
    lasts: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long it may be used (90s, 30m, 8h); 168h at most.")
    ] = "1h",
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
) -> None:
    """Let a remedy of class S3 run once on each of these Nodes, if a fault asks for it in time.

    It counts once, and takes the place of an earlier approval. It ends later than the last one that was used there, so
    perhaps later than asked for. The remediator's own manifest must allow the remedy too
    (--allow-s3). A remedy of class S1 or S2 needs no approval, and of class S4 none is enough.

    \b
    Exit codes:
      0  written
      1  a Node was not written
      2  wrong use, or no approval makes sense for this remedy
      3  it could not look
    \b
    Examples:
      nodeprep repair approve REMEDY gpu-17
      nodeprep repair approve REMEDY gpu-17 gpu-18 --for 8h
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.repair import approve_command as command

        where = nodes_commands.where_of((kubeconfig, context), namespace, None, names)
        return command.run(command.ApproveOptions(remedy, where, lasts, dry_run))

    program.end(body)
