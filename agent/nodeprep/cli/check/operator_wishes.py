"""The operator's selection for `check`, from options, configuration and recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.assessment import OperatorWishes
from nodeprep.cli import usage
from nodeprep.config import configuration
from nodeprep.config.configuration import AUTO, Settings

if TYPE_CHECKING:
    from nodeprep.snapshot import Snapshot


def profile_request(profile: str | None, config: str | None, today: str) -> OperatorWishes:
    """From `--profile` and `--config`. Raises UsageError."""
    with usage.usage():
        settings = configuration.load_settings(config, today)
        default = settings.profile()
        rules = settings.agent_part.assign if settings.agent_part else ()
        if profile not in (None, AUTO):
            chosen = OperatorWishes(None, "chosen with --profile", settings, today)
            return OperatorWishes(chosen.named(str(profile)), chosen.by, settings, today)
    if profile is None and default is not None and not rules:
        return OperatorWishes(default, f"the default of {settings.file}", settings, today)
    return OperatorWishes(None, "", settings, today, auto=profile == AUTO)


def recorded_request(recording: Snapshot, profile: str | None, config: str | None) -> OperatorWishes:
    """The profiles in force when a node was recorded, unless others are given. Raises UsageError."""
    if config is not None:
        own = profile_request(profile, config, recording.today)
        if own.profile is not None or profile == AUTO:
            return own
        settings = own.settings
    else:
        settings = Settings(waivers=recording.waivers)
    if profile == AUTO:
        return OperatorWishes(None, "", settings, recording.today)
    if profile is not None:
        with usage.usage():
            named = OperatorWishes(None, "", settings, recording.today).named(profile)
        return OperatorWishes(named, "chosen with --profile", settings, recording.today)
    in_force = settings.over(recording.in_force())
    return OperatorWishes(in_force, recording.chosen_by, settings, recording.today, recording.looked_for)
