"""What a start believes of its memory: gates that are gone prove nothing, and passes before it do not count."""

from __future__ import annotations

from dataclasses import replace

from nodeprep.agent.starting import resumed, vouched
from nodeprep.decide.policy import DampingPolicy, Glance
from nodeprep.facts.past import Case, Past, Proof, State

PROVEN, HALF = Proof(3, 10.0, 40.0, proven=True), Proof(2, 10.0, 20.0)
GATE = ("tcp", "ready")
READY = Past("boot", state=State.READY, since=40.0, proofs={"eni.up": PROVEN}, gates=(GATE,), all_passing_since=10.0)


def test_a_gate_that_is_gone_proves_nothing() -> None:
    assert vouched(READY, frozenset({GATE, ("other", "device")}), 50.0) == READY
    gone = vouched(READY, frozenset(), 50.0)
    assert (gone.state, gone.since, gone.gates, dict(gone.proofs)) == (State.BOOTSTRAP, 50.0, (), {})
    assert "tcp.ready" in gone.why


def test_what_is_proven_stays_and_what_is_half_proven_begins_anew() -> None:
    past = replace(READY, proofs={"eni.up": PROVEN, "route.out": HALF})
    assert resumed(past) == replace(past, proofs={"eni.up": PROVEN}, all_passing_since=None)


def test_passes_before_a_start_release_nobody() -> None:
    """Nobody looked between them and the next; and a memory of before does not know of faults since."""
    case = Case("eni.up", "eth2", None, "eth2", "NoCarrier", "", passes=2, passing_since=10.0, convicted_at=5.0)
    turned = replace(case, convicted_at=None, turns=(9.0,))
    kept, other = resumed(replace(READY, cases=(case, turned))).cases
    assert (kept.passes, kept.passing_since, kept.convicted_at) == (0, None, 5.0)
    assert other == turned
    policy, glance = DampingPolicy(), Glance(50.0, 50.0)
    assert policy.enough(case.passes + 1, case.passing_since, glance.began)
    assert not policy.enough(kept.passes + 1, glance.ended, glance.began)
