"""Kubernetes' quantities (`500m`, `1k`, `2Gi`, `1e3`) as whole billionths, so that sums are exact.

By k8s.io/apimachinery/pkg/api/resource: what is finer than a billionth is rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from nodeprep.pattern import Pattern

NANO = 10**9  # billionths in one
MILLI = 10**6  # billionths in a thousandth: of processors the scheduler counts thousandths
CPU = "cpu"
QUANTITY = Pattern(
    r"(\+?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?:[eE]([+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE]))?"
)
DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
QUANTITY_WORDS = "a quantity such as 500m, 2 or 1Gi"


def nanos(value: object) -> int | None:
    """The billionths of a quantity as YAML or JSON holds it; None for what is none, and for less than nothing."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, int):
        return value * NANO if value >= 0 else None
    return _parsed(str(value))


@lru_cache(4096)  # five thousand pods state the same few
def _parsed(text: str) -> int | None:
    match = QUANTITY.fullmatch(text)
    if match is None:
        return None
    digits, power, suffix = match.groups()
    if suffix is None and power is None and digits.isdecimal():
        return int(digits) * NANO
    whole = Fraction(digits) * _factor(power, suffix)
    return -(-whole.numerator * NANO // whole.denominator)


def _factor(power: str | None, suffix: str | None) -> Fraction:
    if suffix in BINARY:
        return Fraction(1 << BINARY[suffix])
    return Fraction(10) ** (int(power) if power else DECIMAL.get(suffix or "", 0))


def counted(requests: Mapping[str, int]) -> dict[str, int]:
    """Billionths as the scheduler counts them: thousandths of processors, whole units of all else, rounded up."""
    return {name: -(-count // (MILLI if name == CPU else NANO)) for name, count in requests.items() if count}


def shown(resource: str, count: int) -> str:
    """A count for people: processors with their fraction, bytes in the largest unit."""
    if resource == CPU:
        return f"{count / 1000:g}"
    if resource.startswith(("memory", "ephemeral-storage", "hugepages-")):
        for suffix, bits in reversed(BINARY.items()):
            if count >> bits:
                return f"{count / (1 << bits):.6g}{suffix}"
    return str(count)
