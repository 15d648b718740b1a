"""A node from zero: a virtual machine whose first process is Debian's systemd, with networkd, udev and its own disk.

    python tests/rigs/systemd_guest.py run -- COMMAND   boots one, runs COMMAND inside as root, ends with its exit code
    python tests/rigs/systemd_guest.py packages         the Debian packages that it needs
    python tests/rigs/systemd_guest.py image            builds its disk, else the first run does
    python tests/rigs/systemd_guest.py bench            how long a boot, a reboot and a restored snapshot take

Two rails and a front end have addresses from networkd. No module of RDMA is loaded, nothing raises a limit, and nobody
answers behind the default route. Writes go to a layer over the disk (tests/rigs/systemd_disk.py), which stays over a
reboot and ends with the guest. `nodeprep` is this checkout's, with the packages of this machine's .venv.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.rigs import lab_agent, lab_image, lab_qemu, systemd_disk
from tests.rigs.lab_channel import Completed, GuestError
from tests.rigs.lab_initramfs import CannotStart
from tests.rigs.lab_qemu import Machine
from tests.rigs.lab_setup import FRONT_END, MTU, RDMA_DEVICE, Nic
from tests.rigs.qmp import QmpError
from tests.rigs.systemd_disk import NICS, PYTHON, RAILS, Disk
from tests.rigs.virtual_machine import Place, VirtualMachine

__all__ = ["FRONT_END", "MTU", "NICS", "RAILS", "RDMA_DEVICE", "CannotStart", "Completed", "GuestError", "Nic"]

REPOSITORY = Path(__file__).resolve().parents[2]
MEMORY = 1536  # MiB; systemd and containerd take 0.2 GiB, a play of Ansible 0.1
BOOT = 1200.0  # seconds for a boot beside other work; 30 are usual
ANSWER = 600.0  # seconds for QEMU to write or to read a snapshot; 2 are usual
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PLACE = Place(Path("/root"), {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"})
WAIT_ONLINE = "/lib/systemd/systemd-networkd-wait-online"
SHARES = (systemd_disk.CHECKOUT, systemd_disk.SITE)
MACHINE = Machine(MEMORY)
NOTHING_MORE: Mapping[str, Path] = {}
BOOTED = "booted"  # the name of a snapshot
# Its clocks go on while it waits for a processor. systemd ends a start after 90 s, and udev an event after 180; the
# kernel calls it a stall after 21.
PATIENT = (
    f"systemd.default_timeout_start_sec={BOOT:.0f}",
    f"udev.event_timeout={BOOT:.0f}",
    "rcupdate.rcu_cpu_stall_suppress=1",
)


class SystemdGuest(VirtualMachine):
    """A node that systemd started. Get one with `SystemdGuest.start()`; it ends with its `with` block.

    Attributes:
        boot_id: of the present boot.
        state: what systemd said at its end: "running", or "degraded" if a unit failed.
        seconds: that this boot took, until networkd had configured its NICs too.
        pid: QEMU's process.
    """

    def __init__(self, disk: Disk, machine: Machine, shares: Mapping[str, Path]) -> None:
        self.boot_id = ""
        self.state = ""
        self.seconds = 0.0
        packages = site_packages()
        super().__init__(
            lambda sockets: lab_qemu.launch(command(disk, packages, sockets, machine, shares), sockets),
            NICS,
            PLACE,
            patience=ANSWER,
        )

    @classmethod
    def start(
        cls, timeout: float = BOOT, *, machine: Machine = MACHINE, shares: Mapping[str, Path] = NOTHING_MORE
    ) -> Self:
        """Boots a node from zero: nobody has written to its disk.

        Args:
            timeout: seconds for the boot.
            machine: its memory; a disk of it is /dev/vdb, and with `enter` its front end reaches what is there.
            shares: more directories of this machine that it can mount over 9p, by tag.

        Raises:
            CannotStart: this machine lacks something.
            GuestError: systemd did not finish its start in time.
        """
        guest = cls(systemd_disk.built(), machine, shares)
        began = time.monotonic()
        try:
            guest.connect(timeout)
            guest._wait_booted(began + timeout, NICS)
            guest.seconds = time.monotonic() - began
        except BaseException:
            guest.stop()
            raise
        return guest

    def reboot(self, timeout: float = BOOT, online: Sequence[Nic] = NICS) -> None:
        """Asks systemd for a reboot, and waits until the next boot is finished. The disk stays as it is.

        Commands that still run are lost; who waits for one gets an error.

        Args:
            timeout: seconds for all of it.
            online: the NICs whose network must be up at its end; leave those out that a test has broken for good.

        Raises:
            GuestError: it did not go down or did not come up in time.
        """
        began = time.monotonic()
        self._channel.expect_restart()
        # systemd may end the channel before it can say that systemctl has ended.
        self.launch(("systemctl", "reboot"))
        self._restarted(began + timeout, online, guest=True)
        self.seconds = time.monotonic() - began

    def cut_power(self, timeout: float = BOOT, online: Sequence[Nic] = NICS) -> None:
        """Switches it off and on without a shutdown. Unsynced writes are lost. All else is as in `reboot`.

        Raises:
            GuestError: it did not come up in time.
        """
        began = time.monotonic()
        self._channel.expect_restart()
        self.qmp("system_reset")
        self._restarted(began + timeout, online, guest=False, reason="host-qmp-system-reset")
        self.seconds = time.monotonic() - began

    def keep(self, name: str = BOOTED) -> None:
        """Keeps the whole machine as it is now, memory and disk, for `restore`. Commands that still run are lost.

        Raises:
            GuestError: QEMU refused.
        """
        # QEMU keeps no machine that has a share mounted, and the agent that has run `nodeprep` has files of one open.
        self._channel.expect_restart()
        self.launch(("systemctl", "--no-block", "restart", "lab-agent"))
        self._channel.wait_ready(ANSWER)
        self.shell("sync; umount " + " ".join(SHARES))
        try:
            self._monitor(f"savevm {name}")
        finally:
            self._after_snapshot()

    def restore(self, name: str = BOOTED) -> None:
        """Makes the whole machine what it was at `keep`: hardware, memory, disk, boot. Its clock goes on.

        Raises:
            GuestError: there is no such snapshot.
        """
        self.restore_hardware()
        self._channel.lose_commands()
        self._monitor(f"loadvm {name}")
        self._after_snapshot()
        self.boot_id = self.shell("cat /proc/sys/kernel/random/boot_id")

    def failed_units(self) -> tuple[str, ...]:
        """The names of systemd's failed units."""
        said = self.shell("systemctl list-units --state=failed --plain --no-legend --full")
        return tuple(line.split()[0] for line in said.splitlines())

    def _restarted(self, end: float, online: Sequence[Nic], **event: object) -> None:
        before = self.boot_id
        try:
            self._qmp.wait_event("RESET", left(end), **event)
        except QmpError as error:
            raise self.error(f"the guest did not reboot: {error}") from error
        self._wait_booted(end, online)
        if self.boot_id == before:
            raise self.error(f"the guest says that it did not boot: its boot is still {before}")

    def _wait_booted(self, end: float, online: Sequence[Nic]) -> None:
        self._channel.wait_ready(left(end))
        # It ends with 1 if a unit failed: that is an answer, and the caller's to judge.
        self.state = self.run(("systemctl", "is-system-running", "--wait"), timeout=left(end)).text
        # systemd's start is finished when networkd runs, and not when that has configured a link.
        names = [f"--interface={nic.netdev}" for nic in online]
        if names and self.run((WAIT_ONLINE, "--timeout=0", *names), timeout=left(end)).returncode:
            raise self.error(f"networkd does not configure {', '.join(nic.netdev for nic in online)}")
        self.boot_id = self.shell("cat /proc/sys/kernel/random/boot_id")

    def _after_snapshot(self) -> None:
        """Mounts the shares again, and sets the clock to now: the time of a snapshot is that of its making."""
        self.shell(f"date -s @{time.time():.3f}; mount -a")

    def _monitor(self, line: str) -> None:
        """A command of QEMU's monitor for people, which says nothing if all is well."""
        said = self.qmp("human-monitor-command", **{"command-line": line})
        if said:
            raise self.error(f"QEMU said to {line!r}: {said}")


