"""What holds a rollout up: on this node a gate closed that stood open before the upgrade, or a new one is to pass."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.decide.readiness import READY, ProfileStanding
from nodeprep.decide.upgrade import HOLD
from nodeprep.facts.past import Past


def closed_since(past: Past, profiles: Iterable[ProfileStanding], now: float) -> tuple[str, ...]:
    """What closed, for a while after an upgrade, a profile that was open before it: checks, else the profile itself.

    A new version may read another value and find fault with it, so the former's word does not spare the node. Whether
    that is the node's fault shows on the other nodes, which a rollout that waits leaves alone.
    """
    if past.upgraded_at is None or not past.upgraded_at <= now < past.upgraded_at + HOLD:
        return ()
    before = {name for name, stage in past.former_gates if stage == READY}
    there = tuple(profiles)
    found: list[str] = []
    for profile in there:
        if profile.ready or profile.name not in before:
            continue
        convicted = [case.check for case in past.cases if case.convicted and case.check in profile.gates]
        found += convicted or [f"profile {profile.name}"]
    gone = before - {profile.name for profile in there}
    if not all(profile.ready for profile in there):  # what took its place may ask too much
        found += [f"profile {name}" for name in sorted(gone)]
    return tuple(dict.fromkeys(found))
