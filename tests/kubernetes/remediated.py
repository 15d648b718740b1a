"""The remediator of a node of the rig, asked from inside the agent's container, as whoever took the agent over can."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import nodeprep
from tests.kubernetes import shipped
from tests.kubernetes.shipped import Object
from tests.rigs.cluster import Cluster, Node
from tests.rigs.guest import Guest
from tests.rigs.waiting import SECONDS, until

PYTHON = "/usr/bin/python3.11"
SOCKET = "/run/nodeprep-remediator/remediator.sock"
LEDGER = "/var/lib/nodeprep-remediator/history.jsonl"
HELLO = {"hello": {"version": nodeprep.__version__}}
REPAIR = "repair"  # its component
# Sends lines on one connection, and prints what each is answered with. It imports nothing of ours.
TALK = """
import json, socket, sys
told = []
with socket.socket(socket.AF_UNIX) as peer:
    peer.settimeout(600)
    peer.connect(sys.argv[1])
    with peer.makefile("rwb") as lines:
        for line in json.loads(sys.argv[2]):
            lines.write(json.dumps(line).encode() + b"\\n")
            lines.flush()
            told.append(json.loads(lines.readline()))
print(json.dumps(told))
"""
DAEMONSETS = ("nodeprep", "nodeprep-remediator")


def installed(cluster: Cluster, image: Callable[[str], Path], manifests: Path, seconds: float = SECONDS) -> None:
    """Both DaemonSets from manifests with components/repair, Ready on each node."""
    for kind in ("good", REPAIR):
        shipped.load(cluster, image(kind))
    cluster.apply(manifests)
    rolled_out(cluster, seconds)


def rolled_out(cluster: Cluster, seconds: float = SECONDS) -> None:
    for name in DAEMONSETS:
        cluster.kubectl("-n", "nodeprep", "rollout", "status", f"daemonset/{name}", f"--timeout={seconds:g}s")


def in_agent(cluster: Cluster, node: Node | Guest, script: str, *words: str) -> Any:
    """What a script prints that runs with the Python of the agent's container of a node."""
    name = shipped.agents(cluster)[node.name]["metadata"]["name"]
    return json.loads(cluster.kubectl("-n", "nodeprep", "exec", name, "--", PYTHON, "-I", "-c", script, *words))


def in_remediator(cluster: Cluster, node: Node | Guest, *command: str) -> str:
    """What a command prints that runs in the remediator's container of a node."""
    name = shipped.agents(cluster, REPAIR)[node.name]["metadata"]["name"]
    return cluster.kubectl("-n", "nodeprep", "exec", name, "--", *command)


def asked(cluster: Cluster, node: Node | Guest, *requests: object) -> list[Object]:
    """The answers to requests on one connection."""
    return list(in_agent(cluster, node, TALK, SOCKET, json.dumps(requests)))


def answers(cluster: Cluster, node: Node | Guest) -> bool:
    """Whether its remediator takes connections: its container runs before it does."""
    with suppress(RuntimeError):
        return bool(asked(cluster, node, HELLO))
    return False


def request(attempt: str, remedy: str, *, check: bool = False, seconds: float = 100.0, **args: str) -> Object:
    return {"run": {"attempt": attempt, "remedy": remedy, "args": args, "check": check, "deadline": seconds}}


def ended(cluster: Cluster, node: Node | Guest, attempt: str, seconds: float = SECONDS) -> Object:
    """The status of an attempt when it has ended."""
    told: Object = {}

    def is_over() -> bool:
        told.update(asked(cluster, node, {"status": {"attempt": attempt}})[0])
        return bool(told["status"] != "running")

    until(is_over, "the end of the attempt", seconds)
    return told


def ran(
    cluster: Cluster, node: Node | Guest, remedy: str, *, check: bool = False, wait: float = 240.0, **args: str
) -> Object:
    """How a new attempt ended. One that did not begin is told as it was refused."""
    attempt = uuid4().hex
    _, told = asked(cluster, node, HELLO, request(attempt, remedy, check=check, seconds=min(wait, 600.0), **args))
    if told == {"status": "running"}:
        told = ended(cluster, node, attempt, wait)
    print(f"{remedy} {args}: {told}")
    return told


def records(node: Node | Guest) -> list[Object]:
    """The lines of the remediator's ledger."""
    return [json.loads(line) for line in node.run("cat", LEDGER).splitlines()]


def restarts(cluster: Cluster, node: Node | Guest) -> int:
    """How often the kubelet has started the remediator's container again."""
    return int(shipped.container(shipped.agents(cluster, REPAIR)[node.name])["restartCount"])
