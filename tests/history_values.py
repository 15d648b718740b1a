"""Records of a node's history for tests: a clock that is right unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from nodeprep.history.node_record import NodeRecord

EPOCH = 1795144800.0  # 2026-11-20T03:20:00Z, wall time at which boot "one" began
PORT: dict[str, Any] = {"check": "port.state", "subject": "mlx5_5/1", "place": "0000:5d:00.0/1", "reason": "NoSignal"}


def record(event: str, at: float, boot: str = "one", offset: float = EPOCH, **fields: Any) -> NodeRecord:
    """Something at so many seconds after the boot; `offset` is wall time at the boot by the clock of that moment."""
    return NodeRecord(at + offset, at, boot, event, fields)


def started(at: float, boot: str = "one", offset: float = EPOCH, **fields: Any) -> list[NodeRecord]:
    """A start that opens the gate of profile `rdma` after a second."""
    return [
        record("started", at, boot, offset, version="0.1.0", state="Bootstrap", **fields),
        record("mode", at, boot, offset, to="gate"),
        record("state", at + 1, boot, offset, to="Ready"),
        record("profile-ready", at + 1, boot, offset, profile="rdma", gating=True),
    ]


def outage(at: float, boot: str = "one", offset: float = EPOCH, seconds: float = 60.0) -> list[NodeRecord]:
    """A port that loses its link, and has it again."""
    return [
        record("convicted", at, boot, offset, message="no carrier", **PORT),
        record("state", at, boot, offset, to="Degraded", why="port.state NoSignal"),
        record("profile-closed", at + 0.1, boot, offset, profile="rdma", why="port.state NoSignal"),
        record("released", at + seconds, boot, offset, stood_seconds=seconds, **PORT),
        record("state", at + seconds + 10, boot, offset, to="Ready"),
        record("profile-ready", at + seconds + 10, boot, offset, profile="rdma"),
    ]
