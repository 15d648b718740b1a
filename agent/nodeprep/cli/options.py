"""The options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Root = Annotated[
    str | None,
    typer.Option("--root", metavar="DIR", help="Judge a dead tree: the files under DIR and nothing else."),
]
HostRoot = Annotated[
    str | None,
    typer.Option(
        "--host-root",
        metavar="DIR",
        help="Where the live host's root is mounted "
        "[env: NODEPREP_HOST_ROOT; default: /host if it holds /sys/class, else /].",
    ),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="Also look at the node's Kubernetes objects; a pod uses its service account instead.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; by default, its current one."),
]
NodeName = Annotated[
    str | None,
    typer.Option("--node", metavar="NAME", help="Kubernetes' name of this node [in a pod also: env NODE_NAME]."),
]
Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="Configuration; by default /etc/nodeprep/config.yaml if it exists."),
]


def complete_profile(incomplete: str) -> list[str]:
    """The built-in profiles that begin so."""
    from nodeprep.config.profile_files import BUILT_IN

    return [name for name in BUILT_IN if name.startswith(incomplete)]


ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        "-p",
        autocompletion=complete_profile,
        metavar="NAME|FILE",
        help="What the node must be ready for; by default, chosen by its hardware.",
    ),
]
Settle = Annotated[
    str, typer.Option("--settle", metavar="SECONDS", help="Time between the two looks for rates; 0: one look.")
]
Output = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="By default, stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file of --output if it exists.")]
StateDir = Annotated[
    str | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="Where the state file is [env: NODEPREP_STATE_DIR; default: var/lib/nodeprep of the host].",
    ),
]
RunDir = Annotated[
    str | None,
    typer.Option(
        "--run-dir",
        metavar="DIR",
        help="Where gate files are [env: NODEPREP_RUN_DIR; default: run/nodeprep of the host].",
    ),
]
SocketDir = Annotated[
    str | None,
    typer.Option(
        "--socket-dir",
        metavar="DIR",
        help="Where the agent's socket is [env: NODEPREP_SOCKET_DIR; default: run/nodeprep-agent of the host].",
    ),
]
