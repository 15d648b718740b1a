"""`nodeprep` and `python -m nodeprep`."""

from __future__ import annotations

import gc
import sys

# New objects between two garbage collections. With Python's 700 there are hundreds of them during the imports.
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
        gc.freeze()  # the kernel frees all memory at once: Python need not, which would take a twelfth of `--help`


if __name__ == "__main__":
    sys.exit(main())
