"""The steps before anything acts: the gate read back, ten seconds, the pods, the fleet, a slot. Each fails closed.

    TAINT     our taint is on the Node, read from the server        -> again and again until it is, or the fault is gone
    SETTLING  ten seconds, until the conviction is old enough, and then a look that still sees the fault
                                                                    -> then the Node once more, with the pods
    PODS      no unfinished pod asks for what must be idle
    FLEET     own note on the own Lease, then all Leases
    SLOT      one of the slots is ours
    then the attempt goes into the ledger (`repair_attempt.begun`).

Nothing of this is stored: a restart begins anew, and a slot that was taken is found by its holder. What any step saw is
worth so many seconds only, so an approach that is held up begins anew instead of acting on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.agent_state import AgentState
from nodeprep.decide import (
    driver_owner,
    fleet_holds,
    fleet_notes,
    foreign_maintenance,
    kubernetes_text,
    pod_requests,
    repair_gate,
    repair_orders,
    repair_slots,
)
from nodeprep.decide.fleet_notes import FleetLease
from nodeprep.decide.foreign_maintenance import RepairNode
from nodeprep.decide.repair_choice import RepairCandidate, RepairChoice, RepairTerms
from nodeprep.decide.repair_refusal import Suppression, SuppressionReason
from nodeprep.decide.repair_slots import SlotChoice
from nodeprep.facts.kubernetes.cluster import Pod
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value, field, replace

READ_PERIOD_SECONDS = 2.0  # seconds between two reads of the Node while its taint is awaited
LOOK_WAIT_SECONDS = 0.5  # seconds between two questions whether the last look has come
LOOK_PERIOD_SECONDS = 10.0  # seconds until a fact that could not be had is asked for again
LOOK_LIMIT_SECONDS = 60.0  # seconds for which the last look is awaited: others may be mended meanwhile
TAINT_LIMIT_SECONDS = 60.0  # seconds for which it is awaited: the publisher looks at the Node each 60 s


class ApproachStep(StrEnum):
    """Where an approach stands."""

    TAINT = "taint"
    SETTLING = "settling"
    PODS = "pods"
    FLEET = "fleet"
    SLOT = "slot"
    READY = "ready"  # for the ledger


class ApproachAction(StrEnum):
    """What is to be asked next."""

    WAIT = "wait"
    READ_NODE = "read-node"  # GET of the Node itself, without resourceVersion
    READ_NODE_AND_PODS = "read-node-and-pods"  # that, and LIST of this node's pods without resourceVersion
    TELL_AND_LIST_FLEET = "tell-and-list-fleet"  # write the own note, then LIST the Leases without resourceVersion
    TAKE_SLOT = "take-slot"  # with the resourceVersion of the list: a lost race is a denial
    WRITE_LEDGER = "write-ledger"


class NodeRead(Value):
    """The Node as the server had it after `began`, CLOCK_BOOTTIME seconds. `failure` says why there is none."""

    began: float
    node: RepairNode | None = None
    failure: str = ""


class PodsRead(Value):
    """The Node, and then a consistent list of this node's pods that began at `began`. None: it failed."""

    began: float
    node: RepairNode | None = None
    pods: tuple[Pod, ...] | None = None
    failure: str = ""


class FleetRead(Value):
    """A list of all Leases that began at `began`, after the own note was written (`is_told`). None: it failed.

    `date` is the server's clock at `began`, seconds since 1970, None where it does not say.
    """

    began: float
    is_told: bool
    leases: tuple[FleetLease, ...] | None = None
    failure: str = ""
    date: float | None = None


class SlotAnswer(Value):
    """What became of taking the slot `name`; the request began at `began`. A denial is final, whoever denied."""

    began: float
    name: str
    is_taken: bool
    failure: str = ""


ApproachReport = NodeRead | PodsRead | FleetRead | SlotAnswer


