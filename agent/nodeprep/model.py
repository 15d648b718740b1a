"""The words that every part of nodeprep speaks: statuses, verdicts, findings, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar, cast

from nodeprep.shown import NO_ACCESS, CannotLook, Shown, Unreadable, Why, guarded, not_recorded, raw, shown
from nodeprep.values import Value, field

__all__ = [
    "EVERYWHERE",
    "NODE",
    "NO_ACCESS",
    "SEVERAL",
    "CannotLook",
    "Check",
    "Confirmation",
    "Fact",
    "Finding",
    "Reason",
    "Remedy",
    "Report",
    "Seen",
    "Severity",
    "Shown",
    "Skipped",
    "Stage",
    "Status",
    "Subject",
    "Topic",
    "Unreadable",
    "Verdict",
    "Waived",
    "Why",
    "cannot_look",
    "filled",
    "guarded",
    "not_recorded",
    "raw",
    "shown",
    "values_of",
]

T = TypeVar("T")


class Status(StrEnum):
    """What a check says of one subject. Absent is not failed; unknown is neither passed nor failed."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """The most that a check may do to its node: close the gate, warn, or only tell."""

    GATE = "gate"
    WARN = "warn"
    INFO = "info"


class Stage(StrEnum):
    """DEVICE checks need no device plugin; NODE checks look at what plugins and Kubernetes advertise."""

    DEVICE = "device"
    NODE = "node"


class Confirmation(StrEnum):
    """How often a failure must be seen afresh before the agent believes it (numbers: decide/fault_confirmation)."""

    FAST = "fast"
    RECORDS = "records"
    SLOW = "slow"
    LATCHED = "latched"


class Topic(StrEnum):
    """What an event source may announce: a reason to look again, never the data itself."""

    LINK = "link"
    RDMA = "rdma"
    DEVICE = "device"
    KERNEL_LOG = "kernel-log"
    CONFIG = "config"


class Subject(Value):
    """What a verdict is about. Equality is by place (PCI address, MAC, resource) and port; the name is for people."""

    place: str = ""
    port: int | None = None
    name: str = "node"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subject) and self.place == other.place and self.port == other.port

    def __hash__(self) -> int:
        return hash((self.place, self.port))

    @property
    def key(self) -> str:
        return self.place if self.port is None else f"{self.place}/{self.port}"


NODE = Subject()
# Several devices together, such as a count of ports: follows from what is wrong with any, and explains none of them.
SEVERAL = Subject("*", None, "ports")


class Remedy(Value):
    """What is planned to mend a fault: a playbook's name and typed arguments. None is shipped yet (design 4)."""

    playbook: str
    args: Mapping[str, str] = field(default_factory=dict)


class Reason(Value):
    """Why a check gives a status, in one CamelCase word that stays the same, and what to do about it.

    A word that stands with two statuses is declared with each. `fix` is a template for `filled`; "" means that the
    check's general fix is right.
    """

    name: str
    status: Status
    fix: str = ""


# What the runner says itself, and what any check may say without declaring it.
CANNOT_LOOK = Reason("CannotLook", Status.UNKNOWN)
CHECK_BROKE = Reason("CheckBroke", Status.UNKNOWN)
NOTHING_HERE = Reason("Nothing", Status.ABSENT)
OTHER_PLATFORM = Reason("OtherPlatform", Status.ABSENT)
_REPLACE = "Drain and reboot the node (power cycle); if {place} is silent again, reseat or replace the board."
SILENT_DEVICE = (
    Reason("DeviceNotAnswering", Status.FAIL, _REPLACE),
    Reason("DeviceNotAnswering", Status.WARN, _REPLACE),
)
EVERYWHERE = (CANNOT_LOOK, CHECK_BROKE, NOTHING_HERE, OTHER_PLATFORM, *SILENT_DEVICE)


