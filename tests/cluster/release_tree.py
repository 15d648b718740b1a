"""Releases of nodeprep beside ours: copies of this checkout's agent and playbooks with a version of their own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import nodeprep
from tests.rigs.netns import REPOSITORY

Changes = Mapping[str, Mapping[str, str]]  # by file below agent/nodeprep: other text for what stands there once
UP = "checks/eni/up.py"
LOOKS = {"if is_running(link):": "if not is_running(link):", "if link.set_down:\n        up": "if True:\n        up"}
WORDS = {'"AdministrativelyDown", message, up, link.operstate,': '"AdministrativelyDown", message, up, "set down",'}
# It takes a link that is up for one that was set down, and would set it up.
MISTAKEN: Changes = {UP: LOOKS}
# It says by other words what it sees, too: nobody knows any more that the former release saw the same.
REWORDED: Changes = {UP: {**LOOKS, **WORDS}}


def release(directory: Path, version: str, changes: Changes | None = None) -> Path:
    """Makes a release in a new directory. Gives what PYTHONPATH has to be for it to run."""
    shutil.copytree(REPOSITORY / "agent", directory / "agent")  # with its bytecode: changed files have other times
    shutil.copytree(REPOSITORY / "playbooks", directory / "playbooks")
    named = {"__init__.py": {f'"{nodeprep.__version__}"': f'"{version}"'}}
    for name, others in {**named, **(changes or {})}.items():
        file = directory / "agent/nodeprep" / name
        text = file.read_text()
        for here, there in others.items():
            assert text.count(here) == 1, f"{file}: found {here!r} {text.count(here)} times, wanted it once"
            text = text.replace(here, there)
        file.write_text(text)
    return directory / "agent"
