"""`nodeprep version`."""

from __future__ import annotations

from nodeprep.cli import program

app = program.commands()


@app.command()
def version() -> None:
    """Print the version."""

    def body() -> int:
        from nodeprep import __version__
        from nodeprep.cli import terminal

        terminal.put(f"nodeprep {__version__}")
        return 0

    program.end(body)
