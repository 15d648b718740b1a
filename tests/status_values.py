"""Builders for tests: a round of a healthy node in gate mode. Change one thing."""

from __future__ import annotations

from typing import Any

from nodeprep.agent_state import AgentState, NodeState
from nodeprep.decide.desired import Desired
from nodeprep.decide.gate_readiness import Mode, ProfileReadiness
from nodeprep.model import Finding, Report
from nodeprep.publish.node_status import NodeStatus
from nodeprep.values import replace

OF_PAST = ("state", "since", "why", "cases", "blind", "attempt", "attempts")
OF_DESIRED = ("profiles", "planned_remedies")


def report(*findings: Finding, **different: Any) -> Report:
    usual: dict[str, Any] = {
        "node": "gpu-17",
        "boot_id": "boot",
        "profile": "rdma-roce",
        "chosen_by": "configuration",
        "gates": ("port.state",),
        "findings": findings,
        "skipped": (),
    }
    return Report(**(usual | different))


def standing(**different: Any) -> ProfileReadiness:
    """rdma-roce, which is ready."""
    usual: dict[str, Any] = {"name": "rdma-roce", "device": True, "ready": True, "gating": True, "rdma": True}
    return ProfileReadiness(**(usual | different))


def status(**different: Any) -> NodeStatus:
    """A complete and healthy round at 1000 s. Some fields of AgentState and of Desired may be given too."""
    agent_state = AgentState(boot_id="boot", version="0.1.0", at=1000.0, state=NodeState.READY, since=500.0)
    agent_state = replace(agent_state, **{name: different.pop(name) for name in OF_PAST if name in different})
    desired = Desired(agent_state.state, (standing(),))
    desired = replace(desired, **{name: different.pop(name) for name in OF_DESIRED if name in different})
    usual: dict[str, Any] = {
        "report": report(),
        "desired": desired,
        "agent_state": agent_state,
        "mode": Mode.GATE,
        "facts": {},
        "round_time": 1_750_000_000.0,
        "rounds": 7,
        "complete": True,
        "at": 1000.0,
    }
    return NodeStatus(**(usual | different))
