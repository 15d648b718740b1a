"""What of a configuration decides verdicts and profiles, as a short digest: another digest judges anew."""

from __future__ import annotations

import hashlib
import json

from nodeprep import job_profile
from nodeprep.config.configuration import Settings
from nodeprep.config.profile_files import NamedProfile
from nodeprep.values import asdict

DIGITS = 16  # hexadecimal digits, 64 bits: two configurations of one node never have the same


def digest(settings: Settings) -> str:
    """The same for settings that judge alike, such as those of which only a period or a port differs."""
    agent = settings.agent
    default = settings.default_profile
    judging = {
        "default": settings.default,
        "profile": None if default is None else _profile(default),
        "want": settings.want,
        "exclude": settings.exclude,
        "metadata-url": settings.metadata_url,
        "waivers": [asdict(one) for one in settings.waivers],
        "assign": [{"match": one.match, "profiles": [_profile(own) for own in one.profiles]} for one in agent.assign],
        "gates": [agent.gate.profiles, agent.gate.allow_auto],
    }
    text = json.dumps(judging, sort_keys=True, default=dict)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:DIGITS]


def _profile(named: NamedProfile) -> object:
    return {"names": named.names, "profile": job_profile.mapping(named.profile)}
