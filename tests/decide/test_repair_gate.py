"""Which profiles never close the node for new jobs, so that no remedy can be proved safe there."""

from __future__ import annotations

import pytest

from nodeprep.decide import repair_gate
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.gate_readiness import ProfileReadiness

GATING = ProfileReadiness("rdma-roce", device=False, ready=False, gating=True, rdma=True)
OTHER = ProfileReadiness("tcp", device=True, ready=True, gating=False, rdma=False)
ROWS = [
    ((), ("rdma",), ""),  # before a profile was chosen
    ((GATING,), ("rdma-*",), ""),
    ((OTHER, GATING), ("rdma-*",), ""),
    (
        (OTHER,),
        ("rdma", "rdma-*"),
        "no profile of this node sets our taint: found tcp, and gate.profiles has rdma, rdma-*",
    ),
    ((OTHER,), (), "no profile of this node sets our taint: found tcp, and gate.profiles has none"),
]


@pytest.mark.parametrize(("profiles", "wanted", "why"), ROWS)
def test_a_node_without_a_gating_profile_is_never_closed(
    profiles: tuple[ProfileReadiness, ...], wanted: tuple[str, ...], why: str
) -> None:
    assert repair_gate.ungated(profiles, GatePolicy(profiles=wanted)) == why