def left(end: float) -> float:
    """The seconds until this time of the monotonic clock; a last one if it is over."""
    return max(1.0, end - time.monotonic())


def command(
    disk: Disk, packages: Path, sockets: Mapping[str, int], machine: Machine, shares: Mapping[str, Path]
) -> tuple[str, ...]:
    """A machine with a disk, two rails, a front end, and two shares and more. It may reboot."""
    words = [*lab_qemu.board(machine), *lab_qemu.kernel(disk.kernel, disk.initramfs, PATIENT)]
    words += lab_qemu.streams(sockets)
    words += lab_qemu.share("checkout", REPOSITORY) + lab_qemu.share("site", packages)
    for tag, path in shares.items():
        words += lab_qemu.share(tag, path)
    words += lab_qemu.slots(NICS, machine) + lab_qemu.drive(disk.image, layered=True)
    return (*words, *(lab_qemu.drive(machine.disk) if machine.disk else ()))


def site_packages() -> Path:
    """The packages of the .venv that runs us, which the guest's own interpreter imports.

    Raises:
        CannotStart: they are of another Python than the guest's, so compiled ones would not load.
    """
    if sys.version_info[:2] != PYTHON:
        ours = ".".join(map(str, sys.version_info[:2]))
        anew = "set it up anew with PYTHON=/path/to/python3.11"
        raise CannotStart(f"systemd guest: .venv has Python {ours}, and Debian 12's is 3.11; {anew}")
    return Path(sysconfig.get_path("purelib"))


