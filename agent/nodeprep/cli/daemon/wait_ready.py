"""`nodeprep wait-ready`: an init container of a device plugin waits until its node is proven ready in this boot."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from nodeprep.cli import duration, terminal
from nodeprep.cli.daemon import directories
from nodeprep.cli.usage import UsageError
from nodeprep.doors import clock
from nodeprep.publish import gate_files
from nodeprep.publish.gate_files import BOOT_ID, GateStage

GATE_POLL_SECONDS = 0.5  # seconds between two looks
GATES_SHOWN = 6  # open gates that it names
REMINDER_SECONDS = 30.0  # seconds after which it says again what it waits for


def run(profile: str, stage: str, timeout: str | None = None, run_dir: str | None = None) -> int:
    """Wait until a gate is open: 0 if it is, 1 after `timeout`. Raises UsageError."""
    signal.signal(signal.SIGTERM, _end)  # the first process of a container only gets signals that it handles
    if not profile:
        raise UsageError("--profile '': found no name, wanted that of a profile; see nodeprep check")
    if stage not in list(GateStage):
        raise UsageError(f"--stage {stage!r}: wanted {' or '.join(GateStage)}")
    timeout_seconds = None if timeout is None else duration.seconds("--timeout", timeout)
    return wait(directories.run_directory(run_dir), profile, stage, _boot_id(), timeout_seconds)


def wait(
    directory: str,
    profile: str,
    stage: str,
    boot_id: str,
    timeout_seconds: float | None,
    *,
    reminder: float = REMINDER_SECONDS,
) -> int:
    """Look until the gate is open, for at most `timeout_seconds`; None: for ever.

    It says what it waits for at first, and then every `reminder` seconds.
    """
    waited_for = f"{directory}/{gate_files.file_name(profile, stage)} of this boot"
    started = next_words = clock.now()
    known = False
    while why := _why_closed(directory, profile, stage, boot_id):
        known = known or gate_files.is_known(directory, profile)
        others = "" if known else f"{_open_gates(directory, boot_id)}{_nearest(profile)}"
        waited = clock.now() - started
        if timeout_seconds is not None and waited >= timeout_seconds:
            after = f"after {waited:.0f} s" if waited >= 1 else "now"
            look = f"see nodeprep check --profile {profile} on the node"
            terminal.complain(f"not open {after}: {waited_for}: {why}{others}; {look}")
            return 1
        if started + waited >= next_words:
            terminal.complain(
                f"waiting for {waited_for}: {why}{others}; the agent writes it when its checks have passed"
            )
            next_words += reminder
        clock.sleep(GATE_POLL_SECONDS if timeout_seconds is None else min(GATE_POLL_SECONDS, timeout_seconds - waited))
    return 0


def _why_closed(directory: str, profile: str, stage: str, boot_id: str) -> str:
    place = Path(directory)
    try:
        if not place.exists():
            return "no such directory"
        if not place.is_dir():
            raise UsageError(f"--run-dir {directory!r} is not a directory; wanted the one that the agent writes to")
    except OSError as error:
        return str(error.strerror)
    return gate_files.why_closed(directory, profile, stage, boot_id)


def _open_gates(directory: str, boot_id: str) -> str:
    """The open gates, for a command that waits for an unknown gate: its name may be mistyped."""
    if not os.path.isdir(directory):  # noqa: PTH112 - Path.is_dir can raise
        return ""
    names = sorted(gate_files.file_name(profile, stage) for profile, stage in gate_files.open_gates(directory, boot_id))
    more = f" and {len(names) - GATES_SHOWN} more" if len(names) > GATES_SHOWN else ""
    return f"; open here: {', '.join(names[:GATES_SHOWN]) or 'none'}{more}"


def _nearest(profile: str) -> str:
    """The built-in profiles that a mistyped name may mean."""
    from nodeprep import typed_yaml
    from nodeprep.config.built_in_profiles import PROFILES

    near = "" if profile in PROFILES else typed_yaml.similar(profile, PROFILES)
    return f"; {near}" if near else ""


def _boot_id() -> str:
    try:
        return Path(BOOT_ID).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{BOOT_ID}: {error}; wanted the id of this boot, which a gate file must name") from error


def _end(_signal: int, _frame: object) -> None:
    sys.exit(128 + signal.SIGTERM)
