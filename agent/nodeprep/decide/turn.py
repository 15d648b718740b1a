"""One turn of the mind: from what a round saw to what is remembered and what the world should be told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeprep.decide.bearing import who_bears
from nodeprep.decide.damping import DampingPolicy, Glance, remember
from nodeprep.decide.desired import Desired, GatePolicy, Trouble, desired
from nodeprep.decide.readiness import (
    NO_REPAIR,
    Assigned,
    Mode,
    ReadinessPolicy,
    Repair,
    advance,
    open_gates,
    standings,
)
from nodeprep.decide.states import TABLE
from nodeprep.facts.kernel_log import KernelLog
from nodeprep.facts.past import Past
from nodeprep.model import Check, Finding


@dataclass(frozen=True, slots=True)
class Heard:
    """What a round has to say.

    `findings` are the standing ones of all checks; only those of checks in `fresh` were looked at afresh. `full_round`:
    every fact was looked at once since the start. `log` is the kernel log, which tells of devices set up anew.
    """

    findings: tuple[Finding, ...] = ()
    fresh: Mapping[str, Glance] = field(default_factory=dict)
    full_round: bool = False
    log: KernelLog | None = None
    repair: Repair = NO_REPAIR
    trouble: Trouble = field(default_factory=Trouble)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator set: the checks, the profiles of this node, the mode and the numbers."""

    checks: Mapping[str, Check]
    profiles: tuple[Assigned, ...] = ()
    mode: Mode = Mode.OBSERVE
    gate: GatePolicy = field(default_factory=GatePolicy)
    damping: DampingPolicy = field(default_factory=DampingPolicy)
    readiness: ReadinessPolicy = field(default_factory=ReadinessPolicy)


def think(past: Past, heard: Heard, rules: Rules, now: float) -> tuple[Past, Desired]:
    """The memory after a round, and what ought to stand in the world. `past` comes from `begin` or from here."""
    past = remember(past, heard.findings, heard.fresh, rules.checks, rules.damping, now, heard.log)
    # A few states follow each other at most. A table without an end would be a fault, and must not hang the agent.
    for _ in TABLE:
        before = past
        past = advance(past, rules.profiles, rules.checks, rules.readiness, now, repair=heard.repair)
        if past is before:
            break
    stands = standings(past, rules.profiles, rules.checks, now)
    if past.gates != (gates := open_gates(stands)):
        past = replace(past, gates=gates)
    past = who_bears(past, heard.findings, now, full_round=heard.full_round)
    told = desired(
        past,
        heard.findings,
        stands,
        rules.mode,
        rules.checks,
        now=now,
        gate=rules.gate,
        damping=rules.damping,
        readiness=rules.readiness,
        trouble=heard.trouble,
        full_round=heard.full_round,
    )
    return past, told
