"""Preflight against the real kube-scheduler: random clusters and pods over all that preflight claims to judge.

    python tests/rigs/agreement.py --draws 1000 --seed 7
    python tests/rigs/agreement.py --draws 200 --scheduler volcano

Each draw makes Nodes and pods on them, then places pods one by one. Before each, preflight says which Nodes can take
it. The scheduler's choice must be one of them, and the pod must stay Pending exactly if there is none. Which of them it
takes is the scheduler's business. Prints its seed, and each disagreement with all that is needed to look at it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from nodeprep.jobs import job_cluster, job_manifest, placement
from nodeprep.jobs.job_cluster import JobCluster
from nodeprep.jobs.job_manifest import DocumentError
from nodeprep.jobs.pod_template import VOLCANO
from tests.rigs import cluster as rig
from tests.rigs import cluster_setup, progress
from tests.rigs.agreement_draws import OVERHEAD, RUNTIME_CLASS, Draw
from tests.rigs.cluster import Cluster
from tests.rigs.volcano import VolcanoCluster
from tests.rigs.waiting import until

Object = dict[str, Any]

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "spec": {"minMember": 1, "queue": "default"},
}
VOLCANO_SECONDS = 2.0  # many of its periods, in which it has placed a pod that it can place
SETTLE_SECONDS = 0.02  # for an event that the scheduler has received and not handled
AGAIN = 4  # times that a pod is shown to a scheduler that may have looked at an older cluster


class Scheduled(Cluster):
    """An API server and the real kube-scheduler, without controllers: Nodes have no kubelet and nobody minds."""

    def start(self) -> None:
        super().start()
        server = {"server": f"https://127.0.0.1:{cluster_setup.SERVER_PORT}"}
        kubeconfig = self.kubeconfig(self.user("kube-scheduler"), server)
        self.spawn("kube-scheduler", *cluster_setup.scheduler_flags(kubeconfig))


class Agreement:
    """Counts what became of the pods, and keeps the disagreements."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.volcano = isinstance(cluster, VolcanoCluster)
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.disagreements: list[str] = []

    def run(self, draws: int) -> None:
        for number in range(draws):
            draw = Draw(random.Random(f"{self.seed}/{number}"), number, volcano=self.volcano)
            try:
                self.prepare(draw)
                for pod in draw.pods:
                    self.place(number, pod)
            finally:
                self.clear()
            if not (number + 1) % 100:
                progress.say(f"agreement: {number + 1} of {draws} draws, {len(self.disagreements)} disagreements")

    def prepare(self, draw: Draw) -> None:
        """Returns when the scheduler has seen all Nodes and pods: it has placed a pod on the Node that came last."""
        for node in (*draw.nodes, draw.marker):
            taints = node["spec"].pop("taints", [])
            self.cluster.create(NODES, node)
            # The API server adds a taint to a Node that is not Ready yet, and here nobody would remove it.
            self.request("PATCH", f"{NODES}/{node['metadata']['name']}", {"spec": {"taints": taints}})
        for pod in draw.bound:
            if self.made(pod) and "deleted" in pod["metadata"]["labels"]:
                self.request("DELETE", f"{PODS}/{pod['metadata']['name']}")
        assert self.made(draw.marking)
        path = f"{PODS}/{draw.marking['metadata']['name']}"
        until(lambda: self.request("GET", path)["spec"].get("nodeName"), "the scheduler has seen all Nodes")
        time.sleep(SETTLE_SECONDS)

    def place(self, number: int, pod: Object) -> None:
        expected, found = set[str](), ""
        if refused := self.refused(pod):
            if self.made(pod):
                told = {"seed": self.seed, "draw": number, "preflight": refused, "API server": "takes it"}
                self.disagreements.append(f"{json.dumps(told)}\n{json.dumps(pod)}")
            self.counts["refused by both"] += 1
            return
        for _ in range(AGAIN):
            expected = self.expected(pod)
            if not self.made(pod):
                self.counts["refused by the API server"] += 1
                return
            found = self.outcome(pod)
            if found or not expected:
                break
            self.gone(pod)
            time.sleep(10 * SETTLE_SECONDS)
        self.counts["bound" if found else "Pending"] += 1
        self.counts["several Nodes possible"] += len(expected) > 1
        if (found in expected) if found else not expected:
            if not found:
                self.gone(pod)
            return
        told = {"seed": self.seed, "draw": number, "preflight": sorted(expected), "scheduler": found or "Pending"}
        whole = {"pod": pod, "nodes": self.items(NODES), "pods": self.items(PODS)}
        self.disagreements.append(f"{json.dumps(told)}\n{json.dumps(whole)}")

    def refused(self, pod: Object) -> str:
        """Why preflight calls the manifest wrong; "" if it does not."""
        try:
            job_manifest.read([pod])
        except DocumentError as error:
            return str(error.error)
        return ""

    def expected(self, pod: Object) -> set[str]:
        """The Nodes that preflight takes for possible, from the same objects that the command reads."""
        nodes = map(job_cluster.node, self.items(NODES))
        bound = (one for one in map(job_cluster.pod, self.items(PODS)) if one is not None)
        jobs = job_manifest.read([pod]).jobs
        return set(placement.ask(jobs, JobCluster.of(nodes, bound))[0].roles[0].able)

    def made(self, pod: Object) -> bool:
        """Whether the API server took it. Its status is written too, if it has one."""
        name = pod["metadata"]["name"]
        if pod["spec"].get("schedulerName") == VOLCANO:
            self.cluster.create(GROUPS, {**GROUP, "metadata": {"name": name}})
        code, told = self.cluster.call("POST", PODS, pod)
        if code == 422:
            return False
        if code >= 300:
            raise RuntimeError(f"pod: {code} {told.get('message')}")
        if "status" in pod:
            self.request("PATCH", f"{PODS}/{pod['metadata']['name']}/status", {"status": pod["status"]})
        return True

    def outcome(self, pod: Object) -> str:
        """The Node that the scheduler chose, "" for none. Volcano does not say that of every pod: it has a while."""
        began = time.monotonic()
        path = f"{PODS}/{pod['metadata']['name']}"
        said: list[str] = []

        def decided() -> bool:
            told = self.cluster.call("GET", path)[1]
            conditions = told.get("status", {}).get("conditions") or []
            refused = any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)
            node = told["spec"].get("nodeName", "")
            late = self.volcano and time.monotonic() - began > VOLCANO_SECONDS
            if node or refused or late:
                said.append(node)
            return bool(said)

        until(decided, "the scheduler has decided")
        return said[-1]

    def gone(self, pod: Object) -> None:
        """Takes back a pod that waits, with its PodGroup."""
        self.request("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
        if self.volcano:
            self.cluster.call("DELETE", f"{GROUPS}/{pod['metadata']['name']}")

    def clear(self) -> None:
        if self.volcano:
            assert self.cluster.call("DELETE", GROUPS)[0] == 200
        for pod in self.items(PODS):
            name = pod["metadata"]["name"]
            if pod["metadata"].get("finalizers"):
                self.request("PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": None}})
            self.cluster.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        assert self.cluster.call("DELETE", NODES)[0] == 200

    def items(self, path: str) -> list[Object]:
        return list(self.request("GET", path)["items"])

    def request(self, method: str, path: str, body: object = None) -> Object:
        code, told = self.cluster.call(method, path, body)
        if code >= 300:
            raise RuntimeError(f"{method} {path}: {code} {told.get('message')}")
        return told


