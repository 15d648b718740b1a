"""The figures of a bench beside their limits: each broken limit is a line on stderr, and the exit code is 1."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

BROKEN, CANNOT, INTERRUPTED = 1, 2, 130  # exit codes; the last is 128 + SIGINT
FEWEST = 2  # values; quantiles need as many


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number in `unit`, and its limits, which it may reach."""

    what: str
    found: float
    least: float = -math.inf
    most: float = math.inf
    unit: str = ""

    @property
    def broken(self) -> bool:
        return not self.least <= self.found <= self.most  # so that NaN is within no limit

    def __str__(self) -> str:
        bounds = {"at least": self.least, "at most": self.most}
        wanted = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound))
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.what}: found {self.found:g}{unit}, wanted {wanted}{unit}"


def code(figures: Iterable[Figure]) -> int:
    """The exit code for these figures. Prints on stderr those that are out of their limits."""
    broken = [one for one in figures if one.broken]
    for one in broken:
        complain(one)
    return BROKEN if broken else 0


def complain(what: object) -> None:
    print(f"{Path(sys.argv[0]).name}: {what}", file=sys.stderr, flush=True)


def ended(work: Callable[[], int], *cannot: type[Exception]) -> int:
    """The exit code of a bench: that of its work, or that of a failure, which is a line on stderr.

    Args:
        work: the bench.
        cannot: exceptions that say that this machine lacks something.
    """
    try:
        return work()
    except cannot as error:
        complain(f"not on this machine: {error}")
        return CANNOT
    except TimeoutError as error:  # the agent did not do something
        complain(error)
        return BROKEN
    except KeyboardInterrupt:
        return INTERRUPTED


def quantiles(took: Sequence[float]) -> str:
    """Seconds as milliseconds, for people."""
    if len(took) < FEWEST:
        return f"of {len(took)} there are no quantiles"
    cuts = statistics.quantiles(took, n=100, method="inclusive")
    named = {"min": min(took), "p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "max": max(took)}
    return "  ".join(f"{name} {value * 1e3:6.1f}" for name, value in named.items()) + " ms"


def latencies(what: str, took: Sequence[float], most: float, least: float = 0.0) -> tuple[Figure, ...]:
    """Figures: the p99 is at most `most` seconds, and none took less than `least`. Too few values give no figure."""
    if len(took) < FEWEST:
        return ()
    p99 = statistics.quantiles(took, n=100, method="inclusive")[98]
    return (
        Figure(f"{what}, p99", p99, most=most, unit="s"),
        Figure(f"{what}, the quickest", min(took), least=least, unit="s"),
    )
