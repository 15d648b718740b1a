"""A lab guest for tests: a virtual machine with this machine's root, whose healthy state can be restored."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from tests.rigs import lab_image, lab_qemu, lab_setup
from tests.rigs.lab_qemu import Machine
from tests.rigs.virtual_machine import Place, VirtualMachine

REPOSITORY = Path(__file__).resolve().parents[2]
DENY = "LAB_MODULES_DENY"
PATH = f"{REPOSITORY}/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Guest(VirtualMachine):
    """One virtual machine. Get one with `Guest.start()`; it ends with its `with` block, or with this process.

    Its commands run in this checkout, which has the same path as on this machine. Their PATH begins with its
    `.venv/bin`.

    Attributes:
        denied: the kernel modules that are kept from it.
        setup_errors: failed steps of its set-up, a line each; empty if all is well.
        pid: QEMU's process.
    """

    def __init__(self, denied: frozenset[str], machine: Machine | None = None) -> None:
        self.denied = denied
        self.setup_errors: tuple[str, ...] = ()
        self._image = lab_image.held(denied)
        super().__init__(
            lambda sockets: lab_qemu.start(self._image, machine or Machine(), sockets),
            lab_setup.NICS,
            Place(REPOSITORY, environment()),
        )

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

    def restore(self) -> tuple[str, ...]:
        """Restores the state of `lab_setup`, from any state that a test left. Returns the steps that failed."""
        self.restore_hardware()
        return tuple(self.run(("sh", "-c", lab_setup.script())).text.splitlines())

    def stop(self) -> None:
        """Switches the guest off at once, without a shutdown: nothing in it must be kept."""
        super().stop()
        self._image.release()


def environment() -> dict[str, str]:
    """A small environment for commands in the guest, where this machine's directories are at the same paths."""
    return {"PATH": PATH, "HOME": str(Path.home()), "LANG": "C.UTF-8", "TERM": "dumb"}


def denied_modules() -> frozenset[str]:
    """The modules that the environment keeps from the guest: names separated by commas."""
    return frozenset(name.strip() for name in os.environ.get(DENY, "").split(",") if name.strip())
