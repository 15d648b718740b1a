"""What a start may go on from: what was kept, as far as something vouches for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodeprep import __version__
from nodeprep.agent.choosing import remembered
from nodeprep.codec import Rest
from nodeprep.decide.readiness import begin
from nodeprep.decide.upgrade import HOLD, took_over
from nodeprep.doors.store import Store
from nodeprep.facts.past import Past, State
from nodeprep.memory import recall
from nodeprep.publish.gate import opened


@dataclass(frozen=True, slots=True)
class Found:
    """The memory to go on from. `forgetful`: nothing was kept that could be read; `trouble` says why, for people."""

    past: Past
    rest: Rest
    trouble: str
    forgetful: bool


def start(store: Store, run_directory: str, boot_id: str, now: float) -> Found:
    """The memory at a start in this boot."""
    recalled = recall(store)
    found_open = opened(run_directory, boot_id)
    known = recalled.past and still_true(recalled.past, __version__, now)
    past = took_over(begin(known, boot_id, "", now), __version__, now)
    if recalled.past is None and not recalled.trouble and not found_open:
        past = replace(past, why=f"the first start here: no memory in {store.directory}")
    return Found(resumed(vouched(past, found_open, now)), recalled.rest, recalled.trouble, recalled.past is None)


def still_true(past: Past, version: str, now: float) -> Past:
    """The memory without what another version may have kept and not known: it writes such keys back as it found them.

    A gate that it did not ask for is a newcomer to this one, whatever stands there of a time before.
    """
    if past.version == version:
        return past
    asked = frozenset(gate for part in remembered(past) for gate in part.profile.gates)
    waiting = {gate: at for gate, at in past.unproven_until.items() if gate in asked and 0 <= at - HOLD <= now}
    intolerant = {} if past.taint_borne else dict.fromkeys(past.intolerant)
    return replace(past, unproven_until=waiting, intolerant=intolerant)


def vouched(past: Past, there: frozenset[tuple[str, str]], now: float) -> Past:
    """The memory, with nothing proven if a gate that should stand open by it does not.

    A memory that could not be kept any more may be older than the closing of a gate: the file's absence tells.
    """
    missing = set(past.gates) - there
    if not missing:
        return past
    profile, stage = min(missing)
    why = f"the gate file {profile}.{stage} was gone at the start"
    return replace(past, state=State.BOOTSTRAP, since=now, why=why, proofs={}, gates=(), all_passing_since=None)


def resumed(past: Past) -> Past:
    """The memory at a start, with passes to be counted anew: nobody looked since, and it may be older than it says.

    What is proven stays proven, what is convicted convicted.
    """
    proofs = {check: proof for check, proof in past.proofs.items() if proof.proven}
    cases = tuple(replace(case, passes=0, passing_since=None) if case.convicted else case for case in past.cases)
    return replace(past, proofs=proofs, cases=cases, all_passing_since=None)
