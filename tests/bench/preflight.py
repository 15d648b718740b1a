"""What `nodeprep preflight` costs on a large cluster, beside `kubectl get nodes,pods -A -o json`.

    python tests/bench/preflight.py [--nodes 1000] [--pods 5] [--runs 5]

The API server is real. Each Node has its agent's Lease and so many pods of 12 KB. Both commands take turns within one
run, so the ratio of their times holds on a noisy machine, and the seconds do not.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench import limits
from tests.bench.limits import Figure
from tests.bench.options import Options, whole
from tests.cluster import fleet
from tests.jobs import job_values
from tests.rigs.cluster import CannotStart, Cluster

NODEPREP = Path(sys.executable).with_name("nodeprep")
NODE_PADDING, POD_PADDING = 12_000, 11_000  # bytes of an annotation, in place of what real objects have
CPU_SECONDS, MEBIBYTES, RATIO = 2.0, 150, 1.3
JOB = job_values.kubeflow(
    "TFJob",
    "tfReplicaSpecs",
    {
        "PS": {"replicas": 4, "template": job_values.template(job_values.wanting(limits={"cpu": "1"}))},
        "Worker": {"replicas": 64, "template": job_values.template(job_values.wanting(limits={"nvidia.com/gpu": "8"}))},
    },
)


def enrol(cluster: Cluster, number: int, pods: int) -> None:
    name = f"node-{number:04d}"
    fleet.node(cluster, name, "Unhealthy" if number % 10 == 0 else "Ready")
    padding = {"metadata": {"annotations": {"pad": "x" * NODE_PADDING}}}
    assert cluster.call("PATCH", f"{fleet.NODES}/{name}", padding)[0] == 200
    room = {"status": {"allocatable": job_values.ROOM}}
    assert cluster.call("PATCH", f"{fleet.NODES}/{name}/status", room)[0] == 200
    one = job_values.wanting(limits={"cpu": "1", "memory": "1Gi"})
    for index in range(pods):
        metadata = {"name": f"{name}-{index}", "annotations": {"pad": "x" * POD_PADDING}}
        spec = {"nodeName": name, "containers": [one]}
        cluster.create("/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec})


def ran(cluster: Cluster, *command: str) -> tuple[float, float, float, int]:
    """Of a command: seconds, seconds of processor, MiB, and its exit code."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, env={**os.environ, **cluster.environment()}, stdout=out)
        _, status, used = os.wait4(process.pid, 0)
    took = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, process.returncode


def measure(count: int, pods: int, runs: int) -> int:
    with Cluster() as cluster, tempfile.TemporaryDirectory() as directory:
        cluster.namespace("nodeprep")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: enrol(cluster, number, pods), range(count)))
        manifest = Path(directory, "job.json")
        manifest.write_text(json.dumps(JOB))
        ours = (str(NODEPREP), "preflight", "-f", str(manifest), "-o", "json")
        theirs = (str(cluster.directory / "bin/kubectl"), "get", "nodes,pods", "-A", "-o", "json")
        mine, others = [], []
        for _ in range(runs):
            others.append(ran(cluster, *theirs))
            mine.append(ran(cluster, *ours))
    wall, cpu, memory = (statistics.median(one[part] for one in mine) for part in range(3))
    kubectl = statistics.median(one[0] for one in others)
    print(f"{count} Nodes with {pods} pods each, medians of {runs} in turn")
    print(f"nodeprep preflight    {wall:6.2f} s, {cpu:.2f} s of processor, {memory:.0f} MiB")
    print(f"kubectl get           {kubectl:6.2f} s, {statistics.median(one[1] for one in others):.2f} s of processor")
    print(f"ratio {wall / kubectl:.2f}")
    figures = (
        Figure("processor of nodeprep preflight", round(cpu, 2), most=CPU_SECONDS, unit="s"),
        Figure("memory of nodeprep preflight", round(memory), most=MEBIBYTES, unit="MiB"),
        Figure("its time in relation to kubectl's", round(wall / kubectl, 2), most=RATIO),
        Figure("exit codes that are not 1 (the kind is not there)", sum(one[3] != 1 for one in mine), most=0),
    )
    return limits.code(figures)


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--nodes", type=whole(1), default=1000)
    parser.add_argument("--pods", type=whole(1), default=5)
    parser.add_argument("--runs", type=whole(1), default=5)
    given = parser.parse_args()
    return measure(given.nodes, given.pods, given.runs)


if __name__ == "__main__":
    sys.exit(limits.ended(main, CannotStart))