def agree(cluster: Cluster, draws: int, seed: int, say: Callable[[str], object] = print) -> Agreement:
    """Draws that many clusters; says what it found."""
    agreement = Agreement(cluster, seed)
    begun = time.monotonic()
    heavy = {"metadata": {"name": RUNTIME_CLASS}, "handler": "runc", "overhead": {"podFixed": OVERHEAD}}
    assert cluster.call("POST", "/apis/node.k8s.io/v1/runtimeclasses", heavy)[0] in (201, 409)
    what = f"--scheduler {VOLCANO}" if agreement.volcano else ""
    say(f"agreement: --draws {draws} --seed {seed} {what}".rstrip())
    agreement.run(draws)
    counts = ", ".join(f"{count} {what}" for what, count in sorted(agreement.counts.items()))
    say(f"{draws} draws in {time.monotonic() - begun:.0f} s: {counts}; {len(agreement.disagreements)} disagreements")
    for one in agreement.disagreements:
        say(one)
    return agreement


def main() -> int:
    parser = argparse.ArgumentParser(prog="agreement.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="by default, drawn anew")
    parser.add_argument("--scheduler", choices=("kube", VOLCANO), default="kube")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed

    def work() -> int:
        with VolcanoCluster() if arguments.scheduler == VOLCANO else Scheduled() as cluster:
            return 1 if agree(cluster, arguments.draws, seed).disagreements else 0

    return rig.ended(work)


if __name__ == "__main__":
    sys.exit(main())
