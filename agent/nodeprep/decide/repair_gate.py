"""Whether the Node, as the server has it, keeps new jobs away: our taint with the effect that does, on our Node.

What the agent wants on the Node proves nothing. Only what was read back does: a write may be denied, overtaken, or
taken back by somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeprep.agent_state import AgentState
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.foreign_maintenance import RepairNode
from nodeprep.decide.gate_readiness import ProfileReadiness

EFFECT = "NoSchedule"  # PreferNoSchedule is a wish, and the scheduler binds all the same
RELEASED = "nodeprep.io/released"  # a human released the Node: nothing of ours stands there


def hindrance(node: RepairNode | None, state: AgentState, gate: GatePolicy, *, expects_taint: bool = True) -> str:
    """Why this Node is not closed for new jobs, "" if it is. Without `expects_taint`, why it will never be."""
    if gate.effect != EFFECT:
        return f"gate.effect is {gate.effect}: only under {EFFECT} no job lands here while a remedy runs"
    if node is None:
        return "the Node was not read from the API server yet: no gate is confirmed"
    if not node.uid or node.uid != state.node_uid:
        return "the Node is another one than the one that was judged"
    if RELEASED in node.annotations:
        return f"a human released this Node: kubectl annotate node NODE {RELEASED}- brings the gate back"
    if expects_taint and (gate.unhealthy_taint, EFFECT) not in node.taints:
        return f"the Node has no taint {gate.unhealthy_taint}:{EFFECT}, read from the API server"
    return ""


def ungated(profiles: Sequence[ProfileReadiness], gate: GatePolicy) -> str:
    """Why our taint will never be due on a node with these profiles, "" if it will be."""
    if not profiles or any(one.gating for one in profiles):
        return ""
    names = ", ".join(one.name for one in profiles)
    wanted = ", ".join(gate.profiles) or "none"
    return f"no profile of this node sets our taint: found {names}, and gate.profiles has {wanted}"
