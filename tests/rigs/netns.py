"""An ECS node with Terway in namespaces of its own: ENIs, pods, rules, tables, files, sockets and instance metadata.

    python tests/rigs/netns.py run --enis 7 --pods 60 -- nodeprep check

Real here: this kernel's interfaces, rules, routes and settings, TCP, Unix sockets and mounts. Not real: the ENIs are
tap devices that nobody reads, so nothing outside answers (NODEPREP_PHYSICAL_KINDS says that they replace NICs); the
metadata comes from tests/rigs/imds_server.py; Terway is only its files and sockets; DMI is a file. The rig ends with
its parent and leaves nothing behind: namespaces end with their last process, and a tmpfs of its own holds every file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.rigs import fork_server
from tests.rigs.netns_node import Shape, Unavailable, build, with_parent
from tests.rigs.netns_services import READY

REPOSITORY = Path(__file__).resolve().parents[2]
NAMESPACES = ("--net", "--mount", "--propagation", "private")
NODE_PROCESS = "NODEPREP_NODE_PROCESS"
UNAVAILABLE = 77  # exit code of tests that could not be run, by automake's convention
LONGEST = 240.0  # seconds; every `nodeprep` that ends by itself takes less
ENVIRONMENT: Mapping[str, str] = {
    "NODEPREP_PHYSICAL_KINDS": "tun",
    "PYTHONPATH": f"{REPOSITORY / 'agent'}:{REPOSITORY}",
}


class Node:
    """The rig for tests: a context manager in which commands run on the node."""

    def __init__(self, shape: Shape | None = None) -> None:
        self.shape = shape or Shape()

    def __enter__(self) -> Self:
        argv = ["unshare", *NAMESPACES, sys.executable, __file__, "hold", *_options(self.shape)]
        self._held = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._held.stdout is not None
        if self._held.stdout.readline().strip() != READY:
            _, told = self._held.communicate()
            raise Unavailable(told.strip())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.communicate()  # it ends with its input

    @property
    def pid(self) -> int:
        """A process on the node. Others enter the node by its namespaces."""
        return self._held.pid

    def run(self, *argv: str, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command on the node. "nodeprep" and "python" are ours, and "nodeprep" is a fork."""
        if argv[0] == "nodeprep" and text is None:
            plain = {name: word for name, word in _environment().items() if not name.startswith(fork_server.AT_START)}
            done = fork_server.run(argv, plain, timeout=LONGEST, node=self.pid)
            if check:
                done.check_returncode()
            return done
        return subprocess.run(
            self._on_it(argv), capture_output=True, text=True, check=check, input=text, env=_environment()
        )

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start a program on the node, with pipes to it."""
        return subprocess.Popen(
            self._on_it(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )

    def ip(self, *words: str) -> str:
        return self.run("ip", *words).stdout

    def _on_it(self, argv: tuple[str, ...]) -> list[str]:
        node = f"{NODE_PROCESS}={self.pid}"  # the host's first process is not on this node
        return ["nsenter", "-t", str(self.pid), "-n", "-m", f"--wd={REPOSITORY}", "env", node, *_ours(argv)]

    def order(self, *words: str) -> None:
        """Give tests/rigs/netns_services.py an order, such as "metadata hang". Returns when it is done."""
        assert self._held.stdin is not None
        assert self._held.stdout is not None
        self._held.stdin.write(" ".join(words) + "\n")
        self._held.stdin.flush()
        told = self._held.stdout.readline().strip()
        if told != READY:
            raise ValueError(f"{' '.join(words)}: {told or 'the node ended'}")

    def sysctl(self, key: str, value: int) -> None:
        self.run("sysctl", "-qw", f"{key}={value}")

    def table(self, eni: int) -> int:
        """The number of the ENI's table."""
        return 1000 + int(self.ip("-o", "link", "show", f"eth{eni}").partition(":")[0])


def _ours(argv: tuple[str, ...]) -> list[str]:
    if argv[:1] == ("nodeprep",):
        return [sys.executable, "-m", "nodeprep", *argv[1:]]
    return [sys.executable, *argv[1:]] if argv[:1] == ("python",) else list(argv)


def _environment() -> dict[str, str]:
    return {**os.environ, **ENVIRONMENT, "PATH": f"{os.environ['PATH']}:/sbin:/usr/sbin"}


def _options(shape: Shape) -> list[str]:
    numbers = {"--enis": shape.enis, "--pods": shape.pods, "--unused-rules": shape.unused_rules}
    return ["--metadata", shape.metadata, *(str(word) for pair in numbers.items() for word in pair)]


def main(arguments: list[str]) -> int:
    words = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    usual = Shape()
    for name in ("run", "hold", "inside"):
        one = commands.add_parser(name, help=None if name == "run" else argparse.SUPPRESS)
        one.add_argument("--enis", type=int, default=usual.enis, help="besides the primary one")
        one.add_argument("--pods", type=int, default=usual.pods)
        one.add_argument("--metadata", default=usual.metadata, help="a mode of tests/rigs/imds_server.py")
        one.add_argument("--unused-rules", type=int, default=usual.unused_rules)
    given = parser.parse_args(arguments[: arguments.index("--")] if words else arguments)
    shape = Shape(given.enis, given.pods, given.metadata, given.unused_rules)
    if given.what == "run":
        return run(shape, words)
    try:
        kept, services = build(shape)
    except (Unavailable, OSError) as error:
        print(f"netns: not on this machine: {error}", file=sys.stderr)
        return UNAVAILABLE
    if given.what == "inside":
        return subprocess.run(words, check=False, preexec_fn=with_parent).returncode
    services.obey_stdin()
    return 0 if kept else 1


def run(shape: Shape, words: list[str]) -> int:
    own = [sys.executable, __file__, "inside", *_options(shape), "--", *_ours(tuple(words))]
    return subprocess.run(["unshare", *NAMESPACES, *own], check=False, env=_environment()).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
