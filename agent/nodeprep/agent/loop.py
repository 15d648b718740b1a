"""The loop: a bell or the clock, a look, what it comes to, and the world is told (design 2)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from threading import Event

from nodeprep import __version__
from nodeprep.agent.keeping import Keeper
from nodeprep.agent.mind import Mind
from nodeprep.agent.observing import Observer
from nodeprep.checks import ALL
from nodeprep.config.document import ConfigError
from nodeprep.config.settings import Settings
from nodeprep.config.written import changes
from nodeprep.decide.readiness import begin, open_gates
from nodeprep.decide.schedule import Schedule
from nodeprep.decide.upgrade import took_over
from nodeprep.doors import clock
from nodeprep.doors.bell import Bells
from nodeprep.doors.host import BOOT_ID, Host
from nodeprep.doors.store import Store
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.past import Past, State
from nodeprep.memory import recall
from nodeprep.model import Topic
from nodeprep.publish.gate import Gate, GateFiles, opened
from nodeprep.publish.log import Entry, tell, transitions
from nodeprep.publish.status import NodeStatus
from nodeprep.question import Question, Wishes

LOGGER = logging.getLogger("nodeprep")
INTERVAL = 10.0  # seconds; the loop turns at least this often, and `/healthz` allows it three (design 3.5)
PATIENCE = 3.0  # seconds that who asks for a reset waits for it
GATES_AGAIN = 60.0  # seconds until gate files are held against what ought to be there, should somebody have removed one


@dataclass(frozen=True, slots=True)
class Means:
    """What the agent works with.

    `host_of` gives the host without paths that a profile excludes, for a metadata URL; `read_settings` reads the
    configuration (raises ConfigError). `listeners` are called with each round's outcome, when gates were closed and
    before any opens.
    """

    host_of: Callable[[tuple[str, ...], str], Host]
    read_settings: Callable[[], Settings]
    bells: Bells
    store: Store
    run_directory: str
    requests: Mapping[tuple[str, str], int] = field(default_factory=dict)
    listeners: tuple[Callable[[NodeStatus], None], ...] = ()


@dataclass(slots=True)
class Agent:
    """One agent. `run` returns after `stop`; `reload`, `forget` and `stop` may be called from any thread or signal."""

    means: Means
    settings: Settings
    turned_at: float = field(default_factory=clock.now)
    _gates: GateFiles = field(init=False)
    _mind: Mind = field(init=False)
    _observer: Observer = field(init=False)
    _schedule: Schedule = field(init=False)
    _asked: set[str] = field(default_factory=set)
    _forgotten: Event = field(default_factory=Event)
    _excluded: tuple[str, ...] = ()
    _told: NodeStatus | None = None
    _open: frozenset[Gate] = frozenset()
    _opened_at: float = -inf
    _not_closed: str = ""  # why a gate file that ought to go is still there; "" once it is gone
    _not_opened: str = ""  # why one that ought to be there is not; "" once it is
    _started: str = ""  # why the state was what it was, as the line of the start said
    _stopped_by: str = ""

    def run(self) -> None:
        """Judge until stopped."""
        self._begin()
        while "stop" not in self._asked:
            self.turn(self.means.bells.wait(self._patience(), self._schedule.deaf(clock.now())))
        self._mind.keeper.save(self._mind.past, clock.now())
        tell([Entry("stopped", {"signal": self._stopped_by})], LOGGER)

    def stop(self, signal: str = "") -> None:
        """End, because of the signal of that name."""
        self._stopped_by = self._stopped_by or signal
        self._ask("stop")

    def reload(self) -> None:
        self._ask("reload")

    def forget(self, *, inventory: bool = False) -> None:
        """What is held against the node counts no more; with its `inventory`, nor does what it had and was chosen.

        Returns when gates are closed and the memory says so, or after a moment if the loop is held up.
        """
        self._asked.add("forget-inventory" if inventory else "forget")
        self._forgotten.clear()
        self.means.bells.wake()
        self._forgotten.wait(PATIENCE)

    @property
    def status(self) -> NodeStatus | None:
        """The last round's outcome, None before the first; any thread may ask, also before `run`."""
        return self._told

    def turn(self, rung: frozenset[Topic]) -> None:
        """Look at what is due, judge it, tell it."""
        now = clock.now()
        told = bool(self._asked) or Topic.CONFIG in rung
        if Topic.CONFIG in rung or "reload" in self._asked:
            self._reload()
        if forget := self._asked & {"forget", "forget-inventory"}:
            self._asked -= forget
            self._mind.forget(inventory="forget-inventory" in forget)
            tell([Entry("reset", {"inventory": "forget-inventory" in forget})], LOGGER)
        if self._mind.proves_anew:
            self._mind.proves_anew = False
            self._schedule.want((fact.kind for fact in FACTS), now)
        self._schedule.ring(rung, now)
        due = self._schedule.due(now, self._observer.under_way)
        anew = not self._schedule.is_calm(now)
        self._schedule.start(due, now)
        self._observer.begin(due, anew=anew)
        seen = self._observer.gather()
        if seen or told:  # what somebody asked for is answered at once, also where no look is due
            status = self._mind.consider(seen, self.means.bells.states())
            if status is not None:
                self._tell(status)
                for kind, at in self._mind.wanted(now).items():
                    self._schedule.want((kind,), at)
                self._look_past()
        if not self._asked & {"forget", "forget-inventory"}:
            self._forgotten.set()
        self.turned_at = clock.now()

    def _begin(self) -> None:
        """Recall what counts; a gate that nothing vouches for is closed before the first look."""
        self._excluded = Question(ALL, (), Wishes(None, "", self.settings, clock.today())).excluded()
        host = self._host()
        boot_id = _text(host.files.text(BOOT_ID))
        now = clock.now()
        recalled = recall(self.means.store)
        found_open = opened(self.means.run_directory, boot_id)
        past = took_over(begin(recalled.past, boot_id, "", now), __version__, now)
        if recalled.past is None and not recalled.trouble and not found_open:
            past = replace(past, why=f"the first start here: no memory in {self.means.store.directory}")
        past = resumed(vouched(past, found_open, now))
        self._gates = GateFiles(self.means.run_directory)
        troubles = [self._gates.sweep(), self._gates.close(past.gates)]
        keeper = Keeper(self.means.store, recalled.rest)
        self._mind = Mind(self.settings, keeper, past, frozenset(fact.kind for fact in FACTS), self.means.requests)
        self._observer = Observer(host, self.means.bells.wake)
        self._schedule = Schedule(FACTS, self._periods())
        self._started = past.why
        started = {"version": __version__, "state": past.state, "why": past.why, "boot_id": boot_id}
        troubles = [one for one in (recalled.trouble, *troubles) if one]
        tell(
            [Entry("started", started), *(Entry("start-trouble", {"message": one}, warning=True) for one in troubles)],
            LOGGER,
        )
        keeper.save(past, now)

    def _patience(self) -> float:
        """Seconds until there is something to do."""
        now = clock.now()
        busy = self._observer.under_way
        overdue = self._observer.next_deadline()
        due = min(self._schedule.next(busy), self._schedule.hears_at(now), inf if overdue is None else overdue)
        return min(max(due - now, 0.0), INTERVAL)

    def _tell(self, status: NodeStatus) -> None:
        """Gates are closed first and opened last."""
        wanted = frozenset(open_gates(status.desired.profiles))
        self._not_closed = self._gates.close(wanted)
        status = replace(status, gate_trouble=self._gate_trouble())
        for listener in self.means.listeners:
            listener(status)
        blind_after = self.settings.agent.damping.blind_after
        tell(transitions(self._told, status, blind_after, started=self._started), LOGGER)
        self._told = status
        if wanted != self._open or self._not_opened or status.at - self._opened_at >= GATES_AGAIN:
            past = status.past
            self._not_opened = self._gates.open(
                wanted, boot_id=past.boot_id, node_uid=past.node_uid, version=__version__
            )
            self._open, self._opened_at = wanted, status.at
        self._mind.gate_trouble = self._gate_trouble()

    def _gate_trouble(self) -> str:
        return "; ".join(filter(None, (self._not_closed, self._not_opened)))

    def _look_past(self) -> None:
        """Do not read what the profile in force excludes."""
        excluded = self._mind.chosen.profile.exclude if self._mind.chosen else self._excluded
        if set(excluded) != set(self._excluded):
            self._excluded = excluded
            self._observer.host = self._host()

    def _reload(self) -> None:
        """Read the configuration; one that is bad changes nothing, and is said. Who asked for it is always answered."""
        asked = "reload" in self._asked
        self._asked.discard("reload")
        try:
            settings = self.means.read_settings()
        except ConfigError as error:
            self._mind.config_trouble = f"{error}; the former configuration holds"
            return
        if settings.file is None and self.settings.file is not None:
            self._mind.config_trouble = f"{self.settings.file} is gone: what it said holds until it is back"
            return
        self._mind.config_trouble = ""
        changed = settings != self.settings
        if changed or asked:
            said = "; ".join(changes(self.settings, settings)) or "none"
            tell([Entry("configuration-read", {"changes": said})], LOGGER)
        if not changed:
            return
        self.settings = settings
        self._mind.follow(settings)
        self._excluded = self._mind.question().excluded()
        self._schedule.every = self._periods()
        self._observer.host = self._host()

    def _host(self) -> Host:
        return self.means.host_of(self._excluded, self.settings.metadata_url)

    def _periods(self) -> dict[type, float]:
        return {fact.kind: self.settings.agent.period(fact) for fact in FACTS}

    def _ask(self, what: str) -> None:
        self._asked.add(what)
        self.means.bells.wake()


def vouched(past: Past, there: frozenset[tuple[str, str]], now: float) -> Past:
    """The memory, with nothing proven if a gate that should stand open by it does not.

    A memory that could not be kept any more may be older than the closing of a gate: the file's absence tells.
    """
    missing = set(past.gates) - there
    if not missing:
        return past
    profile, stage = min(missing)
    why = f"the gate file {profile}.{stage} was gone at the start"
    return replace(past, state=State.BOOTSTRAP, since=now, why=why, proofs={}, gates=(), all_passing_since=None)


def resumed(past: Past) -> Past:
    """The memory at a start, with passes to be counted anew: nobody looked since, and it may be older than it says.

    What is proven stays proven, what is convicted convicted.
    """
    proofs = {check: proof for check, proof in past.proofs.items() if proof.proven}
    cases = tuple(replace(case, passes=0, passing_since=None) if case.convicted else case for case in past.cases)
    return replace(past, proofs=proofs, cases=cases, all_passing_since=None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
