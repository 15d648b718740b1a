"""Runs inside a container, as whoever took it over, and says what it reaches of other pods and of the node.

    python3 -I -c "$(cat attack.py)" MARKER NAME

It imports nothing of ours: it runs with the container's own Python. It changes nothing that stays; what it makes is
called NAME. It prints one JSON object of lists:

    read       what led to a text with MARKER, or to the node's /etc/shadow
    written    what led to a place of the node where a file could be made
    writable   mount points below /host in which something can be made, or opened for writing
    connects   unix sockets of any type that take a connection, by path, or by "@name" where they have none
    devices    device nodes below /host that open, but for those that every container has
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

MOST = 300  # files of a mount that are tried
# null, zero, full, random, urandom and tty are in every container (runtime-spec, config-linux.md, default devices).
# ptmx and net/tun open there too, and give what is new and its own: a tunnel that others have wants CAP_NET_ADMIN.
HARMLESS = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2), (10, 200)}
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
OWN = ("/proc", "/sys")
WALKED = (*OWN, "/host/proc", "/host/sys", "/host/usr", "/host/lib")  # no device or socket lies there
TYPES = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM)


def text(path: str) -> str:
    """The start of a file; "" where it does not yield."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 1 << 16).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def opens(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
    except OSError:
        return False
    return True


def of_processes(proc: str, marker: str, name: str) -> tuple[set[str], set[str]]:
    """What the processes that a /proc shows lead to: what can be read, and where a file can be made."""
    found: set[str] = set()
    made: set[str] = set()
    for pid in filter(str.isdigit, names(proc)):
        here = f"{proc}/{pid}"
        found |= {f"{proc}/PID/{file}" for file in ("environ", "maps", "status") if marker in text(f"{here}/{file}")}
        for link in ("root", "cwd", *(f"fd/{one}" for one in names(f"{here}/fd"))):
            way, told = f"{here}/{link}", f"{proc}/PID/{link.partition('/')[0]}"
            found |= {told} if marker in text(way) or marker in text(f"{way}/word") else set()
            found |= {f"{told}/etc/victim"} if marker in text(f"{way}/etc/victim/word") else set()
            found |= {f"{told}/host-etc/shadow"} if "root:" in text(f"{way}/host-etc/shadow") else set()
            if os.path.isdir(f"{way}/host-etc") and text(f"{way}{TOKEN}").startswith("ey"):
                found.add(f"{told}{TOKEN}")
            with suppress(OSError):
                os.close(os.open(f"{way}/host-etc/cron.d/{name}", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644))
                made.add(f"{told}/host-etc/cron.d")
                os.unlink(f"{way}/host-etc/cron.d/{name}")
        if proc not in OWN:  # our own memory and namespaces are ours
            found |= {f"{proc}/PID/ns" for one in names(f"{here}/ns") if opens(f"{here}/ns/{one}", os.O_RDONLY)}
            found |= {f"{proc}/PID/mem"} if opens(f"{here}/mem", os.O_RDWR) else set()
    return found, made


def mount_points() -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return [re.sub(r"\\([0-7]{3})", lambda one: chr(int(one[1], 8)), line.split(" ")[4]) for line in table]


def is_writable(point: str, name: str) -> bool:
    """Whether a directory can be made there, or one of its first files be opened for writing."""
    if os.path.isfile(point):
        return opens(point, os.O_WRONLY)
    with suppress(OSError):
        os.mkdir(f"{point}/{name}")
        os.rmdir(f"{point}/{name}")
        return True
    device, tried = os.lstat(point).st_dev, 0
    for where, below, files in os.walk(point):
        below[:] = [one for one in below if os.lstat(f"{where}/{one}").st_dev == device]
        for path in (f"{where}/{one}" for one in files):
            with suppress(OSError):
                tried += stat.S_ISREG(os.lstat(path).st_mode)
                if stat.S_ISREG(os.lstat(path).st_mode) and opens(path, os.O_WRONLY):
                    return True
        if tried > MOST:
            return False
    return False


def special(is_wanted: Callable[[int], bool]) -> Iterator[tuple[str, os.stat_result]]:
    """Every file of a kind, wherever one may lie."""
    for where, below, files in os.walk("/"):
        below[:] = [one for one in below if os.path.join(where, one) not in WALKED]
        for path in (os.path.join(where, one) for one in files):
            with suppress(OSError):
                if is_wanted((seen := os.lstat(path)).st_mode):
                    yield path, seen


def connects(address: str) -> bool:
    """Whether a socket of some type connects: one of another type than the listener's is refused (EPROTOTYPE)."""
    for kind in TYPES:
        with socket.socket(socket.AF_UNIX, kind) as one:
            one.settimeout(2)
            with suppress(OSError):
                one.connect(address)
                return True
    return False


def listens(path: str) -> bool:
    """By a descriptor of the file: a path of more than 107 bytes is no address."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return connects(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def nameless() -> set[str]:
    """The unix sockets of the network namespace that have a name and no file, such as "@name"."""
    with open("/proc/net/unix", encoding="utf-8") as table:
        rows = [line.split() for line in table]
    return {words[7] for words in rows if len(words) > 7 and words[7].startswith("@")}


def main(marker: str, name: str) -> None:
    report: dict[str, set[str]] = {"read": set(), "written": set()}
    for proc in ("/proc", "/host/proc"):
        found, made = of_processes(proc, marker, name)
        report["read"] |= found
        report["written"] |= made
    report["writable"] = {one for one in mount_points() if one.startswith("/host/") and is_writable(one, name)}
    report["connects"] = {path for path, _ in special(stat.S_ISSOCK) if listens(path)}
    report["connects"] |= {one for one in nameless() if connects(f"\0{one[1:]}")}
    report["devices"] = {
        path
        for path, seen in special(lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode))
        if path.startswith("/host/")
        if (os.major(seen.st_rdev), os.minor(seen.st_rdev)) not in HARMLESS
        if opens(path, os.O_RDWR)
    }
    print(json.dumps({one: sorted(found) for one, found in report.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
