"""Which profiles hold for the agent's node, what it had when it was good, and what its gates may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from typing import Any

from nodeprep.config.profiles import Named
from nodeprep.config.waivers import Waiver
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.readiness import Assigned, Mode
from nodeprep.facts.capture import capture
from nodeprep.facts.cluster import Cluster
from nodeprep.facts.cni import Cni
from nodeprep.facts.devnodes import DevNodes
from nodeprep.facts.links import Links
from nodeprep.facts.modules import Modules
from nodeprep.facts.past import Past
from nodeprep.facts.pci import Pci
from nodeprep.facts.rdma import Rdma
from nodeprep.facts.terway import Terway
from nodeprep.look import Look
from nodeprep.profile import Profile, ProfileError, mapping, parse
from nodeprep.question import Chosen, Question, merged, remembered, with_baseline

RESTS_ON = frozenset({Pci, Rdma, Terway, Cni, Cluster})  # what a choice of profiles looks at
RDMA = "port.present"  # the gate that every profile about RDMA has


def choose(question: Question, look: Look, past: Past) -> Chosen:
    """The profiles that hold.

    What hardware once chose is held, and what the configuration last said holds on while nobody can tell what it says.
    """
    chosen = question.choose(look, past.held)
    if chosen.untold:
        parts = _remembered(past)
        if parts:
            chosen = replace(chosen, profile=merged(parts), parts=parts, by=f"{chosen.untold}; as remembered")
    return with_baseline(chosen, _parsed(past.baseline))


def assigned(chosen: Chosen, gate: GatePolicy, mode: Mode, past: Past) -> tuple[Assigned, ...]:
    """The profiles as their gates are reckoned; see `GatePolicy.allow_auto` for one that is refused."""
    return tuple(_assigned(part, chosen, gate, mode, past) for part in chosen.parts)


def _assigned(part: Named, chosen: Chosen, gate: GatePolicy, mode: Mode, past: Past) -> Assigned:
    gating = any(fnmatchcase(name, pattern) for name in part.names for pattern in gate.profiles)
    rdma = RDMA in part.profile.gates
    unconfirmed = chosen.by_hardware and rdma and gating and mode is not Mode.OBSERVE
    refused = ""
    if unconfirmed and past.baseline is None and not gate.allow_auto:
        refused = (
            f"{part.profile.name} was chosen by hardware and nothing says what belongs here: assign a captured "
            "profile, let the node be ready once in mode observe, or set gate.allow-auto"
        )
    if chosen.untold and not past.parts:
        refused = chosen.untold
    return Assigned(part.profile.name, part.profile.gates, gating, rdma, refused)


def held(past: Past, chosen: Chosen) -> Past:
    """The memory with what was chosen."""
    profile = mapping(chosen.profile)
    parts = tuple({"names": part.names, "profile": mapping(part.profile)} for part in chosen.parts)
    names = tuple(dict.fromkeys((*past.held, *(part.profile.name for part in chosen.parts if chosen.by_hardware))))
    if (past.profile, past.parts, past.held, past.chosen_by) == (profile, parts, names, chosen.by):
        return past
    return replace(past, profile=profile, parts=parts, held=names, chosen_by=chosen.by)


def with_waivers(past: Past, waivers: Iterable[Waiver]) -> Past:
    """The memory with the configuration's waivers, for a `check` that cannot read it."""
    own = tuple({one.name: getattr(waiver, one.name) for one in fields(waiver)} for waiver in waivers)
    return past if past.waivers == own else replace(past, waivers=own)


def with_first_baseline(past: Past, facts: Mapping[type, object]) -> Past:
    """The memory with what a node that is ready for the first time has."""
    look = Look(0.0, live=True, facts=facts)
    rdma = look.get(Rdma)
    if rdma is None:
        return past
    found = capture(
        "baseline",
        rdma,
        pci=look.get(Pci),
        links=look.get(Links),
        devnodes=look.get(DevNodes),
        modules=look.get(Modules),
    )
    return past if found is None else replace(past, baseline=mapping(found))


def _remembered(past: Past) -> tuple[Named, ...]:
    try:
        return remembered(past)
    except (ProfileError, KeyError, TypeError):
        return ()


def _parsed(baseline: Mapping[str, Any] | None) -> Profile | None:
    try:
        return None if baseline is None else parse(baseline)
    except ProfileError:
        return None


def seen_enough(kinds: Iterable[type]) -> bool:
    """Whether what a choice rests on was looked at once."""
    return set(kinds) >= RESTS_ON
