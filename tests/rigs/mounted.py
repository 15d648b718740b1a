"""A mount namespace for one Python program: full and read-only file systems, which end with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.rigs.absent import cannot_start

NO_MOUNT = 77  # the exit code of our script


def seen_with(mounts: str, look: str, *arguments: str) -> Any:
    """The JSON output of a Python program, after a shell script made its mounts. Both get the arguments."""
    flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    command = ["unshare", *flags, "sh", "-c"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    script = f'look="$1"; python="$2"; shift 2\n{{ {mounts}; }} || exit {NO_MOUNT}\nexec "$python" -c "$look" "$@"'
    done = subprocess.run(
        [*command, script, "sh", look, sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )
    if done.returncode == NO_MOUNT or done.stderr.startswith("unshare: "):
        cannot_start(f"no mount namespace to mount in: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
