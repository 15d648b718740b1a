"""Gate files: what pods of this node wait for.

They are written last when a gate opens, and removed first when it closes.

They lie on a file system that the next boot empties, and they name the boot. A file of another boot counts as missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection

from nodeprep.agent_state import DEVICE_STAGE, READY_STAGE
from nodeprep.doors import clock
from nodeprep.doors.files import atomic
from nodeprep.doors.files.reader import Files
from nodeprep.model import Unreadable
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value, asdict, field_names

FILE_LIMIT_BYTES = 64 << 10  # bytes; without the profile's name a file has 250
QUOTED_NAME_LIMIT_BYTES = 200  # bytes of a quoted name; the kernel takes 255 for the whole name of a file
NAME_PREFIX_BYTES = 100
WORDS_LIMIT_CHARACTERS = 40  # characters of a file's words in a message
BOOT_ID = "/proc/sys/kernel/random/boot_id"
PLAIN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class GateStage(StrEnum):
    """How far a profile has come: what device plugins wait for, and what jobs wait for (design 3.1)."""

    DEVICE = DEVICE_STAGE
    READY = READY_STAGE


Gate = tuple[str, str]  # a profile's name and a stage


class GateRecord(Value):
    """The content of a gate file.

    `since` is wall time (RFC 3339), for people. `version` is the nodeprep that opened it.
    """

    profile: str
    stage: str
    boot_id: str
    node_uid: str
    version: str
    since: str


KEYS = field_names(GateRecord)


class GateFiles:
    """The gate files in a directory. Its methods raise nothing. They return "" or what is wrong, for people."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def sweep(self) -> str:
        """Remove the unfinished files of a killed agent. It is called at the start."""
        return self._remove(_is_unfinished)

    def close(self, wanted: Collection[Gate]) -> str:
        """Remove every gate file that is not of a wanted gate. This is the first of all actions."""
        wanted_names = {file_name(profile, stage) for profile, stage in wanted}
        return self._remove(lambda name: _is_gate(name) and name not in wanted_names)

    def open(self, wanted: Collection[Gate], *, boot_id: str, node_uid: str, version: str) -> str:
        """Write the missing files of wanted gates for this boot and Node. This is the last of all actions."""
        if wanted and not boot_id:
            return f"{self.directory}: no gate opens while the id of this boot is unknown; see cat {BOOT_ID}"
        troubles: list[str] = []
        for profile, stage in sorted(wanted):
            name = file_name(profile, stage)
            found = _read(self.directory, name)
            if isinstance(found, GateRecord) and (found.boot_id, found.node_uid) == (boot_id, node_uid):
                continue
            line = json.dumps(asdict(GateRecord(profile, stage, boot_id, node_uid, version, clock.utc()))) + "\n"
            try:
                atomic.put(self.directory, name, line.encode(), 0o644)
            except OSError as error:
                troubles.append(f"{self.directory}/{name} cannot be written ({error.strerror})")
        return self._trouble(troubles, "do not start")

    def _remove(self, is_one: Callable[[str], bool]) -> str:
        names = Files(self.directory).names("/")
        if isinstance(names, Unreadable):
            return self._trouble([f"{self.directory} cannot be read ({names.detail})"], "may start")
        troubles: list[str] = []
        for name in filter(is_one, names or ()):
            path = f"{self.directory}/{name}"
            try:
                os.unlink(path)  # noqa: PTH108 - beside atomic.put, in its words
            except FileNotFoundError:
                continue
            except OSError as error:
                if not _is_directory(path):
                    troubles.append(f"{path} cannot be removed ({error.strerror})")
        return self._trouble(troubles, "may start")

    def _trouble(self, troubles: list[str], pods: str) -> str:
        if not troubles:
            return ""
        more = f" and {len(troubles) - 1} more" if troubles[1:] else ""
        return f"{troubles[0]}{more}: pods that wait for it {pods}; see findmnt -T {self.directory}"


def open_gates(directory: str, boot_id: str) -> frozenset[Gate]:
    """The gates that are open in this boot."""
    names = Files(directory).names("/")
    found = [_read(directory, name) for name in names if _is_gate(name)] if isinstance(names, tuple) else []
    return frozenset(
        (one.profile, one.stage) for one in found if isinstance(one, GateRecord) and boot_id and one.boot_id == boot_id
    )


def is_known(directory: str, profile: str) -> bool:
    """Whether there is a file of a gate of this profile, of any boot."""
    return any(os.path.lexists(f"{directory}/{file_name(profile, stage)}") for stage in GateStage)


def why_closed(directory: str, profile: str, stage: str, boot_id: str) -> str:
    """Why a gate is not open in this boot. "" if it is."""
    found = _read(directory, file_name(profile, stage))
    if isinstance(found, str):
        return found
    if boot_id and found.boot_id == boot_id:
        return ""
    boot, since = (text[:WORDS_LIMIT_CHARACTERS] for text in (found.boot_id, found.since))
    return f"it is of another boot ({boot}, since {since})"


def file_name(profile: str, stage: str) -> str:
    """The name of a gate's file. No two gates share one, and it never begins with a dot."""
    quoted = "".join(
        chr(one) if one in PLAIN_BYTES else f"%{one:02X}" for one in profile.encode(errors="surrogatepass")
    )
    if quoted.startswith("."):
        quoted = f"%2E{quoted[1:]}"
    if len(quoted) > QUOTED_NAME_LIMIT_BYTES:
        import hashlib  # noqa: PLC0415 - 3 ms that only a name of this length costs

        digest = hashlib.sha256(profile.encode(errors="surrogatepass")).hexdigest()
        quoted = f"{quoted[:NAME_PREFIX_BYTES]}%-{digest}"  # no quoted byte looks like that
    return f"{quoted}.{stage}"


def _is_gate(name: str) -> bool:
    return not name.startswith(".") and name.endswith(tuple(f".{stage}" for stage in GateStage))


def _is_unfinished(name: str) -> bool:
    return name in {atomic.fresh(f"{name[1:].removesuffix(f'.{stage}.new')}.{stage}") for stage in GateStage}


def _is_directory(path: str) -> bool:
    """Nobody takes a directory for a gate file."""
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114 - Path.is_dir can raise


def _read(directory: str, name: str) -> GateRecord | str:
    """The content of a gate file, or why it has none. A file under a wrong name has none."""
    files = Files(directory)
    if files.link(f"/{name}") is not None:
        return "it is a link, wanted a file"
    data = files.data(f"/{name}", FILE_LIMIT_BYTES)
    if data is None:
        return "no such file"
    if isinstance(data, Unreadable):
        return f"it cannot be read ({data.detail})"
    try:
        given = json.loads(data)
        one = GateRecord(**{key: given[key] for key in KEYS})
    except (ValueError, TypeError, KeyError, RecursionError):
        return f"it is damaged, {len(data)} bytes that nodeprep did not write"
    if not all(isinstance(getattr(one, key), str) for key in KEYS) or file_name(one.profile, one.stage) != name:
        return "it is damaged, what it says is not of this name"
    return one
