"""What the agent remembers of its node: passes in this boot, cases, and the node state.

All times are CLOCK_BOOTTIME seconds of the boot `boot_id`, but for those of attempts, which say their boot. In another
boot only `baseline`, `hardware_profiles`, `passed` and what is known of attempts mean anything. `decide` changes it,
`doors/files/state_store.py` keeps it, and `check` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeprep.model import Lack, Remedy, Subject
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value, field

DEVICE_STAGE, READY_STAGE = "device", "ready"  # the stages of a profile's gate, as `wait-ready` names them


class NodeState(StrEnum):
    """The state of the node (design 3.1). Only READY opens the gates of gating profiles."""

    BOOTSTRAP = "Bootstrap"
    READY = "Ready"
    UNHEALTHY = "Unhealthy"
    REPAIRING = "Repairing"
    VALIDATING = "Validating"
    AWAITING_HUMAN = "AwaitingHuman"


class PassStreak(Value):
    """Fresh looks in a row at a whole check in this boot. None of them found a fault or could not look.

    `first` and `last` are the times of the first and the last look. Once `proven`, a check stays so for this boot. From
    then on, cases tell whether it holds.
    """

    passes: int = 0
    first: float = 0.0
    last: float = 0.0
    proven: bool = False


class Case(Value):
    """What is known against one subject of one check, from its first fresh failure until it is released.

    `looks` are the last fresh looks at it (time, whether it failed), at most five. A blind look is not among them. Of
    failures in a row, the first of these five has the time of the first of them all. `blind`: the newest look could not
    look. `passes` since `passing_since` are those in a row at the end that did not fail. `convicted_at` is when the
    look that convicted it began, None until there is one. `latched` since `latched_at` says why only a human, a new
    boot or a new probe of the device frees it. `flaps` are the times of its releases. Until `deferred_until`, a
    conviction that only a new version or configuration sees does not close the gate; `deferred_by` says which of both
    is new (a word of `rule_change.RuleChange`, as text). With `deferred_by` alone it closes the gate, and nobody knows
    whether the node changed or the new version sees wrong. `reason`, `message`, `observed`, `remedy`,
    `lack` and `follows` are those of the last failure.
    """

    check: str
    place: str
    port: int | None
    name: str
    reason: str
    message: str
    observed: str = ""
    remedy: Remedy | None = None
    opened_at: float = 0.0
    looks: tuple[tuple[float, bool], ...] = ()
    passes: int = 0
    passing_since: float | None = None
    convicted_at: float | None = None
    latched: str = ""
    flaps: tuple[float, ...] = ()
    deferred_until: float | None = None
    deferred_by: str = ""
    latched_at: float | None = None
    blind: bool = False
    lack: Lack | None = None
    follows: tuple[str, ...] | None = None

    @property
    def subject(self) -> Subject:
        return Subject(self.place, self.port, self.name)

    @property
    def convicted(self) -> bool:
        return self.convicted_at is not None


class BlindSince(Value):
    """Since when a check has not been able to look. `message` says at what."""

    since: float
    message: str


class RepairAttempt(Value):
    """The one run of a remedy that is under way: from before the remediator is asked until its case was judged.

    `id` is the one that both ledgers have. `check`, `place`, `port` and `reason` are of the case that it is to mend.
    `step` is a word of `attempt_steps.AttemptStep`, as text: what a newer version wrote must not cost the memory.
    `step_since` and `heard_at`, when the remediator last said that it runs, are CLOCK_BOOTTIME seconds of the boot
    `boot_id`, `wall` is when it began, seconds since 1970. `deadline` are the seconds that the play may take.
    `serving`: the node had been Ready in that boot. `disturbs` are checks that the remedy may make fail. `slot` is the
    Lease that the node holds for it, `slot_until` when that ends unless it is renewed. `state_before` is that of the
    node, and `state_since` since when. `approval` is the one that it uses, "" if it needs none. `end` is how the play
    ended, "" before. `hangs`: the remediator last said that something of it sleeps in the kernel.
    """

    id: str
    check: str
    place: str
    port: int | None
    reason: str
    remedy: str
    step: str
    boot_id: str
    wall: float
    step_since: float
    deadline: float
    args: Mapping[str, str] = field(default_factory=dict)
    serving: bool = True
    disturbs: tuple[str, ...] = ()
    slot: str = ""
    slot_until: float = 0.0
    state_before: str = ""
    approval: str = ""
    heard_at: float = 0.0
    end: str = ""
    state_since: float = 0.0
    hangs: bool = False

    @property
    def subject(self) -> Subject:
        return Subject(self.place, self.port, "")


class PastAttempt(Value):
    """A run of a remedy that is over. Fields are as in RepairAttempt, `at` is when it ended, in its boot.

    `outcome` is a word of `repair_budget.AttemptOutcome`, as text. `refused` says who refused it, "" if it ran, and
    `why` says why, for people.
    """

    id: str
    check: str
    place: str
    port: int | None
    reason: str
    remedy: str
    boot_id: str
    at: float
    wall: float
    outcome: str
    refused: str = ""
    why: str = ""
    state_before: str = ""
    serving: bool = True
    state_since: float = 0.0


class AgentState(Value):
    """All that the agent remembers. `at` is when it last changed. `version` is the nodeprep that wrote it.

    `state` stands since `since`. `pass_streaks` and `blind` are by check id. `gates` are the open gates (profile,
    stage). `serial` grows by one with every saved change.

    Profiles: `hardware_profiles` are the names of all profiles that the hardware ever chose; only a human removes them.
    `profile` is the effective profile in force, as a mapping that `job_profile.parse` reads. `want_by` says who states
    its numbers. `chosen_by` says who chose it (`by_hardware`: nobody else). `parts` are the profiles that it is made
    of, each with the `names` of its lineage and its `want_by`.
    `waivers` are those of the configuration. `baseline` is the profile of what this node had when it was first ready,
    in the same form, None before.

    Rules: `configuration` is a digest of what judges in the configuration (config/verdict_digest). `passed` are the
    values, by "check place port", at which gate checks last passed. `rules_changed_at` is when another version or
    configuration took over, and `rule_change` says which of both (a word of `rule_change.RuleChange`, as text).
    `former_passed` is `passed` at that time. `former_profile` and `former_waivers` are `profile` and `waivers` before
    the first of several changes, as long as a hold may rest on them. `judged_anew` are the checks that could look at
    everything since the change. `former_gates` are the gates that were open, and
    `former_profiles` the profiles that the node had, but for such as never opened. `unproven_until` are gates that were
    added to an open profile, each with the time until which the profile stays open although they have not passed.
    `came_with_rules` are those of them that the change brought. A rollout waits for them.

    Taint: `taint_tolerated`: no pod was last seen that serves a device plugin, a driver or the network and does not
    tolerate our taint. Otherwise `intolerant` are their DaemonSets ("namespace/name", "" if unknown), each with the
    time since when none of its pods was here, None while one is.

    `reset_done` is the last reset on the Node that was carried out.

    `shutdown` says who announced that the machine goes down, if the gates were closed for that alone. In another boot
    it means nothing.

    Repair: `attempt` is the one under way, `attempts` those that are over and still count, oldest first. `disturbed`
    are checks that a remedy may have made fail, each with the time before which a look tells nothing. `was_ready`: the
    node was Ready in this boot, None if nobody knows. `approved` is the last approval on the Node that was used.
    `helped` and `unhelpful` are remedies that here ended with and without a release, with the wall time. `held` are
    remedies that were seen to be held in the whole fleet. `slot` is the Lease to be given back, "" for none.
    """

    boot_id: str = ""
    node_uid: str = ""
    version: str = ""
    configuration: str = ""
    at: float = 0.0
    serial: int = 0
    state: NodeState = NodeState.BOOTSTRAP
    since: float = 0.0
    why: str = ""
    pass_streaks: Mapping[str, PassStreak] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()
    blind: Mapping[str, BlindSince] = field(default_factory=dict)
    hardware_profiles: tuple[str, ...] = ()
    profile: Mapping[str, Any] = field(default_factory=dict)
    want_by: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    expect_by: str = ""
    chosen_by: str = ""
    by_hardware: bool = False
    parts: tuple[Mapping[str, Any], ...] = ()
    gates: tuple[tuple[str, str], ...] = ()
    waivers: tuple[Mapping[str, Any], ...] = ()
    baseline: Mapping[str, Any] | None = None
    passed: Mapping[str, str] = field(default_factory=dict)
    former_passed: Mapping[str, str] = field(default_factory=dict)
    rules_changed_at: float | None = None
    rule_change: str = ""
    former_gates: tuple[tuple[str, str], ...] = ()
    former_profiles: tuple[str, ...] = ()
    former_profile: Mapping[str, Any] = field(default_factory=dict)
    former_waivers: tuple[Mapping[str, Any], ...] = ()
    judged_anew: tuple[str, ...] = ()
    all_passing_since: float | None = None
    taint_tolerated: bool = True
    intolerant: Mapping[str, float | None] = field(default_factory=dict)
    unproven_until: Mapping[str, float] = field(default_factory=dict)
    came_with_rules: tuple[str, ...] = ()
    reset_done: str = ""
    attempt: RepairAttempt | None = None
    attempts: tuple[PastAttempt, ...] = ()
    disturbed: Mapping[str, float] = field(default_factory=dict)
    was_ready: bool | None = None
    approved: str = ""
    helped: Mapping[str, float] = field(default_factory=dict)
    unhelpful: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)
    slot: str = ""
    shutdown: str = ""

    def case(self, check: str, subject: Subject) -> Case | None:
        """The case against a subject, if there is one."""
        return next((one for one in self.cases if one.check == check and one.subject == subject), None)

    @staticmethod
    def passed_key(check: str, subject: Subject) -> str:
        """The key in `passed` of a subject of a check."""
        return f"{check} {subject.place} {'' if subject.port is None else subject.port}"
