"""Which remedy is to run for which conviction, and of each other that is due, why it does not run.

Only the fault itself counts: a root of the convictions that close a gate, that fails in its last look and is not
latched. One remedy at a time: what another one disturbs while it runs is no fault (docs/adr/0047).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep.agent_state import AgentState, Case
from nodeprep.decide import (
    active_faults,
    drill_notice,
    driver_owner,
    foreign_maintenance,
    kubernetes_text,
    repair_budget,
    repair_gate,
    repair_orders,
    repair_refusal,
    repair_slots,
)
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.driver_owner import DriverFamily
from nodeprep.decide.foreign_maintenance import RepairNode
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.remedy_header import RemedyHeader, SafetyClass
from nodeprep.decide.repair_budget import Budget, BudgetClock, Fault
from nodeprep.decide.repair_plan import UNBUILT_REMEDIES
from nodeprep.decide.repair_policy import SHIPPED_WAITS, RepairPolicy, RepairWaits
from nodeprep.decide.repair_refusal import Suppression, SuppressionReason
from nodeprep.decide.rule_change import RuleChange
from nodeprep.model import Check, Remedy, Subject
from nodeprep.values import Value, field

CandidateKey = tuple[Fault, tuple[tuple[str, str], ...]]  # the fault, with its remedy and arguments


class LastLook(Value):
    """What the newest facts say of one check, be it counted yet or not.

    `begun` is when each fact that it needs was last looked at (CLOCK_BOOTTIME seconds), `failing` are the subjects that
    fail by these facts.
    """

    begun: Mapping[type, float] = field(default_factory=dict)
    failing: frozenset[Subject] = frozenset()


class RepairTerms(Value):
    """What a choice is made with, beside the agent state.

    `gates` are the checks that the node's state goes by, `remedy_after` is `readiness.remedy-after`. `node` is the Node
    as it was last read from the server, None before. `families` are drivers that an operator's container owns.
    `stopped` are suppressions of approaches that were given up, by `RepairCandidate.key`, each until its time.
    `memory` says why what is done would not be remembered, or what was done is not known; `remediator` why nobody
    would run a remedy; `taint` why our taint is not set although it is due. Each is "" where all is well. `last_look`
    is what the newest facts say of the fault that is approached, and `approached` which repair that is.
    """

    checks: Mapping[str, Check]
    gates: tuple[str, ...]
    headers: Mapping[str, RemedyHeader]
    clock: BudgetClock
    mode: Mode = Mode.REPAIR
    gate: GatePolicy = field(default_factory=GatePolicy)
    policy: RepairPolicy = field(default_factory=RepairPolicy)
    waits: RepairWaits = SHIPPED_WAITS
    remedy_after: float = 30.0
    node: RepairNode | None = None
    families: frozenset[DriverFamily] = frozenset()
    drill: DrillNotice | None = None
    stopped: Mapping[CandidateKey, Suppression] = field(default_factory=dict)
    memory: str = ""
    remediator: str = ""
    taint: str = ""
    last_look: LastLook = field(default_factory=LastLook)
    approached: CandidateKey | None = None


class RepairCandidate(Value):
    """A remedy that may run once `due_at` has come, CLOCK_BOOTTIME seconds, for this case. `approval` is used by it."""

    case: Case
    remedy: Remedy
    header: RemedyHeader
    due_at: float
    serving: bool
    approval: str = ""

    @property
    def key(self) -> CandidateKey:
        """What makes it the same repair."""
        return key_of(self.case, self.remedy)


class RepairChoice(Value):
    """The next remedy, None for none, and why each other that is due does not run."""

    candidate: RepairCandidate | None = None
    suppressed: tuple[Suppression, ...] = ()


def key_of(case: Case, remedy: Remedy) -> CandidateKey:
    """What makes it the same repair."""
    return repair_budget.fault(case), tuple(sorted(remedy.args.items()))


def choose(state: AgentState, terms: RepairTerms) -> RepairChoice:
    """The first remedy that nothing holds back. One that is not due yet may be chosen: its gate is proved meanwhile."""
    now, found, suppressed = terms.clock.now, list[RepairCandidate](), list[Suppression]()
    for case, remedy in wanted(state, terms):
        if state.attempt is not None and (case.check, case.subject) == (state.attempt.check, state.attempt.subject):
            continue  # it is being mended
        due_at = (case.convicted_at or 0.0) + max(terms.remedy_after, terms.waits.conviction)
        refused = _suppression(state, case, remedy, terms)
        if refused is None:
            header = terms.headers[remedy.playbook]
            approved = _approval(terms) if header.safety is SafetyClass.S3 else ""
            serving = repair_slots.is_serving(state)
            found.append(RepairCandidate(case, remedy, header, due_at, serving, approved))
        elif now >= due_at:
            suppressed.append(refused)
    due = [one for one in found if now >= one.due_at]
    # One that is on its way goes on: else one that is held back at its end, again and again, lets no other get there.
    first = next((one for one in due if one.key == terms.approached), next(iter((*due, *found)), None))
    return RepairChoice(first, tuple(suppressed))


def wanted(state: AgentState, terms: RepairTerms) -> Iterable[tuple[Case, Remedy]]:
    """The cases that a remedy is to mend, in the order in which a person would look at them."""
    convicted = active_faults.convictions(state, terms.gates, terms.clock.now)
    for case in active_faults.roots(convicted, terms.checks, terms.drill):
        if case.remedy is not None and not (case.latched or case.passes or case.blind):
            yield case, case.remedy


def _suppression(state: AgentState, case: Case, remedy: Remedy, terms: RepairTerms) -> Suppression | None:
    """The first thing that holds a remedy back: what a human set, then what others do, then what we have done."""
    header = terms.headers.get(remedy.playbook)
    for reason, why in (
        (SuppressionReason.MODE, _mode(terms)),
        (SuppressionReason.NOT_BUILT, _not_built(remedy, header)),
        (SuppressionReason.DRILL, _drill(case, terms)),
        (SuppressionReason.DISPUTED, _disputed(case)),
        (SuppressionReason.CLASS, _class(state, header, terms)),
        (SuppressionReason.OPERATOR_OWNED, driver_owner.hindrance(remedy.playbook, remedy.args, terms.families)),
        (SuppressionReason.PAUSED, _paused(terms)),
        (SuppressionReason.FOREIGN_MAINTENANCE, _maintenance(terms)),
        (SuppressionReason.MEMORY, terms.memory),
        (SuppressionReason.TAINT, _taint(state, terms)),
    ):
        if why:
            return _told(reason, case, remedy, why)
    return (
        _tried(state, case, remedy, terms)
        or _unapproved(state, case, remedy, header, terms)
        or _unrunnable(state, case, remedy, terms)
        or _stopped(case, remedy, terms)
    )


def _mode(terms: RepairTerms) -> str:
    return "" if terms.mode is Mode.REPAIR else f"mode is {terms.mode}: only mode repair runs remedies"


def _not_built(remedy: Remedy, header: RemedyHeader | None) -> str:
    if header is not None:
        return ""
    return UNBUILT_REMEDIES.get(remedy.playbook, "this installation has no such remedy")


def _disputed(case: Case) -> str:
    """New rules may be wrong, and on a thousand nodes at once. A human says which of the two are right."""
    rules = RuleChange.of(case.deferred_by)
    if case.deferred_until is not None:
        return f"only this {rules} takes it for a fault: a human says which {rules} is right (docs/upgrade.md)"
    if not case.deferred_by:
        return ""
    return f"it came right after another {rules}, which may see wrong: look, then nodeprep nodes reset NODE"


def _drill(case: Case, terms: RepairTerms) -> str:
    if terms.drill is None or not drill_notice.has_made(terms.drill, case):
        return ""
    return f"{terms.drill.words} made this fault and undoes it: nodeprep drill list"


def _class(state: AgentState, header: RemedyHeader | None, terms: RepairTerms) -> str:
    if header is None:
        return ""
    if header.safety is SafetyClass.S4:
        return f"it is of class S4, which is for a human: {header.why}"
    serving = repair_slots.is_serving(state)
    limit = terms.policy.max_class if serving else terms.policy.bootstrap_max_class
    key = "repair.max-class" if serving else "repair.bootstrap-max-class"
    if header.safety is SafetyClass.S3 or not header.safety.is_above(limit):
        return ""  # an approval decides about S3
    return f"it is of class {header.safety}, and {key} is {limit}: {header.why}"


def _paused(terms: RepairTerms) -> str:
    """Before the Node was read nobody knows whether it is paused: `_taint` holds it back then."""
    if terms.node is None:
        return ""
    return repair_orders.paused(terms.node.annotations.get(repair_orders.PAUSE), terms.clock.wall, "this node")


def _maintenance(terms: RepairTerms) -> str:
    return "" if terms.node is None else foreign_maintenance.hindrance(terms.node)


def _taint(state: AgentState, terms: RepairTerms) -> str:
    """What shows already that no gate will be confirmed. That it is confirmed is proved later (`repair_approach`)."""
    if terms.taint:
        return terms.taint
    return repair_gate.hindrance(terms.node, state, terms.gate, expects_taint=False)


def _tried(state: AgentState, case: Case, remedy: Remedy, terms: RepairTerms) -> Suppression | None:
    """What earlier tries say against one more."""
    clock = terms.clock
    left = repair_budget.budget(state, case, terms.policy, clock)
    if left.spent:
        return _told(SuppressionReason.BUDGET, case, remedy, _spent(left, terms.policy))
    if left.until > clock.now:
        why = f"try {left.tries} did not help; the next comes in {left.until - clock.now:.0f} s"
        return _told(SuppressionReason.BACK_OFF, case, remedy, why, left.until)
    refused = repair_budget.refusal(state, case)
    if refused is None:
        return None
    meaning = repair_refusal.meaning(refused.refused)
    stood = clock.now - (case.convicted_at if case.convicted_at is not None else clock.now)
    wait = min(meaning.wait(stood), terms.waits.back_off)
    until = clock.now + max(wait - repair_budget.age(refused, clock), 0.0)
    if until <= clock.now:
        return None
    told = refused.why or "see its log"
    why = f"the remediator refused it ({refused.refused}), and is asked again in {until - clock.now:.0f} s: {told}"
    return _told(meaning.reason, case, remedy, why, until)


def _spent(left: Budget, policy: RepairPolicy) -> str:
    """Which limit is reached, and who gives tries back."""
    if left.tries >= policy.tries:
        found = f"{left.tries} tries in 24 hours or in a row, wanted at most {policy.tries}"
    else:
        found = f"{left.of_node} attempts of all faults in 24 hours, wanted at most {repair_budget.NODE_LIMIT_ATTEMPTS}"
    return f"{found}: look, then nodeprep nodes reset NODE"


def _approval(terms: RepairTerms) -> str:
    return "" if terms.node is None else terms.node.annotations.get(repair_orders.APPROVE, "").strip()


def _unapproved(
    state: AgentState, case: Case, remedy: Remedy, header: RemedyHeader | None, terms: RepairTerms
) -> Suppression | None:
    if header is None or header.safety is not SafetyClass.S3:
        return None
    found = repair_orders.approval(_approval(terms))
    why = repair_orders.unapproved(found, remedy.playbook, state.approved, terms.clock.wall)
    return _told(SuppressionReason.APPROVAL, case, remedy, why) if why else None


def _unrunnable(state: AgentState, case: Case, remedy: Remedy, terms: RepairTerms) -> Suppression | None:
    if terms.remediator:
        return _told(SuppressionReason.REMEDIATOR, case, remedy, terms.remediator)
    if state.attempt is not None:
        why = f"{state.attempt.remedy} for {state.attempt.check} runs or is judged: one at a time"
        return _told(SuppressionReason.BUSY, case, remedy, why)
    return None


def _stopped(case: Case, remedy: Remedy, terms: RepairTerms) -> Suppression | None:
    """What the last approach met. Others have their turn meanwhile."""
    stopped = terms.stopped.get(key_of(case, remedy))
    is_over = stopped is None or (stopped.until is not None and stopped.until <= terms.clock.now)
    return None if is_over else stopped


def _told(reason: SuppressionReason, case: Case, remedy: Remedy, why: str, until: float | None = None) -> Suppression:
    return Suppression(reason, case.check, remedy.playbook, kubernetes_text.line(why), until)