class RepairApproach(Value):
    """One way towards an attempt of this id. Times are CLOCK_BOOTTIME seconds, None before it was seen.

    `tainted_at` is when the read began that first showed the taint, `pods_at` and `fleet_at` when those lists began.
    `open_gate` says why the last read did not show it.
    """

    id: str
    candidate: RepairCandidate
    step: ApproachStep
    began: float
    read_at: float | None = None
    tainted_at: float | None = None
    pods_at: float | None = None
    fleet_at: float | None = None
    slot: SlotChoice = SlotChoice()
    slot_until: float = 0.0
    open_gate: str = ""


class ApproachOutcome(Value):
    """The approach after a report; None where it is given up. `suppressed` says why, None if the fault is gone.

    `give_back` is a slot that may have been taken for it. `held` are remedies that the fleet holds, for the own note.
    """

    approach: RepairApproach | None
    suppressed: Suppression | None = None
    give_back: str = ""
    held: Mapping[str, float] = field(default_factory=dict)


def begun(attempt_id: str, candidate: RepairCandidate, now: float) -> RepairApproach:
    """A new approach. `attempt_id` is fresh: nobody has used it."""
    return RepairApproach(attempt_id, candidate, ApproachStep.TAINT, now)


def action(approach: RepairApproach, terms: RepairTerms) -> tuple[ApproachAction, float]:
    """What is to be asked, and when (CLOCK_BOOTTIME seconds)."""
    now = terms.clock.now
    match approach.step:
        case ApproachStep.TAINT:
            read_at = approach.read_at
            return ApproachAction.READ_NODE, now if read_at is None else read_at + READ_PERIOD_SECONDS
        case ApproachStep.SETTLING:
            at = settled_at(approach, terms)
            return ApproachAction.WAIT, at if now < at else now + LOOK_WAIT_SECONDS
        case ApproachStep.PODS:
            return ApproachAction.READ_NODE_AND_PODS, now
        case ApproachStep.FLEET:
            return ApproachAction.TELL_AND_LIST_FLEET, now
        case ApproachStep.SLOT:
            return ApproachAction.TAKE_SLOT, now
        case ApproachStep.READY:
            return ApproachAction.WRITE_LEDGER, now


def settled_at(approach: RepairApproach, terms: RepairTerms) -> float:
    """When the pods may be listed: the taint has stood long enough, and so has the conviction."""
    tainted = terms.clock.now if approach.tainted_at is None else approach.tainted_at
    return max(tainted + terms.waits.settled, approach.candidate.due_at)


def wanted_facts(approach: RepairApproach | None, terms: RepairTerms) -> Mapping[type, float]:
    """When to look at the fault once more before anything acts: at all facts that its check needs, records too.

    Some facts are looked at each 15 minutes. A fault that is gone by then must not be mended. What could not be had is
    asked for again each ten seconds.
    """
    if approach is None or approach.step is not ApproachStep.SETTLING:
        return {}
    at, now = settled_at(approach, terms), terms.clock.now
    again = at + max(now - at, 0.0) // LOOK_PERIOD_SECONDS * LOOK_PERIOD_SECONDS
    return {kind: again for kind, begun in terms.last_look.begun.items() if begun < at}


def went_on(approach: RepairApproach, choice: RepairChoice, terms: RepairTerms) -> ApproachOutcome:
    """The approach as time goes by, and as long as its remedy is the one that is chosen."""
    candidate = choice.candidate
    if candidate is None or candidate.key != approach.candidate.key or candidate.serving != approach.candidate.serving:
        return ApproachOutcome(None, give_back=approach.slot.name)  # the choice says why, as long as it holds
    now = terms.clock.now
    if approach.step is ApproachStep.TAINT and now - approach.began > TAINT_LIMIT_SECONDS:
        why = approach.open_gate or "the taint was not confirmed in time"
        return _given_up(approach, SuppressionReason.TAINT, why, terms)
    settling = approach.step is ApproachStep.SETTLING
    if settling and now > settled_at(approach, terms) + LOOK_LIMIT_SECONDS:
        return _given_up(approach, SuppressionReason.UNSEEN, _why_unseen(approach, terms), terms)
    if settling and _is_still_seen(approach, terms):
        return ApproachOutcome(replace(approach, candidate=candidate, step=ApproachStep.PODS))
    if _is_stale(approach, terms):
        return ApproachOutcome(begun(approach.id, candidate, now), give_back=approach.slot.name)
    return ApproachOutcome(replace(approach, candidate=candidate))


