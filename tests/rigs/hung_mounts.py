"""Network file systems whose servers are gone: every access hangs or fails.

    python tests/rigs/hung_mounts.py run -- COMMAND        # $MOUNTS is a directory: hung0 to hung2, gone

Real here: mounts of this kernel that sleep in statvfs, as those of a dead NFS server do, and one that is disconnected,
in a mount and a PID namespace of their own. They are FUSE file systems without a server at /dev/fuse. Not real: a
killed process can leave them. Some dead mounts do not allow this.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HUNG = 3
UNAVAILABLE = 77  # exit code of tests that could not be run, by automake's convention
NAMESPACES = ("--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
LIBC = ctypes.CDLL(None, use_errno=True)


class Unavailable(Exception):
    """This machine does not let us make such mounts."""


def mount(source: str, point: Path) -> int:
    """Mount a FUSE file system without a server. Returns a descriptor; closing it ends the file system."""
    point.mkdir()
    try:
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise Unavailable(f"/dev/fuse: {error.strerror}") from error
    options = f"fd={server},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if LIBC.mount(source.encode(), str(point).encode(), b"fuse", 0, options.encode()):
        raise Unavailable(f"mount a FUSE file system: {os.strerror(ctypes.get_errno())}")
    return server


def inside(scratch: Path, command: list[str]) -> int:
    """Be the first process of the new namespaces."""
    for number in range(HUNG):
        mount(f"nas:/{number}", scratch / f"hung{number}")
    os.close(mount("nas:/gone", scratch / "gone"))
    return subprocess.run(command, env=os.environ | {"MOUNTS": str(scratch)}, check=False).returncode


def main(arguments: list[str]) -> int:
    match arguments:
        case ["run", "--", *command] if command:
            with tempfile.TemporaryDirectory(prefix="nodeprep-mounts-") as scratch:
                own = [sys.executable, __file__, "inside", scratch, "--", *command]
                done = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"hung_mounts: not on this machine: {done.stderr.strip()}", file=sys.stderr)
                    return UNAVAILABLE
                return subprocess.run(["unshare", *NAMESPACES, *own], check=False).returncode
        case ["inside", scratch, "--", *command]:
            try:
                return inside(Path(scratch), command)
            except Unavailable as error:
                print(f"hung_mounts: not on this machine: {error}", file=sys.stderr)
                return UNAVAILABLE
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
