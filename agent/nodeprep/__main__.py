"""`nodeprep` and `python -m nodeprep`."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` takes a millisecond, in which Ctrl-C is a traceback
import gc
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from types import FrameType

# New objects between two garbage collections. With Python's 700 there are hundreds of them during the imports.
GC_THRESHOLD_OBJECTS = 50_000
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """End at once: where nothing runs yet, where all is done, and where Ctrl-C is pressed a second time."""
    os._exit(INTERRUPTED)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Let what runs end its children and say its last words; the next one ends at once."""
    _signal.signal(_signal.SIGINT, _leave)
    raise KeyboardInterrupt


def _unraisable(told: Any) -> None:
    """Ctrl-C in a place that cannot raise, such as `__del__`, ends at once too."""
    if issubclass(told.exc_type, KeyboardInterrupt):
        os._exit(INTERRUPTED)
    sys.__unraisablehook__(told)


# Who is started in the background by a shell has SIGINT ignored, and keeps it so.
_LISTENS = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
if _LISTENS:
    _signal.signal(_signal.SIGINT, _leave)
    sys.unraisablehook = _unraisable


def main() -> int:
    """Run the command line; returns its exit code."""
    gc.set_threshold(GC_THRESHOLD_OBJECTS)
    try:
        if _LISTENS:
            _signal.signal(_signal.SIGINT, _interrupt)
        from nodeprep.cli import app  # noqa: PLC0415 - Ctrl-C may come while typer is being imported

        code = app.run()
        if _LISTENS:
            _signal.signal(_signal.SIGINT, _leave)
    except BaseException:
        # Python 3.11 makes a RuntimeError of one that comes while a class is made, in an import.
        if _LISTENS and _signal.getsignal(_signal.SIGINT) is _leave:
            return INTERRUPTED
        raise
    else:
        return code
    finally:
        gc.freeze()  # the kernel frees all memory at once: Python need not, which would take a twelfth of `--help`


if __name__ == "__main__":
    sys.exit(main())
