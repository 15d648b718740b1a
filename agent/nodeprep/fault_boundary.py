"""The boundary at which a fault of ours stops: only one fact, one check or one thread is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def contained(call: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Call, and return the result or the exception."""
    try:
        return call(), None
    except Exception as error:  # noqa: BLE001 - the boundary: a fault in one fact or check stays there
        return None, error


def words_of(error: Exception) -> str:
    """The words of a message about a fault of ours. The traceback goes to the log."""
    import logging  # noqa: PLC0415 - 2 ms that only a fault of ours costs

    logging.getLogger(__name__).debug("broke", exc_info=error)
    return f"{type(error).__name__}: {error}"
