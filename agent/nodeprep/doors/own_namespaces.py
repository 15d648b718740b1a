"""Whether this process lives where the host does: in its mount, network and PID namespaces."""

from __future__ import annotations

import os
from pathlib import Path

from nodeprep.door_values import FIRST_PID_NAMESPACE

SHARED = ("mnt", "net")
WORDS = {"mnt": "another mount namespace", "net": "another network namespace"}


def elsewhere(process: str = "1") -> str:
    """In which way we are not where a process of the host is, "" if we are.

    `process` is its number. The first process of a container is its own: where `process` is 1, our PID namespace must
    be the first one of the boot.
    """
    if process == "1" and _number("self", "pid") != FIRST_PID_NAMESPACE:
        return "another PID namespace than the host's"
    for kind in SHARED:
        host = _number(process, kind)
        if host is None:
            return f"a place from which the host's first process is not seen (/proc/{process}/ns/{kind})"
        if host != _number("self", kind):
            return f"{WORDS[kind]} than the host's first process"
    return ""


def _number(process: str, kind: str) -> int | None:
    try:
        return os.stat(Path("/proc") / process / "ns" / kind).st_ino
    except OSError:
        return None
