"""A virtual machine for tests: runs commands inside, and changes its hardware from outside.

What it boots is of those who make one: the lab's guest (tests/rigs/lab_guest.py), and one with a systemd of its own
(tests/rigs/systemd_guest.py).
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.rigs import lab_qemu, lab_setup
from tests.rigs.lab_channel import Channel, Completed, Console, GuestError, OnOutput, Request, Running
from tests.rigs.lab_setup import Nic
from tests.rigs.qmp import Qmp, QmpError

# Starts QEMU with our sockets: its `console`, `agent` and `qmp`.
Start = Callable[[Mapping[str, int]], subprocess.Popen[bytes]]
COMMAND = 600.0  # seconds for a command: one that hangs, for any other only needs time on a busy machine
SHUTDOWN = 5.0  # seconds that QEMU has after "quit"


@dataclass(frozen=True, slots=True)
class Place:
    """Where commands run inside if a test does not say it: a directory, and a small environment."""

    directory: Path
    environment: Mapping[str, str]


class VirtualMachine:
    """One QEMU process. It ends with its `with` block, or with this process.

    Attributes:
        pid: QEMU's process.

    Args:
        start: starts QEMU.
        nics: the NICs that it has from the start.
        place: of its commands.
        patience: seconds that QEMU has for an answer.
    """

    def __init__(self, start: Start, nics: Sequence[Nic], place: Place, *, patience: float = 30) -> None:
        self._nics = {nic.id: nic for nic in nics}
        self._plugged = {nic.id: nic.port for nic in nics}
        self._links_down: set[str] = set()
        self._place = place
        pairs = {name: socket.socketpair() for name in ("console", "agent", "qmp")}
        self._qemu = start({name: theirs.fileno() for name, (_, theirs) in pairs.items()})
        self.pid = self._qemu.pid
        for _, theirs in pairs.values():
            theirs.close()
        self._console = Console(pairs["console"][0])
        self._channel = Channel(pairs["agent"][0], self._console)
        self._qmp = Qmp(pairs["qmp"][0], patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def connect(self, timeout: float) -> None:
        """Waits until the guest has booted.

        Raises:
            GuestError: it ended, or did not answer within `timeout` seconds.
        """
        try:
            self._qmp.connect()
        except QmpError as error:
            raise self.error(f"QEMU did not start: {error}") from error
        self._channel.wait_ready(timeout)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = COMMAND,
        input: bytes = b"",  # noqa: A002 - subprocess.run calls it so
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Completed:
        """Runs a command inside as root, and waits for its end. Its background processes stay.

        Args:
            argv: the program, found on PATH, and its arguments.
            timeout: seconds until it is killed.
            input: all of its standard input.
            env: added to the environment of its place.
            cwd: a directory inside; without it, that of its place.

        Raises:
            GuestError: it ran out of time, or the guest ended.
        """
        return self.launch(argv, input=input, env={**self._place.environment, **(env or {})}, cwd=cwd).wait(timeout)

    def shell(self, script: str, timeout: float = COMMAND) -> str:
        """The output of a shell script.

        Raises:
            GuestError: it, or a command in it (`sh -e`), failed; with its standard error.
        """
        done = self.run(("sh", "-ec", script), timeout=timeout)
        if done.returncode:
            raise self.error(f"{script[:300]!r} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done.text

    def launch(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",  # noqa: A002 - as in run
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        on_output: OnOutput | None = None,
    ) -> Running:
        """Starts a command inside and returns at once; several may run at the same time.

        Args:
            argv: as in `run`, with `input` and `cwd`.
            input: as in `run`.
            env: the whole environment; without it, that of its place.
            cwd: as in `run`.
            on_output: called with the output of the command, as it comes, in a thread of the lab.
        """
        environment = self._place.environment if env is None else env
        return self._channel.launch(Request(argv, environment, cwd or self._place.directory, input), on_output)

    def qmp(self, command: str, /, **arguments: object) -> object:
        """QEMU's answer to a command of its machine protocol."""
        return self._qmp.command(command, **arguments)

    def set_link(self, nic: str, *, up: bool) -> None:
        """Pulls the cable of a NIC (by its id), or plugs it in; the guest sees it a moment later."""
        self.qmp("set_link", name=nic, up=up)
        (self._links_down.discard if up else self._links_down.add)(nic)

    def hot_plug(self, nic: str, mac: str, timeout: float = 120) -> str:
        """Plugs a NIC in; returns its PCI address once the guest has bound a driver to it.

        Raises:
            GuestError: it did not show up in time.
            ValueError: every slot is taken.
        """
        own = {fixed.port for fixed in self._nics.values()}
        free = [port for port in lab_setup.PORTS if port not in {*own, *self._plugged.values()}]
        if nic not in self._nics and not free:
            raise ValueError(f"no slot is free for {nic}: {', '.join(self._plugged)} are plugged in")
        port = self._nics[nic].port if nic in self._nics else free[0]
        bdf = lab_setup.bdf_behind(port)
        if nic not in self._nics:
            self.qmp("netdev_add", type="user", id=f"net-{nic}", restrict=True, ipv6=False)
        self.qmp("device_add", bus=f"port{port}", **lab_qemu.device(nic, mac))
        self._plugged[nic] = port
        self.shell(f"until [ -e /sys/bus/pci/devices/{bdf}/driver ]; do sleep 0.05; done", timeout)
        return bdf

    def unplug(self, nic: str, timeout: float = 120) -> None:
        """Removes a NIC as an operator would: QEMU asks the guest, and the guest releases it.

        The network behind one of its own NICs stays: a snapshot holds that very network.

        Raises:
            QmpError: the guest did not release it in time.
        """
        self.qmp("device_del", id=nic)
        self._qmp.wait_event("DEVICE_DELETED", timeout, device=nic)
        if nic not in self._nics:
            self.qmp("netdev_del", id=f"net-{nic}")
        del self._plugged[nic]
        self._links_down.discard(nic)

    def restore_hardware(self) -> None:
        """Plugs in its own NICs and their cables again, and takes out all others."""
        for nic in tuple(self._plugged.keys() - self._nics.keys()):
            self.unplug(nic)
        for nic in tuple(self._nics.keys() - self._plugged.keys()):
            self.hot_plug(nic, self._nics[nic].mac)
        for nic in tuple(self._links_down):
            self.set_link(nic, up=True)

    @property
    def console(self) -> str:
        """The last output of the guest's kernel and its init on the serial console."""
        return self._console.text

    def error(self, what: str) -> GuestError:
        """An error with the text `what`, and then the console's last lines."""
        return self._console.error(what)

    def stop(self) -> None:
        """Switches the guest off at once, without a shutdown: nothing in it must be kept."""
        with suppress(QmpError):
            self.qmp("quit")
        try:
            self._qemu.wait(SHUTDOWN)
        except subprocess.TimeoutExpired:
            self._qemu.kill()
            self._qemu.wait()
        self._qmp.close()
        self._channel.close()
        self._console.close()
