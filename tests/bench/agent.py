"""How fast the agent notices and decides, and what it costs: on an ECS node in namespaces, and on a tree with 8 NICs.

    python tests/bench/agent.py latency [--flaps N]      # link down -> first look, decision, gate file gone
    python tests/bench/agent.py memory [--rounds N]      # resident memory over many whole rounds
    python tests/bench/agent.py cpu [--minutes N]        # CPU at default periods, every event source open
    python tests/bench/agent.py cpu --beside CHECKOUT    # the same, and of another checkout's agent in the same minutes
    python tests/bench/agent.py gpu [--minutes N]        # what GPUs and a kubelet add to CPU and memory

`latency` sets down the link of an ENI of the netns rig. Convictions have their defaults. Releases are made short for
the next flap (printed). Times are CLOCK_BOOTTIME of one machine. `memory` and `cpu` run the agent over a built tree as
its host. CPU is that of the process and its children from /proc.
"""

from __future__ import annotations

import argparse
import fcntl
import ipaddress
import json
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.bench import kubelet, limits
from tests.bench.limits import Figure, latencies, quantiles
from tests.bench.options import Options, decimal, whole
from tests.bench.whole_rounds import resident
from tests.rigs import trees
from tests.rigs.netns import Node
from tests.rigs.netns_node import Shape, Unavailable

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
LINK = "eth1"
# Short, so that a flap a few seconds later counts.
RELEASE = {"passes": 3, "pass-span": 1, "pass-every": 0.5, "flap-window": 1}
PROFILE = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: bench\ngates: [eni.up]\n"
# The facts of a tree: its netdevs are not those of the kernel, which netlink asks.
TREE_PROFILE = """
apiVersion: nodeprep.io/v1
kind: Profile
name: tree
gates: [pci.expected-nic, pci.driver-bound, module.core, rdma.verbs-class, port.present, port.rate, counter.transport]
"""
HEAD = {"apiVersion": "nodeprep.io/v1", "kind": "Config"}
CONFIG = {**HEAD, "mode": "gate", "default": "./bench.yaml", "gate": {"profiles": ["*"]}}
FIRST_LOOK, DECISION = 0.050, 0.8  # seconds, p99 (issue 5)
MEMORY, CPU = 40.0, 0.06  # MiB and % of a core (issue 12)
GPU_MEMORY, GPU_CPU = 2.75, 0.02  # MiB and % of a core more than without GPUs (docs/adr/0043)
# What makes a tree one with GPUs, and the devices that the plugin of a kubelet shares.
GPU_PARTS = ("proc/driver/nvidia", "sys/module/nvidia*", "dev/nvidia*")
SHARED = 16
HEALTHZ = """
import ctypes, http.server, signal
class Fine(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *_): pass
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
http.server.HTTPServer(("127.0.0.1", 10248), Fine).serve_forever()
"""
INSTALLED = """
import runpy, sys
sys.modules["typing_extensions"] = None
sys.argv[:] = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
BEGIN = 150  # seconds, after which bootstrap is over and rates have stood still for their windows
ROUNDS = 500  # after which MEMORY holds
STEADY, SLOPE = 20_000, 1.0  # rounds after which each leaves at most so many blocks of Python behind
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
LONG = 60.0
MEMORY_FILES = Path("/dev/shm")


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def set_link(name: str, *, up: bool) -> float:
    """Set a link up or down by ioctl, without a start of a program. Returns the time of the request."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        request = struct.pack("16sH14x", name.encode(), 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(asker, SIOCGIFFLAGS, request))[1]
        flags = flags | IFF_UP if up else flags & ~IFF_UP
        at = boottime()
        fcntl.ioctl(asker, SIOCSIFFLAGS, struct.pack("16sH14x", name.encode(), flags))
    return at


def noting(arguments: list[str]) -> int:
    """Run the agent, with each round's outcome as a line of JSON on stdout."""
    from nodeprep.cli.daemon import agent_command
    from nodeprep.cli.daemon.agent_command import AgentOptions
    from nodeprep.model import Status
    from nodeprep.publish.node_status import NodeStatus

    def note(status: NodeStatus) -> None:
        failing = any(one.check == "eni.up" and one.status is Status.FAIL for one in status.report.findings)
        convicted = any(one.check == "eni.up" and one.convicted for one in status.agent_state.cases)
        line = {"at": boottime(), "failing": failing, "convicted": convicted, "state": status.agent_state.state}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    config, place = arguments
    state, gates, socket = (f"{place}/{name}" for name in ("state", "run", "socket"))
    return agent_command.run(
        AgentOptions(config=config, state_dir=state, run_dir=gates, socket_dir=socket, port=0), (note,)
    )


