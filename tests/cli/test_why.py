"""What `nodeprep why` prints of an answer. tests/kubernetes asks it of real pods."""

from __future__ import annotations

import pytest

from nodeprep.cli.history import why_command
from nodeprep.cli.history.why_command import WhyAnswer
from nodeprep.history.coincidence import Coincidence
from nodeprep.history.job_pods import PodEnd

ENDED = PodEnd("train-0", "n1", 1_795_874_736.0, "main Error, exit 1")
RUNS = PodEnd("train-1", "n2", None, "Running", runs=True)
GONE = PodEnd("train-2", "n3", None, "its object is gone", is_gone=True)
FAULT = Coincidence("train-0", "n1", "port.state NoSignal mlx5_0/1", 1_795_874_733.0, 3.0)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (WhyAnswer((ENDED,), (FAULT,)), "n1: port.state NoSignal mlx5_0/1 3.0 s before train-0 ended"),
        (WhyAnswer((ENDED,), quiet=("n1",)), "1 node shows nothing (n1)"),
        (WhyAnswer((ENDED,), (FAULT,), quiet=("n2",)), "1 other node shows nothing (n2)"),
        (WhyAnswer((ENDED,), (FAULT,), quiet=("n2", "n3")), "2 other nodes show nothing (n2, n3)"),
        (WhyAnswer((RUNS,), silent={"n2": "no agent"}), "n2: nobody knows: no agent"),
        (WhyAnswer((ENDED, RUNS)), "not ended: train-1"),
        (WhyAnswer((GONE,)), "without a known end: train-2"),
        (
            WhyAnswer((ENDED, GONE)),
            "pods that are gone are counted by their names: one of another job may be among them",
        ),
    ],
)
def test_each_thing_that_it_says(answer: WhyAnswer, says: str) -> None:
    assert says in why_command.lines(answer)


def test_a_pod_that_runs_is_not_one_of_which_nobody_knows() -> None:
    said = "\n".join(why_command.lines(WhyAnswer((RUNS,))))
    assert "known end" not in said


@pytest.mark.parametrize(("answer", "warns"), [(WhyAnswer((ENDED,), (FAULT,)), True), (WhyAnswer((ENDED,)), False)])
def test_what_coincides_is_not_called_a_cause(answer: WhyAnswer, warns: bool) -> None:
    assert (why_command.DISCLAIMER in why_command.lines(answer)) is warns
