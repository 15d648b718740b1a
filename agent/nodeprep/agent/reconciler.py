"""What the agent makes of what it saw: verdicts, memory, and what the world should be told. It acts on nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from nodeprep import __version__, profile_selection
from nodeprep.agent import former_rules, node_meeting, profile_state
from nodeprep.agent.latest_facts import EXPECTATION_USES, RECORDS, LatestFacts
from nodeprep.agent.node_meeting import NodeMeeting
from nodeprep.agent.state_writer import StateWriter
from nodeprep.agent_state import AgentState, NodeState
from nodeprep.assessment import Assessment
from nodeprep.checks import CHECKS, IDS
from nodeprep.config import agent_settings, verdict_digest, wants
from nodeprep.config.configuration import Settings
from nodeprep.decide import (
    desired,
    drill_notice,
    driver_owner,
    fault_confirmation,
    gate_readiness,
    look_schedule,
    reconciliation,
    repair_validation,
    rollout,
    rule_change,
    taint_toleration,
)
from nodeprep.decide.desired import AgentTrouble, Desired
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.driver_owner import DriverFamily
from nodeprep.decide.reconciliation import AgentPolicy, Observed
from nodeprep.decide.repair_budget import BudgetClock
from nodeprep.decide.repair_policy import SHIPPED_WAITS, RepairWaits
from nodeprep.doors import clock
from nodeprep.doors.events.listener import EventSourceState
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.kubernetes.cluster import Cluster, KubeNode
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.facts.machine.system import System
from nodeprep.history.repeat_offenders import RepeatOffender
from nodeprep.look import Look
from nodeprep.model import Check, Report, raw
from nodeprep.observer import Observation
from nodeprep.profile_selection import SELECTION_FACTS, ProfileSelection
from nodeprep.publish import node_status
from nodeprep.publish.node_status import NodeStatus
from nodeprep.publish.publisher import NodeAnnotations
from nodeprep.publish.repair_status import NO_REPAIR, RepairStatus
from nodeprep.values import Struct, field, replace

# What a report shows beside the findings: devices, who chose the profile, and the node's name.
REPORTED_FACTS = EXPECTATION_USES | SELECTION_FACTS | {System}
NAMES = {fact.kind: agent_settings.fact_name(fact) for fact in FACTS}
SETTLED_NODE_PERIOD_SECONDS = 30.0  # seconds for which a ready node is not reconciled if nothing new is seen


class Reconciler(Struct):
    """All that one agent knows. `agent_state` is what it remembers, `status` what the last round came to.

    `settings` are the last that could be read, `config_trouble` what is wrong with newer ones, `gate_trouble` what
    keeps gate files from being written or removed, `publish_trouble` what is wrong with writing to the cluster, as
    others can mend it, `forgotten` why nobody knows what was tried here, `drill` the one that runs now, `repair` what
    its repairs are about (agent/repairing), `before_repair` when each kind of fact is to be looked at for it, `waits`
    the waits of repairs, `exposed` the mount points of the node that the agent could write and should not, `cut_off`
    the ids of attempts that this start ended. `facts` are the kinds that a full round has looked at, `requests` the
    count of what was asked of Kubernetes. `proves_anew`: what was looked at before counts no more, so all is to be
    looked at now.
    """

    settings: Settings
    state_writer: StateWriter
    agent_state: AgentState
    facts: frozenset[type]
    requests: Mapping[tuple[str, str], int] = field(default_factory=dict)
    config_trouble: str = ""
    gate_trouble: str = ""
    publish_trouble: str = ""
    drill: DrillNotice | None = None
    exposed: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = ()
    forgotten: str = ""
    latest: LatestFacts = field(default_factory=lambda: LatestFacts(tuple(CHECKS.values())))
    selection: ProfileSelection | None = None
    proves_anew: bool = False
    status: NodeStatus | None = None
    rounds: int = 0
    reconciled_at: float = 0.0
    repair: RepairStatus = NO_REPAIR
    before_repair: Mapping[type, float] = field(default_factory=dict)
    waits: RepairWaits = SHIPPED_WAITS
    repeat_offenders: tuple[RepeatOffender, ...] = ()
    _wants: Mapping[str, object] = field(default_factory=dict)
    _anew: bool = True
    _excused: tuple[str, ...] = ()  # patterns of devices of which something was waived at the last judgement
    _troubled: AgentTrouble = field(default_factory=AgentTrouble)
    _reconciled: AgentState | None = None  # as the last reconciliation left it
    _told_of: tuple[AgentState | None, str, DrillNotice | None] = (None, "", None)
    _taints_since: float | None = None  # since when the taint ought to stand, be it withheld or not
    _met_at: float = 0.0  # what was observed before is of another Node, or may be
    _ruled_at: float = 0.0  # when these settings came

    def follow(self, settings: Settings) -> None:
        """Go by these settings from now on."""
        self.settings, self.selection = settings, None
        digest = verdict_digest.digest(settings)
        self._ruled_at = clock.now()
        self.agent_state = rule_change.after_rule_change(self.agent_state, __version__, digest, self._ruled_at)
        self._anew = self.proves_anew = True

    def forget(self, *, inventory: bool = False) -> None:
        """A human said that the node is to prove itself anew; `inventory`: also that it may have other devices now."""
        self.agent_state = fault_confirmation.reset(self.agent_state, clock.now())
        self.forgotten = ""
        if inventory:
            self.agent_state = replace(self.agent_state, hardware_profiles=(), baseline=None, parts=())
        self.latest.forget_rates(clock.now())
        self.selection = None
        self._anew = self.proves_anew = True

    def meet(self, heard: NodeAnnotations, *, forgetful: bool) -> NodeMeeting:
        """The Node was read: it may be another one, or a human may wish this one to start over."""
        now = clock.now()
        met = node_meeting.meet_node(self.agent_state, heard, self.budget_clock(), forgetful=forgetful)
        self.forgotten = met.forgotten or self.forgotten
        if met.agent_state.node_uid != self.agent_state.node_uid:
            self._met_at = now
        if met.agent_state is not self.agent_state:
            self.agent_state = met.agent_state
            self.selection = None
            self._anew = True
        if met.is_new:
            self.proves_anew = True
        if met.reset:
            self.forget(inventory=met.inventory)
        self.state_writer.keep(self.agent_state, now)
        return met

    def before_looking(self) -> Desired:
        """What ought to stand until enough was looked at to judge."""
        return node_meeting.before_looking(self.agent_state, self.settings, self.trouble, clock.now())

    @property
    def trouble(self) -> AgentTrouble:
        """What is wrong with the agent itself."""
        store = "; ".join(filter(None, (self.state_writer.trouble, self.gate_trouble)))
        return AgentTrouble(
            store, self.config_trouble, self.publish_trouble, node_status.exposed_mounts_message(self.exposed)
        )

    def assessment(self) -> Assessment:
        return Assessment(IDS, (), self.settings, clock.today(), agent_state=self.agent_state)

    def consider(self, seen: Iterable[Observation], event_sources: Mapping[str, EventSourceState]) -> NodeStatus | None:
        """What these observations change; None while too little was seen to tell which profile holds."""
        observations = tuple(seen)
        observed = frozenset(one.fact.kind for one in observations)
        changed = self.latest.take(observations)
        if not self.latest.facts.keys() >= SELECTION_FACTS:
            return None
        assessment = self.assessment()
        selection = self._select(changed)
        before = self.latest.words()
        profile = assessment.in_force(selection.profile, self.latest.facts)
        anew = self._anew or profile.excused != self._excused
        says_more = self.latest.judge(observed, changed, profile, self._wants, anew=anew)
        self._anew, self._excused = False, profile.excused
        now = clock.now()
        self._meet_node()
        self.agent_state = profile_state.with_new_gates(self.agent_state, selection, now)
        new = anew or self.latest.words() != before
        if self.status is not None and not new and self._is_settled(now):
            same = not (says_more or changed & REPORTED_FACTS) and self._is_told(assessment)
            report = self.status.report if same else self._report(assessment, selection)
            self.status = self._status(report, self.status.desired, event_sources)
            return self.status
        self.reconciled_at, self._troubled = now, self.trouble
        # A look that began under the former settings must not open a case under these: it would be as old as they are.
        fresh = self.latest.fresh(now, self._ruled_at)
        findings, _ = assessment.waived(self.latest.findings(), self.latest.facts)
        heard = Observed(
            findings,
            fresh,
            full_round=self.complete,
            log=self._log(),
            drill=self.drill,
            wall=clock.wall(),
            trouble=self.trouble,
            former=former_rules.judgement(self.agent_state, self.latest, findings, assessment, now),
        )
        agent_state, told = reconciliation.reconcile(self.agent_state, heard, self._rules(selection), now)
        agent_state = self._with_selection(agent_state, selection)
        self.agent_state = self._reconciled = agent_state
        self.state_writer.keep(agent_state, now)  # before anybody is told
        self._taints_since = (self._taints_since or now) if told.taints or told.taint_hindrance else None
        self.status = self._status(self._report(assessment, selection), told, event_sources)
        return self.status

    def wanted(self, since: float) -> dict[type, float]:
        """Looks that no period gives, by kind of fact: at what is in doubt since a turn, and to confirm a failure."""
        now = clock.now()
        wanted = dict.fromkeys(self.latest.doubtful(since, now), since)
        wanted |= self.latest.asked_again_at()
        if (
            at := taint_toleration.recheck_at(self.agent_state, self._taints_since, self.latest.begun.get(Cluster, 0.0))
        ) < inf:
            wanted[Cluster] = min(wanted.get(Cluster, at), at)
        policy = repair_validation.confirmation(self.agent_state, self.settings.agent.confirmation, self.waits)
        looks = fault_confirmation.wanted_looks(self.agent_state, CHECKS, self.gates(), policy)
        for check, at in looks.items():
            for kind in look_schedule.stale_facts(CHECKS[check], self.latest.begun, at, RECORDS, now):
                wanted[kind] = min(wanted.get(kind, at), at)
        judging = repair_validation.wanted_facts(self.agent_state, CHECKS, self.latest.begun, now)
        for kind, at in (*judging.items(), *self.before_repair.items()):
            wanted[kind] = min(wanted.get(kind, at), at)
        return wanted

    @property
    def complete(self) -> bool:
        return self.facts <= self.latest.facts.keys()

    def _select(self, changed: frozenset[type]) -> ProfileSelection:
        before = self.selection
        if before is not None and not changed & SELECTION_FACTS:
            return before
        look = Look(clock.now(), live=True, facts=self.latest.facts)
        self.selection = profile_selection.select(self.settings, look, self.agent_state)
        if before is None or self.selection.profile != before.profile:
            self._wants = wants.wants(self.selection.profile)
            self._anew = True
        return self.selection

    def _rules(self, selection: ProfileSelection) -> AgentPolicy:
        own = self.settings.agent
        profiles = profile_state.assigned_profiles(selection, own.gate, own.mode, self.agent_state)
        return AgentPolicy(
            CHECKS, profiles, own.mode, own.gate, own.confirmation, own.readiness, own.repair, self.waits
        )

    @property
    def checks(self) -> Mapping[str, Check]:
        """All checks by id, in the order in which a cause comes before what follows from it."""
        return CHECKS

    def budget_clock(self) -> BudgetClock:
        """What the ages of attempts are told by now."""
        return BudgetClock(self.agent_state.boot_id, clock.now(), clock.wall())

    @property
    def memory_trouble(self) -> str:
        """Why what is done to the node may be forgotten, or what was done is not known. "" if neither."""
        return "; ".join(filter(None, (self.state_writer.trouble, self.forgotten)))

    def driver_owners(self, labels: Mapping[str, str]) -> frozenset[DriverFamily]:
        """The families of drivers that an operator brings here, by the labels of the Node and by what is on it."""
        cluster, driver = self.latest.facts.get(Cluster), self.latest.facts.get(GpuDriver)
        pods = raw(cluster)["pods"] if isinstance(cluster, Cluster) else ()
        in_container = isinstance(driver, GpuDriver) and raw(driver)["container"] is True
        return driver_owner.owned(labels, pods if isinstance(pods, tuple) else (), gpu_container=in_container)

    def gates(self) -> tuple[str, ...]:
        """The checks that the node's state goes by."""
        profiles = self._rules(self.selection).profiles if self.selection else ()
        return gate_readiness.node_gates(profiles)

    def _with_selection(self, agent_state: AgentState, selection: ProfileSelection) -> AgentState:
        """The memory with the profiles in force, and what the node has if it is ready."""
        agent_state = profile_state.with_selection(agent_state, selection)
        agent_state = profile_state.with_waivers(agent_state, self.settings.waivers)
        is_ready = agent_state.state is NodeState.READY
        if is_ready and selection.by_hardware and profile_selection.baseline(agent_state) is None:
            ready = profile_state.with_baseline(agent_state, self.latest.facts)
            self.selection = self.selection if ready is agent_state else None  # the next round goes by it
            agent_state = ready
        return agent_state

    def _meet_node(self) -> None:
        """Another Node object of the same name is another node: it has proven nothing."""
        cluster = self.latest.facts.get(Cluster)
        node = raw(cluster)["node"] if isinstance(cluster, Cluster) else None
        uid = raw(node)["uid"] if isinstance(node, KubeNode) else ""
        if isinstance(uid, str) and self.latest.begun[Cluster] > self._met_at:
            heard = NodeAnnotations(uid, self.agent_state.reset_done)
            met = node_meeting.meet_node(self.agent_state, heard, self.budget_clock(), forgetful=False)
            self.agent_state = met.agent_state
            self.proves_anew = self.proves_anew or met.is_new

    def _log(self) -> KernelLog | None:
        log = self.latest.facts.get(KernelLog)
        return log if isinstance(log, KernelLog) else None

    def _is_settled(self, now: float) -> bool:
        """Whether looks that say the same as before change nothing, and the last reconciliation was lately.

        Such looks count together at the next reconciliation.
        """
        return (
            self.agent_state.state is NodeState.READY
            and self.agent_state is self._reconciled
            and self.trouble == self._troubled
            and now - self.reconciled_at < SETTLED_NODE_PERIOD_SECONDS
            and self.complete
            and not self.latest.has_doubts
            and not fault_confirmation.counts_looks(self.agent_state, self.gates())
        )

    def _is_told(self, assessment: Assessment) -> bool:
        """Whether the last report was made of the same memory and drill, on the same day: a waiver may end at that."""
        agent_state, today, drill = self._told_of
        return agent_state is assessment.agent_state and today == assessment.today and drill == self.drill

    def _report(self, assessment: Assessment, selection: ProfileSelection) -> Report:
        latest = self.latest
        self._told_of = assessment.agent_state, assessment.today, self.drill
        skipped, expected = latest.skipped.values(), latest.expected
        report = assessment.report_of(latest.findings(), skipped, latest.facts, selection, expected=expected)
        return drill_notice.report(report, self.drill)

    def _status(self, report: Report, told: Desired, event_sources: Mapping[str, EventSourceState]) -> NodeStatus:
        self.rounds += 1
        latest = self.latest
        deferred = rule_change.deferred_cases(self.agent_state, clock.now())
        return NodeStatus(
            report=report,
            desired=desired.with_repeats(told, self.repeat_offenders),
            agent_state=self.agent_state,
            mode=self.settings.agent.mode,
            facts=dict(latest.facts),
            fact_seconds={NAMES[kind]: seconds for kind, seconds in latest.seconds.items()},
            round_time=clock.wall(),
            at=clock.now(),
            repeat_offenders=self.repeat_offenders,
            rounds=self.rounds,
            complete=self.complete,
            store_trouble=self.state_writer.trouble,
            exposed=self.exposed,
            cut_off=self.cut_off,
            config_trouble=self.config_trouble,
            gate_trouble=self.gate_trouble,
            deferred=tuple(dict.fromkeys(case.check for case in deferred)),
            rollout_blockers=rollout.rollout_blockers(self.agent_state, told.profiles, clock.now()),
            suspected=rollout.suspected_gates(self.agent_state, told.profiles, clock.now()),
            pending_gates=tuple(sorted(rule_change.pending_gates(self.agent_state))),
            rule_disagreements=tuple(
                dict.fromkeys(case.check for case in rule_change.rule_disagreements(self.agent_state))
            ),
            drill=self.drill,
            waivers=sum(one.waived is not None for one in report.findings),
            event_sources=event_sources,
            repair=self.repair,
            api_requests=dict(self.requests),
        )
