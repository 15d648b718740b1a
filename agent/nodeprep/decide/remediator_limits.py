"""What the remediator's own manifest allows, whatever the agent asks: it believes nobody, and no approval.

An attempt counts as a run, however it ended: a play that failed has disturbed the node too. A check (`check`) and an
attempt that was refused change nothing. They count as attempts only: each costs the node a second of a processor.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.decide.remediator_protocol import RunRequest
from nodeprep.decide.remedy_header import RemedyHeader, SafetyClass
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value

DAY_SECONDS = 86400.0


class RunRefusal(StrEnum):
    """Why the remediator does not run a remedy. A closed set: the agent counts by it."""

    VERSION = "version"  # the one who asks is of another version
    SEEN = "seen"  # the attempt's id is known
    LATE = "late"  # the time by which it was to begin is over
    BUSY = "busy"  # something else repairs this node
    LEDGER = "ledger"  # the ledger cannot be read or written
    REMEDY = "remedy"  # no such remedy, or not one that the manifest lists
    CLASS = "class"
    DEADLINE = "deadline"
    DAY = "day"  # so many runs have begun within a day
    ATTEMPTS = "attempts"  # so many attempts of any kind have
    ARGUMENT = "argument"
    MISSING_TOOL = "missing-tool"
    IN_USE = "in-use"
    DOUBT = "doubt"  # an idle source that does not answer


class RemediatorLimits(Value):
    """The limits. `remedies` are those that may run, None for all; `third_class` those of class S3 among them.

    `runs` and `runs_each` are runs in 24 hours, of all remedies and of one; `restarts` those that may restart
    containers. `attempts` are all that began, with checks and with what was refused then. `seconds` is the longest
    deadline.
    """

    remedies: frozenset[str] | None = None
    highest: SafetyClass = SafetyClass.S2
    third_class: frozenset[str] = frozenset()
    runs: int = 24
    runs_each: int = 6
    restarts: int = 3
    seconds: float = 600.0
    attempts: int = 240


class PastRun(Value):
    """An attempt that began, at `at`, seconds since 1970.

    `is_restart`: it may have restarted containers. `is_idle`: it has changed nothing, for it was a check or refused.
    """

    remedy: str
    at: float
    is_restart: bool = False
    is_idle: bool = False


class RefusedRun(Exception):
    """A run that the limits do not allow: the reason, and why in one line."""

    def __init__(self, reason: RunRefusal, why: str) -> None:
        super().__init__(why)
        self.reason = reason


def hold(
    limits: RemediatorLimits, header: RemedyHeader | None, request: RunRequest, past: Iterable[PastRun], now: float
) -> RemedyHeader:
    """The header of a remedy that may run now. `now` is seconds since 1970. Raises RefusedRun."""
    name = request.remedy
    if header is None:
        raise RefusedRun(RunRefusal.REMEDY, f"{name}: there is no such remedy")
    if limits.remedies is not None and name not in limits.remedies:
        raise RefusedRun(RunRefusal.REMEDY, f"{name}: the remediator's manifest does not list it (--remedy)")
    _hold_class(limits, header)
    if request.deadline > limits.seconds:
        words = (
            f"{name}: found a deadline of {request.deadline:g} s, wanted at most {limits.seconds:g} (--max-deadline)"
        )
        raise RefusedRun(RunRefusal.DEADLINE, words)
    _hold_day(limits, header, [run for run in past if run.at > now - DAY_SECONDS], check=request.check)
    return header


def _hold_class(limits: RemediatorLimits, header: RemedyHeader) -> None:
    if header.safety is SafetyClass.S4:
        raise RefusedRun(RunRefusal.CLASS, f"{header.name} is of class S4, which is asked for and never done")
    if header.safety is SafetyClass.S3:
        if header.name not in limits.third_class:
            words = f"{header.name} is of class S3, and the remediator's manifest does not name it (--allow-s3)"
            raise RefusedRun(RunRefusal.CLASS, words)
        return
    if header.safety.is_above(limits.highest):
        words = f"{header.name} is of class {header.safety}, wanted at most {limits.highest} (--max-class)"
        raise RefusedRun(RunRefusal.CLASS, words)


def _hold_day(limits: RemediatorLimits, header: RemedyHeader, day: list[PastRun], *, check: bool) -> None:
    """A moment in the future is one of a clock that was set back since: it counts as now."""
    counts = [(len(day), limits.attempts, "attempts", "--attempts-a-day", RunRefusal.ATTEMPTS)]
    runs = [run for run in day if not run.is_idle]
    if not check:
        alike = [run for run in runs if run.remedy == header.name]
        counts.append((len(runs), limits.runs, "runs of all remedies", "--runs-a-day", RunRefusal.DAY))
        counts.append((len(alike), limits.runs_each, f"runs of {header.name}", "--runs-a-day-each", RunRefusal.DAY))
    if not check and header.uses_runtime:
        restarts = [run for run in runs if run.is_restart]
        what = "runs that restart containers"
        counts.append((len(restarts), limits.restarts, what, "--restarts-a-day", RunRefusal.DAY))
    for count, limit, what, option, reason in counts:
        if count >= limit:
            words = f"{header.name}: found {count} {what} within 24 hours, wanted fewer than {limit} ({option})"
            raise RefusedRun(reason, words)
