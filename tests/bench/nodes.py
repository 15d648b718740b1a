"""How long `nodeprep nodes` takes over a large fleet, beside `kubectl get nodes`.

    python tests/bench/nodes.py [--nodes 1000] [--runs 5]

The API server is real. Each Node has its agent's Lease and three pods, and is padded to the 15 KB of a cloud's Node.
Both commands take turns within one run, so the ratio holds on a noisy machine, and the seconds do not. They have no
limit, but each command must list every Node.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench import limits
from tests.bench.limits import Figure
from tests.bench.options import Options, whole
from tests.cluster import fleet
from tests.rigs.cluster import CannotStart, Cluster

NODEPREP = Path(sys.executable).with_name("nodeprep")
PADDING = 14_000  # bytes of an annotation, in place of the images, volumes and managed fields of a real Node
PODS = 3
POD = {"serviceAccountName": "default", "containers": [{"name": "main", "image": "none"}]}


def enrol(cluster: Cluster, number: int) -> None:
    name = f"node-{number:04d}"
    fleet.node(cluster, name)
    code, told = cluster.call("PATCH", f"{fleet.NODES}/{name}", {"metadata": {"annotations": {"pad": "x" * PADDING}}})
    assert code == 200, told
    for one in range(PODS):
        spec = {**POD, "nodeName": name}
        cluster.create("/api/v1/namespaces/default/pods", {"metadata": {"name": f"{name}-{one}"}, "spec": spec})


def listed(cluster: Cluster, *command: str) -> tuple[float, int]:
    """The seconds of a command, and the number of Nodes that it lists."""
    began = time.monotonic()
    environment = {**os.environ, **cluster.environment()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    if done.returncode:
        limits.complain(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return took, len(set(re.findall(r"^node-\d+\b", done.stdout, re.MULTILINE)))


def measure(count: int, runs: int) -> int:
    with Cluster() as cluster:
        cluster.create("/api/v1/namespaces", {"metadata": {"name": "nodeprep"}})
        account = {"metadata": {"name": "default"}}
        code, told = cluster.call("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        assert code in (201, 409), told
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: enrol(cluster, number), range(count)))
        commands = {
            "nodeprep nodes": (str(NODEPREP), "nodes"),
            "kubectl get nodes": (str(cluster.directory / "bin/kubectl"), "get", "nodes"),
        }
        took: dict[str, list[float]] = {name: [] for name in commands}
        fewest = dict.fromkeys(commands, count)
        for _ in range(runs):
            for name, command in commands.items():
                seconds, nodes = listed(cluster, *command)
                took[name].append(seconds)
                fewest[name] = min(fewest[name], nodes)
    print(f"{count} Nodes with {PODS} pods each, medians of {runs} in turn")
    for name, times in took.items():
        print(f"{name:18} {statistics.median(times):6.2f} s")
    ours, theirs = (statistics.median(times) for times in took.values())
    print(f"ratio {ours / theirs:.1f}")
    return limits.code(Figure(f"Nodes that {name} lists", nodes, least=count) for name, nodes in fewest.items())


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--nodes", type=whole(1), default=1000)
    parser.add_argument("--runs", type=whole(1), default=5)
    given = parser.parse_args()
    return measure(given.nodes, given.runs)


if __name__ == "__main__":
    sys.exit(limits.ended(main, CannotStart))
