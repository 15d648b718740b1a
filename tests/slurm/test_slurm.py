"""The shipped scripts under Debian's slurmctld and slurmd: what drains a node, and what does not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import program
from tests.rigs.absent import cannot_start
from tests.rigs.slurm import NAME, CannotStart, Slurm
from tests.rigs.waiting import until

FAULT = "port.state NoSignal mlx5_5/1 0000:5d:00.0"
SAYS = f"echo '{NAME} NOT READY {FAULT}'; exit 1"
WELL = f"echo '{NAME} READY'; exit 0"
HANGS, DEADLINE = "sleep 600", 5
# What says nothing of the node.
NOTHING_SAID = [
    f"echo '{NAME} UNKNOWN route.out: no answer'; exit 3",
    "echo 'nodeprep: config.yaml:3: gate: found 1' >&2; exit 2",
    f"{HANGS}; {SAYS}",
    "exit 127",
    "echo 'ModuleNotFoundError: No module named msgspec' >&2; exit 1",  # a program that breaks ends with 1 too
]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    try:
        with Slurm(tmp_path_factory.mktemp("slurm")) as made:
            yield made
    except CannotStart as reason:
        cannot_start(reason)


@pytest.fixture
def idle(slurm: Slurm) -> Slurm:
    """The node takes jobs, and nothing is wrong with it."""
    slurm.answers(WELL)
    if "DRAIN" in slurm.state() or "DOWN" in slurm.state():
        slurm.run("scontrol", "update", f"NodeName={NAME}", "State=RESUME")
    until(lambda: slurm.state() == "IDLE", "an idle node")
    return slurm


def health(slurm: Slurm) -> None:
    """One health check, as slurmd runs it."""
    slurm.run("env", f"SLURMD_NODENAME={NAME}", str(slurm.home / "bin/nodeprep-healthcheck"))


def becomes(slurm: Slurm, *, drained: bool, reason: str = "") -> None:
    """By health checks, as slurmd runs one after the other: one that cannot ask slurmctld in 5 s does nothing."""

    def is_there() -> bool:
        health(slurm)
        return ("DRAIN" in slurm.state()) is drained and reason in slurm.shown("Reason")

    until(is_there, f"drained: {drained} {reason}")


def test_a_fault_drains_and_its_end_resumes(idle: Slurm) -> None:
    idle.answers(SAYS)
    becomes(idle, drained=True)
    assert idle.shown("Reason") == f"nodeprep: NOT READY {FAULT}"
    idle.answers(WELL)
    becomes(idle, drained=False)
    assert until(lambda: idle.state() == "IDLE", "an idle node")


@pytest.mark.parametrize("script", NOTHING_SAID)
def test_what_says_nothing_of_the_node_drains_nothing(idle: Slurm, script: str) -> None:
    idle.answers(script, *((DEADLINE,) if script.startswith(HANGS) else ()))
    health(idle)
    assert idle.state() == "IDLE"
    assert idle.run("srun", "hostname").strip() == NAME


@pytest.mark.parametrize("script", [WELL, SAYS])
def test_what_a_human_drained_stays_with_its_reason(idle: Slurm, script: str) -> None:
    idle.run("scontrol", "update", f"NodeName={NAME}", "State=DRAIN", "Reason=disk is being replaced, T-4711")
    idle.answers(script)
    health(idle)
    assert "DRAIN" in idle.state()
    assert idle.shown("Reason") == "disk is being replaced, T-4711"


def test_a_reason_is_written_once_and_again_when_it_is_another(idle: Slurm) -> None:
    idle.answers(SAYS)
    becomes(idle, drained=True)
    written = idle.run("scontrol", "show", "node", NAME)
    time.sleep(1.1)  # the reason shows its time in seconds
    health(idle)
    first, again = (one[one.index("Reason=") :] for one in (written, idle.run("scontrol", "show", "node", NAME)))
    assert first == again
    idle.answers(SAYS.replace("NoSignal", "PhysicalNotUp"))
    becomes(idle, drained=True, reason="PhysicalNotUp")


def test_a_job_does_not_begin_on_a_node_with_a_fault(idle: Slurm) -> None:
    """The prolog drains it with our reason, and the job waits again."""
    idle.answers(SAYS)
    idle.run("sbatch", "--output=/dev/null", "--wrap", "true")
    until(lambda: "DRAIN" in idle.state(), "a drained node")
    assert idle.shown("Reason") == f"nodeprep: NOT READY {FAULT}"
    until(lambda: idle.run("squeue", "--noheader", "--format=%T").split() == ["PENDING"], "the job waits")
    idle.run("scancel", "--state=PENDING")


def test_a_fault_that_came_with_the_job_drains_after_it(idle: Slurm) -> None:
    script = idle.home / "job.sh"
    program_file = idle.home / "nodeprep"
    script.write_text(f"#!/bin/sh\nprintf '#!/bin/sh\\n%s\\n' \"{SAYS}\" > {program_file}\n")
    idle.run("sbatch", "--output=/dev/null", str(script))
    until(lambda: "DRAIN" in idle.state(), "a drained node")
    assert idle.shown("Reason") == f"nodeprep: NOT READY {FAULT}"
    assert until(lambda: not idle.run("squeue", "--noheader"), "an empty queue")


def test_a_real_check_of_a_real_tree(idle: Slurm, tmp_path: Path) -> None:
    root = program.node("h100-roce", tmp_path)
    idle.judges(root)
    health(idle)
    assert idle.state() == "IDLE"
    program.set_down(root, "mlx5_3")
    becomes(idle, drained=True)
    assert idle.shown("Reason").startswith("nodeprep: NOT READY port.state ")


def test_slurmd_runs_the_health_check_itself(tmp_path: Path) -> None:
    try:
        with Slurm(tmp_path, interval=2) as one:
            one.answers(SAYS)
            until(lambda: "DRAIN" in one.state(), "a drained node")
            assert one.shown("Reason") == f"nodeprep: NOT READY {FAULT}"
            one.answers(WELL)
            until(lambda: one.state() == "IDLE", "an idle node")
    except CannotStart as reason:
        cannot_start(reason)
