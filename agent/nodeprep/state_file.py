"""The agent's memory as a text that a store keeps: what was kept and counts still, and what keeps it from counting."""

from __future__ import annotations

from functools import cache

from nodeprep import __version__
from nodeprep.agent_state import AgentState
from nodeprep.codec import Codec, CodecError, Rest
from nodeprep.doors import clock
from nodeprep.doors.files.state_store import Store
from nodeprep.values import Value, replace

FORMAT = 1
# A memory without the id of a boot is of no boot: only what outlives a reboot counts (agent_state.py).
NO_BOOT = ""


class LoadedState(Value):
    """What a start finds. `agent_state` is None where there is none; `trouble` says why, "" while all is well.

    Where a memory that cannot be read may be newer than the one that can, `agent_state` is of no boot: what it says of
    this one may have changed since. `rest` is what a newer nodeprep wrote into known classes; `save` writes it back.
    """

    agent_state: AgentState | None = None
    trouble: str = ""
    rest: Rest = ()


def dumps(agent_state: AgentState, rest: Rest = ()) -> str:
    return _codec().dumps(agent_state, by=__version__, rest=rest)


def loads(text: str) -> AgentState:
    """Raises CodecError, whatever the text is."""
    return _codec().loads(AgentState, text)[0]


def load(store: Store) -> LoadedState:
    """The newest memory that can be read. Raises nothing, whatever is kept."""
    loaded = store.load()
    troubles = [str(one) for one in loaded.damaged]
    for kept in loaded.kept:
        try:
            agent_state, rest = _codec().loads(AgentState, kept.text)
        except CodecError as error:
            troubles.append(f"{kept.path}: {error}")
            continue
        found = replace(agent_state, boot_id=NO_BOOT) if troubles else agent_state
        return LoadedState(found, _said(troubles, f"what {kept.path} says of this boot"), _lasting(rest))
    return LoadedState(None, _said(troubles, "what was remembered"))


def save(store: Store, agent_state: AgentState, rest: Rest = ()) -> str:
    """Keep a memory, with the next serial and the time: "" or what is wrong, for people. Raises nothing of the disk."""
    return store.save(dumps(replace(agent_state, serial=store.serial + 1, at=clock.now()), rest))


def _said(troubles: list[str], lost: str) -> str:
    return f"{'; '.join(troubles)}; {lost} does not count, checks have to pass again" if troubles else ""


def _lasting(rest: Rest) -> Rest:
    """What stands under names: places in lists belong to something else as soon as a case comes or goes."""
    return tuple((path, value) for path, value in rest if all(isinstance(part, str) for part in path))


@cache
def _codec() -> Codec:
    return Codec((AgentState,), FORMAT)
