"""A number of a check is a count, a size, a rate or a time: less than nothing is refused, in every check."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from nodeprep import typed_yaml
from nodeprep.checks import CHECKS
from nodeprep.model import Check
from nodeprep.typed_yaml import InvalidValueError, ValueKind
from nodeprep.values import field_names

NUMBERS = [(check, name) for check in CHECKS.values() if check.want for name in field_names(check.want)]


def numeric(annotation: Any) -> bool:
    return annotation in (int, float) or any(numeric(one) for one in get_args(annotation) if one is not ...)


@pytest.mark.parametrize(("check", "name"), NUMBERS, ids=lambda one: one if isinstance(one, str) else one.id)
def test_less_than_nothing_is_refused(check: Check, name: str) -> None:
    assert check.want is not None
    annotation = get_type_hints(check.want)[name]
    if not numeric(annotation):
        return
    kind: ValueKind[Any] = typed_yaml.value_of(check.want)
    keys = get_args(annotation)[:1]
    # A key that is text may begin with a minus.
    for value in (-1, -0.5, [-1], {"0": -1}, {"2048kB": -1}, *([] if keys == (str,) else [{"-1": 1}])):
        with pytest.raises(InvalidValueError):
            kind.read({name.replace("_", "-"): value}, ("want", check.id))
