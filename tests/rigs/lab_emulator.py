"""The QEMU that emulates guests: this machine's if it is new enough, else that of Debian 13, kept in the user's cache.

Under QEMU 10 a program in a guest starts in half the processor time that it takes under Debian 12's 7.2. Nothing is
installed: its packages are unpacked with all that they need, the C library and its loader too.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.rigs import bare_debian, cache
from tests.rigs.lab_initramfs import CannotStart, output
from tests.rigs.progress import say

PROGRAM = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
WANTED = 10  # of its version, the first number
SUITE = "trixie"  # whose QEMU is 10.0
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# What `ps` and a test see as the program's name. It is the C library's loader.
LOADER = "bin/qemu"
APT = """\
Dir::State "{0}/state";
Dir::State::status "{0}/status";
Dir::Cache "{0}/cache";
Dir::Etc::sourcelist "{0}/sources.list";
Dir::Etc::sourceparts "-";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
"""


@functools.cache
def words() -> tuple[str, ...]:
    """The words that start QEMU. Without a newer one it is this machine's, and stderr says why guests are slower."""
    if (here := installed_version()) >= WANTED:
        return (PROGRAM,)
    try:
        return of(held())
    except (CannotStart, bare_debian.CannotStart, OSError, subprocess.TimeoutExpired) as reason:
        found = f"QEMU {here}" if here else "no QEMU"
        say(f"lab: guests start programs half as fast: found {found}, wanted {WANTED}, and cannot have it: {reason}")
        return (PROGRAM,)


def installed_version() -> int:
    """The first number of this machine's QEMU, 0 without one."""
    try:
        said = output(PROGRAM, "--version")
    except (CannotStart, OSError):
        return 0
    return int(found[1]) if (found := re.search(r"version (\d+)\.", said)) else 0


def held() -> Path:
    """The directory where QEMU's packages are unpacked, built if needed.

    Raises:
        CannotStart: apt cannot have them.
    """
    with cache.locked("qemu") as directory:
        return cache.built(directory, "qemu", Path(__file__).read_bytes(), build)


def of(root: Path) -> tuple[str, ...]:
    """The words that start the QEMU unpacked in `root`, with its own libraries and firmware."""
    firmware = [word for place in ("qemu", "seabios") for word in ("-L", str(root / "usr/share" / place))]
    loader = (str(root / LOADER), "--library-path", str(root / LIBRARIES))
    return (*loader, str(root / "usr/bin" / PROGRAM), *firmware)


def build(root: Path) -> None:
    """Unpacks Debian 13's QEMU and all that it depends on, and tries it."""
    source = bare_debian.mirror()
    if not source:
        raise CannotStart("lab: apt has no source of Debian's own packages; run: apt-get update")
    say(f"lab: fetching QEMU of Debian's {SUITE}, 38 MB: its guests start programs twice as fast")
    apt = root / "apt"
    for place in ("state/lists/partial", "cache/archives/partial"):
        (apt / place).mkdir(parents=True)
    (apt / "status").touch()
    (apt / "sources.list").write_text(f"deb [signed-by={KEYRING}] {source} {SUITE} main\n")
    (apt / "apt.conf").write_text(APT.format(apt))
    # What is installed here does not count, for the empty `status` names nothing; and nothing is installed.
    for order in (("update",), ("install", "--yes", "--download-only", PACKAGE)):
        output("env", f"APT_CONFIG={apt}/apt.conf", "apt-get", "--quiet", *order)
    for archive in (apt / "cache/archives").glob("*.deb"):
        output("dpkg-deb", "--extract", str(archive), str(root))
    cache.remove(apt)
    (root / LOADER).parent.mkdir(exist_ok=True)
    os.link((root / LIBRARIES / "ld-linux-x86-64.so.2").resolve(), root / LOADER)
    said = subprocess.run((*of(root), "--version"), capture_output=True, text=True, check=False)
    if not re.search(rf"version {WANTED}\.", said.stdout):
        raise CannotStart(f"lab: QEMU of {SUITE} does not start here: {said.stderr.strip() or said.stdout.strip()}")


if __name__ == "__main__":
    print(*words())
