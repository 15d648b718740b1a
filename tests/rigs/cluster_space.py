"""The network namespace of a cluster, with one way in: a port of this machine's loopback leads to its API server.

Only `lo` is in it. So ports can be fixed, and there is no traffic with the outside. This file as a program holds the
namespace and clears up. Its input ends when the rig ends or is killed. Then it kills the processes that still run in
the namespace and removes the cluster's cgroups and directory. The namespace ends with its last process.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.rigs.cluster_build import CannotStart
from tests.rigs.cluster_setup import GATEWAY, SERVER_PORT, SERVICE_ADDRESS
from tests.rigs.relay import carry

HOST = "127.0.0.1"
READY = "ready"
CGROUPS = Path("/sys/fs/cgroup")
PATIENCE = 20.0  # seconds until killed processes, their cgroups and their files are gone


class Space:
    """The namespace, in which programs can be started. It ends with `close`, or with this process.

    Attributes:
        port: on this machine's loopback, it leads to the API server.

    Raises:
        CannotStart: this machine cannot make a network namespace.
    """

    def __init__(self, directory: Path, node_files: Path) -> None:
        # Without root: a user namespace in which we are root. A node needs the real one.
        self._user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        own = (directory, node_files)
        with socket.create_server((HOST, 0)) as listener:
            self.port: int = listener.getsockname()[1]
            self._held = subprocess.Popen(
                ("unshare", "--net", *self._user, sys.executable, __file__, str(listener.fileno()), *map(str, own)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # the terminal's Ctrl-C must not end it: it clears up after us
            )
        assert self._held.stdout is not None
        if self._held.stdout.readline().strip() != READY:
            _, said = self._held.communicate()
            raise CannotStart(f"cluster: no network namespace: {(said.strip().splitlines() or ['?'])[-1]}")

    @property
    def pid(self) -> int:
        """A process in it."""
        return self._held.pid

    def inside(self, *argv: str) -> tuple[str, ...]:
        """The command that runs `argv` in it."""
        user = ("--user", "--preserve-credentials") if self._user else ()
        return ("nsenter", "--target", str(self.pid), "--net", *user, *argv)

    def close(self) -> None:
        """Returns when everything is cleared up."""
        self._held.communicate()


def lead_in(listener: socket.socket) -> None:
    """Carries each connection to the API server of this namespace. The listener is in the namespace we came from."""
    while True:
        theirs = listener.accept()[0]
        try:
            ours = socket.create_connection((HOST, SERVER_PORT))
        except OSError:
            theirs.close()
            continue
        Thread(target=carry, args=(theirs, ours), daemon=True).start()


def clear_up(directory: Path, node_files: Path) -> None:
    """Kills the processes in this namespace, then removes the cgroups, the nodes' files and the cluster's."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        left = False
        for process in others():
            left = True
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        bare = remove_cgroups(f"{directory.name}-*")
        shutil.rmtree(node_files, ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)
        if bare and not left and not (node_files.exists() or directory.exists()):
            return
        time.sleep(0.02)


def others() -> Iterator[int]:
    """The other processes in this network namespace, without zombies."""
    ours = Path("/proc/self/ns/net").stat().st_ino
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile; a zombie has no namespaces
            if (path / "ns/net").stat().st_ino == ours and int(path.name) != os.getpid():
                yield int(path.name)


def remove_cgroups(pattern: str) -> bool:
    """Removes those of the nodes, in every hierarchy. Returns whether all are gone. Each is called DIRECTORY-NODE.

    The kernel empties a cgroup a moment after its last process, so several calls may be needed.
    """
    tops = [CGROUPS] if (CGROUPS / "cgroup.controllers").exists() else list(CGROUPS.glob("*/"))
    found = [one for top in tops for one in top.glob(f"{pattern}/")]
    for one in found:
        for path, _, _ in os.walk(one, topdown=False):
            with suppress(OSError):
                Path(path).rmdir()
    return not any(one.exists() for one in found)


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
    for address in (SERVICE_ADDRESS, GATEWAY):
        subprocess.run(("ip", "address", "add", f"{address}/32", "dev", "lo"), check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    Thread(target=lead_in, args=[listener], daemon=True).start()
    print(READY, flush=True)
    sys.stdin.read()
    clear_up(*map(Path, sys.argv[2:4]))


if __name__ == "__main__":
    main()
