"""`nodeprep` and `python -m nodeprep`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; returns its exit code."""
    try:
        from nodeprep.cli import app  # noqa: PLC0415 - Ctrl-C may come while typer is being imported

        return app.run()
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells have it


if __name__ == "__main__":
    sys.exit(main())
