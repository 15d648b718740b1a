"""`nodeprep config validate|show`: whether a configuration file is sound, and what it comes to."""

from __future__ import annotations

from typing import Any

from nodeprep.cli.output import put
from nodeprep.cli.profile import usage
from nodeprep.config.document import dump
from nodeprep.config.settings import DEFAULT_FILE, Settings, load_settings
from nodeprep.doors import clock
from nodeprep.doors.host import METADATA
from nodeprep.profile import API_VERSION


def validate(file: str) -> int:
    """Say that a file is sound. Raises UsageError if it is not."""
    with usage():
        settings = load_settings(file, clock.today())
    waivers = "1 waiver" if len(settings.waivers) == 1 else f"{len(settings.waivers)} waivers"
    put(f"{file}: default profile {settings.default}, numbers of {len(settings.want)} checks, {waivers}")
    return 0


def show(file: str | None) -> int:
    """Print the configuration that `check` would use. Raises UsageError."""
    today = clock.today()
    with usage():
        settings = load_settings(file, today)
    put(f"# {settings.file or f'no {DEFAULT_FILE}: what holds without one'}")
    put(dump(_mapping(settings, today)).rstrip("\n"))
    return 0


def _mapping(settings: Settings, today: str) -> dict[str, Any]:
    """As it would stand in a file, with the days that each waiver has left."""
    waivers = [
        {
            "check": waiver.check,
            "device": waiver.device,
            "nodes": waiver.nodes,
            "until": waiver.until,
            "reason": waiver.reason,
            "days-left": max(0, waiver.days_left(today)) if waiver.days_left(today) >= 0 else "expired",
        }
        for waiver in settings.waivers
    ]
    said = {
        "default": settings.default,
        "want": {check: dict(numbers) for check, numbers in settings.want.items()},
        "waivers": waivers,
        "exclude": settings.exclude,
        "metadata-url": "" if settings.metadata_url == METADATA else settings.metadata_url,
    }
    top = {"apiVersion": API_VERSION, "kind": "Config"}
    return top | {key: value for key, value in said.items() if value not in ({}, [], (), "")}
