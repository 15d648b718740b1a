"""What a start may go on from: what was kept, as far as something vouches for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodeprep import __version__
from nodeprep.codec import Rest
from nodeprep.decide.readiness import begin
from nodeprep.decide.upgrade import took_over
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
    past = took_over(begin(recalled.past, boot_id, "", now), __version__, now)
    if recalled.past is None and not recalled.trouble and not found_open:
        past = replace(past, why=f"the first start here: no memory in {store.directory}")
    return Found(resumed(vouched(past, found_open, now)), recalled.rest, recalled.trouble, recalled.past is None)


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
    intolerant = dict.fromkeys(past.intolerant)
    return replace(past, proofs=proofs, cases=cases, intolerant=intolerant, all_passing_since=None)