def run(words: Sequence[str], timeout: float) -> int:
    """Runs a command in a new guest and relays its output."""
    streams = {lab_agent.STDOUT: sys.stdout.buffer, lab_agent.STDERR: sys.stderr.buffer}

    def relay(kind: bytes, data: bytes) -> None:
        streams[kind].write(data)
        streams[kind].flush()

    with SystemdGuest.start() as guest:
        if guest.state != "running":
            print(f"systemd guest: {guest.state}: {' '.join(guest.failed_units())}", file=sys.stderr, flush=True)
        done = guest.launch(words, on_output=relay).wait(timeout)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def bench() -> int:
    """Prints the seconds of a boot, of a snapshot, of a reboot and of a restored snapshot."""
    with SystemdGuest.start() as guest:
        print(f"boot, s: {guest.seconds:.1f} ({guest.state})", flush=True)
        began = time.monotonic()
        guest.keep()
        print(f"keep a snapshot, s: {time.monotonic() - began:.1f}", flush=True)
        guest.reboot()
        print(f"reboot, s: {guest.seconds:.1f}", flush=True)
        began = time.monotonic()
        guest.restore()
        print(f"restore the snapshot, s: {time.monotonic() - began:.1f}", flush=True)
        began = time.monotonic()
        done = guest.run(("nodeprep", "check"))
        print(f"nodeprep check, s: {time.monotonic() - began:.1f} (exit {done.returncode})", flush=True)
    return 0


def packages() -> tuple[str, ...]:
    """The Debian packages that this machine needs for such guests."""
    return tuple(dict.fromkeys((*lab_image.PACKAGES, *systemd_disk.PACKAGES)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="systemd_guest.py", description="A QEMU guest that systemd starts.")
    actions = parser.add_subparsers(dest="action", required=True)
    runner = actions.add_parser("run", help="run COMMAND in a guest")
    runner.add_argument("--timeout", type=float, default=1200, help="seconds until COMMAND is killed (default: 1200)")
    runner.add_argument("command", nargs="+", metavar="COMMAND")
    actions.add_parser("packages", help="print the Debian packages that the rig needs")
    actions.add_parser("image", help="build the disk of a guest")
    actions.add_parser("bench", help="print how long a boot, a reboot and a snapshot take")
    arguments = parser.parse_args()
    if arguments.action == "packages":
        print(" ".join(packages()))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if arguments.action == "run":
            return run(arguments.command, arguments.timeout)
        if arguments.action == "bench":
            return bench()
        print(shlex.quote(str(systemd_disk.built().directory)))
    except (CannotStart, GuestError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