def after(
    approach: RepairApproach, report: ApproachReport, state: AgentState, terms: RepairTerms, node: str
) -> ApproachOutcome:
    """The approach after an answer. One to another question than that of its step changes nothing."""
    match approach.step, report:
        case ApproachStep.TAINT, NodeRead():
            return _after_node(approach, report, state, terms)
        case ApproachStep.PODS, PodsRead():
            return _after_pods(approach, report, state, terms)
        case ApproachStep.FLEET, FleetRead():
            return _after_fleet(approach, report, terms, node)
        case ApproachStep.SLOT, SlotAnswer():
            return _after_slot(approach, report, terms)
    return ApproachOutcome(approach)


def _after_node(approach: RepairApproach, read: NodeRead, state: AgentState, terms: RepairTerms) -> ApproachOutcome:
    if read.began < approach.began:
        return ApproachOutcome(approach)
    stopped = _stopped(approach, read.node, terms)
    if stopped is not None:
        return stopped
    open_gate = repair_gate.hindrance(read.node, state, terms.gate)
    if open_gate:  # its taint is on its way
        why = f"the Node could not be read: {read.failure}" if read.failure else open_gate
        return ApproachOutcome(replace(approach, read_at=read.began, open_gate=why))
    return ApproachOutcome(replace(approach, step=ApproachStep.SETTLING, read_at=read.began, tainted_at=read.began))


def _after_pods(approach: RepairApproach, read: PodsRead, state: AgentState, terms: RepairTerms) -> ApproachOutcome:
    tainted = approach.tainted_at
    if tainted is None or read.began < max(tainted + terms.waits.settled, approach.candidate.due_at):
        return ApproachOutcome(approach)
    stopped = _stopped(approach, read.node, terms)
    if stopped is not None:
        return stopped
    open_gate = repair_gate.hindrance(read.node, state, terms.gate)
    if open_gate:
        return _given_up(approach, SuppressionReason.TAINT, open_gate, terms)
    if read.pods is None:
        why = f"the pods of this node could not be listed: {read.failure}"
        return _given_up(approach, SuppressionReason.IDLE, why, terms)
    # The facts may know no pods yet, or not these. Labels of the Node were asked when it was chosen.
    remedy = approach.candidate.remedy
    owners = driver_owner.owned({}, read.pods, gpu_container=False)
    owned = driver_owner.hindrance(remedy.playbook, remedy.args, owners)
    if owned:
        return _given_up(approach, SuppressionReason.OPERATOR_OWNED, owned, terms)
    used = pod_requests.hindrance(read.pods, approach.candidate.header.idle)
    if used:
        return _given_up(approach, SuppressionReason.IDLE, used, terms)
    return ApproachOutcome(replace(approach, step=ApproachStep.FLEET, pods_at=read.began))


def _stopped(approach: RepairApproach, node: RepairNode | None, terms: RepairTerms) -> ApproachOutcome | None:
    """What a human or somebody else has set on the Node since the choice."""
    if node is None:
        return None
    text = node.annotations.get(repair_orders.PAUSE)
    paused = repair_orders.paused(text, terms.clock.wall, "this node")
    if paused:
        return _given_up(approach, SuppressionReason.PAUSED, paused, terms)
    foreign = foreign_maintenance.hindrance(node)
    return _given_up(approach, SuppressionReason.FOREIGN_MAINTENANCE, foreign, terms) if foreign else None


