"""The operator's word for `check`, from options, configuration and recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.cli.usage import usage
from nodeprep.config.settings import AUTO, Settings, load_settings
from nodeprep.question import Wishes

if TYPE_CHECKING:
    from nodeprep.snapshot import Snapshot


def wishes(profile: str | None, config: str | None, today: str) -> Wishes:
    """From `--profile` and `--config`. Raises UsageError."""
    with usage():
        settings = load_settings(config, today)
        default = settings.profile()
        rules = settings.agent_part.assign if settings.agent_part else ()
        if profile not in (None, AUTO):
            chosen = Wishes(None, "chosen with --profile", settings, today)
            return Wishes(chosen.named(str(profile)), chosen.by, settings, today)
    if profile is None and default is not None and not rules:
        return Wishes(default, f"the default of {settings.file}", settings, today)
    return Wishes(None, "", settings, today, auto=profile == AUTO)


def recorded_wishes(recording: Snapshot, profile: str | None, config: str | None) -> Wishes:
    """Those in force when a node was recorded, unless others are asked for. Raises UsageError."""
    if config is not None:
        own = wishes(profile, config, recording.today)
        if own.profile is not None or profile == AUTO:
            return own
        settings = own.settings
    else:
        settings = Settings(waivers=recording.waivers)
    if profile == AUTO:
        return Wishes(None, "", settings, recording.today)
    if profile is not None:
        with usage():
            named = Wishes(None, "", settings, recording.today).named(profile)
        return Wishes(named, "chosen with --profile", settings, recording.today)
    in_force = settings.over(recording.in_force())
    return Wishes(in_force, recording.chosen_by, settings, recording.today, recording.looked_for)
