"""What the Node object itself tells the agent: whose it is, what a human wrote on it, what it kept for a lost disk."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodeprep import __version__
from nodeprep.agent.choosing import Choice, assigned, remembered
from nodeprep.checks import ALL
from nodeprep.config.profiles import BUILT_IN, named
from nodeprep.config.settings import Settings
from nodeprep.decide.desired import HELD, RESET_DONE, Desired, Trouble, desired
from nodeprep.decide.readiness import begin, standings
from nodeprep.facts.past import Past
from nodeprep.publish.publisher import NodeSays
from nodeprep.question import Chosen, merged

CHECKS = {check.id: check for check in ALL}
INVENTORY = "inventory"  # at the end of a wish to start over: what belongs here is to be forgotten too


@dataclass(frozen=True, slots=True)
class Met:
    """The memory after the Node was read. `is_new`: it is another object. `reset`: a human wishes it to start over."""

    past: Past
    is_new: bool = False
    reset: bool = False
    inventory: bool = False


def meet(past: Past, heard: NodeSays, now: float, *, forgetful: bool) -> Met:
    """Another Node object of the same name is another node: it has proven nothing.

    `forgetful`: there was no memory at the start, so what the Node kept of it holds: a node whose disk was lost must
    not pass for one that never had what it lost.
    """
    kept = dict(heard.annotations)
    is_new = heard.uid not in ("", past.node_uid)
    known = past.node_uid
    if is_new:
        past = replace(begin(past, past.boot_id, heard.uid, now), node_uid=heard.uid, version=__version__)
    if forgetful:  # what hardware showed meanwhile takes nothing back: it no more has what was lost
        held = (name for name in kept.get(HELD, "").split(",") if name in BUILT_IN)
        past = replace(past, held=tuple(dict.fromkeys((*past.held, *held))))
    if kept.get(RESET_DONE) == heard.reset:  # a life of ours that nobody remembers did it
        past = replace(past, reset_done=heard.reset)
    if heard.reset in ("", past.reset_done):
        return Met(past, is_new=is_new and bool(known))
    past = replace(past, reset_done=heard.reset)
    return Met(past, is_new=is_new and bool(known), reset=True, inventory=heard.reset.endswith(INVENTORY))


def before_looking(past: Past, settings: Settings, trouble: Trouble, now: float) -> Desired:
    """What ought to stand by the memory alone: a gate that is closed is closed in the cluster before the first look."""
    own = settings.agent
    chosen = _known(past, settings)
    profiles = assigned(Choice(chosen), own.gate, own.mode, past) if chosen else ()
    return desired(
        past,
        (),
        standings(past, profiles, CHECKS, now),
        own.mode,
        CHECKS,
        now=now,
        gate=own.gate,
        damping=own.damping,
        readiness=own.readiness,
        trouble=trouble,
        full_round=False,
    )


def _known(past: Past, settings: Settings) -> Chosen | None:
    """The profiles as remembered, else as the configuration names them, else as the Node kept them."""
    parts, by_hardware = remembered(past), past.by_hardware
    if not parts:
        given = None if settings.agent.assign else settings.named()  # rules ask for labels, which nobody saw yet
        by_hardware = given is None
        parts = (given,) if given else tuple(named(name) for name in past.held if name in BUILT_IN)
    return Chosen(merged(parts), past.chosen_by, parts=parts, by_hardware=by_hardware) if parts else None
