"""The two files of a drill that runs: what undoes it, and what the agent is told.

`drill.json` beside the history of repairs is for us: it has the commands of the undo. So another `nodeprep` can run
them if the watcher was killed. `drill.json` in the directory of the agent's socket is for the agent: no other pod
mounts that. Both are written before the fault is made.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

from nodeprep.decide import drill_notice, drill_record
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.drill_record import DrillRecord
from nodeprep.doors.files import atomic

NAME = "drill.json"
MODE = 0o600
LIMIT_BYTES = 1 << 20  # a thousand routes are some 200 kB


class NotADrill(Exception):
    """The file of the drill is there and cannot be read. Its text is one line with the path."""


def notice(directory: str) -> DrillNotice | None:
    """What the agent of this socket's directory is told; None for nothing, or nothing that can be read."""
    try:
        return drill_notice.parsed(_content(directory))
    except (OSError, ValueError, RecursionError):
        return None


def tell(directory: str, told: DrillNotice) -> None:
    """Write what the agent is to know. Raises OSError."""
    Path(directory).mkdir(
        0o700, parents=True, exist_ok=True
    )  # an agent that starts during the drill is to know of it too
    atomic.put(directory, NAME, _text(drill_notice.document(told)), MODE)


def keep(directory: str, record: DrillRecord) -> None:
    """Write what undoes the drill. Raises OSError: what cannot be undone by others is not done."""
    atomic.put(directory, NAME, _text(drill_record.document(record)), MODE)


def kept(directory: str) -> DrillRecord | None:
    """The drill that runs or was left behind; None for none. Raises NotADrill."""
    path = Path(directory) / NAME
    try:
        record = drill_record.parsed(_content(directory))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise NotADrill(f"{path}: {error}; wanted the record of a drill") from error
    if record is None:
        raise NotADrill(f"{path}: found no record of a drill; see it, undo what it names, and remove it")
    return record


def remove(directory: str) -> None:
    """Remove the file. Raises OSError, but not if it is gone."""
    with suppress(FileNotFoundError):
        os.unlink(Path(directory) / NAME)  # noqa: PTH108 - as atomic has it


def _content(directory: str) -> object:
    """Raises OSError or ValueError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(Path(directory) / NAME, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("found no plain file")
        data = file.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise ValueError(f"found more than {LIMIT_BYTES} bytes")
    return json.loads(data)


def _text(content: object) -> bytes:
    return f"{json.dumps(content, indent=1, sort_keys=True)}\n".encode()
