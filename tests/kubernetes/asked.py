"""What an operator asks the fleet and its pods, with the exit code of each answer."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import jsonschema

from tests.cli.program import nodeprep
from tests.kubernetes.shipped import Object, container
from tests.rigs.cluster import Cluster, Node
from tests.rigs.ending import ending
from tests.rigs.images import REPOSITORY
from tests.rigs.waiting import until

COULD_NOT_LOOK = 3  # exit code
WHY = Path(__file__).parents[2] / "docs/why.schema.json"


def looked(ask: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Exit code and words of a command of ours; it is asked again while it says that it could not look.

    It waits for no fact longer than a few seconds, and this machine may stand still for as long.
    """
    end = time.monotonic() + 60
    while (told := ask())[0] == COULD_NOT_LOOK and time.monotonic() < end:
        time.sleep(0.5)
    return told


def check(cluster: Cluster, pod: str, *words: str) -> tuple[int, str]:
    """`kubectl exec POD -- nodeprep check`: its exit code and what it prints."""
    argv = (str(cluster.directory / "bin/kubectl"), "-n", "nodeprep", "exec", pod, "--", "nodeprep", "check", *words)
    environment = {**os.environ, **cluster.environment()}

    def ask() -> tuple[int, str]:
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        return done.returncode, done.stdout

    return looked(ask)


def nodes(cluster: Cluster, *words: str) -> tuple[int, str]:
    """Exit code and words of `nodeprep nodes`."""

    def ask() -> tuple[int, str]:
        done = nodeprep("nodes", *words, KUBECONFIG=str(cluster.kubeconfig()))
        return done.returncode, done.stdout + done.stderr

    return looked(ask)


def why(cluster: Cluster, what: str, *words: str, code: int = 0) -> Object:
    """What `nodeprep why` says, by its schema; what a terminal shows is printed."""
    done = nodeprep("why", what, *words, "-o", "json", KUBECONFIG=str(cluster.kubeconfig()))
    assert done.returncode == code, done.stdout + done.stderr
    print(nodeprep("why", what, *words, KUBECONFIG=str(cluster.kubeconfig())).stdout)
    said: Object = json.loads(done.stdout)
    jsonschema.validate(said, json.loads(WHY.read_text()), cls=jsonschema.Draft202012Validator)
    return said


def debug(cluster: Cluster, node: Node) -> tuple[int, str]:
    """README's first command for a cluster: the exit code of its pod's container, and what a terminal shows."""
    return looked(lambda: _debugged(cluster, node))


def _debugged(cluster: Cluster, node: Node) -> tuple[int, str]:
    words = ["debug", f"node/{node.name}", "-it", f"--image={REPOSITORY}:dev", "--profile=sysadmin"]
    command = [str(cluster.directory / "bin/kubectl"), *words, "--", "nodeprep", "check"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, **cluster.environment(), "TERM": "xterm"}
    with ending(subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)) as shown:
        os.close(theirs)
        text = b""
        with suppress(OSError):  # EIO: the other end is closed
            while part := os.read(ours, 65536):
                text += part
        os.close(ours)
        assert shown.wait(30) == 0, text.decode()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.decode()).replace("\r", "")
    return int(_ended(cluster)["exitCode"]), plain


def _ended(cluster: Cluster) -> Object:
    """The end of the only debug pod, which is removed."""
    path = "/api/v1/namespaces/default/pods"
    (pod,) = cluster.call("GET", path)[1]["items"]
    where = f"{path}/{pod['metadata']['name']}"
    ended = until(lambda: container(cluster.call("GET", where)[1])["state"].get("terminated"), "it ended")
    assert cluster.call("DELETE", f"{where}?gracePeriodSeconds=0")[0] == 200
    until(lambda: not cluster.call("GET", path)[1]["items"], "no debug pod")
    return dict(ended)
