"""Keeps the memory without waiting for a disk that hangs."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Thread

from nodeprep.codec import Rest
from nodeprep.doors import clock
from nodeprep.doors.store import Store
from nodeprep.facts.past import Past
from nodeprep.look import contained, words_of
from nodeprep.memory import keep

PATIENCE = 2.0  # seconds for a disk to take a few kilobytes; the gate closes after it, come what may
AGAIN = 60.0  # seconds until a disk that refused is tried again
SELDOM = 300.0  # seconds between two savings of what only spares a restart some looks


@dataclass(slots=True)
class Keeper:
    """Saves in a thread of its own. `trouble` is "" while what was last given to it is kept.

    It reads the same for as long as the disk hangs: whoever tells of it tells it once.
    """

    store: Store
    rest: Rest = ()
    trouble: str = ""
    _kept: Past | None = None
    _at: float = 0.0
    _thread: Thread | None = None
    _answer: list[str] = field(default_factory=list)  # of that thread, once it has one

    def keep(self, past: Past, now: float) -> None:
        """Keep the memory if something in it counts that is not kept yet; what does not is kept now and then."""
        self._hear()
        if self._kept is not None and essence(past) == essence(self._kept):
            due = AGAIN if self.trouble else SELDOM
            if now - self._at < due or (past == self._kept and not self.trouble):
                return
        self.save(past, now)

    def save(self, past: Past, now: float) -> None:
        """Keep the memory, and give up to wait for it after a moment."""
        if self._thread is not None and self._thread.is_alive():
            self.trouble = self._lost("no answer")
            return
        answer: list[str] = []
        self._kept, self._at, self._answer = past, now, answer
        self._thread = Thread(target=lambda: answer.append(self._saved(past)), daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            answer.append(self._lost(f"no thread can be started ({error})"))
        else:
            self._thread.join(PATIENCE)
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

    def _saved(self, past: Past) -> str:
        """Keep it: "" or what is wrong. Raises nothing: a thread has nobody to raise to."""
        answer, broke = contained(lambda: keep(self.store, past, self.rest))
        return self._lost(words_of(broke)) if broke else answer or ""


def essence(past: Past) -> tuple[object, ...]:
    """What a restart must not lose: what the gates rest on."""
    proven = frozenset(check for check, proof in past.proofs.items() if proof.proven)
    believed = (one for one in past.cases if one.convicted or one.turns)
    cases = tuple(
        (one.check, one.subject, one.convicted_at, one.latched, one.turns, one.spared_until) for one in believed
    )
    return (
        past.boot_id,
        past.node_uid,
        past.version,
        (past.state, past.since),
        past.gates,
        past.held,
        past.profile,
        past.baseline,
        (past.taint_borne, past.reset_done),
        tuple((name, gone is None) for name, gone in past.intolerant.items()),
        proven,
        cases,
    )
