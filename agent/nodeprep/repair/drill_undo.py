"""Undoes a drill and proves it: runs its commands, and looks until the state is the one from before."""

from __future__ import annotations

from nodeprep.decide import drill_ground
from nodeprep.decide.drill_ground import CannotPutBack
from nodeprep.decide.drill_record import DrillRecord
from nodeprep.doors import clock
from nodeprep.repair import drill_look
from nodeprep.repair.drill_look import GroundUnseen
from nodeprep.values import Value

BACK_SECONDS = 30.0  # for the state to be back: a driver sets up its devices, a link finds its carrier
LOOK_SECONDS = 0.5  # between two looks at it
TRIES = 3  # of the commands, spread over that time: a route waits for its interface
SHOWN_LINES = 12  # of what is not back


class DrillUndo(Value):
    """How an undo ended. `lacking` is what is not back, `troubles` what the commands of the last try said."""

    lacking: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def is_back(self) -> bool:
        return not self.lacking

    @property
    def words(self) -> str:
        """In one line what is not back, and why."""
        more = f" and {len(self.lacking) - SHOWN_LINES} more" if len(self.lacking) > SHOWN_LINES else ""
        said = f" ({'; '.join(self.troubles[:SHOWN_LINES])})" if self.troubles else ""
        return f"not back: {'; '.join(self.lacking[:SHOWN_LINES])}{more}{said}"


def undo(record: DrillRecord, seconds: float = BACK_SECONDS) -> DrillUndo:
    """Run the commands and wait until the state is back, for at most `seconds`. Does nothing where it is."""
    began = clock.now()
    troubles: tuple[str, ...] = ()
    next_try, tries = began, 0
    while lacking := _lacking(record):
        now = clock.now()
        if tries < TRIES and now >= next_try:
            tries, next_try = tries + 1, now + seconds / (2 * TRIES)
            troubles = tuple(filter(None, map(drill_look.run, record.undo)))
            continue
        if now - began >= seconds:
            return DrillUndo(lacking, troubles, now - began)
        clock.sleep(LOOK_SECONDS)
    return DrillUndo(seconds=clock.now() - began)


def _lacking(record: DrillRecord) -> tuple[str, ...]:
    """The lines of the state before that are not there now; why nobody can say where it cannot be seen."""
    try:
        now = set(drill_ground.state(drill_look.observe(record.parts), record.watched))
    except (GroundUnseen, CannotPutBack) as error:
        return (f"the state, for it cannot be seen: {error}",)
    return tuple(line for line in record.before if line not in now)
