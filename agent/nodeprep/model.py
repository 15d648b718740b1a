"""The types that every part of nodeprep uses: statuses, verdicts, findings, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from nodeprep.newer_python import StrEnum
from nodeprep.shown import (
    NO_ACCESS,
    CannotLook,
    Shown,
    Unreadable,
    Why,
    derived,
    excluded,
    grouped,
    guarded,
    not_mounted,
    not_recorded,
    raw,
    shown,
    stands_for_all,
    supposing,
)
from nodeprep.values import Value, field, replace

__all__ = [
    "EVERYWHERE",
    "NODE",
    "NO_ACCESS",
    "SEVERAL",
    "Basis",
    "CannotLook",
    "Check",
    "Confirmation",
    "Fact",
    "Finding",
    "Lack",
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
    "derived",
    "excluded",
    "failing_anyway",
    "filled",
    "grouped",
    "guarded",
    "not_mounted",
    "not_recorded",
    "raw",
    "shown",
    "signs",
    "stands_for_all",
    "values_of",
]

T = TypeVar("T")


class Status(StrEnum):
    """What a check says of one subject. Absent is not a failure. Unknown is neither a pass nor a failure."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """The strongest effect of a check on its node: close the gate, warn, or only inform."""

    GATE = "gate"
    WARN = "warn"
    INFO = "info"


class Stage(StrEnum):
    """DEVICE checks need no device plugin. NODE checks look at what plugins and Kubernetes advertise."""

    DEVICE = "device"
    NODE = "node"


class Confirmation(StrEnum):
    """How often a failure must be seen again before the agent believes it (numbers: decide/confirmation_policy)."""

    FAST = "fast"
    RECORDS = "records"
    SLOW = "slow"
    LATCHED = "latched"


class Topic(StrEnum):
    """What an event source may announce: a reason to look again, never data."""

    LINK = "link"
    RDMA = "rdma"
    DEVICE = "device"
    KERNEL_LOG = "kernel-log"
    CONFIG = "config"


class Subject(Value):
    """What a verdict is about. Place (PCI address, MAC, resource) and port decide equality. `name` is for people."""

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

    def is_called(self, pattern: str) -> bool:
        """Whether the pattern matches it, or what it is a port or an interface of."""
        from fnmatch import fnmatchcase  # noqa: PLC0415 - only waivers ask

        return any(fnmatchcase(name, pattern) for name in self.names)

    @property
    def names(self) -> set[str]:
        """What it may be called: place, port, and each name in a label such as "ADDRESS (ID, mlx5_0/eth0)"."""
        _, bracket, inside = self.name.removesuffix(")").partition(" (")
        device = {self.name.rpartition("/")[0]} if self.port is not None and "/" in self.name else set()
        known = {one for word in inside.split(", ") for one in word.split("/")} if bracket else set()
        return {self.place, self.key, self.name} | device | (known - {""})


NODE = Subject()
# Several devices together, such as a count of ports. Its fault follows from a fault of any device and explains none.
SEVERAL = Subject("*", None, "ports")


class Remedy(Value):
    """What mends a fault: the name of a remedy and its typed arguments (design 4)."""

    playbook: str
    args: Mapping[str, str] = field(default_factory=dict)


class Reason(Value):
    """Why a check gives a status, in one CamelCase word that stays the same, and what to do about it.

    A word with two statuses is declared once with each. `fix` is a template for `filled`. "" means that the general fix
    of the check is right. `against_likes`: a WARN that holds a device against the others of its kind, so that the node
    is no model for others: `profile capture` refuses it.
    """

    name: str
    status: Status
    fix: str = ""
    against_likes: bool = False


# Reasons of the runner itself, and reasons that every check may give without a declaration.
CANNOT_LOOK = Reason("CannotLook", Status.UNKNOWN)
NOT_MOUNTED = Reason("NotMounted", Status.UNKNOWN)
CHECK_BROKE = Reason("CheckBroke", Status.UNKNOWN)
NOTHING_HERE = Reason("Nothing", Status.ABSENT)
OTHER_PLATFORM = Reason("OtherPlatform", Status.ABSENT)
_REPLACE = "Drain and reboot the node (power cycle); if {place} is silent again, reseat or replace the board."
SILENT_DEVICE = (
    Reason("DeviceNotAnswering", Status.FAIL, _REPLACE),
    Reason("DeviceNotAnswering", Status.WARN, _REPLACE),
)
EVERYWHERE = (CANNOT_LOOK, NOT_MOUNTED, CHECK_BROKE, NOTHING_HERE, OTHER_PLATFORM, *SILENT_DEVICE)


class Lack(Value):
    """How many things a count lacks, and the places of those that it counts: a fault there explains nothing of it."""

    count: int
    counted: tuple[str, ...] = ()


class Verdict(Value):
    """What a check says of one subject.

    `reason` is the name of a declared Reason. `message` names the device, what was seen, what was wanted and by whom.
    `observed` and `expected` repeat the two values for programs. `blind` is what made it UNKNOWN. `args` are values for
    placeholders of the reason's fix that are nowhere else in the verdict, such as an interface. `lack` is of a
    verdict on SEVERAL, which follows from other faults only if there are as many of them. `follows` are those of its
    check's `after` from which it may follow, None for all: what GPUs lack is not explained by a port.
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
    lack: Lack | None = None
    follows: tuple[str, ...] | None = None

    def __hash__(self) -> int:
        return hash((self.subject, self.status, self.reason, self.message))


