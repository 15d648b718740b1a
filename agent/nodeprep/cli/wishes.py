"""The operator's word for `check`: which profile holds, what single checks are told, what is waived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodeprep.cli.usage import UsageError
from nodeprep.config.document import ConfigError
from nodeprep.config.profiles import effective
from nodeprep.config.settings import AUTO, Settings, load_settings
from nodeprep.config.waivers import apply_waivers
from nodeprep.config.wants import wants
from nodeprep.model import Finding
from nodeprep.profile import Profile

if TYPE_CHECKING:
    from nodeprep.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Wishes:
    """`profile` is None where the hardware is to choose, and `by` says who chose it; `today` is the UTC date.

    `looked_for` is what the hardware was searched for in vain, where a recording says that no profile applied.
    """

    profile: Profile | None
    by: str
    settings: Settings
    today: str
    looked_for: str = ""

    def named(self, name: str) -> Profile:
        """A built-in profile or a file's, with what the configuration says over it. Raises UsageError."""
        return _named(name, self.settings)

    def wants(self, profile: Profile) -> dict[str, object]:
        """Each check's numbers, by check id."""
        return wants(profile)

    def waived(self, findings: tuple[Finding, ...], node: str) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
        """The findings with those that are waived marked so, and what is to be said of waivers that ran out."""
        return apply_waivers(findings, self.settings.waivers, node, self.today)


def wishes(profile: str | None, config: str | None, today: str) -> Wishes:
    """From `--profile` and `--config`. Raises UsageError."""
    try:
        settings = load_settings(config, today)
        default = settings.profile()
    except ConfigError as error:
        raise UsageError(str(error)) from error
    if profile not in (None, AUTO):
        return Wishes(_named(str(profile), settings), "chosen with --profile", settings, today)
    if profile is None and default is not None:
        return Wishes(default, f"the default of {settings.file}", settings, today)
    return Wishes(None, "", settings, today)


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
        return Wishes(_named(profile, settings), "chosen with --profile", settings, recording.today)
    in_force = settings.over(recording.in_force())
    return Wishes(in_force, recording.chosen_by, settings, recording.today, recording.looked_for)


def _named(name: str, settings: Settings) -> Profile:
    try:
        return settings.over(effective(name))
    except ConfigError as error:
        raise UsageError(str(error)) from error
