"""The state of this host's systemd, by systemctl: nothing else says it without D-Bus."""

from __future__ import annotations

import shutil
import subprocess

from nodeprep.doors import children

COMMAND = ("systemctl", "is-system-running")


def system_state(seconds: float) -> str:
    """A word of systemctl(1), such as "running" or "stopping"; "" without systemd, or if it does not say it in time."""
    if shutil.which(COMMAND[0]) is None:
        return ""
    try:
        child = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return ""
    try:
        said, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        children.last_words(child)
        return ""
    return said.decode(errors="replace").strip()