class _Values(dict[str, str]):
    """Values by placeholder. A placeholder without a value becomes a word in capitals, as in manuals."""

    def __missing__(self, name: str) -> str:
        return "ADDRESS" if name == "place" else name.upper()


def filled(fix: str, verdict: Verdict | None = None) -> str:
    """A fix with values instead of its placeholders, which are written as in `str.format`.

    {name} and {place} are of the subject, {observed} and {expected} of the verdict. Others are arguments of the verdict
    or of its remedy. A placeholder without a value is written in capitals: {interface} is INTERFACE without a verdict.
    """
    return fix.format_map(_Values({} if verdict is None else values_of(verdict)))


def values_of(verdict: Verdict) -> dict[str, str]:
    """The values of placeholders in a fix of this verdict. No value is empty."""
    own = {"name": verdict.subject.name, "place": verdict.subject.place}
    own |= {"observed": verdict.observed, "expected": verdict.expected}
    known = {**(verdict.remedy.args if verdict.remedy else {}), **verdict.args, **own}
    return {name: str(value) for name, value in known.items() if value}


class WantedBy(Value):
    """Who states numbers of one check's Want, by the key that a profile writes. The other numbers are defaults."""

    stated: Mapping[str, str] = field(default_factory=dict)

    def words(self, key: str) -> str:
        return f"by {self.stated.get(key, 'default')} ({key})"


class Seen:
    """What one check may see of one look: facts and its own Want by type, and for rates the look before.

    `seen[Fact]` raises CannotLook if that fact could not be observed. `before` is None in a first look. `seconds` is
    the time between the two looks (CLOCK_BOOTTIME).
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
        """A fact that a check can do without; None if this kind of look does not show it."""
        return self[kind] if kind in self._values else None

    def explaining(self, kind: type[T]) -> T | None:
        """A fact that only explains a fault: None also if it could not be read."""
        value = self._values.get(kind)
        return None if value is None or isinstance(value, Unreadable) else cast(T, value)

    def wanted_by(self, key: str) -> str:
        """Who wants a number of the check's Want: `by default (max-error)`, `by profile site (max-error)`."""
        return (self.get(WantedBy) or WantedBy()).words(key)

    def each(
        self, things: Iterable[T], judge: Callable[[T], Verdict | None], subject: Callable[[T], Subject] | None = None
    ) -> Iterator[Verdict]:
        """Judge things one by one: if one of them could not be read, the others keep their verdicts.

        A thing of which something could not be read fails if it fails whatever that is, else it is UNKNOWN.
        `subject` gives the subject of an UNKNOWN, by default the `subject` of the thing.
        """
        for thing in things:
            try:
                verdict = judge(thing)
            except CannotLook as cannot:
                faults = failing_anyway(lambda: filter(None, (judge(thing),)), cannot)  # noqa: B023 - run at once
                if faults or cannot.blind.not_recorded:
                    yield from faults
                    continue
                about: Subject = subject(thing) if subject else cast(Any, thing).subject
                yield cannot_look(about, cannot.blind)
                continue
            if verdict is not None:
                yield verdict


