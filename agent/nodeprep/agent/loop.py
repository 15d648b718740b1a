"""The loop: an event source or the clock, a look, what it comes to, and the world is told (design 3.5)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from math import inf
from threading import Event
from typing import TYPE_CHECKING

from nodeprep import __version__, profile_selection
from nodeprep.agent import node_meeting, node_shutdown, startup
from nodeprep.agent.history_writer import HistoryWriter
from nodeprep.agent.reconciler import Reconciler
from nodeprep.agent.state_writer import StateWriter
from nodeprep.config import key_digests, opening_change, verdict_digest, written
from nodeprep.config.configuration import Settings
from nodeprep.config.document import ConfigError
from nodeprep.decide import gate_readiness
from nodeprep.decide.desired import Desired
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.look_schedule import Schedule
from nodeprep.decide.repair_policy import SHIPPED_WAITS, RepairWaits
from nodeprep.doors import clock
from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.files.alive_mark import AliveMark
from nodeprep.doors.files.state_store import Store
from nodeprep.doors.node_host import Host
from nodeprep.facts import ALL as FACTS
from nodeprep.history.node_record import BOOT_DIGITS, CONFIGURATION, NodeRecord
from nodeprep.model import Topic
from nodeprep.observer import Observer
from nodeprep.publish import history_lines, log_lines, repair_lines
from nodeprep.publish.gate_files import Gate, GateFiles
from nodeprep.publish.log_lines import LogEntry
from nodeprep.publish.node_status import NodeStatus
from nodeprep.publish.probes import MISSED_PERIODS
from nodeprep.publish.publisher import NodeAnnotations, Publisher
from nodeprep.values import Value, field, replace

if TYPE_CHECKING:
    from nodeprep.agent.repairing import Repairing

LOGGER = logging.getLogger("nodeprep")
WORDS = frozenset({"node", "publisher"})  # of the publisher, which need no look to be acted on
TERMINATION = "SIGTERM"
LOOP_PERIOD_SECONDS = 10.0  # seconds; the loop turns at least this often, and `/healthz` allows it three (design 3.5)
HISTORY_PAUSE_SECONDS = 0.05  # seconds that a turn waits for its records; a disk syncs in a few milliseconds
HISTORY_RETRY_SECONDS = 60.0  # seconds until a disk that refused a record is tried again
HISTORY_TIMEOUT_SECONDS = 2.0  # seconds that an end waits for the last records
RESET_TIMEOUT_SECONDS = 3.0  # seconds that who asks for a reset, or tells of a drill, waits for it
GATE_FILES_PERIOD_SECONDS = (
    60.0  # seconds until gate files are held against what ought to be there, should somebody have removed one
)


class AgentParts(Value):
    """What the agent works with.

    `host_of` gives the host without paths that a profile excludes, for a metadata URL; `read_settings` reads the
    configuration (raises ConfigError). `listeners` are called with each round's outcome, when gates were closed and
    before any opens; the `publisher` tells the cluster, None where there is no access to one. `exposed` are mount
    points of the node that we could write and should not. `read_drill` reads which drill somebody told us of.
    `config_by_rollout`: a changed configuration is read at the next start, but for what only opens gates.
    `waits` are the waits of repairs. `system_state` asks this host's systemd for its state, "" where it is not seen.
    `alive` says for the next start until when we ran.
    """

    host_of: Callable[[tuple[str, ...], str], Host]
    read_settings: Callable[[], Settings]
    event_sources: EventSources
    store: Store
    run_directory: str
    requests: Mapping[tuple[str, str], int] = field(default_factory=dict)
    listeners: tuple[Callable[[NodeStatus], None], ...] = ()
    publisher: Publisher | None = None
    exposed: tuple[str, ...] = ()
    read_drill: Callable[[], DrillNotice | None] = lambda: None
    waits: RepairWaits = SHIPPED_WAITS
    config_by_rollout: bool = False
    system_state: Callable[[float], str] = lambda _: ""
    alive: AliveMark | None = None


class Agent:
    """One agent. `run` returns after `stop`; its other methods may be called from any thread, most from a signal."""

    _gates: GateFiles  # this and the next four are made by `_begin`
    _reconciler: Reconciler
    _repairing: Repairing | None = None  # made when there is something to mend
    _observer: Observer
    _schedule: Schedule

    def __init__(self, means: AgentParts, settings: Settings) -> None:
        self.means = means
        self.settings = self._started_with = settings
        self.turned_at = clock.now()
        self._asked: set[str] = set()
        self._forgotten = Event()
        self._drill: DrillNotice | None = None
        self._drill_heard = Event()
        self._excluded: tuple[str, ...] = ()
        self._told: NodeStatus | None = None
        self._open: frozenset[Gate] = frozenset()
        self._opened_at = -inf
        self._not_closed = ""  # why a gate file that ought to go is still there; "" once it is gone
        self._not_opened = ""  # why one that ought to be there is not; "" once it is
        self._says: NodeAnnotations | None = None  # what the Node says and nobody thought of yet
        self._forgetful = False
        self._node_uid = ""
        self.history = HistoryWriter(means.store.directory)
        self._history_trouble, self._history_tried, self._counted_hour = "", -inf, 0
        self._began = clock.now()
        self._started = ""  # why the state was what it was, as the line of the start said
        self._stopped_by = ""

    def run(self) -> None:
        """Judge until stopped."""
        self._begin()
        while "stop" not in self._asked:
            self.turn(self.means.event_sources.wait(self._patience(), self._schedule.muted_topics(clock.now())))
        publisher = self.means.publisher
        if self._stopped_by == TERMINATION:
            access = None if publisher is None else publisher.access
            self._close_for(node_shutdown.announced(access, self.means.system_state))
        if publisher is not None:
            publisher.stop()
        self._reconciler.state_writer.save(self._reconciler.agent_state, clock.now())
        self._say([LogEntry("stopped", {"signal": self._stopped_by})])
        self.history.finish(HISTORY_TIMEOUT_SECONDS)

    def _say(self, entries: Iterable[LogEntry]) -> None:
        """Tell what changed in the log, and keep it in the node's history."""
        told = tuple(entries)
        log_lines.tell(told, LOGGER)
        if told:
            state = self._reconciler.agent_state
            self.history.add(history_lines.records(told, state, clock.wall(), clock.now(), self._began))
            self._count_repeats()

    def _keep_configuration(self) -> None:
        """Keep in the history which keys the configuration sets, if they are not as they were last kept."""
        keys = key_digests.key_digests(self.settings)
        digest = key_digests.digest(keys)
        if keys != self.history.keys:
            changed = list(key_digests.changed(self.history.keys, keys))
            fields: dict[str, object] = {"digest": digest, "keys": keys}
            fields |= {"changed": changed} if self.history.keys else {}
            boot = self._reconciler.agent_state.boot_id[:BOOT_DIGITS]
            self.history.add([NodeRecord(clock.wall(), clock.now(), boot, CONFIGURATION, fields)])
            self.history.keys = keys

    def _hear_history(self) -> None:
        """How the records of this turn fared. If they are kept, say so for the next start and for who asks."""
        history = self.history
        if history.waiting and not history.trouble:
            history.finish(HISTORY_PAUSE_SECONDS)
        if history.trouble != self._history_trouble:
            self._history_trouble = history.trouble
            entry = LogEntry("history-trouble", {"message": history.trouble}, warning=True)
            log_lines.tell([entry if history.trouble else LogEntry("history-fine-again")], LOGGER)
        now = clock.now()
        if history.trouble and self._told is not None and now - self._history_tried >= HISTORY_RETRY_SECONDS:
            self._history_tried = now
            held = log_lines.transitions(None, self._told)
            state = self._reconciler.agent_state
            history.try_again(history_lines.records(held, state, clock.wall(), now, began=now))
        if self.means.alive is not None and not (history.trouble or history.waiting):
            self.means.alive.set(now)  # what is not kept was watched for nobody
        if (hour := int(clock.wall() // 3600)) != self._counted_hour:
            self._counted_hour = hour
            self._count_repeats()

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
        self._forgotten.clear()
        self._asked.add("forget-inventory" if inventory else "forget")
        self.means.event_sources.wake()
        self._forgotten.wait(RESET_TIMEOUT_SECONDS)

    def hear_drill(self) -> str:
        """Read which drill runs. Returns its words, "" for none, when findings say so or after a moment."""
        self._drill_heard.clear()
        self._ask("drill")
        self._drill_heard.wait(RESET_TIMEOUT_SECONDS)
        return self._drill.words if self._drill is not None else ""

    @property
    def status(self) -> NodeStatus | None:
        """The last round's outcome, None before the first; any thread may ask, also before `run`."""
        return self._told

    def turn(self, rung: frozenset[Topic]) -> None:
        """Look at what is due, judge it, tell it."""
        now = clock.now()
        words = self._asked & WORDS  # before they are heard: what comes meanwhile is for the next turn
        self._asked -= words
        hears_drill = "drill" in self._asked
        told = self._meet() or bool(words or self._asked) or Topic.CONFIG in rung
        self._asked.discard("drill")
        told = self._learn_drill(now) or told
        if Topic.CONFIG in rung or "reload" in self._asked:
            self._reload()
        if forget := self._asked & {"forget", "forget-inventory"}:
            self._asked -= forget
            self._reconciler.forget(inventory="forget-inventory" in forget)
            self._say([LogEntry("reset", {"inventory": "forget-inventory" in forget})])
        if self._reconciler.proves_anew:
            self._reconciler.proves_anew = False
            self._schedule.request((fact.kind for fact in FACTS), now)
        self._schedule.heard = self.means.event_sources.heard_topics()
        self._schedule.notify(rung, now)
        due = self._schedule.due(now, self._observer.under_way)
        anew = not self._schedule.is_calm(now)
        self._schedule.start(due, now)
        self._observer.begin(due, anew=anew)
        seen = self._observer.gather()
        told = self._repair() or told
        if seen or told:  # what somebody asked for is answered at once, also where no look is due
            status = self._reconciler.consider(seen, self.means.event_sources.states())
            if status is None:
                self._not_closed = self._gates.close(
                    self._reconciler.agent_state.gates
                )  # of another Node object nothing is proven
                self._publish(self._reconciler.before_looking(), opening=False)
            else:
                self._tell(status)
                for kind, at in self._reconciler.wanted(now).items():
                    self._schedule.request((kind,), at)
                self._look_past()
        if not self._asked & {"forget", "forget-inventory"}:
            self._forgotten.set()
        if hears_drill:
            self._drill_heard.set()
        self._hear_history()
        self.turned_at = clock.now()

    def _close_for(self, who: str) -> None:
        """Close all gates if somebody announced that the machine goes down, so that no pod comes in after the boot."""
        if not who:
            return
        reconciler, now = self._reconciler, clock.now()
        reconciler.agent_state = replace(reconciler.agent_state, shutdown=who)
        reconciler.state_writer.save(reconciler.agent_state, now)
        trouble = self._gates.close(())
        publisher = self.means.publisher
        if publisher is not None:
            unproven = gate_readiness.unproven(reconciler.agent_state, now)
            bare = node_meeting.before_looking(unproven, self.settings, reconciler.trouble, now)
            self._publish(node_shutdown.closed(bare, who), opening=False)
            if not publisher.finish(node_shutdown.CLOSING_TIMEOUT_SECONDS):
                trouble = "; ".join(filter(None, (trouble, "the Node could not be closed in time")))
        self._say([LogEntry("closed-for-shutdown", {"why": who, "trouble": trouble})])

    def _repair(self) -> bool:
        """Go on with repairs. Whether the agent state or what is told changed."""
        publisher = self.means.publisher
        if self._repairing is None:
            state = self._reconciler.agent_state
            if not (state.cases or state.attempt or state.slot or self.settings.agent.mode is Mode.REPAIR):
                return False
            from nodeprep.agent import repairing  # noqa: PLC0415 - 0.8 MiB that a sound node in mode gate does without

            self._repairing = repairing.of(self._reconciler, publisher, self.means.event_sources.wake)
        return self._repairing.turn(None if publisher is None else publisher.node)

    def _begin(self) -> None:
        """Recall what counts; a gate that nothing vouches for is closed before the first look."""
        self._excluded = profile_selection.excluded_paths(self.settings)
        host = self._host()
        digest = verdict_digest.digest(self.settings)
        found = startup.start(self.means.store, self.means.run_directory, host.boot_id(), digest, clock.now())
        agent_state, now = found.agent_state, clock.now()
        self._gates = GateFiles(self.means.run_directory)
        troubles = [self._gates.sweep(), self._gates.close(agent_state.gates)]
        state_writer = StateWriter(self.means.store, found.rest)
        self._reconciler = Reconciler(
            self.settings, state_writer, agent_state, frozenset(fact.kind for fact in FACTS), self.means.requests
        )
        self._reconciler.exposed, self._reconciler.waits = self.means.exposed, self.means.waits
        self._reconciler.cut_off = found.cut_off
        self._observer = Observer(host, self.means.event_sources.wake)
        self._schedule = Schedule(FACTS, self._periods(), longest_rest=self.means.waits.rest)
        self._started = agent_state.why
        started: dict[str, object] = {
            "version": __version__,
            "state": agent_state.state,
            "why": agent_state.why,
            "boot_id": agent_state.boot_id,
        }
        mark = self.means.alive
        former = None if mark is None else mark.read()
        if former is not None and former <= now:
            started["former_alive_at"] = former
        troubles = [one for one in (found.trouble, *troubles, self.history.recall()) if one]
        self._say(
            [
                LogEntry("started", started),
                *(LogEntry("start-trouble", {"message": one}, warning=True) for one in troubles),
            ]
        )
        self._keep_configuration()
        state_writer.save(agent_state, now)
        self._forgetful = found.forgetful
        if self.means.publisher is not None:
            self._connect(self.means.publisher)

    def _connect(self, publisher: Publisher) -> None:
        """Before the first look a gate that is closed is closed in the cluster too."""
        publisher.is_alive = self._is_alive
        publisher.on_annotations = self._hear
        publisher.on_status_change = lambda: self._ask("publisher")
        self._publish(self._reconciler.before_looking(), opening=False)
        publisher.start()

    def _is_alive(self) -> bool:
        """Whether the checks ran lately."""
        return self._told is not None and clock.now() - self.turned_at < MISSED_PERIODS * LOOP_PERIOD_SECONDS

    def _hear(self, says: NodeAnnotations) -> None:
        """Of the publisher's thread."""
        self._says = says
        self._ask("node")

    def _meet(self) -> bool:
        """Take in how the publisher fares and what it heard of the Node; whether it heard anything."""
        if self.means.publisher is not None:
            self._reconciler.publish_trouble = self.means.publisher.api_status.for_condition
        says, self._says = self._says, None
        if says is None:
            return False
        met = self._reconciler.meet(says, forgetful=self._forgetful)
        self._forgetful = False
        if met.reset:
            self._say([LogEntry("reset", {"inventory": met.inventory, "by": says.reset})])
        if met.agent_state.node_uid != self._node_uid:
            self._node_uid = met.agent_state.node_uid
            self._say([LogEntry("node", {"uid": self._node_uid})])
        return True

    def _learn_drill(self, now: float) -> bool:
        """Take in which drill runs; whether that changed."""
        notice = self.means.read_drill()
        boot_id = self._reconciler.agent_state.boot_id
        self._drill = notice if notice is not None and notice.holds(boot_id, now) else None
        changed = self._drill != self._reconciler.drill
        self._reconciler.drill = self._drill
        return changed

    def _publish(self, desired: Desired, *, opening: bool) -> None:
        if self.means.publisher is not None:
            gate = self.settings.agent.gate
            # Where there was no memory nothing is written before the Node was heard: it would overwrite what that kept.
            uid = "" if self._forgetful else self._reconciler.agent_state.node_uid
            self.means.publisher.publish(desired, gate, uid, opening=opening)

    def _patience(self) -> float:
        """Seconds until there is something to do."""
        now = clock.now()
        busy = self._observer.under_way
        overdue = self._observer.next_deadline()
        due = min(
            self._schedule.next(busy),
            self._schedule.unmuted_at(now),
            inf if self._repairing is None else self._repairing.due_at,
            inf if overdue is None else overdue,
        )
        return min(max(due - now, 0.0), LOOP_PERIOD_SECONDS)

    def _count_repeats(self) -> None:
        """Who repeats: once an hour, after each conviction, and by new settings."""
        found = self.history.repeats.offenders(clock.wall(), self.settings.agent.history)
        self._reconciler.repeat_offenders = found

    def _tell(self, status: NodeStatus) -> None:
        """Gates are closed first and opened last."""
        wanted = frozenset(gate_readiness.open_gates(status.desired.profiles))
        self._not_closed = self._gates.close(wanted)
        publisher = self.means.publisher
        status = replace(
            status, gate_trouble=self._gate_trouble(), api_status=publisher.api_status if publisher else None
        )
        self._publish(status.desired, opening=bool(wanted - self._open))
        for listener in self.means.listeners:
            listener(status)
        blind_after = self.settings.agent.confirmation.blind_after
        before, self._told = self._told, status  # who acts on a line of the log finds the report that it is about
        self._say(log_lines.transitions(before, status, blind_after, started=self._started))
        if publisher is not None:
            publisher.post(one.event for one in repair_lines.lines(before, status))
        if wanted != self._open or self._not_opened or status.at - self._opened_at >= GATE_FILES_PERIOD_SECONDS:
            agent_state = status.agent_state
            self._not_opened = self._gates.open(
                wanted, boot_id=agent_state.boot_id, node_uid=agent_state.node_uid, version=__version__
            )
            self._open, self._opened_at = wanted, status.at
        if publisher is not None:
            publisher.gates_written()
        self._reconciler.gate_trouble = self._gate_trouble()

    def _gate_trouble(self) -> str:
        return "; ".join(filter(None, (self._not_closed, self._not_opened)))

    def _look_past(self) -> None:
        """Do not read what the profile in force excludes."""
        selection = self._reconciler.selection
        excluded = selection.profile.exclude if selection else self._excluded
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
            self._reconciler.config_trouble = f"{error}; the former configuration holds"
            return
        if settings.file is None and self.settings.file is not None:
            self._reconciler.config_trouble = f"{self.settings.file} is gone: what it said holds until it is back"
            return
        self._reconciler.config_trouble = ""
        if self.means.config_by_rollout:
            settings = self._opened(settings)
        changed = settings != self.settings
        if changed or asked:
            said = "; ".join(written.changes(self.settings, settings)) or "none"
            self._say([LogEntry("configuration-read", {"changes": said})])
        if (changed or asked) and self.means.publisher is not None:
            self.means.publisher.forget_denials()
        if not changed:
            return
        self.settings = settings
        self._reconciler.follow(settings)
        self._keep_configuration()
        self._count_repeats()
        self._excluded = profile_selection.excluded_paths(settings)
        self._schedule.periods = self._periods()
        self._observer.host = self._host()

    def _opened(self, settings: Settings) -> Settings:
        """What of these settings holds at once. The rest waits for a start, and until then that is said."""
        opened = opening_change.opened(self._started_with, self.settings, settings)
        if waiting := written.changes(opened, settings):
            self._reconciler.config_trouble = (
                f"{settings.file} changed and this agent goes by it from its next start, so that a rollout can stop a "
                f"wrong one (docs/upgrade.md): {'; '.join(waiting)}"
            )
        return opened

    def _host(self) -> Host:
        return self.means.host_of(self._excluded, self.settings.metadata_url)

    def _periods(self) -> dict[type, float]:
        return self.settings.agent.periods(FACTS)

    def _ask(self, what: str) -> None:
        self._asked.add(what)
        self.means.event_sources.wake()