class Watched:
    """The agent as a process; its rounds as they come."""

    def __init__(self, directory: Path) -> None:
        self.gate = directory / "run" / "bench.ready"
        (directory / "bench.yaml").write_text(PROFILE)
        config = directory / "config.yaml"
        config.write_text(json.dumps(CONFIG | {"confirmation": RELEASE}))
        argv = [sys.executable, __file__, "noting", str(config), str(directory)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, stderr=(directory / "log").open("w"))
        self.rounds: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.rounds.append(json.loads(line))

    def first(self, since: float, what: str) -> float:
        """The time of the first round after `since` that said `what`."""
        end = boottime() + LONG
        while boottime() < end:
            for one in tuple(self.rounds):
                if one["at"] > since and one[what]:
                    return float(one["at"])
            time.sleep(0.001)
        raise TimeoutError(f"no round was {what} within {LONG:g} s")

    def gate_is(self, *, there: bool) -> float:
        end = boottime() + LONG
        while self.gate.exists() is not there:
            if boottime() > end or self.process.poll() is not None:
                raise TimeoutError(f"{self.gate} is {'not ' if there else ''}there after {LONG:g} s")
            time.sleep(0.0005)
        return boottime()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def flaps(count: int) -> int:
    """Within the rig: set a link down and up again, and measure when the agent reacts."""
    looks, decisions, closed = [], [], []
    with tempfile.TemporaryDirectory() as place:
        agent = Watched(Path(place))
        try:
            agent.gate_is(there=True)
            for number in range(count + 1):
                time.sleep(3.0)  # after the storm's second and duplicate address detection
                down = set_link(LINK, up=False)
                gone = agent.gate_is(there=False)
                look, decision = agent.first(down, "failing"), agent.first(down, "convicted")
                if number:  # the first one warms caches
                    looks.append(look - down)
                    decisions.append(decision - down)
                    closed.append(gone - down)
                set_link(LINK, up=True)
                agent.gate_is(there=True)
                agent.rounds.clear()
        finally:
            agent.stop()
    figures: list[Figure] = []
    print(f"{count} flaps of {LINK}; confirmation as it is by default, but {json.dumps(RELEASE)} for releases")
    for name, took, limit in (
        ("first look", looks, FIRST_LOOK),
        ("decision", decisions, DECISION),
        ("gate file gone", closed, DECISION),
    ):
        print(f"link down -> {name:15} {quantiles(took)}  limit of p99 {limit * 1e3:.0f} ms")
        figures += latencies(f"link down -> {name}", took, limit)
    return limits.code(figures)


def latency(count: int) -> int:
    with Node(Shape(enis=1, pods=2)) as node:
        done = node.run("python", __file__, "flaps", str(count), check=False)
        print(done.stdout, end="")
        print(done.stderr, end="", file=sys.stderr)
        return done.returncode


@contextmanager
def host() -> Iterator[Path]:
    """A tree with 8 NICs, 4 front-end ports and 8 GPUs. It has this boot's id, so it counts as live.

    It lies in memory, as sysfs does: the figures include no disk.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY_FILES if MEMORY_FILES.is_dir() else None) as place:
        root = trees.build("h100-roce", Path(place) / "host")
        boot = root / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True, exist_ok=True)
        boot.write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
        (root / "proc/1").mkdir(parents=True, exist_ok=True)
        (root / "proc/1/stat").write_text("1 (init) S 0 1 1 0 -1\n")
        yield root


def installed(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as on a node, where only requirements.lock is installed.

    msgspec loads typing_extensions where it finds it: 1.5 MiB. Here it is, for mypy needs it.
    """
    return [sys.executable, "-c", INSTALLED, module, *arguments]


