"""The README's picture shows what the command prints today."""

from __future__ import annotations

from docs import picture


def test_the_picture_is_current() -> None:
    assert picture.TARGET.read_text() == picture.drawn(picture.printed()), "run `make docs`"
