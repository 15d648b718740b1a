"""The agent state as a text that a store keeps: what of it still counts, and why the rest does not."""

from __future__ import annotations

from functools import cache

from nodeprep import __version__
from nodeprep.agent_state import AgentState
from nodeprep.codec import Codec, CodecError, Rest
from nodeprep.doors import clock
from nodeprep.doors.files.state_store import Store
from nodeprep.values import Value, replace

FORMAT = 1
# A state without a boot id belongs to no boot: only what outlives a reboot counts (agent_state.py).
NO_BOOT = ""


class LoadedState(Value):
    """What a start finds. `agent_state` is None if there is none. `trouble` says why, "" if all is well.

    If a file that cannot be read may be newer than the one that can, `agent_state` has no boot id: what it says about
    this boot may have changed since. `rest` is what a newer nodeprep wrote into known classes. `save` writes it back.
    """

    agent_state: AgentState | None = None
    trouble: str = ""
    rest: Rest = ()


def dumps(agent_state: AgentState, rest: Rest = ()) -> str:
    return _codec().dumps(agent_state, by=__version__, rest=rest)


def loads(text: str) -> AgentState:
    """Raises CodecError for any bad text."""
    return _codec().loads(AgentState, text)[0]


def load(store: Store) -> LoadedState:
    """The newest agent state that can be read. Raises nothing, whatever the files contain."""
    loaded = store.load()
    troubles = [str(one) for one in loaded.damaged]
    for file in loaded.kept:
        try:
            agent_state, rest = _codec().loads(AgentState, file.text)
        except CodecError as error:
            troubles.append(f"{file.path}: {error}")
            continue
        found = replace(agent_state, boot_id=NO_BOOT) if troubles else agent_state
        return LoadedState(found, _trouble(troubles, f"what {file.path} says of this boot"), _named_entries(rest))
    return LoadedState(None, _trouble(troubles, "what was remembered"))


def save(store: Store, agent_state: AgentState, rest: Rest = ()) -> str:
    """Save an agent state with the next serial and the time.

    "" or what is wrong, for people. Raises no error of the disk.
    """
    return store.save(dumps(replace(agent_state, serial=store.serial + 1, at=clock.now()), rest))


def _trouble(troubles: list[str], lost: str) -> str:
    return f"{'; '.join(troubles)}; {lost} does not count, checks have to pass again" if troubles else ""


def _named_entries(rest: Rest) -> Rest:
    """The entries under names. A place in a list belongs to another case as soon as one comes or goes."""
    return tuple((path, value) for path, value in rest if all(isinstance(part, str) for part in path))


@cache
def _codec() -> Codec:
    return Codec((AgentState,), FORMAT)
