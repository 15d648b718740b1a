"""What may stand at a key of the configuration: the words for it in errors and docs, and what reads it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodeprep import job_profile
from nodeprep.job_profile import Keys, ProfileError

# Kubernetes' qualified name (apimachinery, util/validation): a name of 63 characters, and before it a DNS subdomain.
NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
SUBDOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
SUBDOMAIN_LIMIT = 253  # characters


@dataclass(frozen=True, slots=True)
class ValueKind:
    """`says` completes "wanted ..."; `read` gives the value and raises ProfileError for anything else."""

    says: str
    read: Callable[[object, Keys], Any]
    unit: str = ""


def _kind(
    says: str, fits: Callable[[Any], bool], made: Callable[[Any], Any] = lambda value: value, unit: str = ""
) -> ValueKind:
    def read(value: object, here: Keys) -> Any:
        if not fits(value):
            raise ProfileError(here, value, says)
        return made(value)

    return ValueKind(says, read, unit)


def seconds(least: float, most: float) -> ValueKind:
    """A time: a plain number, for the numbers of single checks are plain too."""
    says = f"a plain number of seconds, {least:g} to {most:g}"
    return _kind(says, lambda value: _is_number(value) and least <= value <= most, float, "seconds")


def whole(least: int, most: int, unit: str = "") -> ValueKind:
    says = f"a whole number{f' of {unit}' if unit else ''}, {least} to {most}"
    return _kind(says, lambda value: type(value) is int and least <= value <= most, unit=unit)


def one_of(*allowed: str) -> ValueKind:
    return _kind(f"one of {', '.join(allowed)}", lambda value: isinstance(value, str) and value in allowed)


def only(text: str) -> ValueKind:
    return _kind(text, lambda value: value == text)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_qualified(value: object) -> bool:
    if not isinstance(value, str):
        return False
    prefix, slash, name = value.rpartition("/")
    sound = not slash or (len(prefix) <= SUBDOMAIN_LIMIT and re.fullmatch(SUBDOMAIN, prefix) is not None)
    return sound and re.fullmatch(NAME, name) is not None


def _is_address(value: object) -> bool:
    from ipaddress import ip_address  # noqa: PLC0415 - 2 ms that only a file with such a key costs

    try:
        return isinstance(value, str) and bool(ip_address(value))
    except ValueError:
        return False


def given(says: str, unit: str = "") -> ValueKind:
    """What has a reader of its own elsewhere."""
    return ValueKind(says, lambda value, _: value, unit)


TRUTH = _kind("true or false", lambda value: isinstance(value, bool))
TEXTS = ValueKind("a list of words", job_profile.as_texts)
ADDRESS = _kind("an IP address of this node, such as 127.0.0.1", _is_address)
QUALIFIED = _kind("a name as Kubernetes takes it, such as nodeprep.io/unhealthy", _is_qualified)
