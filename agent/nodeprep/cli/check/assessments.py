"""How options, configuration, a recording and the node's agent want a node to be judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep import profile_selection
from nodeprep.agent_state import AgentState
from nodeprep.assessment import Assessment
from nodeprep.checks import IDS
from nodeprep.cli import usage
from nodeprep.config import configuration
from nodeprep.config.configuration import AUTO, Settings
from nodeprep.config.waiver_rules import Waiver
from nodeprep.look import Look
from nodeprep.model import Report, Skipped
from nodeprep.profile_selection import ProfileSelection
from nodeprep.values import replace

if TYPE_CHECKING:
    from nodeprep.snapshot import Snapshot


def of_node(
    profile: str | None,
    config: str | None,
    today: str,
    checks: tuple[str, ...] = IDS,
    deselected: tuple[Skipped, ...] = (),
) -> Assessment:
    """As `--profile` and `--config` say. Raises UsageError."""
    with usage.usage():
        settings = configuration.load_settings(config, today)
        return _assessment(settings, profile, today, checks, deselected)


def of_recording(
    recording: Snapshot,
    profile: str | None,
    config: str | None,
    checks: tuple[str, ...] = IDS,
    deselected: tuple[Skipped, ...] = (),
) -> Assessment:
    """By the profile and waivers of the recording, unless `--profile` or `--config` name others. Raises UsageError."""
    with usage.usage():
        settings = (
            Settings(waivers=recording.waivers)
            if config is None
            else configuration.load_settings(config, recording.today)
        )
        assessment = _assessment(settings, profile, recording.today, checks, deselected)
    if assessment.selection is not None or profile is not None:
        return assessment
    in_force = settings.over(recording.in_force())
    recorded = ProfileSelection(
        in_force,
        recording.chosen_by,
        by_hardware=recording.by_hardware,
        missing_hardware=recording.missing_hardware,
    )
    return replace(assessment, selection=recorded)


def judged(recording: Snapshot, assessment: Assessment) -> tuple[Look, Report]:
    """What the recording shows, and the report on it."""
    look, before = recording.look()
    return look, assessment.report(look, before, assessment.select(look))


def with_agent(
    assessment: Assessment, agent_state: AgentState | None, profile: str | None, config: str | None
) -> Assessment:
    """The assessment with what the node's agent remembers: one node has one verdict for everyone.

    The agent's profile is in force unless the operator named a profile or a configuration file.
    """
    if agent_state is None:
        return assessment
    assessment = replace(assessment, agent_state=agent_state)
    selection = profile_selection.by_agent(agent_state)
    if profile is not None or config is not None or selection is None:
        return assessment
    settings = assessment.settings if assessment.settings.file else _settings(agent_state)
    return replace(assessment, selection=selection, settings=settings)


def _assessment(
    settings: Settings, profile: str | None, today: str, checks: tuple[str, ...], deselected: tuple[Skipped, ...]
) -> Assessment:
    """With the profile of the option, else the default; if a rule of `assign` may come first, nothing is selected yet.

    Raises ConfigError.
    """
    if profile == AUTO:
        return Assessment(checks, deselected, settings.without_profiles(), today)
    rules = settings.agent_part.assign if settings.agent_part else ()
    selection = None
    if profile is not None:
        selection = profile_selection.by_option(profile, settings)
    elif not rules:
        selection = profile_selection.by_configuration(settings, None)
    return Assessment(checks, deselected, settings, today, selection)


def _settings(agent_state: AgentState) -> Settings:
    """The agent's waivers, if no configuration file is here."""
    try:
        return Settings(waivers=tuple(Waiver(**waiver) for waiver in agent_state.waivers))
    except TypeError:
        return Settings()
