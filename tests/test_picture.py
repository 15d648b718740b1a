"""The pictures show what the commands print today."""

from __future__ import annotations

from docs import picture


def test_the_picture_is_current() -> None:
    assert picture.TARGET.read_text() == picture.drawn(picture.printed()), "run `make docs`"
    assert picture.TIMELINE.read_text() == picture.drawn(picture.told(), picture.HISTORY), "run `make docs`"