class Verdict(Value):
    """What a check says of one subject.

    `reason` is the name of a declared Reason; `message` names the device, what was seen and what was wanted by whom;
    `observed` and `expected` repeat the two values for machines. `blind` is what made it UNKNOWN. `args` are values
    for placeholders of the reason's fix that stand nowhere else in the verdict, such as an interface.
    """

    subject: Subject
    status: Status
    reason: str
    message: str
    remedy: Remedy | None = None
    observed: str = ""
    expected: str = ""
    blind: Unreadable | None = None
    args: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.subject, self.status, self.reason, self.message))


class _Values(dict[str, str]):
    """Values by placeholder; a word in capitals for a placeholder that has none, as manuals write it."""

    def __missing__(self, name: str) -> str:
        return "ADDRESS" if name == "place" else name.upper()


def filled(fix: str, verdict: Verdict | None = None) -> str:
    """A fix with values in the place of its placeholders, which are written as in `str.format`.

    {name} and {place} are the subject's, {observed} and {expected} the verdict's; others are arguments of the verdict
    or of its remedy. One without a value stands in capitals: {interface} is INTERFACE where no verdict is given.
    """
    return fix.format_map(_Values({} if verdict is None else values_of(verdict)))


def values_of(verdict: Verdict) -> dict[str, str]:
    """What placeholders stand for in a fix of this verdict; none of them is empty."""
    own = {"name": verdict.subject.name, "place": verdict.subject.place}
    own |= {"observed": verdict.observed, "expected": verdict.expected}
    known = {**(verdict.remedy.args if verdict.remedy else {}), **verdict.args, **own}
    return {name: str(value) for name, value in known.items() if value}


class Seen:
    """What one check may see of one look: facts and its own Want by type, and the look before for rates.

    `seen[Fact]` raises CannotLook if that fact could not be observed. `before` is None in a first look;
    `seconds` is the time between the two looks (CLOCK_BOOTTIME).
    """

    __slots__ = ("_values", "before", "seconds")

    def __init__(self, values: Mapping[type, object], before: Seen | None = None, seconds: float = 0.0) -> None:
        self._values = values
        self.before = before
        self.seconds = seconds

    def __getitem__(self, kind: type[T]) -> T:
        value = self._values[kind]
        if isinstance(value, Unreadable):
            raise CannotLook(value)
        return cast(T, value)

    def get(self, kind: type[T]) -> T | None:
        """A fact that a check can do without: None where this kind of look does not show it."""
        return self[kind] if kind in self._values else None

    def each(
        self, things: Iterable[T], judge: Callable[[T], Verdict | None], subject: Callable[[T], Subject] | None = None
    ) -> Iterator[Verdict]:
        """Judge things one by one: what could not be read of one of them leaves the others' verdicts alone.

        `subject` says whom an UNKNOWN is about; by default the thing's own `subject`.
        """
        for thing in things:
            try:
                verdict = judge(thing)
            except CannotLook as cannot:
                if cannot.blind.not_recorded:
                    continue
                about: Subject = subject(thing) if subject else cast(Any, thing).subject
                yield cannot_look(about, cannot.blind)
                continue
            if verdict is not None:
                yield verdict


def cannot_look(subject: Subject, blind: Unreadable) -> Verdict:
    """The verdict for a subject of which something that counts could not be read."""
    at = f" at {subject.place}" if ":" in subject.place and subject.place not in subject.name else ""
    message = f"{subject.name}{at}: could not look at {blind}"
    return Verdict(subject, CANNOT_LOOK.status, CANNOT_LOOK.name, message, observed=blind.kind, blind=blind)


def shortest(_: object) -> float:
    """The time over which the agent reckons rates, in seconds: as often as it reads counters (design 7)."""
    return 10.0


