"""Of a changed configuration only what opens gates holds before a rollout: a lower mode, and new waivers."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.config import opening_change
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.configuration import Settings
from nodeprep.config.waiver_rules import Waiver
from nodeprep.decide.gate_readiness import Mode
from nodeprep.values import replace

OLD, NEW = (Waiver(one, "2030-01-31", "a cable is on order") for one in ("port.state", "port.rate"))


@pytest.mark.parametrize(
    ("mode", "changed", "holds"),
    [
        (Mode.GATE, Mode.OBSERVE, Mode.OBSERVE),
        (Mode.REPAIR, Mode.GATE, Mode.GATE),
        (Mode.REPAIR, Mode.OBSERVE, Mode.OBSERVE),
        (Mode.OBSERVE, Mode.GATE, Mode.OBSERVE),
        (Mode.GATE, Mode.REPAIR, Mode.GATE),
        (Mode.GATE, Mode.GATE, Mode.GATE),
    ],
)
def test_a_mode_may_only_get_lower(mode: Mode, changed: Mode, holds: Mode) -> None:
    found = opening_change.opened(of(mode=mode), of(mode=mode), of(mode=changed))
    assert found.agent.mode is holds


def test_a_waiver_may_only_come() -> None:
    in_force = replace(of(), waivers=(OLD,))
    first = opening_change.opened(in_force, in_force, replace(of(), waivers=(NEW,)))
    assert first.waivers == (OLD, NEW)
    assert opening_change.opened(in_force, in_force, of()) == in_force


def test_a_waiver_that_was_mistyped_and_corrected_is_gone() -> None:
    started = replace(of(), waivers=(OLD,))
    mistyped = opening_change.opened(started, started, replace(of(), waivers=(OLD, replace(NEW, check="*"))))
    assert opening_change.opened(started, mistyped, replace(of(), waivers=(OLD, NEW))).waivers == (OLD, NEW)


@pytest.mark.parametrize(
    "changed",
    [
        Settings(want={"port.mtu": {"at-least": 9000}}),
        Settings(exclude=("/sys/class/infiniband/mlx5_0",)),
        Settings(default="rdma-roce"),
        Settings(metadata_url="http://127.0.0.1:1"),
    ],
)
def test_all_else_waits(changed: Settings) -> None:
    assert opening_change.opened(Settings(), Settings(), changed) == Settings()


def of(**agent: Any) -> Settings:
    return Settings(agent_part=AgentSettings(**agent))
