"""Which profiles hold for a node, by its labels and the configuration."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.config.configuration import Settings
from nodeprep.config.profile_files import NamedProfile
from nodeprep.values import Value, replace


class AssignedProfiles(Value):
    """The profiles that hold, in the order of the file, and who says so, such as "assign[1] of FILE".

    With no profile either `auto`: the hardware is to choose; or `untold` says why nobody can tell yet.
    """

    profiles: tuple[NamedProfile, ...] = ()
    by: str = ""
    auto: bool = False
    untold: str = ""


def assigned(settings: Settings, labels: Mapping[str, str] | None) -> AssignedProfiles:
    """The first rule that matches, else `default`. `labels` are the node's, None where they could not be had."""
    rules = settings.agent_part.assign if settings.agent_part else ()
    for index, rule in enumerate(rules):
        by = f"assign[{index}] of {settings.file}"
        if rule.match and labels is None:
            return AssignedProfiles(by=by, untold=f"{by} goes by labels of the node, and they are not known yet")
        if rule.applies(labels or {}):
            return AssignedProfiles(tuple(_over(settings, one) for one in rule.profiles), by)
    default = settings.named()
    if default is None:
        return AssignedProfiles(auto=True)
    return AssignedProfiles((_over(settings, default),), f"the default of {settings.file}")


def _over(settings: Settings, one: NamedProfile) -> NamedProfile:
    return replace(one, profile=settings.over(one.profile))
