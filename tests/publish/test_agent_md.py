"""docs/agent.md leaves out no line of the log, no condition and no field of the report."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from nodeprep.agent import loop, repairing
from nodeprep.cli.daemon import agent_command
from nodeprep.decide.desired import AREAS, TRAINING_READY
from nodeprep.publish import log_lines, repair_lines

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")
SOURCE = "".join(inspect.getsource(module) for module in (log_lines, repair_lines, loop, repairing, agent_command))
EVENTS = {
    *re.findall(r'(?:Entry|RepairLine)\(\s*"([a-z-]+)"', SOURCE),
    *re.findall(r'return "(profile-[a-z-]+)"|"(profile-[a-z-]+)" if', SOURCE)[0],
    *(f"{what}-{word}" for what in re.findall(r'_trouble\("([a-z]+)"', SOURCE) for word in ("trouble", "fine-again")),
    *re.findall(r'logger\.exception\("([a-z-]+)"\)', SOURCE),
} - {""}


def told(heading: str) -> str:
    """The first cells of the table below a heading."""
    section = PAGE.split(f"### {heading}\n")[1].split("\n##")[0]
    return " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))


def test_the_events_are_found_in_the_source() -> None:
    assert {"started", "stopped", "broke", "convicted", "gate-fine-again", "profile-ready", "profile-chosen"} <= EVENTS


def test_every_event_of_the_log_is_told_and_no_other() -> None:
    standings = {"profile-ready", "profile-device-ready", "profile-closed"}
    assert set(re.findall(r"`([a-z-]+)`", told("The log"))) == EVENTS | standings


@pytest.mark.parametrize("kind", [TRAINING_READY, *AREAS])
def test_every_condition_is_told_with_its_checks(kind: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind}` |"))
    assert set(re.findall(r"`([a-z]+)\.\*`", row)) == AREAS.get(kind, frozenset())


def test_every_field_of_the_report_is_told() -> None:
    fields = set(re.findall(r'"(\w+)":', inspect.getsource(agent_command.report))) - {"agent", "report"}
    section = PAGE.split("### The report\n")[1].split("\n## ")[0]
    assert fields <= set(re.findall(r"`(\w+)(?:\[\])?`", section))
