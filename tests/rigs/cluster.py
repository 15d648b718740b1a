"""A real cluster of one machine, as a program and as a module (`with Cluster(nodes=2) as cluster`).

    python tests/rigs/cluster.py run -- COMMAND               etcd and kube-apiserver alone: nothing runs pods
    python tests/rigs/cluster.py run --nodes 2 -- COMMAND     controllers, scheduler and two real nodes as well
    python tests/rigs/cluster.py run --nodes 1 --image TAR -- COMMAND    and an OCI archive's images on each node
    python tests/rigs/cluster.py packages                     the Debian packages that it needs
    python tests/rigs/cluster.py build                        builds their one program, else the first run does
    python tests/rigs/cluster.py tools                        fetches the other programs of nodes

COMMAND gets KUBECONFIG and kubectl, and its exit code is ours. With nodes (n1, n2, ...) it also finds `node-enter NODE
[COMMAND]` and `node-reboot NODE` (cluster_control.py). All runs in a network namespace of its own (cluster_space.py). A
port of this machine's loopback leads to the API server. The server knows the kinds of records that Terway and
erdma-controller keep. Nothing is left behind, even if the process that started it is killed.
"""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.rigs import cluster_build, cluster_setup, cluster_tools, scratch
from tests.rigs.cluster_build import CannotStart
from tests.rigs.cluster_client import Client
from tests.rigs.cluster_control import Control
from tests.rigs.cluster_node import Node
from tests.rigs.cluster_setup import ALIBABA, AUDIT, RECORDS, definition
from tests.rigs.cluster_space import Space
from tests.rigs.progress import say
from tests.rigs.waiting import until

__all__ = ["ALIBABA", "CannotStart", "Cluster", "Node"]

GOGC = "400"  # there is enough memory; at the usual 100, garbage collection takes a sixth of an API server's processor
FAILED, INTERRUPTED = 2, 130  # exit codes; the other is 128 + SIGINT
SERVER_NAMES = f"IP:127.0.0.1,IP:{cluster_setup.SERVICE_ADDRESS},DNS:localhost,DNS:rig.example"
# Users that sign in by certificate: name of the files, and subject.
USERS = {
    "admin": "/O=system:masters/CN=admin",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
}


