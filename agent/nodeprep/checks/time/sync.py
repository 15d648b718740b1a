"""Is something keeping the node's clock right?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.machine.clock import Clock
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict
from nodeprep.values import Value

# Seconds (NTP_PHASE_LIMIT, include/linux/timex.h): the error that the kernel assumes after boot, after settimeofday(2),
# and about nine hours after the last correction, since it adds 500 ppm of the time that went by.
UNKEPT_CLOCK_ERROR_SECONDS = 16.0


class Want(Value):
    """How wrong the clock may be, in seconds.

    Both are ours: certificates, leases and logs of several nodes bear a second; a clock that NTP keeps is within
    milliseconds.
    """

    max_error: Annotated[float, "what the kernel thinks the clock may be wrong by"] = 1.0
    max_offset: Annotated[float, "the correction under way."] = 0.1


def judge(seen: Seen) -> Iterator[Verdict]:
    clock, want = seen[Clock], seen[Want]
    shows = f"the clock is off by {clock.offset:.3f} s, at most by {clock.max_error:.3f} s"
    look = "see chronyc tracking, or timedatectl timesync-status"
    # chronyd without `rtcsync` keeps the clock and never sets the flag. The error that it gives the kernel tells this.
    if not clock.synchronised and clock.max_error >= UNKEPT_CLOCK_ERROR_SECONDS:
        message = f"nothing keeps the node's clock: no NTP or PTP service runs, or it reaches no server; {look}"
        yield Verdict(NODE, Status.WARN, "NotSynchronised", message, None, "not synchronised", "synchronised")
    elif clock.max_error > want.max_error:
        allowed = f"{want.max_error:g} s at most are wanted {seen.wanted_by('max-error')}"
        message = f"{shows}; {allowed}: the time service lost its servers; {look}"
        yield Verdict(NODE, Status.WARN, "ErrorLarge", message, None, f"{clock.max_error}", f"{want.max_error}")
    elif abs(clock.offset) > want.max_offset:
        allowed = f"{want.max_offset:g} s at most are wanted {seen.wanted_by('max-offset')}"
        message = f"{shows}; {allowed}: the time service is still correcting it; {look}"
        yield Verdict(NODE, Status.WARN, "OffsetLarge", message, None, f"{clock.offset}", f"{want.max_offset}")
    else:
        yield Verdict(NODE, Status.OK, "Kept", shows)


CHECK = Check(
    id="time.sync",
    question="Is something keeping the node's clock right?",
    why="Certificates, leases, checkpoints and the order of log lines of a job's nodes rest on clocks that agree.",
    fix="Start chronyd, systemd-timesyncd or phc2sys, and give it a server that this node reaches.",
    reasons=(
        Reason("NotSynchronised", Status.WARN),
        Reason(
            "ErrorLarge",
            Status.WARN,
            "chronyc tracking, or timedatectl timesync-status: give the time service a server that this node reaches.",
        ),
        Reason(
            "OffsetLarge",
            Status.WARN,
            "Wait while the time service corrects it; chronyc makestep does it at once, while no job runs.",
        ),
        Reason("Kept", Status.OK),
    ),
    source="adjtimex(2); Linux kernel/time/ntp.c",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Clock,),
    want=Want,
    judge=judge,
)
