"""Builders for tests of the idle proof: targets, headers and what sources say."""

from __future__ import annotations

from typing import Any

from nodeprep.decide.idleness import IdleHolder, IdleSource, IdleTarget, SourceState
from nodeprep.decide.remedy_header import Idle, Parameter, ParameterKind, RemedyHeader, SafetyClass
from nodeprep.model import Unreadable, Why

DENIED = Unreadable(Why.DENIED, "/somewhere", 13, "Permission denied")
QUIET = SourceState()
ABSENT = SourceState(absent="this host has no such thing")
FAILED = SourceState(failed=DENIED)


def goal(**different: Any) -> IdleTarget:
    """The function of mlx5_3 with its interface eth2."""
    usual: dict[str, Any] = {
        "idle": Idle.FUNCTION,
        "netdevs": ("eth2",),
        "functions": ("0000:3b:00.0",),
        "rdma": ("mlx5_3",),
    }
    return IdleTarget(**(usual | different))


def header(idle: Idle, safety: SafetyClass = SafetyClass.S2, **parameters: ParameterKind) -> RemedyHeader:
    """A remedy with these parameters."""
    return RemedyHeader(
        name="mend",
        purpose="Mends.",
        safety=safety,
        why="It is a test.",
        idle=idle,
        by_hand=("mend",),
        parameters={name: Parameter(kind) for name, kind in parameters.items()},
    )


def held(source: IdleSource, command: str = "") -> SourceState:
    """A source that names one holder."""
    return SourceState((IdleHolder(source, "mlx5_3", "somebody", command),))
