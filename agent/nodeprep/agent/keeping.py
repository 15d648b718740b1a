"""Keeps the memory without waiting for a disk that hangs."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Thread

from nodeprep.codec import Rest
from nodeprep.doors import clock
from nodeprep.doors.store import Store
from nodeprep.facts.past import Past
from nodeprep.memory import keep

PATIENCE = 2.0  # seconds for a disk to take a few kilobytes; the gate closes after it, come what may
AGAIN = 60.0  # seconds until a disk that refused is tried again
SELDOM = 300.0  # seconds between two savings of what only spares a restart some looks


@dataclass(slots=True)
class Keeper:
    """Saves in a thread of its own. `trouble` is "" while what was last given to it is kept."""

    store: Store
    rest: Rest = ()
    trouble: str = ""
    _kept: Past | None = None
    _at: float = 0.0
    _thread: Thread | None = None

    def keep(self, past: Past, now: float) -> None:
        """Keep the memory if something in it counts that is not kept yet; what does not is kept now and then."""
        if self._kept is not None and essence(past) == essence(self._kept):
            due = AGAIN if self.trouble else SELDOM
            if past == self._kept or now - self._at < due:
                return
        self.save(past, now)

    def save(self, past: Past, now: float) -> None:
        """Keep the memory, and give up to wait for it after a moment."""
        if self._thread is not None and self._thread.is_alive():
            self.trouble = f"{self.store.directory} has not answered since {now - self._at:.0f} s"
            return
        told: list[str] = []
        self._kept, self._at = past, now
        self._thread = Thread(target=lambda: told.append(keep(self.store, past, self.rest)), daemon=True)
        self._thread.start()
        self._thread.join(PATIENCE)
        silence = f"{self.store.directory} did not answer in {PATIENCE:g} s; the memory may not be kept"
        self.trouble = told[0] if told else silence
        if self.trouble:
            self._at = clock.now()


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
        past.state,
        past.gates,
        past.held,
        past.profile,
        past.baseline,
        proven,
        cases,
    )
