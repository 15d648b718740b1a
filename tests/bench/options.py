"""The options of a bench: numbers within bounds. A wrong one is a line on stderr, and exit code 2."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import NoReturn

from tests.bench.limits import CANNOT


class Options(argparse.ArgumentParser):
    """The options of one bench, with its docstring as help."""

    def __init__(self, doc: str | None) -> None:
        super().__init__(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        self.exit(CANNOT, f"{self.prog}: {message.removeprefix('argument ')}\n")


def whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    """Reads a whole number within these bounds."""
    return lambda text: int(within(text, int, "a whole number", least, most))


def decimal(least: float) -> Callable[[str], float]:
    """Reads a number of at least `least`."""
    return lambda text: within(text, float, "a number", least, math.inf)


def within(text: str, read: Callable[[str], float], kind: str, least: float, most: float) -> float:
    """The number of a word.

    Raises:
        ArgumentTypeError: it is not a number, is infinite or out of bounds; with found and wanted.
    """
    try:
        value = read(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and least <= value <= most:
        return value
    bounds = f"of at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
    raise argparse.ArgumentTypeError(f"found {text!r}, wanted {kind} {bounds}")