class Cluster(Client):
    """One API server with its own store; with `controllers` or real `nodes`, also the programs that act on objects.

    Use it as a context manager, in a thread that stays: the kernel ends its processes with that thread. If a Node's
    kubelet is silent for `grace`, the Node becomes Unknown. Kubernetes' own value is 50 s; Nodes without a kubelet need
    a long one. `audit` is the policy of the audit log.

    Attributes:
        directory: the rig's files, with the logs of its programs; it is removed with the rig.
        node_files: the real nodes' own files, in memory if there is enough; they are removed with it.
        port: on this machine's loopback, leads to the API server.
        nodes: the real ones by name.

    Raises:
        CannotStart: a program that it needs is missing or cannot be built, or this machine does not let us.
    """

    def __init__(
        self, nodes: int = 0, *, controllers: bool = False, grace: str = "50s", audit: Mapping[str, Any] = AUDIT
    ) -> None:
        self.program = cluster_build.program()
        self.controllers = controllers or nodes > 0
        self.grace = grace
        self.audit = audit
        self.nodes: dict[str, Node] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._first = nodes
        if nodes:
            cluster_tools.tools()

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="nodeprep-cluster-"))
        self.node_files = (scratch.roomy() or self.directory) / self.directory.name
        self.node_files.mkdir(mode=0o700)
        try:
            self.space = Space(self.directory, self.node_files)
        except BaseException:
            shutil.rmtree(self.node_files)
            shutil.rmtree(self.directory)
            raise
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self.port = self.space.port
        self.spawn("etcd", *cluster_setup.etcd_flags(self.directory))
        self.certificate("ca", "/CN=nodeprep-rig")
        self.certificate("apiserver", "/CN=kube-apiserver", SERVER_NAMES)
        self.certificate("service-account", "/CN=service-account")  # only its pair of keys is used
        for name, subject in USERS.items():
            self.certificate(name, subject)
        self.kubeconfig().rename(self.directory / "admin.kubeconfig")
        (self.directory / "bin").mkdir()
        (self.directory / "bin/kubectl").symlink_to(self.program)
        self.start_server()
        if self.controllers:
            self.start_controllers()
        self.install_records()
        started = [self.add_node(f"n{number}", wait=False) for number in range(1, self._first + 1)]
        for node in started:
            node.wait_ready()

    def start_server(self) -> None:
        """Returns when it answers. It may be called again after a test has killed the server."""
        flags = cluster_setup.apiserver_flags(self.directory, self.audit, controllers=self.controllers)
        self.spawn("kube-apiserver", *flags)
        self.await_programs(self.healthy, "/readyz of kube-apiserver")

    def start_controllers(self) -> None:
        server = {"server": f"https://127.0.0.1:{cluster_setup.SERVER_PORT}"}
        manager, scheduler = (self.kubeconfig(self.user(name), server) for name in list(USERS)[1:])
        self.spawn("kube-controller-manager", *cluster_setup.controller_flags(self.directory, manager, self.grace))
        self.spawn("kube-scheduler", *cluster_setup.scheduler_flags(scheduler))
        # Healthy is not enough: no pod can be made before its namespace has this account.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.await_programs(lambda: self.call("GET", account)[0] == 200, "the account of the namespace default")

    def stop(self) -> None:
        try:
            for node in self.nodes.values():
                node.kill()
        finally:
            for process in self.processes.values():
                process.kill()  # it may be stopped, and its own grace takes a minute
                process.wait()
            self.processes.clear()
            self.space.close()

    def add_node(
        self,
        name: str,
        taints: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        *,
        flags: Sequence[str] = (),
        wait: bool = True,
    ) -> Node:
        """A real node, Ready on return if we are to `wait`: containerd and a kubelet that registers it.

        Taints are written "key=value:effect"; `flags` are added to the kubelet's.

        Raises:
            CannotStart: what it needs cannot be had, or we are not root.
        """
        words = [f"--register-with-taints={','.join(taints)}"] if taints else []
        words += [f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}"] if labels else []
        node = self.nodes[name] = Node(self, name, len(self.nodes) + 1, [*words, *flags])
        node.start()
        if wait:
            node.wait_ready()
        return node

    def signal(self, number: signal.Signals) -> None:
        """Sends the API server a signal. After SIGSTOP the kernel accepts connections and nobody answers."""
        server = self.processes["kube-apiserver"]
        server.send_signal(number)
        if number == signal.SIGSTOP:  # one thread gets it and stops the others when it has a processor
            until(lambda: set(_thread_states(server.pid)) == {"T"}, "every thread of the API server stands still")

    def spawn(self, program: str, *flags: str) -> None:
        with (self.directory / f"{program}.log").open("ab") as log:
            command = self.inside("setpriv", "--pdeathsig", "KILL", str(self.program), program, *flags)
            environment = {**os.environ, "GOGC": GOGC}
            self.processes[program] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def await_programs(self, holds: Callable[[], bool], what: str) -> None:
        """Waits until it `holds`, unless one of the programs ends."""

        def seen() -> bool:
            for program, process in self.processes.items():
                if process.poll() is not None:
                    tail = (self.directory / f"{program}.log").read_text(errors="replace")[-3000:]
                    raise RuntimeError(f"{program} ended:\n{tail}")
            return holds()

        until(seen, what)

    def healthy(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            link = self.link()
            try:
                link.request("GET", "/readyz")
                return link.getresponse().status == 200
            finally:
                link.close()
        return False

    def install_records(self) -> None:
        for plural, (version, kind, scope) in RECORDS.items():
            self.create(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(plural, version, kind, scope)
            )
        for plural, (version, _, _) in RECORDS.items():
            self.wait_for(f"/apis/{ALIBABA}/{version}/{plural}")

    def wait_for(self, path: str) -> None:
        """Waits for a new kind: the server serves it a moment after it accepted the definition."""
        until(lambda: self.call("GET", path)[0] == 200, f"{path} is served")


def _thread_states(pid: int) -> list[str]:
    """A letter for each thread, "T" for one that was stopped (proc_pid_stat(5))."""
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it ended meanwhile
            found.append((task / "stat").read_text().rpartition(") ")[2][0])
    return found


def run(command: Sequence[str], nodes: int, images: Sequence[Path] = ()) -> int:
    check(images, nodes)
    with Cluster(nodes) as cluster, Control(cluster.directory, cluster.nodes):
        for line in dict.fromkeys(limit for node in cluster.nodes.values() for limit in node.limits()):
            say(f"cluster: {line}")
        for archive in images:
            names = [name for node in cluster.nodes.values() for name in node.import_image(archive)]
            say(f"cluster: {', '.join(cluster.nodes)}: {', '.join(dict.fromkeys(names))} of {archive}")
        return outcome(command, cluster)


def check(images: Sequence[Path], nodes: int) -> None:
    """Raises CannotStart for an image that no node could take, before anything is started for it."""
    if images and not nodes:
        raise CannotStart("--image: found no node that could run it, wanted --nodes 1 or more")
    for archive in images:
        if not archive.is_file() or not tarfile.is_tarfile(archive):
            found = f"{archive}, which is not a tar" if archive.exists() else f"no file {archive}"
            raise CannotStart(f"--image: found {found}, wanted an OCI archive (make image writes one)")


def outcome(command: Sequence[str], cluster: Cluster) -> int:
    """The exit code of a command that finds the cluster. If there is no such program: 2, and a line on stderr."""
    try:
        done = subprocess.run(command, env={**os.environ, **cluster.environment()}, check=False)
    except OSError as error:
        print(f"COMMAND: found {command[0]!r} ({error.strerror}), wanted a program", file=sys.stderr)
        return FAILED
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def ended(work: Callable[[], int], *failures: type[Exception]) -> int:
    """The exit code of a rig as a program: that of its work, or that of a failure.

    If the rig fails, stderr has a line about it. If a program died, the end of its log follows.

    Args:
        work: the work of the program.
        failures: exceptions that this rig raises when it fails, besides those of a cluster.
    """
    expected: tuple[type[Exception], ...] = (CannotStart, RuntimeError, TimeoutError, *failures)
    try:
        return work()
    except expected as error:
        print(error, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def show(made: Callable[[], Path]) -> int:
    print(made())
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="cluster.py", description="A real Kubernetes on loopback.")
    actions = parser.add_subparsers(dest="action", required=True)
    finds = "COMMAND gets KUBECONFIG, kubectl and, with nodes, node-enter NODE [COMMAND] and node-reboot NODE."
    runner = actions.add_parser("run", help="run COMMAND with KUBECONFIG set", description=finds)
    runner.add_argument("--nodes", type=int, default=0, help="real nodes, with controllers and scheduler")
    runner.add_argument(
        "--image",
        type=Path,
        action="append",
        default=[],
        metavar="TAR",
        help="an OCI archive for the nodes; repeatable",
    )
    runner.add_argument("command", nargs="+", metavar="COMMAND")
    actions.add_parser("packages", help="print the Debian packages that the rig needs")
    actions.add_parser("build", help="build the programs and print their path")
    actions.add_parser("tools", help="fetch what nodes need besides and print where it is")
    arguments = parser.parse_args()
    if arguments.action == "packages":
        print(" ".join(cluster_build.PACKAGES))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments.action == "run":
        return ended(lambda: run(arguments.command, arguments.nodes, arguments.image))
    return ended(lambda: show(cluster_build.program if arguments.action == "build" else cluster_tools.tools))


if __name__ == "__main__":
    sys.exit(main())
