"""What the agent makes of what it saw: verdicts, memory, and what the world should be told. It acts on nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from nodeprep.agent.choosing import (
    RESTS_ON,
    Choice,
    assigned,
    choose,
    held,
    inventory,
    renewed,
    seen_enough,
    with_first_baseline,
    with_waivers,
)
from nodeprep.agent.keeping import Keeper
from nodeprep.agent.meeting import Met, before_looking, meet
from nodeprep.agent.observing import Observation
from nodeprep.agent.standing import RECORDS, Standing
from nodeprep.checks import ALL
from nodeprep.config.agent_settings import fact_name
from nodeprep.config.settings import Settings
from nodeprep.decide.bearing import asked_again_at
from nodeprep.decide.damping import reset, wanted_looks
from nodeprep.decide.desired import Desired, Trouble
from nodeprep.decide.readiness import node_gates
from nodeprep.decide.rollout import closed_since, suspected
from nodeprep.decide.schedule import not_fresh
from nodeprep.decide.turn import Heard, Rules, think
from nodeprep.decide.upgrade import awaited, changed_by_upgrade, disputed
from nodeprep.doors import clock
from nodeprep.doors.bell import BellState
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.cluster import Cluster, KubeNode
from nodeprep.facts.kernel_log import KernelLog
from nodeprep.facts.past import Past, State
from nodeprep.look import Look
from nodeprep.model import Remedy, Report, raw
from nodeprep.publish.publisher import NodeSays
from nodeprep.publish.status import NodeStatus, words_of
from nodeprep.question import Chosen, Question, Wishes

CHECKS = {check.id: check for check in ALL}
NAMES = {fact.kind: fact_name(fact) for fact in FACTS}
SETTLED = 30.0  # seconds for which a ready node of which nothing new is seen need not be thought of


@dataclass(slots=True)
class Mind:
    """All that one agent knows. `past` is what it remembers, `status` what the last round came to.

    `settings` are the last that could be read, `config_trouble` what is wrong with newer ones, `gate_trouble` what
    keeps gate files from being written or removed, `publish_trouble` what is wrong with writing to the cluster, as
    others can mend it, `exposed` the mount points of the node that the agent could write and should not. `facts` are
    the kinds that a full round has looked at, `requests` the count of what was asked of Kubernetes. `proves_anew`: what
    was looked at before counts no more, so all is to be looked at now.
    """

    settings: Settings
    keeper: Keeper
    past: Past
    facts: frozenset[type]
    requests: Mapping[tuple[str, str], int] = field(default_factory=dict)
    config_trouble: str = ""
    gate_trouble: str = ""
    publish_trouble: str = ""
    exposed: tuple[str, ...] = ()
    standing: Standing = field(default_factory=lambda: Standing(ALL))
    choice: Choice | None = None
    proves_anew: bool = False
    status: NodeStatus | None = None
    rounds: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)
    _wants: Mapping[str, object] = field(default_factory=dict)
    _would: frozenset[tuple[str, str]] = frozenset()
    _anew: bool = True
    _troubled: Trouble = field(default_factory=Trouble)
    _thought_at: float = 0.0
    _told_of: tuple[Past | None, str] = (None, "")
    _configured: bool = False  # other settings came after the first round
    _taints_since: float | None = None  # since when the taint ought to stand, be it withheld or not
    _met_at: float = 0.0  # what was observed before is of another Node, or may be

    def follow(self, settings: Settings) -> None:
        """Go by these settings from now on."""
        self.settings, self.choice = settings, None
        self._configured = self._configured or self.status is not None
        self._anew = self.proves_anew = True

    def forget(self, *, inventory: bool = False) -> None:
        """A human said that the node is to prove itself anew; `inventory`: also that it may have other devices now."""
        self.past = reset(self.past, clock.now())
        if inventory:
            self.past = replace(self.past, held=(), baseline=None, parts=())
        self.standing.forget_rates()
        self.choice = None
        self._anew = self.proves_anew = True

    def meet(self, heard: NodeSays, *, forgetful: bool) -> Met:
        """The Node was read: it may be another one, or a human may wish this one to start over."""
        now = clock.now()
        met = meet(self.past, heard, now, forgetful=forgetful)
        if met.past.node_uid != self.past.node_uid:
            self._met_at = now
        if met.past is not self.past:
            self.past = met.past
            self.choice = None
            self._anew = True
        if met.is_new:
            self.proves_anew = True
        if met.reset:
            self.forget(inventory=met.inventory)
        self.keeper.keep(self.past, now)
        return met

    def before_looking(self) -> Desired:
        """What ought to stand until enough was looked at to judge."""
        return before_looking(self.past, self.settings, self.trouble, clock.now())

    @property
    def trouble(self) -> Trouble:
        """What is wrong with the agent itself."""
        store = "; ".join(filter(None, (self.keeper.trouble, self.gate_trouble)))
        return Trouble(store, self.config_trouble, self.publish_trouble, words_of(self.exposed))

    def question(self) -> Question:
        return Question(ALL, (), Wishes(None, "", self.settings, clock.today(), past=self.past))

    def consider(self, seen: Iterable[Observation], bells: Mapping[str, BellState]) -> NodeStatus | None:
        """What these observations change; None while too little was seen to tell which profile holds."""
        observations = tuple(seen)
        observed = frozenset(one.fact.kind for one in observations)
        changed = self.standing.take(observations)
        if not seen_enough(self.standing.facts):
            return None
        question = self.question()
        choice = self._choose(question, changed)
        chosen = choice.chosen
        before = self.standing.words()
        judged = self.standing.judge(observed, changed, chosen.profile, self._wants, anew=self._anew)
        anew, self._anew = self._anew, False
        now = clock.now()
        self._meet_node(now)
        self.past = renewed(self.past, chosen, now, configured=self._configured)
        fresh = self.standing.fresh(now)
        new = anew or bool(fresh) or self.standing.words() != before
        if self.status is not None and not new and self._is_settled(now):
            same = not (judged or changed) and self._is_told(question)
            report = self.status.report if same else self._report(question, chosen)
            self.status = self._status(report, self.status.desired, bells)
            return self.status
        self._thought_at, self._troubled = now, self.trouble
        findings, _ = question.wishes.waived(self.standing.findings(), question.node(self.standing.facts))
        heard = Heard(
            findings,
            fresh,
            full_round=self.complete,
            log=self._log(),
            trouble=self.trouble,
        )
        past, told = think(self.past, heard, self._rules(choice), now)
        past = self._with_choice(past, chosen)
        self.past = past
        self.keeper.keep(past, now)  # before anybody is told
        self._count(told)
        self._taints_since = (self._taints_since or now) if told.taints or told.untainted else None
        self.status = self._status(self._report(question, chosen), told, bells)
        return self.status

    def wanted(self, since: float) -> dict[type, float]:
        """Looks that no period gives, by kind of fact: at what is in doubt since a turn, and to confirm a failure."""
        now = clock.now()
        wanted = dict.fromkeys(self.standing.doubtful(since, now), since)
        wanted |= self.standing.asked_again_at()
        if (at := asked_again_at(self.past, self._taints_since, self.standing.begun.get(Cluster, 0.0))) < inf:
            wanted[Cluster] = min(wanted.get(Cluster, at), at)
        looks = wanted_looks(self.past, CHECKS, self._gates(), self.settings.agent.damping)
        for check, at in looks.items():
            for kind in not_fresh(CHECKS[check], self.standing.begun, at, RECORDS, now):
                wanted[kind] = min(wanted.get(kind, at), at)
        return wanted

    @property
    def complete(self) -> bool:
        return self.facts <= self.standing.facts.keys()

    @property
    def chosen(self) -> Chosen | None:
        return self.choice.chosen if self.choice else None

    def _choose(self, question: Question, changed: frozenset[type]) -> Choice:
        if self.choice is not None and not changed & RESTS_ON:
            return self.choice
        before = self.chosen
        look = Look(clock.now(), live=True, facts=self.standing.facts)
        choice = choose(question, look, self.past)
        if before is None or choice.chosen.profile != before.profile:
            self._wants = question.wishes.wants(choice.chosen.profile)
            self._anew = True
        self.choice = choice
        return choice

    def _rules(self, choice: Choice) -> Rules:
        own = self.settings.agent
        profiles = assigned(choice, own.gate, own.mode, self.past)
        return Rules(CHECKS, profiles, own.mode, own.gate, own.damping, own.readiness)

    def _gates(self) -> tuple[str, ...]:
        """The checks that the node's state goes by."""
        profiles = self._rules(self.choice).profiles if self.choice else ()
        return node_gates(profiles)

    def _with_choice(self, past: Past, chosen: Chosen) -> Past:
        """The memory with the profiles in force, and what the node has if it is ready."""
        kept = past if chosen.untold or chosen.unseen else held(past, chosen)
        past = with_waivers(kept, self.settings.waivers)
        if past.state is State.READY and chosen.by_hardware and inventory(past) is None:
            ready = with_first_baseline(past, self.standing.facts)
            self.choice = self.choice if ready is past else None  # the next round goes by it
            past = ready
        return past

    def _meet_node(self, now: float) -> None:
        """Another Node object of the same name is another node: it has proven nothing."""
        cluster = self.standing.facts.get(Cluster)
        node = raw(cluster)["node"] if isinstance(cluster, Cluster) else None
        uid = raw(node)["uid"] if isinstance(node, KubeNode) else ""
        if isinstance(uid, str) and self.standing.begun[Cluster] > self._met_at:
            met = meet(self.past, NodeSays(uid, self.past.reset_done), now, forgetful=False)
            self.past = met.past
            self.proves_anew = self.proves_anew or met.is_new

    def _log(self) -> KernelLog | None:
        log = self.standing.facts.get(KernelLog)
        return log if isinstance(log, KernelLog) else None

    def _count(self, told: Desired) -> None:
        """Count each remedy that the mode did not run, once per time that it was due."""
        due = frozenset((check, _named(remedy)) for check, remedy in told.would_run)
        self.suppressed[f"mode-{self.settings.agent.mode}"] += len(due - self._would)
        self._would = due

    def _is_settled(self, now: float) -> bool:
        """Whether nothing but the passing of time could change what is thought, and that was thought of lately."""
        ready = self.past.state is State.READY
        return ready and self.trouble == self._troubled and now - self._thought_at < SETTLED and self.complete

    def _is_told(self, question: Question) -> bool:
        """Whether the last report was made of the same memory and on the same day, at which a waiver may end."""
        return self._told_of[0] is question.wishes.past and self._told_of[1] == question.wishes.today

    def _report(self, question: Question, chosen: Chosen) -> Report:
        standing = self.standing
        self._told_of = question.wishes.past, question.wishes.today
        return question.told(standing.findings(), standing.skipped.values(), standing.facts, chosen)

    def _status(self, report: Report, told: Desired, bells: Mapping[str, BellState]) -> NodeStatus:
        self.rounds += 1
        standing = self.standing
        spared = changed_by_upgrade(self.past, clock.now())
        return NodeStatus(
            report=report,
            desired=told,
            past=self.past,
            mode=self.settings.agent.mode,
            facts=dict(standing.facts),
            fact_seconds={NAMES[kind]: seconds for kind, seconds in standing.seconds.items()},
            round_time=clock.wall(),
            at=clock.now(),
            rounds=self.rounds,
            complete=self.complete,
            store_trouble=self.keeper.trouble,
            exposed=self.exposed,
            config_trouble=self.config_trouble,
            gate_trouble=self.gate_trouble,
            spared=tuple(dict.fromkeys(case.check for case in spared)),
            held_up=closed_since(self.past, told.profiles, clock.now()),
            suspected=suspected(self.past, told.profiles, clock.now()),
            awaited=tuple(sorted(awaited(self.past))),
            disputed=tuple(dict.fromkeys(case.check for case in disputed(self.past))),
            waivers=sum(one.waived is not None for one in report.findings),
            bells=bells,
            suppressed=dict(self.suppressed),
            api_requests=dict(self.requests),
        )


def _named(remedy: Remedy) -> str:
    return f"{remedy.playbook} {sorted(remedy.args.items())}"
