"""The commands of the agent: `agent`, `wait-ready`, `reset`, `kubelet-books`, `nvml`."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli import options, program
from nodeprep.cli.options import (
    Config,
    Context,
    HostRoot,
    Kubeconfig,
    NodeName,
    RunDir,
    SocketDir,
    StateDir,
)

# As in facts/kubernetes/device_plugins and facts/machine/nvml, which this need not import.
BOOKS_DIRECTORY, NVML_DIRECTORY = "/run/nodeprep-kubelet-books", "/run/nodeprep-nvml"
app = program.commands()


def _complete_stage(incomplete: str) -> list[str]:
    from nodeprep.publish.gate_files import GateStage

    return [stage for stage in GateStage if stage.startswith(incomplete)]


@app.command()
def agent(
    *,
    config: Config = None,
    config_by_rollout: Annotated[
        bool,
        typer.Option(
            "--config-by-rollout",
            help="Go by a changed configuration from the next start, but for a lower mode and new waivers.",
        ),
    ] = False,
    host_root: HostRoot = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    node: NodeName = None,
    state_dir: StateDir = None,
    run_dir: RunDir = None,
    socket_dir: SocketDir = None,
    bind: Annotated[
        str | None, typer.Option("--bind", metavar="ADDRESS", help="Address of /metrics and the probes.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port of /metrics and the probes; 0: none.")
    ] = None,
    repair_waits: Annotated[str | None, typer.Option("--repair-waits", metavar="WAIT=SECONDS,...", hidden=True)] = None,
) -> None:
    """Judge this node continuously: gates, metrics, state file."""

    def body() -> int:
        from nodeprep.cli.daemon import agent_command as command
        from nodeprep.cli.kubernetes_access import ClusterOptions

        cluster = ClusterOptions(kubeconfig, context, node)
        return command.run(
            command.AgentOptions(
                config=config,
                config_by_rollout=config_by_rollout,
                host_root=host_root,
                cluster=cluster,
                state_dir=state_dir,
                run_dir=run_dir,
                socket_dir=socket_dir,
                bind=bind,
                port=port,
                repair_waits=repair_waits,
            )
        )

    program.end(body)


@app.command("wait-ready")
def wait_ready(
    *,
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            "-p",
            metavar="NAME",
            help="Profile whose gate it waits for.",
            autocompletion=options.complete_profile,
        ),
    ],
    stage: Annotated[
        str,
        typer.Option(
            "--stage",
            metavar="device|ready",
            help="Stage of the gate that must be open.",
            autocompletion=_complete_stage,
        ),
    ],
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="By default, no limit; 0: look once.")
    ] = None,
    run_dir: RunDir = None,
) -> None:
    """Wait until the agent has opened a profile's gate."""

    def body() -> int:
        from nodeprep.cli.daemon import wait_ready as command

        return command.run(profile, stage, timeout, run_dir)

    program.end(body)


@app.command()
def reset(
    *,
    host_root: HostRoot = None,
    socket_dir: SocketDir = None,
    inventory: Annotated[
        bool,
        typer.Option(
            "--inventory", help="Also forget the profiles that hardware chose, and the devices that the node had."
        ),
    ] = False,
) -> None:
    """Make the agent start over: it forgets the faults and passes of this node."""

    def body() -> int:
        from nodeprep.cli.daemon import reset as command

        return command.run(host_root, socket_dir, inventory=inventory)

    program.end(body)


ReportDir = Annotated[
    str, typer.Option("--directory", metavar="DIR", help="Where the report goes; the agent mounts it read-only.")
]
Once = Annotated[bool, typer.Option("--once", help="Write one report and end.")]


@app.command("kubelet-books")
def kubelet_books(
    *,
    host_root: HostRoot = None,
    directory: ReportDir = BOOKS_DIRECTORY,
    once: Once = False,
) -> None:
    """Tell the agent of this node what lies in the kubelet's directory of plugins.

    It runs in a pod of its own (daemonset/components/kubelet-books): whoever may connect to the kubelet's socket in
    that directory can register plugins, so the agent's pod does not mount it.
    """

    def body() -> int:
        from nodeprep.cli.daemon import reporter
        from nodeprep.facts.kubernetes import device_plugins as fact

        reporting = reporter.Reporting(
            lambda host: fact.REPORTED.content(fact.observe(host)), directory, fact.REPORT_NAME, fact.REPORT_SECONDS
        )
        return reporter.run(host_root, reporting, once=once)

    program.end(body)


@app.command("nvml")
def nvml(*, host_root: HostRoot = None, directory: ReportDir = NVML_DIRECTORY, once: Once = False) -> None:
    """Tell the agent of this node what NVIDIA's library says of its GPUs.

    It runs in a pod of its own (daemonset/components/nvml): a pod with the library does not start where the driver is
    broken, and then the agent must.
    """

    def body() -> int:
        from nodeprep.cli.daemon import reporter
        from nodeprep.facts.machine import nvml as fact

        reporting = reporter.Reporting(
            lambda host: fact.REPORTED.content(fact.of_library(host)), directory, fact.REPORT_NAME, fact.REPORT_SECONDS
        )
        return reporter.run(host_root, reporting, once=once)

    program.end(body)
