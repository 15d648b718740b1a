"""Benches: a broken limit is a line and exit code 1, a wrong option a line and exit code 2."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import limits, options
from tests.bench.limits import Figure

BENCHES = Path(limits.__file__).parent


class Missing(Exception):
    """Stands for the exception of a rig if this machine lacks something."""


def does(error: BaseException) -> Callable[[], int]:
    def work() -> int:
        raise error

    return work


@pytest.mark.parametrize(
    ("figure", "line"),
    [
        (Figure("lost", 0, most=0), ""),
        (Figure("lost", 2, most=0), "lost: found 2, wanted at most 0"),
        (Figure("listed", 1000, least=1000, most=1000), ""),
        (Figure("listed", 999, least=1000), "listed: found 999, wanted at least 1000"),
        (Figure("p99", 1.0, most=1.0, unit="s"), ""),
        (Figure("p99", 1.25, most=1.0, unit="s"), "p99: found 1.25 s, wanted at most 1 s"),
        (Figure("rate", 7, 1, 3, "a minute"), "rate: found 7 a minute, wanted at least 1 and at most 3 a minute"),
        (Figure("slope", math.nan, most=9), "slope: found nan, wanted at most 9"),
        (Figure("anything", 5), ""),
    ],
)
def test_a_figure_and_its_limits(figure: Figure, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert limits.code([Figure("before", 0, most=0), figure]) == (1 if line else 0)
    assert capsys.readouterr().err == (f"{Path(sys.argv[0]).name}: {line}\n" if line else "")


@pytest.mark.parametrize(
    ("took", "broken"),
    [
        ([0.5] * 100, []),
        ([0.5] * 99 + [1.6], []),  # one of a hundred may
        ([0.5] * 97 + [1.6] * 3, ["x, p99"]),
        ([0.5, 0.44], ["x, the quickest"]),
        ([0.1, 9.0], ["x, p99", "x, the quickest"]),
        ([9.0], []),  # too few values are another limit
        ([], []),
    ],
)
def test_latencies(took: list[float], broken: list[str]) -> None:
    assert [one.what for one in limits.latencies("x", took, most=1.0, least=0.45) if one.broken] == broken
    assert limits.quantiles(took)


@pytest.mark.parametrize(
    ("work", "code", "line"),
    [
        (lambda: 0, 0, ""),
        (lambda: 1, 1, ""),
        (does(Missing("no QEMU")), 2, "not on this machine: no QEMU"),
        (does(TimeoutError("not within 9 s: tainted")), 1, "not within 9 s: tainted"),
        (does(KeyboardInterrupt()), 130, ""),
    ],
)
def test_how_a_bench_ends(work: Callable[[], int], code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert limits.ended(work, Missing) == code
    assert capsys.readouterr().err == (f"{Path(sys.argv[0]).name}: {line}\n" if line else "")


@pytest.mark.parametrize(
    ("read", "word", "found"),
    [
        (options.whole(2), "2", 2),
        (options.whole(2), "1", "found '1', wanted a whole number of at least 2"),
        (options.whole(2), "2.5", "found '2.5', wanted a whole number of at least 2"),
        (options.whole(2), "", "found '', wanted a whole number of at least 2"),
        (options.whole(2, 100), "100", 100),
        (options.whole(2, 100), "101", "found '101', wanted a whole number from 2 to 100"),
        (options.decimal(0.5), "0.5", 0.5),
        (options.decimal(0.5), "0", "found '0', wanted a number of at least 0.5"),
        (options.decimal(0.5), "nan", "found 'nan', wanted a number of at least 0.5"),
        (options.decimal(0.5), "inf", "found 'inf', wanted a number of at least 0.5"),
        (options.decimal(0.5), "many", "found 'many', wanted a number of at least 0.5"),
    ],
)
def test_a_number_of_an_option(read: Callable[[str], float], word: str, found: float | str) -> None:
    if not isinstance(found, str):
        assert read(word) == found
        return
    with pytest.raises(argparse.ArgumentTypeError) as error:
        read(word)
    assert str(error.value) == found


@pytest.mark.parametrize(
    "words",
    [
        "agent.py --flaps 1",
        "agent.py --rounds 0",
        "agent.py --minutes 0",
        "agent.py --beside /nowhere",
        "fleet.py --agents 1",
        "fleet.py --failing 1",
        "fleet.py --failing 5 --agents 4",
        "fleet.py --minutes 0",
        "network.py --runs 0",
        "nodes.py --nodes 0",
        "nodes.py --runs 0",
        "port.py --flaps 0",
        "port.py --flaps 101",
        "remediator.py --messages 1",
        "remediator.py --runs 0",
        "start.py --runs 0",
        "storm.py --rate 0",
        "storm.py --seconds 0",
        "taint.py --agents 0",
        "taint.py --flaps 0",
        "taint.py --minutes -1",
        "threads.py --runs x",
        "unattended.py --runs 0",
    ],
)
def test_a_wrong_option(words: str) -> None:
    program, option, value, *_ = words.split()
    command = (sys.executable, str(BENCHES / program), *words.split()[1:])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{program}: {option}: found '{value}', wanted "), done.stderr
    assert done.stderr.count("\n") == 1
