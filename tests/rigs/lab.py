"""The lab: a real node with real RoCE in seconds, as a program and as a module (`from tests.rigs.lab import Guest`).

    python tests/rigs/lab.py run -- COMMAND   boots a guest, runs COMMAND inside as root, ends with its exit code
    python tests/rigs/lab.py packages         the Debian packages that it needs
    python tests/rigs/lab.py image            builds the image that the guest boots from, else the first run does
    python tests/rigs/lab.py bench            how long a boot and a command take

LAB_MODULES_DENY=rdma_rxe,... keeps kernel modules from the guest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.rigs import lab_agent, lab_image
from tests.rigs.lab_channel import Completed, GuestError, Running
from tests.rigs.lab_guest import DENY, PATH, Guest, denied_modules
from tests.rigs.lab_initramfs import CannotStart
from tests.rigs.lab_setup import FRONT_END, NICS, RAIL, RDMA_DEVICE, RDMA_PORT, Nic

__all__ = [
    "DENY",
    "FRONT_END",
    "NICS",
    "RAIL",
    "RDMA_DEVICE",
    "RDMA_PORT",
    "CannotStart",
    "Completed",
    "Guest",
    "GuestError",
    "Nic",
    "Running",
]

BOOTS = 3
COMMANDS = 30


def run(command: Sequence[str], timeout: float) -> int:
    """Runs a command in a new guest, with the caller's directory and environment."""
    streams = {lab_agent.STDOUT: sys.stdout.buffer, lab_agent.STDERR: sys.stderr.buffer}

    def relay(kind: bytes, data: bytes) -> None:
        streams[kind].write(data)
        streams[kind].flush()

    with Guest.start() as guest:
        for line in guest.setup_errors:
            print(f"lab: set-up: {line}", file=sys.stderr, flush=True)
        environment = {**os.environ, "PATH": f"{PATH}:{os.environ.get('PATH', '')}"}
        done = guest.launch(command, env=environment, cwd=Path.cwd(), on_output=relay).wait(timeout)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def bench() -> int:
    """Prints the seconds until a guest is set up, and the milliseconds of a command and of a restore in it."""
    boots, commands, restores = [], [], []
    for _ in range(BOOTS):
        began = time.monotonic()
        with Guest.start() as guest:
            boots.append(time.monotonic() - began)
            for _ in range(COMMANDS):
                began = time.monotonic()
                guest.run(("true",))
                commands.append(time.monotonic() - began)
            began = time.monotonic()
            guest.restore()
            restores.append(time.monotonic() - began)
    print(f"boot to set up, s: {' '.join(f'{seconds:.1f}' for seconds in boots)}")
    print(f"a command, ms: median {statistics.median(commands) * 1000:.0f}, worst {max(commands) * 1000:.0f}")
    print(f"restore, nothing to do, ms: median {statistics.median(restores) * 1000:.0f}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="lab.py", description="A QEMU guest with real RoCE.")
    actions = parser.add_subparsers(dest="action", required=True)
    runner = actions.add_parser("run", help="run COMMAND in a guest")
    runner.add_argument("--timeout", type=float, default=600, help="seconds until COMMAND is killed (default: 600)")
    runner.add_argument("command", nargs="+", metavar="COMMAND")
    actions.add_parser("packages", help="print the Debian packages that the lab needs")
    actions.add_parser("image", help="build the kernel image that guests boot from")
    actions.add_parser("bench", help="print how long a boot and a command take")
    arguments = parser.parse_args()
    if arguments.action == "packages":
        print(" ".join(lab_image.PACKAGES))
        return 0
    try:
        if arguments.action == "run":
            return run(arguments.command, arguments.timeout)
        if arguments.action == "bench":
            return bench()
        image = lab_image.held(denied_modules())
        print(image.directory)
        image.release()
    except (CannotStart, GuestError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
