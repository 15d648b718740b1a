"""Programs of others beside the rig's API server: in its network namespace, and gone with the rig or with us."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.rigs.cluster import Cluster
from tests.rigs.cluster_setup import SERVER_PORT

SERVER = {"server": f"https://127.0.0.1:{SERVER_PORT}"}  # of a kubeconfig that is used in the cluster's namespace
TAIL = 3000  # characters


def start(cluster: Cluster, name: str, *command: str) -> None:
    """Starts it; its log is NAME.log in the cluster's directory. It may listen anywhere: only the rig sees it."""
    with log(cluster, name).open("ab") as file:
        words = cluster.inside("setpriv", "--pdeathsig", "KILL", *command)
        cluster.processes[name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file)


def serves(cluster: Cluster, name: str, holds: Callable[[], bool], what: str) -> None:
    """Waits until it `holds`.

    Raises:
        RuntimeError: a program of the cluster ended; with the end of its log.
        TimeoutError: it did not hold in time; with the end of the log of this one.
    """
    try:
        cluster.await_programs(holds, what)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{log(cluster, name).read_text(errors='replace')[-TAIL:]}") from None


def end(cluster: Cluster, name: str) -> None:
    process = cluster.processes.pop(name, None)
    if process is not None:
        process.kill()
        process.wait()


def log(cluster: Cluster, name: str) -> Path:
    return cluster.directory / f"{name}.log"
