"""All commands. Each imports what it needs when it runs: `--help` has 60 ms (design 7)."""

from __future__ import annotations

# Imported in the order in which `--help` lists them.
from nodeprep.cli import app_check, app_daemon, app_files, app_nodes  # noqa: F401
from nodeprep.cli.program import app, end, run

__all__ = ["run"]


@app.command()
def version() -> None:
    """Print the version."""

    def body() -> int:
        from nodeprep import __version__
        from nodeprep.cli import output

        output.put(f"nodeprep {__version__}")
        return 0

    end(body)
