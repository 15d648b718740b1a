"""The kernel log's ring, which writes over what nobody has read yet: in the guest, for it is this machine's else."""

from __future__ import annotations

from tests.rigs.lab import Guest

WRITTEN = 400  # records of 900 bytes, into a ring of 128 KiB (CONFIG_LOG_BUF_SHIFT of Debian)
LOOK = f"""
from nodeprep.doors.files.kmsg import KernelLogReader
log = KernelLogReader()
before = log.read()
with open("/dev/kmsg", "w", buffering=1) as ring:
    for number in range({WRITTEN}):
        ring.write(f"<5>filler {{number}} {{'x' * 900}}\\n")
found = [record.text.split() for record in log.read()]
fillers = [int(words[1]) for words in found if words[:1] == ["filler"]]
print(len(before), fillers[0], fillers[-1], fillers == sorted(fillers))
"""


def test_what_was_written_over_before_it_was_read_is_passed_over(guest: Guest) -> None:
    """A log that stands in the overwritten part is told EPIPE once; the oldest record that is left comes next."""
    before, first, last, in_order = guest.run(("python", "-c", LOOK)).text.split()
    assert int(before) > 0
    assert 0 < int(first) < int(last) == WRITTEN - 1
    assert in_order == "True"
