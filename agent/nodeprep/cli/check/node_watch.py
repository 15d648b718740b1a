"""Looks at one node for `check` and `snapshot`, and keeps the profiles that the hardware chose."""

from __future__ import annotations

from collections.abc import Callable

from nodeprep.assessment import Assessment
from nodeprep.cli.check.look_pair import LookPair
from nodeprep.decide import drill_notice
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.job_profile import NO_PROFILE
from nodeprep.look import Look
from nodeprep.model import Report
from nodeprep.profile_selection import ProfileSelection
from nodeprep.values import Struct, replace


class NodeWatch(Struct):
    """Judges one node repeatedly.

    It keeps the profiles that the hardware chose first: a node that lost its NICs looks like one that never had any.
    `drill` says which one runs now, `notes` what else is to be told of this node.
    """

    assessment: Assessment
    looks_of: Callable[[tuple[str, ...]], LookPair]
    looks: LookPair | None = None
    excluded: tuple[str, ...] = ()
    selection: ProfileSelection | None = None
    drill: Callable[[], DrillNotice | None] = lambda: None
    notes: Callable[[], tuple[str, ...]] = tuple

    def report(self) -> Report:
        report = drill_notice.report(self.assessment.report(*self.observe()), self.drill())
        return replace(report, notes=(*report.notes, *self.notes()))

    def observe(self) -> tuple[Look, Look | None, ProfileSelection]:
        """The look, the look before it if rates are measured, and the profiles in force."""
        if self.looks is None:
            self.excluded = self.assessment.excluded_paths()
            self.looks = self.looks_of(self.excluded)
        look, before = self.looks.look()
        selection = self.selection or self.assessment.select(look)
        if set(selection.profile.exclude) != set(self.excluded):
            self.excluded = selection.profile.exclude
            self.looks = self.looks_of(self.excluded)
            look, before = self.looks.look()
        self.selection = None if selection.profile.name == NO_PROFILE.name else selection
        return look, before, selection