SUPPOSED_LIMIT = 4  # unreadable fields that one verdict is tried without; with more of them it is UNKNOWN


def failing_anyway(
    judge: Callable[[], Iterable[Verdict]], cannot: CannotLook, more: int = SUPPOSED_LIMIT - 1
) -> tuple[Verdict, ...]:
    """The failures that stand whatever the field holds that could not be read (docs/adr/0035).

    `judge` is asked again with each possible value of that field, and of `more` other fields that it cannot read. A
    subject fails if it fails every time. The messages are those of the first value, and name what could not be read.
    """
    kept: tuple[Verdict, ...] | None = None
    for value in cannot.possible:
        with supposing(cannot, value):
            failing = _failing(judge, more)
        subjects = {verdict.subject for verdict in failing}
        kept = failing if kept is None else tuple(verdict for verdict in kept if verdict.subject in subjects)
    return tuple(_beside(verdict, cannot.blind) for verdict in kept or ())


def _failing(judge: Callable[[], Iterable[Verdict]], more: int) -> tuple[Verdict, ...]:
    """The failures among the verdicts. Verdicts before a field that cannot be read count too."""
    found: list[Verdict] = []
    try:
        found += (verdict for verdict in judge() if verdict.status is Status.FAIL)
    except CannotLook as another:
        known = {verdict.subject for verdict in found}
        rest = failing_anyway(judge, another, more - 1) if more else ()
        found += (verdict for verdict in rest if verdict.subject not in known)
    return tuple(found)


def _beside(verdict: Verdict, blind: Unreadable) -> Verdict:
    """A failure that stands although something could not be read.

    `observed` may be a supposed value: it says so. No repair is planned, for what was not read may be in its way.
    """
    return replace(
        verdict,
        message=f"{verdict.message}; could not look at {blind}",
        remedy=None,
        observed=str(verdict.observed),
        expected=str(verdict.expected),
        args={**(verdict.remedy.args if verdict.remedy else {}), **verdict.args},
    )


def signs(*each: Callable[[], Verdict | None]) -> Verdict | None:
    """Judge several signs of one thing, each alone: the first that fails, else what could not be read, else the first.

    Raises CannotLook if no sign fails and one could not be read.
    """
    told: list[Verdict] = []
    blind: CannotLook | None = None
    for sign in each:
        try:
            verdict = sign()
        except CannotLook as cannot:
            blind = blind or cannot
            continue
        if verdict is not None and verdict.status is Status.FAIL:
            return verdict
        told += [verdict] if verdict is not None else []
    if blind is not None:
        raise blind
    return told[0] if told else None


def cannot_look(subject: Subject, blind: Unreadable) -> Verdict:
    """The verdict for a subject of which something necessary could not be read."""
    at = f" at {subject.place}" if ":" in subject.place and subject.place not in subject.name else ""
    message = f"{subject.name}{at}: could not look at {blind}"
    reason = NOT_MOUNTED if blind.is_not_mounted else CANNOT_LOOK
    return Verdict(subject, reason.status, reason.name, message, observed=blind.kind, blind=blind)


def never_frees(_line: object, _place: str) -> bool:
    """What ends a latch of most checks: only that the kernel sets the device up again (facts/machine/kernel_log)."""
    return False


def shortest(_: object) -> float:
    """The time over which the agent computes rates, in seconds: the period of the counters (design 2.1)."""
    return 10.0


