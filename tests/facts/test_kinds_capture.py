"""Nodes whose ports differ by design can be captured: what of them stands against it, and what is only listed."""

from __future__ import annotations

import dataclasses

import pytest

from nodeprep.cli.files import capture_judgement
from nodeprep.profile_selection import ProfileSelection
from tests.machines import INFINIBAND, SHAPES, Machine, rails
from tests.test_monotone import chosen, judged

FRONT_END = SHAPES["8 InfiniBand, a front end of their model"]
TWO_RATES = SHAPES["6 x 400 and 2 x 200 of one model"]
WRONG = SHAPES["8 InfiniBand, one live in Ethernet mode"]


def refused(machine: Machine, *accepted: str) -> list[tuple[str, str]]:
    """Check and place of what stands against a capture of this node."""
    look = machine.look()
    needed = capture_judgement.rails(look, ProfileSelection(chosen(look), ""))
    given = capture_judgement.acceptances(accepted)
    judgement = capture_judgement.judge(judged(machine, None).findings, given, needed)
    return sorted((one.check, one.subject.place) for one in judgement.refused)


ROWS: list[tuple[str, Machine, tuple[str, ...], list[tuple[str, str]]]] = [
    ("a front end of the rails' model, slower and in the other mode", FRONT_END, (), []),
    ("a rail in the wrong mode", WRONG, (), [("port.layer", "0000:13:00.0")]),
    ("a rail in the wrong mode that is accepted by name", WRONG, ("port.layer@mlx5_3",), []),
    ("two rates", TWO_RATES, (), [("port.rate", "0000:16:00.0"), ("port.rate", "0000:17:00.0")]),
    ("two rates by design", TWO_RATES, ("port.rate@mlx5_6", "port.rate@mlx5_7"), []),
    (
        "a rail in the wrong mode as fast as the others, without an address",
        Machine(
            tuple(
                dataclasses.replace(one, odd=one.index == 3, rate=100.0, routable=one.index != 3)
                for one in rails(8, INFINIBAND)
            )
        ),
        (),
        [("port.layer", "0000:13:00.0")],
    ),
]


@pytest.mark.parametrize(("shape", "machine", "accepted", "stands"), ROWS, ids=[row[0] for row in ROWS])
def test_what_stands_against_a_capture(
    shape: str, machine: Machine, accepted: tuple[str, ...], stands: list[tuple[str, str]]
) -> None:
    assert refused(machine, *accepted) == stands, shape


@pytest.mark.parametrize("machine", [FRONT_END, TWO_RATES, WRONG], ids=["front end", "two rates", "wrong mode"])
def test_what_is_mixed_by_design_never_fails(machine: Machine) -> None:
    assert judged(machine, None).code == 0
