"""The agent's own pod after its runtime's limit was lifted, on a real kubelet and containerd.

containerd's limit is lowered and lifted at its process (prlimit), as a drop-in and a restart of its unit would. The pod
is one with the agent's labels. Its first process is not the agent: what counts is its limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from nodeprep.repair import agent_restart
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE
from tests.rigs.waiting import until

PODS = "/api/v1/namespaces/default/pods"
NAME = "nodeprep-x7k2p"
LOW_BYTES = 1 << 20
# In the node's namespaces, as root on the host.
PRELUDE = """
import json, resource, sys
from pathlib import Path
from nodeprep.config import remedy_files
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import cri_sandboxes
from nodeprep.facts.machine import limits
from nodeprep.repair import agent_restart, container_restart
from nodeprep.repair.container_restart import CriClient
from nodeprep.repair.run_outcome import RunEnd, RunOutcome
host = Host("/", live=True)
client = CriClient(host)
(agent,) = [one for one in client.running() if one.pod == "nodeprep-x7k2p"] or [None]
def tell(**told):
    print(json.dumps(told))
"""
SET_LIMIT = """
import os, resource, sys
from pathlib import Path
(pid,) = [int(one.parent.name) for one in Path("/proc").glob("[0-9]*/comm") if one.read_text() == "containerd\\n"]
soft, hard = resource.prlimit(pid, resource.RLIMIT_MEMLOCK)
resource.prlimit(pid, resource.RLIMIT_MEMLOCK, (int(sys.argv[1]) if sys.argv[1] != "hard" else hard, hard))
"""
SHOW = (
    PRELUDE
    + """
tell(sandbox=agent.sandbox, uid=agent.pod_uid, limits=limits.locked_memory_of(host.files, agent.id))
"""
)
STOP_CONTAINER = PRELUDE + "tell(stopped=str(container_restart.stop(client, agent)))"
AFTER = (
    PRELUDE
    + """
lines = []
memlock = remedy_files.headers()["memlock"]
outcome = agent_restart.after(host, memlock, RunOutcome(RunEnd.DONE, 0.0, changed=3), 120.0, lines.append)
told = [f"{line.result} {line.task}" for line in lines]
tell(end=outcome.end, changed=outcome.changed, message=outcome.message, lines=told)
"""
)


def on(node: Node, program: str, *words: str) -> dict[str, Any]:
    command = (*node.entering(), sys.executable, "-c", program, *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout or "{}")
    return told


def running(cluster: Cluster, restarts: int = 0) -> bool:
    found = cluster.call("GET", f"{PODS}/{NAME}")[1].get("status", {}).get("containerStatuses") or [{}]
    return all(one.get("ready") and one["restartCount"] >= restarts for one in found)


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Node:
    """A node whose containerd was lifted after it had made the agent's pod."""
    node = cluster.nodes["n1"]
    on(node, SET_LIMIT, str(LOW_BYTES))
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "agent", "image": BASE, "imagePullPolicy": "Never"}],
        "terminationGracePeriodSeconds": 0,
        "hostNetwork": True,
        "tolerations": [{"operator": "Exists"}],
    }
    labels = dict(agent_restart.AGENT_LABELS)
    cluster.create(
        PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "labels": labels}, "spec": spec}
    )
    until(lambda: running(cluster), f"{NAME} runs", 120.0)
    on(node, SET_LIMIT, "hard")
    return node


def test_a_container_alone_comes_back_with_the_former_limit(cluster: Cluster, node: Node) -> None:
    """So it is the sandbox that has to go."""
    before = on(node, SHOW)
    assert before["limits"] == [LOW_BYTES]
    assert on(node, STOP_CONTAINER) == {"stopped": "True"}
    until(lambda: running(cluster, 1), "the kubelet started it again", 120.0)
    assert on(node, SHOW) == before


def test_the_pod_gets_a_new_sandbox_with_the_limit_of_now(cluster: Cluster, node: Node) -> None:
    before = on(node, SHOW)
    told = on(node, AFTER)
    assert told == {
        "end": "done",
        "changed": 4,
        "message": "",
        "lines": [f"changed Stop the agent's pod default/{NAME}, which keeps the former limit"],
    }
    after = on(node, SHOW)
    assert after["uid"] == before["uid"]
    assert after["sandbox"] != before["sandbox"]
    assert after["limits"] != [LOW_BYTES]
    until(lambda: running(cluster, 1), "its pod runs", 120.0)
