"""`nodeprep` and `python -m nodeprep`."""

from __future__ import annotations

import gc
import sys

# Objects between two searches for garbage. With Python's 700 it searches hundreds of times while modules are imported.
GC_THRESHOLD_OBJECTS = 50_000


def main() -> int:
    """Run the command line; returns its exit code."""
    gc.set_threshold(GC_THRESHOLD_OBJECTS)
    try:
        from nodeprep.cli import app  # noqa: PLC0415 - Ctrl-C may come while typer is being imported

        return app.run()
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells have it
    finally:
        gc.freeze()  # the kernel takes all memory back at once: Python need not take it apart, a twelfth of `--help`


if __name__ == "__main__":
    sys.exit(main())
