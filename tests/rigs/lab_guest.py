"""A lab guest for tests: runs commands inside, changes its hardware from outside, restores its healthy state."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.rigs import lab_image, lab_qemu, lab_setup
from tests.rigs.lab_channel import Channel, Completed, Console, GuestError, OnOutput, Request, Running
from tests.rigs.lab_qemu import Machine
from tests.rigs.qmp import Qmp, QmpError

REPOSITORY = Path(__file__).resolve().parents[2]
DENY = "LAB_MODULES_DENY"
PATH = f"{REPOSITORY}/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Guest:
    """One virtual machine. Get one with `Guest.start()`; it ends with its `with` block, or with this process.

    Attributes:
        denied: the kernel modules that are kept from it.
        setup_errors: failed steps of its set-up, a line each; empty if all is well.
        pid: QEMU's process.
    """

    def __init__(self, denied: frozenset[str], machine: Machine | None = None) -> None:
        self.denied = denied
        self.setup_errors: tuple[str, ...] = ()
        self._plugged = {nic.id: nic.port for nic in lab_setup.NICS}
        self._links_down: set[str] = set()
        self._image = lab_image.held(denied)
        pairs = {name: socket.socketpair() for name in ("console", "agent", "qmp")}
        ends = {name: theirs.fileno() for name, (_, theirs) in pairs.items()}
        self._qemu = lab_qemu.start(self._image, machine or Machine(), ends)
        self.pid = self._qemu.pid
        for _, theirs in pairs.values():
            theirs.close()
        self._console = Console(pairs["console"][0])
        self._channel = Channel(pairs["agent"][0], self._console)
        self._qmp = Qmp(pairs["qmp"][0])

    @classmethod
    def start(cls, deny: Iterable[str] | None = None, timeout: float = 300, machine: Machine | None = None) -> Self:
        """Boots a guest and sets it up.

        Args:
            deny: kernel modules to keep from the guest; if None, those of the environment's LAB_MODULES_DENY.
            timeout: seconds for the boot; 10 are usual.
            machine: a machine other than the usual one.

        Raises:
            CannotStart: this machine lacks something.
            GuestError: the guest did not come up in time.
            ValueError: a name in `deny` is no module.
        """
        guest = cls(denied_modules() if deny is None else frozenset(deny), machine)
        try:
            guest.connect(timeout)
            guest.setup_errors = guest.restore()
        except BaseException:
            guest.stop()
            raise
        return guest

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
        timeout: float = 240,
        input: bytes = b"",  # noqa: A002 - subprocess.run calls it so
        env: Mapping[str, str] | None = None,
        cwd: Path = REPOSITORY,
    ) -> Completed:
        """Runs a command inside as root, and waits for its end. Its background processes stay.

        Args:
            argv: the program, found on PATH, and its arguments.
            timeout: seconds until it is killed.
            input: all of its standard input.
            env: added to a small environment whose PATH begins with this checkout's `.venv/bin`.
            cwd: a directory, which has the same path as on this machine.

        Raises:
            GuestError: it ran out of time, or the guest ended.
        """
        return self.launch(argv, input=input, env={**environment(), **(env or {})}, cwd=cwd).wait(timeout)

    def shell(self, script: str, timeout: float = 240) -> str:
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
        cwd: Path = REPOSITORY,
        on_output: OnOutput | None = None,
    ) -> Running:
        """Starts a command inside and returns at once; several may run at the same time.

        Args:
            argv: as in `run`, with `input` and `cwd`.
            input: as in `run`.
            env: the whole environment; without it, the small one.
            cwd: as in `run`.
            on_output: called with the output of the command, as it comes, in a thread of the lab.
        """
        return self._channel.launch(Request(argv, environment() if env is None else env, cwd, input), on_output)

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
        own = {fixed.id: fixed.port for fixed in lab_setup.NICS}
        free = [port for port in lab_setup.SPARE_PORTS if port not in self._plugged.values()]
        if nic not in own and not free:
            raise ValueError(f"no slot is free for {nic}: {', '.join(self._plugged)} are plugged in")
        port = own.get(nic) or free[0]
        bdf = lab_setup.bdf_behind(port)
        self.qmp("netdev_add", type="user", id=f"net-{nic}", restrict=True, ipv6=False)
        self.qmp("device_add", bus=f"port{port}", **lab_qemu.device(nic, mac))
        self._plugged[nic] = port
        self.shell(f"until [ -e /sys/bus/pci/devices/{bdf}/driver ]; do sleep 0.05; done", timeout)
        return bdf

    def unplug(self, nic: str, timeout: float = 120) -> None:
        """Removes a NIC as an operator would: QEMU asks the guest, and the guest releases it.

        Raises:
            QmpError: the guest did not release it in time.
        """
        self.qmp("device_del", id=nic)
        self._qmp.wait_event("DEVICE_DELETED", timeout, device=nic)
        self.qmp("netdev_del", id=f"net-{nic}")
        del self._plugged[nic]
        self._links_down.discard(nic)

    def restore(self) -> tuple[str, ...]:
        """Restores the state of `lab_setup`, from any state that a test left. Returns the steps that failed."""
        own = {nic.id: nic for nic in lab_setup.NICS}
        for nic in tuple(self._plugged.keys() - own.keys()):
            self.unplug(nic)
        for nic in tuple(own.keys() - self._plugged.keys()):
            self.hot_plug(nic, own[nic].mac)
        for nic in tuple(self._links_down):
            self.set_link(nic, up=True)
        return tuple(self.run(("sh", "-c", lab_setup.script())).text.splitlines())

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
            self._qemu.wait(5)
        except subprocess.TimeoutExpired:
            self._qemu.kill()
            self._qemu.wait()
        self._qmp.close()
        self._channel.close()
        self._console.close()
        self._image.release()


def environment() -> dict[str, str]:
    """A small environment for commands in the guest, where this machine's directories are at the same paths."""
    return {"PATH": PATH, "HOME": str(Path.home()), "LANG": "C.UTF-8", "TERM": "dumb"}


def denied_modules() -> frozenset[str]:
    """The modules that the environment keeps from the guest: names separated by commas."""
    return frozenset(name.strip() for name in os.environ.get(DENY, "").split(",") if name.strip())