def memory(count: int) -> int:
    """What whole rounds leave behind.

    Resident memory grows by arenas of a MiB, so growth is told by the blocks that Python has allocated. Their number
    rises and falls, so the least of the last third is held against the least of the third before.
    """
    with host() as root, tempfile.TemporaryDirectory() as place:
        rounds = installed("tests.bench.whole_rounds", str(count), str(root), place)
        command = beside_nics(root, rounds)
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    for one in told:
        print(f"  round {one['round']:6}: {one['resident']:.1f} MiB, {one['blocks']} blocks")
    third = len(told) // 3
    middle, last = (min(one["blocks"] for one in part) for part in (told[-2 * third : -third], told[-third:]))
    slope = (last - middle) / (count / 3)
    size = told[-1]["resident"]
    print(f"after {count} rounds {size:.1f} MiB resident; {slope:.2f} blocks more with each round")
    print(f"limit {MEMORY:.0f} MiB; from {STEADY} rounds on, {SLOPE:g} blocks with each round")
    figures = [Figure("resident memory", size, most=MEMORY, unit="MiB")]
    if count >= STEADY:
        figures.append(Figure("growth of the memory", slope, most=SLOPE, unit="blocks with each round"))
    return limits.code(figures)


def used(pid: int) -> float:
    """CPU seconds of a process with all its threads, those that ended too.

    The clock of another process counts nanoseconds (clock_getcpuclockid(3)); /proc/PID/stat counts 10 ms.
    """
    return time.clock_gettime((~pid << 3) | 2)


def nics(root: Path) -> str:
    """Shell commands that make the tree's NICs and the addresses of their GIDs in a network namespace.

    The agent asks the kernel for links and addresses. With those of this machine it would find faults in the tree, and
    a node with a fault costs more. An ifb has a carrier without a peer.
    """
    commands = ["set -e", "ip link set lo up"]
    for mac in sorted((root / "sys/class/net").glob("e*/address")):
        name, mtu = mac.parent.name, (mac.parent / "mtu").read_text().strip()
        commands.append(f"ip link add {name} address {mac.read_text().strip()} mtu {mtu} up type ifb")
    for kind in sorted((root / "sys/class/infiniband").glob("*/ports/1/gid_attrs/ndevs/*")):
        gid = ipaddress.ip_address((kind.parents[2] / "gids" / kind.name).read_text().strip())
        if isinstance(gid, ipaddress.IPv6Address) and gid.ipv4_mapped:
            commands.append(f"ip address add {gid.ipv4_mapped}/24 dev {kind.read_text().strip()}")
    return "\n".join(commands)


def beside_nics(root: Path, command: list[str]) -> list[str]:
    """The command in a network namespace with the tree's NICs."""
    return ["unshare", "--net", "sh", "-c", f'{nics(root)}\nexec "$@"', "sh", *command]


@contextmanager
def idle(root: Path, place: Path, beside: str = "", checkout: Path = REPOSITORY) -> Iterator[int]:
    """An agent for which nothing happens, at default periods; its process id, once the gate of this tree is open.

    `beside` is a program in Python that runs in the same network namespace, and ends with the agent. The agent is that
    of `checkout`.
    """
    place.mkdir(exist_ok=True)
    (place / "tree.yaml").write_text(TREE_PROFILE)
    config = place / "config.yaml"
    config.write_text(json.dumps(CONFIG | {"default": "./tree.yaml"}))
    options = ["--config", str(config), "--host-root", str(root), "--port", "0"]
    directories = [word for name in ("state", "run", "socket") for word in (f"--{name}-dir", f"{place}/{name}")]
    command = ["env", f"PYTHONPATH={checkout}/agent", *installed("nodeprep", "agent", *options, *directories)]
    log = place / "log"
    if beside:
        command = ["sh", "-c", '"$0" -c "$1" & shift; exec "$@"', sys.executable, beside, *command]
    process = subprocess.Popen(beside_nics(root, command), stderr=log.open("w"), text=True)
    try:
        time.sleep(BEGIN)
        if not (place / "run" / "tree.ready").exists():
            raise TimeoutError(f"not ready within {BEGIN} s, as a node is for most of its life: {log.read_text()}")
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def cpu(minutes: float, other: Path | None = None) -> int:
    """The CPU of an agent for which nothing happens.

    An idle agent works with cold caches: the same code took 0.06 and 0.11 % within an hour on a virtual machine with
    neighbours. So the least of the minutes is the figure, as `timeit` has it; what others take is not ours. What a
    change costs is told by an agent without it in the same minutes, that of the checkout `other`.
    """
    checkouts = [REPOSITORY] if other is None else [REPOSITORY, other]
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pool = stack.enter_context(ThreadPoolExecutor(len(checkouts)))
        agents = [
            idle(stack.enter_context(host()), place / str(number), checkout=one) for number, one in enumerate(checkouts)
        ]
        pids = list(pool.map(stack.enter_context, agents))
        took = [list(pool.map(minute, pids)) for _ in range(round(minutes))]
        size, threads = resident(pids[0]), len(list(Path(f"/proc/{pids[0]}/task").iterdir()))
    for one, percents in zip(checkouts, zip(*took, strict=True), strict=True):
        each = ", ".join(f"{percent:.3f}" for percent in percents)
        words = "" if one is REPOSITORY else f": {one}"
        print(f"{min(percents):.3f} % of a core in the least of {len(took)} minutes at default periods ({each}){words}")
    if other is not None:
        print(f"{statistics.median(own / its for own, its in took):.2f} times that of {other} in the median minute")
    print(f"limit {CPU} %; {size:.1f} MiB resident, {threads} threads")
    least = min(own for own, *_ in took)
    return limits.code([Figure("CPU at default periods", least, most=CPU, unit="% of a core")])