class Check(Value):
    """One question to a node, and all that docs, CLI, metrics, confirmation, gate and repair order are made from.

    It is not run where one of its `needs` is not shown; `uses` are facts that it can do without.
    `after`: if one of these fails on the same PCI device, this finding is shown as its consequence.
    `want`: the Value of the operator's numbers for this check. `rates`: it compares two looks, between which the
    agent lets `window(want)` seconds pass at least. `reasons`: all that it may say, with their statuses; the runner
    refuses any other. `fix` is a template as theirs, for those that have none of their own.
    """

    id: str
    question: str
    why: str
    fix: str
    source: str
    severity: Severity
    stage: Stage
    confirmation: Confirmation
    needs: tuple[type, ...]
    judge: Callable[[Seen], Iterator[Verdict]]
    reasons: tuple[Reason, ...] = ()
    uses: tuple[type, ...] = ()
    after: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    want: type | None = None
    rates: bool = False
    window: Callable[[Any], float] = shortest

    @property
    def family(self) -> str:
        return self.id.partition(".")[0]

    def declares(self, name: str, status: Status) -> bool:
        """Whether it may say this."""
        return any(one.name == name and one.status is status for one in (*self.reasons, CANNOT_LOOK))

    def advice(self, name: str, status: Status) -> str:
        """What to do about a reason, as a template; "" where the status asks for nothing."""
        if status not in (Status.WARN, Status.FAIL):
            return ""
        known = (one for one in (*self.reasons, *EVERYWHERE) if one.name == name and one.status is status)
        return next((one.fix for one in known if one.fix), self.fix)

    def finding(self, verdict: Verdict) -> Finding:
        """A verdict of this check, with what to do about it."""
        return Finding(self.id, self.severity, verdict, fix=self.fix_of(verdict))

    def fix_of(self, verdict: Verdict) -> str:
        """What to do about a verdict, with its values; "" where nothing is to be done."""
        return filled(self.advice(verdict.reason, verdict.status), verdict)


class Fact(Value):
    """How one kind of fact is come by.

    `every` is the polling period and `deadline` the longest an observation may take, both in seconds (milliseconds are
    usual; a second was too little for an emulated node on a busy host);
    `woken_by` are the event sources that make it due at once. `live` facts need a running node: a dead tree has none.
    `rest` is the least time between two observations, in seconds: of what others keep and serve to a whole fleet.
    `doors` are modules that observing a live node loads: loading is our own time and no part of the deadline.
    """

    kind: type
    observe: Callable[[Any], Any]
    woken_by: frozenset[Topic] = frozenset()
    every: float = 30.0
    deadline: float = 3.0
    live: bool = False
    doors: tuple[str, ...] = ()
    rest: float = 0.0


class Waived(Value):
    """A finding that an operator excused until a date, with the reason they gave."""

    reason: str
    until: str
    days_left: int


class Finding(Value):
    """A verdict with its check.

    `root` names the check whose failure on the same device this one follows from; `fix` says what to do about a fault,
    "" where nothing is to be done.
    """

    check: str
    severity: Severity
    verdict: Verdict
    root: str | None = None
    waived: Waived | None = None
    fix: str = ""

    @property
    def status(self) -> Status:
        return self.verdict.status

    @property
    def subject(self) -> Subject:
        return self.verdict.subject

    @property
    def counts(self) -> bool:
        """Whether it stands for itself: neither a consequence of another finding nor waived."""
        return self.root is None and self.waived is None


class Skipped(Value):
    """A check that was not run, and why: it was deselected, it needs a live node, or the tree holds no record of it."""

    check: str
    why: str


class Report(Value):
    """The findings of one round and what they rest on.

    `profile` is the name used and `chosen_by` who chose it; `boot_id` is empty where the node shows none. `agent` is
    the state that the agent of this node is in, "" where none is known. `missing_hardware` says which hardware was
    searched for and not found, if no profile applies for that reason.
    """

    node: str
    boot_id: str
    profile: str
    chosen_by: str
    gates: tuple[str, ...]
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    missing_hardware: str = ""
    notes: tuple[str, ...] = ()
    agent: str = ""
