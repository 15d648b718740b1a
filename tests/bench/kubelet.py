"""What it costs to ask the kubelet: what the gRPC door imports, and the processor time of the facts in a minute.

    python tests/bench/kubelet.py [--looks N]

The server is h2's in another process: it stands for a kubelet of 60 pods, 8 of which hold a GPU and 16 RDMA devices. A
second one has a plugin that advertises 1,000 shared devices. A pod of the agent is measured, which asks no runtime.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import allocatable_devices, kubelet, pod_resources
from tests.bench import limits
from tests.bench.limits import Figure
from tests.bench.options import Options, whole
from tests.kubelet_values import GPU, answer, container, plugin_devices, pod_devices
from tests.rigs.grpc_server import serving

HCA = "rdma/hca_shared_devices"
IMPORTS = """
import time
import nodeprep.agent.loop, nodeprep.facts, nodeprep.doors.grpc.grpc_socket, nodeprep.doors.http.exchange
import nodeprep.doors.http.loopback, nodeprep.publish.metrics, ssl
def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
before, began = resident(), time.process_time()
import nodeprep.doors.grpc.unary
print((time.process_time() - began) * 1e3, resident() - before)
"""
PER_MINUTE = {"kubelet": 60 / kubelet.FACT.every, "allocatable": 60 / allocatable_devices.FACT.every}
MOST_IMPORT_MS, MOST_IMPORT_MIB = 25.0, 2.0
MOST_PERCENT = 0.01  # of a processor
MOST_PERCENT_SHARED = 0.03  # with 1,000 shared devices


def answers(shared: int) -> dict[str, bytes]:
    """A kubelet's answers, with so many shared RDMA devices."""
    held = [container("train", plugin_devices(GPU, [f"GPU-{one:036}"], one // 4), *_hca(one)) for one in range(8)]
    pods = [pod_devices("jobs", f"worker-{one}", held[one]) for one in range(8)]
    pods += [pod_devices("kube-system", f"daemon-{one}", container("main")) for one in range(52)]
    devices = [plugin_devices(GPU, [f"GPU-{one:036}"], one // 4) for one in range(8)]
    devices += [plugin_devices(HCA, [str(one)], one % 2) for one in range(shared)]
    return {pod_resources.LIST: answer(*pods), pod_resources.ALLOCATABLE: answer(*devices)}


def _hca(pod: int) -> Iterator[bytes]:
    return (plugin_devices(HCA, [str(2 * pod + one)], pod // 4) for one in range(2))


@contextmanager
def node(root: Path, shared: int) -> Iterator[Host]:
    """A pod's view of a node whose kubelet runs in a process of its own."""
    (root / "proc/1").mkdir(parents=True)
    (root / "proc/1/mountinfo").touch()
    with serving_pods(root, shared):
        yield Host(str(root))


@contextmanager
def serving_pods(root: Path, shared: int) -> Iterator[None]:
    """A kubelet in a process of its own serves its PodResources socket below this root."""
    socket = root / kubelet.SOCKET.lstrip("/")
    socket.parent.mkdir(parents=True)
    server = os.fork()
    if server == 0:
        with serving(socket, answers(shared)):
            signal.pause()
    try:
        while not socket.exists():
            time.sleep(0.01)
        yield
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


def milliseconds(host: Host, looks: int) -> dict[str, float]:
    """Processor time of one observation of each fact; the first imports and is not counted."""
    found: dict[str, float] = {}
    for name, observe in (("kubelet", kubelet.observe), ("allocatable", allocatable_devices.observe)):
        observe(host)
        began = time.process_time()
        for _ in range(looks):
            observe(host)
        found[name] = (time.process_time() - began) / looks * 1e3
    return found


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("--looks", type=whole(2), default=200)
    looks = parser.parse_args().looks
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    took, memory = map(float, done.stdout.split())
    print(f"h2 on top of the agent: {took:.1f} ms, {memory:.1f} MiB")
    figures = [
        Figure("import of h2", took, most=MOST_IMPORT_MS, unit="ms"),
        Figure("memory of h2", memory, most=MOST_IMPORT_MIB, unit="MiB"),
    ]
    for shared, most in ((16, MOST_PERCENT), (1000, MOST_PERCENT_SHARED)):
        with tempfile.TemporaryDirectory(prefix="nodeprep-bench-") as scratch, node(Path(scratch), shared) as host:
            found = milliseconds(host, looks)
        minute = sum(PER_MINUTE[name] * one for name, one in found.items())
        each = ", ".join(f"{name} {one:.2f} ms" for name, one in found.items())
        print(f"{shared} shared devices: {each}; {minute:.1f} ms a minute, {minute / 600:.4f} % of a processor")
        figures.append(Figure(f"facts of {shared} shared devices", minute / 600, most=most, unit="%"))
    return limits.code(figures)


if __name__ == "__main__":
    sys.exit(limits.ended(main))
