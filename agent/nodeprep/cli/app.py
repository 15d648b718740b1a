"""All commands. Each imports what it needs when it runs: `--help` has 60 ms (design 7)."""

from __future__ import annotations

from nodeprep.cli import program

# Imported in the order in which `--help` lists them.
from nodeprep.cli.check import check_commands  # noqa: F401
from nodeprep.cli.daemon import daemon_commands  # noqa: F401
from nodeprep.cli.files import files_commands  # noqa: F401
from nodeprep.cli.nodes import nodes_commands  # noqa: F401

app = program.app
run = program.run


@app.command()
def version() -> None:
    """Print the version."""

    def body() -> int:
        from nodeprep import __version__
        from nodeprep.cli import terminal

        terminal.put(f"nodeprep {__version__}")
        return 0

    program.end(body)
