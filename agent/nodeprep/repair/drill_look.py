"""Looks at what a drill changes: by `ip -json` at interfaces, addresses and routes, by sysfs at RDMA and modules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from nodeprep.decide.drill_ground import MODULES, NETWORK, RDMA, DrillGround, ModulePart, RdmaPart, Row
from nodeprep.decide.drill_kinds import MODULES as KNOWN_MODULES
from nodeprep.decide.drill_record import HostCommand
from nodeprep.repair import host_tools

ENVIRONMENT = {"PATH": host_tools.PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
COMMAND_SECONDS = 20.0  # for one command of the host; a module with many devices takes some
LINKS, ADDRESSES = ("ip", "-j", "-d", "link", "show"), ("ip", "-j", "-d", "address", "show")
ROUTES = {family: ("ip", "-j", "-d", f"-{family}", "route", "show", "table", "all") for family in (4, 6)}
DEVICES, LOADED = Path("/sys/class/infiniband"), Path("/sys/module")
IWARP = "4: RNIC"  # node_type of siw (drivers/infiniband/core/sysfs.c)
WORDS_CHARACTERS = 300  # of what a command says on its stderr


class GroundUnseen(Exception):
    """A part of the ground could not be seen. Its text is one line: the command or file, and why."""


def run(command: HostCommand) -> str:
    """Run a command of the host to its end: "" if it did well, else why not, in one line."""
    try:
        done = subprocess.run(
            command.argv,
            input=f"{command.text}\n" if command.text else None,
            stdin=None if command.text else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            env=ENVIRONMENT,
            timeout=COMMAND_SECONDS,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return f"{command.words}: no end within {COMMAND_SECONDS:g} s"
    except OSError as error:
        return f"{command.words}: {error.strerror}"
    said = " ".join(done.stderr.split())[:WORDS_CHARACTERS]
    return "" if done.returncode == 0 else f"{command.words}: exit code {done.returncode}: {said or 'it says nothing'}"


def observe(parts: Collection[str]) -> DrillGround:
    """These parts of what is there now. Raises GroundUnseen."""
    has_network = NETWORK in parts
    return DrillGround(
        links=tuple(_rows(LINKS)) if has_network else (),
        addresses=tuple(_rows(ADDRESSES)) if has_network else (),
        routes=tuple((family, row) for family, argv in ROUTES.items() for row in _rows(argv)) if has_network else (),
        rdma=dict(_rdma()) if RDMA in parts else {},
        modules=dict(_modules()) if MODULES in parts else {},
    )


def _rows(argv: tuple[str, ...]) -> list[Row]:
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS,
            check=False,
            start_new_session=True,
        )
        rows: Any = json.loads(done.stdout or b"[]")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise GroundUnseen(f"{' '.join(argv)}: {error}; wanted JSON (iproute2 4.14 or later)") from error
    if done.returncode != 0 or not isinstance(rows, list):
        said = " ".join(done.stderr.decode(errors="backslashreplace").split())[:WORDS_CHARACTERS]
        raise GroundUnseen(f"{' '.join(argv)}: exit code {done.returncode}: {said}")
    return [row for row in rows if isinstance(row, dict) and row]  # it leaves empty ones for what a filter drops


def _rdma() -> Iterator[tuple[str, RdmaPart]]:
    for device in _entries(DEVICES):
        parent = _text(device / "parent")  # only rxe has it (drivers/infiniband/sw/rxe/rxe_verbs.c)
        if parent:
            yield device.name, RdmaPart(parent, "rxe")
        elif not (device / "device").exists() and _text(device / "node_type") == IWARP:
            yield device.name, RdmaPart(_text(device / "ports/1/gid_attrs/ndevs/0"), "siw")
        else:
            yield device.name, RdmaPart()


def _modules() -> Iterator[tuple[str, ModulePart]]:
    for name in KNOWN_MODULES:
        module = LOADED / name
        if (module / "refcnt").exists():  # built-in code has none
            uses = _text(module / "refcnt")
            holders = tuple(sorted(one.name for one in _entries(module / "holders")))
            parameters = {one.name: _text(one) for one in sorted(_entries(module / "parameters"))}
            yield name, ModulePart(int(uses) if uses.isdecimal() else 1, holders, parameters)


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise GroundUnseen(f"{directory}: {error.strerror}") from error


def _text(path: Path) -> str:
    """What the file says, "" if it does not exist or is only to be written."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="backslashreplace").strip()
    return ""
