"""Keeps the memory without waiting for a disk that hangs."""

from __future__ import annotations

from threading import Thread

from nodeprep import fault_boundary, state_file
from nodeprep.agent_state import AgentState
from nodeprep.codec import Rest
from nodeprep.doors import clock
from nodeprep.doors.files.state_store import Store
from nodeprep.values import Struct, field, replace

SAVE_TIMEOUT_SECONDS = 2.0  # seconds for a disk to take a few kilobytes; the gate closes after it, come what may
SAVE_RETRY_SECONDS = 60.0  # seconds until a disk that refused is tried again
MINOR_SAVE_PERIOD_SECONDS = 300.0  # seconds between two savings of what only spares a restart some looks


class StateWriter(Struct):
    """Saves in a thread of its own. `trouble` is "" while what was last given to it is kept.

    It reads the same for as long as the disk hangs: whoever tells of it tells it once.
    """

    store: Store
    rest: Rest = ()
    trouble: str = ""
    _kept: AgentState | None = None
    _at: float = 0.0
    _thread: Thread | None = None
    _answer: list[str] = field(default_factory=list)  # of that thread, once it has one

    def keep(self, agent_state: AgentState, now: float) -> None:
        """Keep the memory if something in it counts that is not kept yet; what does not is kept now and then."""
        self._hear()
        if self._kept is not None and essence(agent_state) == essence(self._kept):
            due = SAVE_RETRY_SECONDS if self.trouble else MINOR_SAVE_PERIOD_SECONDS
            if now - self._at < due or (agent_state == self._kept and not self.trouble):
                return
        self.save(agent_state, now)

    def save(self, agent_state: AgentState, now: float) -> None:
        """Keep the memory, and give up to wait for it after a moment."""
        if self._thread is not None and self._thread.is_alive():
            self.trouble = self._lost("no answer")
            return
        answer: list[str] = []
        self._kept, self._at, self._answer = agent_state, now, answer
        self._thread = Thread(target=lambda: answer.append(self._saved(agent_state)), daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            answer.append(self._lost(f"no thread can be started ({error})"))
        else:
            self._thread.join(SAVE_TIMEOUT_SECONDS)
        self.trouble = self._lost("no answer")
        self._hear()
        if self.trouble:
            self._at = clock.now()

    def _lost(self, why: str) -> str:
        return f"{self.store.directory}: {why}; the memory may not be kept; see findmnt -T {self.store.directory}"

    def _hear(self) -> None:
        """What came of the last saving, also where nobody waited for it any more."""
        if self._answer:
            self.trouble = self._answer.pop()

    def _saved(self, agent_state: AgentState) -> str:
        """Keep it: "" or what is wrong. Raises nothing: a thread has nobody to raise to."""
        answer, broke = fault_boundary.contained(lambda: state_file.save(self.store, agent_state, self.rest))
        return self._lost(fault_boundary.words_of(broke)) if broke else answer or ""


def essence(agent_state: AgentState) -> tuple[object, ...]:
    """What a restart must not lose: what the gates rest on, and what was done to the node."""
    proven = frozenset(check for check, streak in agent_state.pass_streaks.items() if streak.proven)
    believed = (one for one in agent_state.cases if one.convicted or one.flaps)
    cases = tuple(
        (one.check, one.subject, one.convicted_at, one.latched, one.flaps, one.deferred_until) for one in believed
    )
    return (
        agent_state.boot_id,
        agent_state.node_uid,
        agent_state.version,
        (agent_state.state, agent_state.since),
        agent_state.gates,
        agent_state.hardware_profiles,
        agent_state.profile,
        agent_state.baseline,
        (agent_state.taint_tolerated, agent_state.reset_done),
        tuple((name, gone is None) for name, gone in agent_state.intolerant.items()),
        proven,
        cases,
        (None if agent_state.attempt is None else replace(agent_state.attempt, heard_at=0.0, slot_until=0.0)),
        (agent_state.attempts, agent_state.disturbed, agent_state.was_ready, agent_state.approved, agent_state.slot),
        (agent_state.helped, agent_state.unhelpful, agent_state.held),
    )
