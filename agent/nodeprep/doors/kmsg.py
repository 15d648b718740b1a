"""Reads the kernel log: /dev/kmsg where it may be opened, else syslog(2), as agents in containers must."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import deque
from dataclasses import dataclass

RECORD = 8192  # bytes; a read shorter than the record is EINVAL, and escapes make records grow
SYSLOG_ACTION_READ_ALL = 3  # include/uapi/linux/syslog.h; needs CAP_SYSLOG where dmesg_restrict is set
SYSLOG_ACTION_SIZE_BUFFER = 10
MOST = 20_000  # records, the newest; rings of the usual sizes hold fewer
READS = 500_000  # where more is written than we can read, there is no end to come to
# The time is there if printk.time is on, the caller in its second bracket if printk.caller is.
LINE = re.compile(r"<(\d{1,4})>(?:\[ *(\d{1,12})\.(\d{6})\](?:\[[^\]]*\])? )?(.*)")


@dataclass(frozen=True, slots=True)
class Record:
    """One kernel-log record. `facility` 0 is the kernel itself; `at` counts seconds since boot; `number` only grows."""

    number: int
    at: float
    level: int
    facility: int
    text: str


def read(device: str = "/dev/kmsg") -> tuple[Record, ...]:
    """The records since the last `dmesg --clear`, oldest first. Raises OSError if neither source may be read."""
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return _by_syslog()
    try:
        if not stat.S_ISCHR(os.fstat(descriptor).st_mode):  # what a root mounted without its /dev may hold
            return _by_syslog()
        # SEEK_DATA skips what a human cleared: that is how an operator says "seen and dealt with".
        os.lseek(descriptor, 0, os.SEEK_DATA)
        return tuple(_records(descriptor))
    finally:
        os.close(descriptor)


def _records(descriptor: int) -> deque[Record]:
    found: deque[Record] = deque(maxlen=MOST)
    for _ in range(READS):
        try:
            data = os.read(descriptor, RECORD)
        except BlockingIOError:  # no more
            break
        except BrokenPipeError:  # overwritten while we read: the next read is the oldest that is left
            continue
        if not data:
            break
        record = parse(data)
        if record is not None:
            found.append(record)
    return found


def parse(data: bytes) -> Record | None:
    """Decode one read(2) of /dev/kmsg: `prio,seq,usec,flags[,...];text`, then lines of KEY=value."""
    head, semicolon, rest = data.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not all(field.isdigit() for field in fields[:3]):
        return None
    text = rest.partition(b"\n")[0].decode(errors="replace")
    priority, number, microseconds = (int(field) for field in fields[:3])
    return Record(number, microseconds / 1e6, priority & 7, priority >> 3, text)


def _by_syslog() -> tuple[Record, ...]:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    size = libc.klogctl(SYSLOG_ACTION_SIZE_BUFFER, None, 0)
    if size < 0:
        raise OSError(ctypes.get_errno() or errno.EPERM, "syslog(2)")
    buffer = ctypes.create_string_buffer(size)
    length = libc.klogctl(SYSLOG_ACTION_READ_ALL, buffer, size)
    if length < 0:
        raise OSError(ctypes.get_errno() or errno.EPERM, "syslog(2)")
    return parse_syslog(buffer.raw[:length])


def parse_syslog(data: bytes) -> tuple[Record, ...]:
    """Decode a syslog(2) dump: lines of `<prio>[seconds.micros] text`. Raises OSError if it understands no line.

    The dump has no record numbers. Times serve instead: they say the same of a record in every dump.
    """
    records: list[Record] = []
    number = -1
    # Only the kernel's own line end counts: a name that a device gives itself may hold any other.
    for line in data.split(b"\n"):
        match = LINE.fullmatch(line.decode(errors="replace"))
        if match:
            priority, at = int(match[1]), int(match[2] or 0) * 1_000_000 + int(match[3] or 0)
            number = max(number + 1, at)
            records.append(Record(number, at / 1e6, priority & 7, priority >> 3, match[4]))
    if data.strip(b"\0\n") and not records:
        raise OSError(errno.EBADMSG, "syslog(2): not one line that looks like the kernel's")
    return tuple(records[-MOST:])
