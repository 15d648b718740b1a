"""The servers on a node of the netns rig: the metadata service, Terway's daemon and its policy container.

Each can be stopped, hang and be started again while the node stands. The cloud can attach and detach an ENI.
"""

from __future__ import annotations

import copy
import json
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread

from tests.rigs.imds_modes import MODES
from tests.rigs.imds_server import SHAPES, MetadataServer

SHAPE, METADATA = "two-enis", "100.100.100.200"
DAEMON, POLICY = "/var/run/eni/eni.socket", ("127.0.0.1", 9099)
READY = "ready"
NOTHING: Mapping[str, str] = {}
STOPPED, LISTENING, HANGING = "stopped", "listening", "hanging"


class Services:
    """`enis` are the ENIs in the cloud: addresses by MAC, the primary ENI first. `more` is said of the instance."""

    def __init__(self, enis: dict[str, list[str]], mode: str, more: Mapping[str, str] = NOTHING) -> None:
        self._mode = mode
        self._served: MetadataServer | None = None
        self._tree = json.loads((SHAPES / f"{SHAPE}.json").read_text()) | more
        self._tree["mac"] = next(iter(enis))
        self._macs: dict[str, dict[str, object]] = self._tree["network"]["interfaces"]["macs"]
        self._pattern = self._macs[next(iter(self._macs))]
        self._macs.clear()
        for number, (mac, addresses) in enumerate(enis.items()):
            self._attach(mac, f"eni-{number}", addresses)
        self._detached: dict[str, dict[str, object]] = {}
        self._sockets: dict[str, list[socket.socket]] = {}
        self.metadata(mode)
        self.daemon(LISTENING)
        self.policy(LISTENING)

    def obey(self, order: str) -> None:
        """Do an order: the name of a method below and its words."""
        name, *words = order.split()
        orders: dict[str, Callable[..., None]] = {
            "metadata": self.metadata,
            "daemon": self.daemon,
            "policy": self.policy,
            "attach": self.attach,
            "detach": self.detach,
        }
        orders[name](*words)

    def obey_stdin(self) -> None:
        """Says READY, then does each order of stdin until it ends, and says READY or what went wrong."""
        print(READY, flush=True)
        for order in sys.stdin:
            try:
                self.obey(order)
            except (KeyError, TypeError, OSError) as error:
                print(repr(error), flush=True)
            else:
                print(READY, flush=True)

    def metadata(self, mode: str) -> None:
        """Take a mode of tests/rigs/imds_modes.py, "stopped", or "as-ever"."""
        if mode == STOPPED:
            if self._served is not None:
                self._served.__exit__(None, None, None)
            self._served = None
            return
        if self._served is None:
            self._served = MetadataServer(SHAPE, self._mode, METADATA, 80).__enter__()
            self._served.tree = self._tree
        self._served.mode = MODES[self._mode if mode == "as-ever" else mode]

    def attach(self, mac: str, address: str = "") -> None:
        """The cloud attaches an ENI, a new or a detached one. The kernel's link does not change."""
        if mac in self._detached:
            self._macs[mac] = self._detached.pop(mac)
        else:
            self._attach(mac, f"eni-{mac[-2:]}", [address])

    def detach(self, mac: str) -> None:
        self._detached[mac] = self._macs.pop(mac)

    def _attach(self, mac: str, eni: str, addresses: list[str]) -> None:
        told = {"network-interface-id": eni, "primary-ip-address": addresses[0], "private-ipv4s": addresses}
        self._macs[mac] = copy.deepcopy(self._pattern) | told

    def tell(self, mac: str, words: Mapping[str, str]) -> None:
        """Say something else of an ENI that is attached."""
        self._macs[mac] |= words

    def daemon(self, state: str) -> None:
        """Set the daemon's state. A stopped one leaves its socket, as after a crash."""
        self._close("daemon")
        if state != STOPPED:
            Path(DAEMON).unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(DAEMON)
            Path(DAEMON).chmod(0o600)
            self._sockets["daemon"] = hanging(listener) if state == HANGING else accepting(listener)

    def policy(self, state: str) -> None:
        self._close("policy")
        if state != STOPPED:
            self._sockets["policy"] = accepting(socket.create_server(POLICY))

    def _close(self, name: str) -> None:
        for one in self._sockets.pop(name, []):
            with suppress(OSError):  # a hanging one was never connected
                one.shutdown(socket.SHUT_RDWR)  # else the kernel listens on while a thread waits in accept
            one.close()


def accepting(listener: socket.socket) -> list[socket.socket]:
    listener.listen()

    def accept() -> None:
        with suppress(OSError):  # closed
            while True:
                listener.accept()[0].close()

    Thread(target=accept, daemon=True).start()
    return [listener]


def hanging(listener: socket.socket) -> list[socket.socket]:
    """Make a listener hang: it accepts nobody, and its queue is full."""
    listener.listen(0)
    waiting = socket.socket(socket.AF_UNIX)
    waiting.connect(DAEMON)
    return [listener, waiting]