def gpu(minutes: float) -> int:
    """What GPUs, their driver and a kubelet cost: two agents in the same minutes, one on a node that lacks them.

    The kubelet is h2's server in a process of its own, with 60 pods (tests/bench/kubelet.py).
    """
    with host() as bare, host() as full, tempfile.TemporaryDirectory() as place:
        for name in GPU_PARTS:
            for path in bare.glob(name):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        with ExitStack() as stack:
            stack.enter_context(kubelet.serving_pods(full, SHARED))
            pool = stack.enter_context(ThreadPoolExecutor(2))
            agents = [idle(bare, Path(place) / "bare"), idle(full, Path(place) / "full", HEALTHZ)]
            pids = list(pool.map(stack.enter_context, agents))
            took = [list(pool.map(minute, pids)) for _ in range(round(minutes))]
            sizes = [resident(pid) for pid in pids]
    for name, percents, size in zip(("neither", "GPUs and a kubelet"), zip(*took, strict=True), sizes, strict=True):
        each = ", ".join(f"{one:.3f}" for one in percents)
        print(f"{name:20} {min(percents):.3f} % of a core in the least of {len(took)} minutes ({each}), {size:.1f} MiB")
    # Neighbours cost both agents the same in the same minute.
    more, memory = statistics.median(full - bare for bare, full in took), sizes[1] - sizes[0]
    print(f"GPUs and a kubelet cost {more:+.3f} % in the median minute and {memory:+.1f} MiB")
    print(f"limits {GPU_CPU} % and {GPU_MEMORY:g} MiB")
    figures = [Figure("CPU for GPUs and a kubelet", more, most=GPU_CPU, unit="% of a core")]
    return limits.code([*figures, Figure("memory for GPUs and a kubelet", memory, most=GPU_MEMORY, unit="MiB")])


def minute(pid: int) -> float:
    """% of a core that a process takes in a minute, in which each fact is due at least once."""
    before, began = used(pid), time.monotonic()
    time.sleep(60)
    return (used(pid) - before) / (time.monotonic() - began) * 100


def checkout(path: str) -> Path:
    """The value of --beside. Raises argparse.ArgumentTypeError."""
    if not (Path(path) / "agent/nodeprep/__main__.py").is_file():
        raise argparse.ArgumentTypeError(f"found {path!r}, wanted a checkout: it has no agent/nodeprep")
    return Path(path).resolve()


def main() -> int:
    parser = Options(__doc__)
    parser.add_argument("what", nargs="?", choices=["latency", "memory", "cpu", "gpu"], help="by default, all")
    parser.add_argument("--flaps", type=whole(2), default=200)
    parser.add_argument("--rounds", type=whole(ROUNDS), default=STEADY)
    parser.add_argument("--minutes", type=decimal(1), default=5.0)
    parser.add_argument("--beside", type=checkout, metavar="CHECKOUT", help="of `cpu`: another agent to compare with")
    given = parser.parse_args()
    parts: dict[str, Callable[[], int]] = {
        "latency": lambda: latency(given.flaps),
        "memory": lambda: memory(given.rounds),
        "cpu": lambda: cpu(given.minutes, given.beside),
        "gpu": lambda: gpu(given.minutes),
    }
    codes = [work() for name, work in parts.items() if given.what in (None, name)]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["noting", *rest]:
            sys.exit(noting(rest))
        case ["flaps", number]:
            sys.exit(limits.ended(lambda: flaps(int(number))))
    sys.exit(limits.ended(main, Unavailable))
