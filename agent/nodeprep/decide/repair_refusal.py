"""Why a remedy that is due does not run now: a closed set of words, and a line for whoever asks at night."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.decide.remediator_limits import RunRefusal
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value


class SuppressionReason(StrEnum):
    """Why not. A closed set: the metric `nodeprep_repair_suppressed_total` counts by it."""

    MODE = "mode"  # observe or gate
    NOT_BUILT = "not-built"  # this installation has no such remedy
    DISPUTED = "disputed"  # only this version of nodeprep sees the fault
    DRILL = "drill"  # somebody made the fault, and undoes it
    CLASS = "class"  # the remedy is of a higher class than may run here
    OPERATOR_OWNED = "operator-owned"  # another operator's container owns the driver
    PAUSED = "paused"  # a human paused this node, or the fleet
    FOREIGN_MAINTENANCE = "foreign-maintenance"  # somebody else works on this node
    MEMORY = "memory"  # what is done could not be remembered
    TAINT = "taint"  # no confirmed gate, so a job may land here meanwhile
    BUDGET = "budget"  # no try is left
    BACK_OFF = "back-off"  # the last try did not help, and the next comes later
    APPROVAL = "approval"  # it runs only where a human approved it
    REMEDIATOR = "remediator"  # nobody runs it, or the remediator refused
    BUSY = "busy"  # another remedy runs here, or is being judged
    UNSEEN = "unseen"  # what the fault rests on could not be looked at once more
    IDLE = "idle"  # somebody uses the device, or nobody can tell
    SLOT = "slot"  # as many nodes as may are in repair
    CORRELATED = "correlated"  # the same fault on several nodes at once: the fault is elsewhere
    HELD = "held"  # the remedy did not help on several nodes: a human is to look at it


class Suppression(Value):
    """A remedy that is due and does not run: for which check, why in one word and one line.

    `until` is when it may be tried again, CLOCK_BOOTTIME seconds. None: when what the line names has changed.
    """

    reason: SuppressionReason
    check: str
    remedy: str
    why: str
    until: float | None = None


class RefusalMeaning(Value):
    """What a refusal of the remediator means here, and after how many seconds it is asked again.

    The longer a fault stands, the more rarely: after half of its age, but within `longest` seconds.
    """

    reason: SuppressionReason
    seconds: float
    longest: float = 0.0

    def wait(self, stood: float) -> float:
        """The seconds until it is asked again about a fault that has stood for so many seconds."""
        return max(self.seconds, min(stood / 2.0, self.longest))


SOON_SECONDS = 60.0  # seconds until the remediator is asked again about what ends by itself, such as a rollout
IN_USE_SECONDS = 120.0  # seconds for a device in use of which the API server knows nothing
# Each question about it costs the node a second of a processor, and one of the remediator's 240 attempts of a day. So
# eight devices in use all day long leave the other remedies theirs.
IN_USE_LONGEST_SECONDS = 3600.0
RARELY_SECONDS = 600.0  # seconds for what only a human changes, such as a limit in its manifest or a missing program

REFUSAL_MEANINGS: Mapping[RunRefusal, RefusalMeaning] = {
    RunRefusal.VERSION: RefusalMeaning(SuppressionReason.REMEDIATOR, SOON_SECONDS),  # a rollout replaces the pair
    RunRefusal.SEEN: RefusalMeaning(SuppressionReason.REMEDIATOR, RARELY_SECONDS),
    RunRefusal.LATE: RefusalMeaning(SuppressionReason.REMEDIATOR, SOON_SECONDS),
    RunRefusal.BUSY: RefusalMeaning(SuppressionReason.BUSY, SOON_SECONDS),
    RunRefusal.LEDGER: RefusalMeaning(SuppressionReason.REMEDIATOR, RARELY_SECONDS),
    RunRefusal.REMEDY: RefusalMeaning(SuppressionReason.REMEDIATOR, RARELY_SECONDS),
    RunRefusal.CLASS: RefusalMeaning(SuppressionReason.CLASS, RARELY_SECONDS),
    RunRefusal.DEADLINE: RefusalMeaning(SuppressionReason.REMEDIATOR, RARELY_SECONDS),
    RunRefusal.DAY: RefusalMeaning(SuppressionReason.BUDGET, RARELY_SECONDS),
    RunRefusal.ATTEMPTS: RefusalMeaning(SuppressionReason.REMEDIATOR, RARELY_SECONDS),  # none of them was a try
    RunRefusal.ARGUMENT: RefusalMeaning(SuppressionReason.REMEDIATOR, RARELY_SECONDS),
    RunRefusal.MISSING_TOOL: RefusalMeaning(SuppressionReason.REMEDIATOR, RARELY_SECONDS),
    RunRefusal.IN_USE: RefusalMeaning(SuppressionReason.IDLE, IN_USE_SECONDS, IN_USE_LONGEST_SECONDS),
    RunRefusal.DOUBT: RefusalMeaning(SuppressionReason.IDLE, IN_USE_SECONDS, IN_USE_LONGEST_SECONDS),
}
# The longest wait until what others hold back is approached again, in first waits (30 s as shipped). What is held or is
# on several nodes stays so for half an hour or until a human comes; a slot and a pod may be gone in minutes.
LONGEST_WAITS: Mapping[SuppressionReason, float] = {
    SuppressionReason.CORRELATED: 20.0,
    SuppressionReason.HELD: 20.0,
    SuppressionReason.PAUSED: 4.0,
    SuppressionReason.SLOT: 10.0,
    SuppressionReason.IDLE: 10.0,
}
USUAL_LONGEST_WAIT = 4.0
# Share of a wait by which nodes differ, so that a fleet that failed together does not ask together.
WAIT_SPREAD_SHARE = 0.25
# Why the agent itself did not ask the remediator, though the attempt was to begin.
UNSAVED, UNSENT = "unsaved", "unsent"
OWN_MEANINGS: Mapping[str, RefusalMeaning] = {
    UNSAVED: RefusalMeaning(SuppressionReason.MEMORY, SOON_SECONDS),  # the ledger was not kept
    UNSENT: RefusalMeaning(SuppressionReason.REMEDIATOR, SOON_SECONDS),  # nobody listens at its socket
}
UNKNOWN_REFUSAL = RefusalMeaning(SuppressionReason.REMEDIATOR, RARELY_SECONDS)  # of a newer remediator


def waits(reason: SuppressionReason, times: int, share: float) -> float:
    """How many first waits pass until a remedy that was held back so often in a row is approached again.

    Each wait is twice the one before. `share` is of the node, 0 to 1.
    """
    longest = LONGEST_WAITS.get(reason, USUAL_LONGEST_WAIT)
    return min(2.0 ** min(max(times, 1) - 1, 10), longest) * (1.0 + WAIT_SPREAD_SHARE * share)


def meaning(refused: str) -> RefusalMeaning:
    """What a word of a refusal means. One of a newer remediator is not known here."""
    if refused in OWN_MEANINGS:
        return OWN_MEANINGS[refused]
    known = refused in list(RunRefusal)
    return REFUSAL_MEANINGS[RunRefusal(refused)] if known else UNKNOWN_REFUSAL