class Check(Value):
    """One question to a node. Docs, CLI, metrics, confirmation, gate and repair order are made from it.

    It is not run if the node does not show one of its `needs`. `uses` are facts that it can do without. `after`: if one
    of these checks fails on the same PCI device, this finding is shown as its consequence. `want` is the Value of the
    operator's numbers for this check. `rates`: it compares two looks, and the agent lets at least `window(want)`
    seconds pass between them. `frees` says of a line of the kernel log and a PCI address whether the line ends a latch
    there; a line that says that the device was set up again ends each. `reasons` are all that it may give, with their
    statuses; the runner refuses any other. `fix` is a template for reasons without a fix of their own.
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
    frees: Callable[[Any, str], bool] = never_frees

    @property
    def family(self) -> str:
        return self.id.partition(".")[0]

    def declares(self, name: str, status: Status) -> bool:
        """Whether it may give this reason with this status."""
        return any(one.name == name and one.status is status for one in (*self.reasons, CANNOT_LOOK, NOT_MOUNTED))

    def advice(self, name: str, status: Status) -> str:
        """What to do about a reason, as a template; "" if the status needs no action."""
        if status not in (Status.WARN, Status.FAIL):
            return ""
        known = (one for one in (*self.reasons, *EVERYWHERE) if one.name == name and one.status is status)
        return next((one.fix for one in known if one.fix), self.fix)

    def is_against_likes(self, verdict: Verdict) -> bool:
        """Whether the verdict is a WARN that holds its device against the other devices of its kind."""
        declared = (one for one in self.reasons if one.name == verdict.reason and one.status is verdict.status)
        return any(one.against_likes for one in declared)

    def finding(self, verdict: Verdict) -> Finding:
        """A verdict of this check, with what to do about it."""
        return Finding(self.id, self.severity, verdict, fix=self.fix_of(verdict))

    def fix_of(self, verdict: Verdict) -> str:
        """What to do about a verdict, with its values; "" if there is nothing to do."""
        return filled(self.advice(verdict.reason, verdict.status), verdict)


class Fact(Value):
    """How one kind of fact is observed.

    `every` is the polling period and `deadline` the longest time of an observation, both in seconds. Milliseconds are
    usual; a second was too short for an emulated node on a busy host. `woken_by` are the topics that make the fact due
    at once. `every_heard` is the polling period while all of them are listened to, 0 for `every`: polls then only find
    what no event told. `live` facts need a running node: a dead tree has none. `rest` is the least time between two
    observations, in seconds, for servers that serve a whole fleet. `doors` are modules that are loaded before a live
    node is observed: loading is our own time and does not count for the deadline.
    """

    kind: type
    observe: Callable[[Any], Any]
    woken_by: frozenset[Topic] = frozenset()
    every: float = 30.0
    deadline: float = 3.0
    live: bool = False
    doors: tuple[str, ...] = ()
    rest: float = 0.0
    every_heard: float = 0.0


class Waived(Value):
    """The waiver of a finding: an operator excused it until a date and gave a reason."""

    reason: str
    until: str
    days_left: int


class Finding(Value):
    """A verdict with its check.

    `root` is the check whose failure on the same device caused this finding. `fix` says what to do about a fault, ""
    if there is nothing to do. `waived`: an operator excused it by name, or excused its cause on the same device.
    `drill` is the name of the drill that made the fault, "" if none did.
    """

    check: str
    severity: Severity
    verdict: Verdict
    root: str | None = None
    waived: Waived | None = None
    fix: str = ""
    drill: str = ""

    @property
    def status(self) -> Status:
        return self.verdict.status

    @property
    def subject(self) -> Subject:
        return self.verdict.subject

    @property
    def counts(self) -> bool:
        """Whether it counts itself: it is not waived, and no consequence of a finding that counts."""
        return self.root is None and self.waived is None


class Skipped(Value):
    """A check that was not run, and why: it was deselected, it needs a live node, or the tree holds no record of it."""

    check: str
    why: str


class Basis(Value):
    """What a verdict rests on beside findings (docs/adr/0033).

    `is_copy`: files of a node without its kernel were judged. `is_selection`: the operator left checks out. `is_named`:
    somebody named the profile; else the hardware chose it. `rests_on` are gates without which the profile says nothing.
    `nics` counts the NICs that were seen, None if nobody looked. `baseline` says who knows how many belong here, "" if
    nobody does. `checks` is the number of checks that there are, and `elsewhere` of those that were asked for and are
    about another platform, if the findings do not name them. `undecided` are reasons why nobody can tell which profiles
    are in force.
    """

    is_copy: bool = False
    is_selection: bool = False
    is_named: bool = False
    rests_on: tuple[str, ...] = ()
    nics: int | None = None
    baseline: str = ""
    checks: int = 0
    elsewhere: int = 0
    undecided: tuple[str, ...] = ()


class Report(Value):
    """The findings of one round and their basis.

    `profile` is the name of the profile and `chosen_by` who chose it. `boot_id` is "" if the node shows none. `agent`
    is the state that the agent of this node is in, "" if none is known. `missing_hardware` says which hardware was
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
    basis: Basis = field(default_factory=Basis)
