"""A node's observations in one file: what `check` saw. It gives the same verdicts later and on any machine.

Inside is what checks judge, by name: names of devices, PCI addresses, GUIDs, MACs, IP addresses of the node and its
neighbours, mount points and what is mounted (without users and passwords), names of loaded modules; and the profile and
waivers then in force. Of files and objects that may hold secrets, only listed keys are kept: kernel parameters, CNI
options, lines of sysctl.d, Terway's capabilities and settings, labels, annotations and conditions of the Node and its
pods. Texts without names are kept with `***` in the place of what looks like a secret (nodeprep.redaction): the
kernel's warnings and lines about devices, and messages of Terway, erdma-controller and the API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Any

from nodeprep import __version__, facts, job_profile
from nodeprep.codec import Codec, CodecError, Path
from nodeprep.config import wants
from nodeprep.config.waiver_rules import Waiver
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.facts.kubernetes.cluster import Cluster, KubeNode
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.job_profile import Profile
from nodeprep.look import Look
from nodeprep.model import Unreadable, raw
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Value, field, replace

FORMAT = 1
KINDS: Mapping[str, type] = {fact.kind.__name__: fact.kind for fact in facts.ALL}


class RecordedLook(Value):
    """One look: facts by the name of their class, an Unreadable for a fact that could not be observed.

    `at` is in CLOCK_BOOTTIME seconds of the node.
    """

    at: float
    facts: Mapping[str, object]


class Snapshot(Value):
    """The basis of a check. `when` is UTC (RFC 3339), `root` is the observed root, `settle` seconds between the looks.

    `profile` is the effective one, as a mapping that `job_profile.parse` reads. `missing_hardware` says which hardware
    was searched for and not found, if no profile applies for that reason. `by_hardware`: only the hardware chose it.
    `want_by` and `expect_by` are those of the profile. `history` are the last lines of the node's history, if its agent
    keeps one.
    """

    node: str
    when: str
    live: bool
    root: str
    profile: Mapping[str, Any]
    chosen_by: str
    settle: float
    looks: tuple[RecordedLook, ...]
    waivers: tuple[Waiver, ...] = ()
    missing_hardware: str = ""
    by_hardware: bool = False
    nodeprep: str = __version__
    want_by: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    expect_by: str = ""
    history: tuple[str, ...] = ()

    @property
    def today(self) -> str:
        """The date that decides whether a waiver is in force."""
        return self.when[:10]

    def in_force(self) -> Profile:
        """The profile that applied. Raises CodecError if it is invalid."""
        try:
            profile = job_profile.parse(self.profile)
            wants.wants(profile)
        except InvalidValueError as error:
            raise CodecError(("content", "profile", *error.keys), repr(error.found), error.wanted) from error
        return replace(profile, want_by=self.want_by, expect_by=self.expect_by)

    def look(self) -> tuple[Look, Look | None]:
        """The last look and the one before it."""
        looks = [Look(one.at, self.live, _by_kind(one)) for one in self.looks]
        return looks[-1], looks[-2] if len(looks) > 1 else None


def observed(look: Look, *, userspace: bool = True) -> RecordedLook:
    """A look as a snapshot keeps it. Without `userspace`, the kernel log is without what processes wrote into it."""
    return RecordedLook(look.at, {kind.__name__: _judged(value, userspace) for kind, value in look.facts.items()})


def _judged(fact: object, userspace: bool) -> object:
    if isinstance(fact, KernelLog) and not userspace:
        return KernelLog(fact.at, tuple(line for line in fact.lines if line.from_kernel))
    if isinstance(fact, Cluster) and isinstance(node := raw(fact)["node"], KubeNode):
        return Cluster(**raw(fact) | {"node": _with_judged_labels(node)})
    return fact


def _with_judged_labels(node: KubeNode) -> KubeNode:
    """The Node without the labels that only a rule of the configuration may name: the profile is chosen by now."""
    labels = raw(node)["labels"]
    kept = labels if isinstance(labels, Unreadable) else cluster_objects.judged_labels(labels)
    return KubeNode(**raw(node) | {"labels": kept})


def recorded(profile: Profile) -> Mapping[str, Any]:
    """The profile for a snapshot. It is effective, so it extends nothing."""
    return job_profile.mapping(replace(profile, extends=None))


def dumps(snapshot: Snapshot) -> str:
    return _codec().dumps(snapshot, by=__version__)


def loads(text: str) -> Snapshot:
    """Raises nothing but CodecError for any text. Fields that a newer nodeprep added to known classes are skipped."""
    snapshot, _ = _codec().loads(Snapshot, text)
    if not snapshot.looks:
        raise CodecError(("content", "looks"), "a list of 0", "one look or two")
    for index, one in enumerate(snapshot.looks):
        for name, value in one.facts.items():
            if name not in KINDS or not isinstance(value, KINDS[name] | Unreadable):
                here: Path = ("content", "looks", index, "facts", name)
                raise CodecError(here, type(value).__name__, "the fact of that name")
    for day in (snapshot.today, *(waiver.until for waiver in snapshot.waivers)):
        if not _is_date(day):
            raise CodecError(("content",), repr(day), "dates, YYYY-MM-DD")
    snapshot.in_force()
    return snapshot


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


@cache
def _codec() -> Codec:
    return Codec((Snapshot, *KINDS.values()), FORMAT)


def _by_kind(observation: RecordedLook) -> Mapping[type, object]:
    return {KINDS[name]: value for name, value in observation.facts.items()}