def _after_fleet(approach: RepairApproach, read: FleetRead, terms: RepairTerms, node: str) -> ApproachOutcome:
    if approach.pods_at is None or read.began < approach.pods_at:
        return ApproachOutcome(approach)
    if read.leases is None or not read.is_told:
        why = f"the Leases could not be read after our own was written: {read.failure}"
        return _given_up(approach, SuppressionReason.SLOT, why, terms)
    wrong = _wrong_clock(read, terms)
    if wrong:
        return _given_up(approach, SuppressionReason.SLOT, wrong, terms)
    candidate, wall = approach.candidate, terms.clock.wall
    fault = fleet_notes.fault_name(candidate.case.check, candidate.case.reason)
    remedy = candidate.remedy.playbook
    held = fleet_holds.hindrance(read.leases, node, fault, remedy, wall, serving=candidate.serving)
    if held is not None:
        outcome = _given_up(approach, held.reason, held.why, terms)
        return replace(outcome, held={remedy: held.held_at}) if held.held_at else outcome
    chosen = repair_slots.choice(read.leases, node, terms.policy, wall, serving=candidate.serving)
    if not chosen.name:
        return _given_up(approach, SuppressionReason.SLOT, chosen.why, terms)
    return ApproachOutcome(replace(approach, step=ApproachStep.SLOT, fleet_at=read.began, slot=chosen))


def _wrong_clock(read: FleetRead, terms: RepairTerms) -> str:
    """Why this node's clock tells nothing of what others wrote, "" if it is right. Else living repairs look dead."""
    if read.date is None:
        return ""
    ahead = terms.clock.wall - (terms.clock.now - read.began) - read.date
    if abs(ahead) <= fleet_notes.SKEW_SECONDS:
        return ""
    differs = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the API server's"
    return f"this node's clock is {differs}, wanted {fleet_notes.SKEW_SECONDS:g} s at most: chronyc tracking"


def _after_slot(approach: RepairApproach, answer: SlotAnswer, terms: RepairTerms) -> ApproachOutcome:
    if answer.name != approach.slot.name or approach.fleet_at is None or answer.began < approach.fleet_at:
        return ApproachOutcome(approach)
    if not answer.is_taken:
        return _given_up(approach, SuppressionReason.SLOT, f"{answer.name} was not taken: {answer.failure}", terms)
    until = answer.began + repair_slots.duration(deadline(approach, terms))
    return ApproachOutcome(replace(approach, step=ApproachStep.READY, slot_until=until))


def deadline(approach: RepairApproach, terms: RepairTerms) -> float:
    """The seconds that the play of an approach may take."""
    return terms.policy.deadline.of(approach.candidate.header.safety)


def is_ready(approach: RepairApproach, terms: RepairTerms) -> bool:
    """Whether all that the steps saw still counts, so that the attempt may go into the ledger."""
    return approach.step is ApproachStep.READY and not _is_stale(approach, terms)


def _is_still_seen(approach: RepairApproach, terms: RepairTerms) -> bool:
    """Whether a look since the wait was over sees the fault. After one that does not, another remedy is chosen soon."""
    at, look = settled_at(approach, terms), terms.last_look
    is_fresh = bool(look.begun) and min(look.begun.values()) >= at
    return terms.clock.now >= at and is_fresh and approach.candidate.case.subject in look.failing


def _why_unseen(approach: RepairApproach, terms: RepairTerms) -> str:
    case, at, begun = approach.candidate.case, settled_at(approach, terms), terms.last_look.begun
    late = ", ".join(sorted(kind.__name__ for kind, last in begun.items() if last < at))
    if late:
        return (
            f"{case.name}: no look at {late} for {LOOK_LIMIT_SECONDS:g} s; one that still sees {case.reason} is wanted"
        )
    return f"{case.name}: the last look does not see {case.reason} any more; it waits for passes that count"


def _is_stale(approach: RepairApproach, terms: RepairTerms) -> bool:
    """Whether what was seen is too old to act on, or the slot would end before the play."""
    now, seen = terms.clock.now, [one for one in (approach.pods_at, approach.fleet_at) if one is not None]
    ends_early = approach.step is ApproachStep.READY and now + deadline(approach, terms) > approach.slot_until
    return ends_early or any(now - one > terms.waits.fresh for one in seen)


def _given_up(approach: RepairApproach, reason: SuppressionReason, why: str, terms: RepairTerms) -> ApproachOutcome:
    candidate = approach.candidate
    until = terms.clock.now + terms.waits.retry
    line = kubernetes_text.line(why)
    suppressed = Suppression(reason, candidate.case.check, candidate.remedy.playbook, line, until)
    return ApproachOutcome(None, suppressed, approach.slot.name)
