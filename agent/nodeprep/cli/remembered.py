"""What the agent of this node remembers, for `check`: the profile in force, what is latched, what state it is in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodeprep.cli.directories import directories
from nodeprep.cli.place import Place
from nodeprep.config.settings import Settings
from nodeprep.config.waivers import Waiver
from nodeprep.doors import clock
from nodeprep.doors.host_root import BOOT_ID
from nodeprep.doors.store import Store, holder
from nodeprep.facts.past import Past
from nodeprep.memory import recall
from nodeprep.profile import NO_PROFILE, ProfileError, parse
from nodeprep.question import Wishes

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class Remembered:
    """The memory, None where it says nothing of this boot; `words` say what the agent is about, "" without one.

    `socket` is where the agent can be asked.
    """

    past: Past | None = None
    words: str = ""
    socket: str = ""


NOTHING = Remembered()


def remembered(at: Place) -> Remembered:
    """What an agent on this live node left behind in this boot. It is read, never locked for longer than a moment.

    Raises UsageError where only some of the variables for its directories are set.
    """
    if not at.live:
        return NOTHING
    where = directories(at.root)
    recalled = recall(Store(where.state, where.socket, where.run))
    if recalled.past is None:
        return Remembered(None, f"its memory is not counted: {recalled.trouble}") if recalled.trouble else NOTHING
    past = recalled.past
    boot_id = at.host().files.text(BOOT_ID)
    pid = holder(where.state, where.socket)
    if past.boot_id != boot_id:
        other = "its memory is of another boot" if not recalled.trouble else recalled.trouble
        return Remembered(None, other) if pid is None else NOTHING
    now = clock.now()
    runs = f"pid {pid}" if pid else f"does not run; its memory is {age(now - past.at)} old"
    why = f": {past.why}" if past.why else ""
    return Remembered(
        past, f"{past.state} for {age(now - past.since)}{why}; nodeprep {past.version}, {runs}", where.address
    )


def as_agreed(wishes: Wishes, found: Remembered, *, own_file: bool) -> Wishes:
    """The operator's word, and where that is silent the agent's: one node has one verdict, whoever asks.

    `own_file`: the operator named a configuration file, which then counts more than the agent's.
    """
    past = found.past
    if past is None:
        return wishes
    wishes = replace(wishes, past=past)
    none = past.profile.get("name", NO_PROFILE.name) == NO_PROFILE.name
    if own_file or wishes.auto or none or (wishes.profile is not None and wishes.by == BY_OPTION):
        return wishes
    try:
        profile = parse(past.profile)
    except ProfileError:
        return wishes
    settings = wishes.settings if wishes.settings.file else _settings(past)
    return replace(wishes, profile=profile, by=f"{past.chosen_by}, as the agent has it", settings=settings)


BY_OPTION = "chosen with --profile"


def _settings(past: Past) -> Settings:
    """The agent's waivers, where there is no configuration file here to have them from."""
    try:
        return Settings(waivers=tuple(Waiver(**waiver) for waiver in past.waivers))
    except TypeError:
        return Settings()


def age(seconds: float) -> str:
    """A time in its largest unit, such as "3 h"."""
    unit, name = next(((unit, name) for unit, name in UNITS if seconds >= unit), UNITS[-1])
    return f"{max(seconds, 0.0) / unit:.0f} {name}"
