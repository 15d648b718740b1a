"""A network namespace for one script. Its set-up ends with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.rigs.absent import cannot_start


def isolated(setup: str, *ending: str) -> subprocess.CompletedProcess[str]:
    """Run a script and then a command in a network namespace that ends with them."""
    flags = ["--net"] if os.geteuid() == 0 else ["--net", "--user", "--map-root-user"]
    return subprocess.run(
        ["unshare", *flags, "sh", "-c", f'{setup}\nexec "$@"', "sh", *ending],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/sbin:/usr/sbin"},
    )


def seen_in(setup: str, look: str) -> dict[str, Any]:
    """The JSON output of a Python program in the namespace that the script sets up."""
    possible = isolated("", "ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
    if possible.returncode:
        cannot_start(f"no network namespace with a veth pair: {possible.stderr.strip()}")
    done = isolated(setup, sys.executable, "-c", look)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen
