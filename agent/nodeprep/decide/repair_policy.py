"""The numbers of repair by the agent: what the operator may set, and what nobody may set in a configuration."""

from __future__ import annotations

from math import inf

from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.values import Value, field, replace


class PlayDeadlines(Value):
    """The seconds that a play may take: `safe` of class S1, `idle` of the others."""

    safe: float = 120.0
    idle: float = 600.0

    def of(self, safety: SafetyClass) -> float:
        """Those of a remedy of this class."""
        return self.safe if safety is SafetyClass.S1 else self.idle


class RepairPolicy(Value):
    """What the operator sets (`repair.*`).

    `max_class` is the highest class of a remedy on a node that was Ready in this boot, `bootstrap_max_class` on a new
    one. S3 needs an approval on either. `tries` is the budget of a fault in 24 hours. `back_off` are the seconds after
    the first failed try, the second and each other. `slots` and `bootstrap_slots` are nodes in repair at the same time:
    those that serve, and new ones.
    """

    max_class: SafetyClass = SafetyClass.S2
    bootstrap_max_class: SafetyClass = SafetyClass.S2
    tries: int = 3
    back_off: tuple[float, ...] = (60.0, 300.0, 1800.0)
    slots: int = 1
    bootstrap_slots: int = 10
    deadline: PlayDeadlines = field(default_factory=PlayDeadlines)


class RepairWaits(Value):
    """The waits below which no configuration goes, in seconds. Only arguments of the program shorten them, in tests.

    `conviction`: a fault is believed for so long before a remedy runs. `settled`: from the taint as it was read back to
    the list of pods, for a scheduler binds by what it last saw. `passes`: the case passes at least so long after the
    play. `fresh`: a list of pods or of Leases older than this proves nothing. `unknown`: an attempt that the remediator
    does not know may still lie in its socket. `silent`: after the deadline of a play, so long nobody believes that it
    has ended because the remediator is silent. `retry`: what others hold back is approached again after so long.
    `back_off`: no wait between two tries is longer. As shipped it is the longest that the configuration may have.
    `rest`: no record that others keep rests for longer between two looks. As shipped each rests as its fact says.
    """

    conviction: float = 30.0
    settled: float = 10.0
    passes: float = 30.0
    fresh: float = 30.0
    unknown: float = 10.0
    silent: float = 60.0
    retry: float = 30.0
    back_off: float = 86400.0
    rest: float = inf

    def shorten(self, policy: RepairPolicy) -> RepairPolicy:
        """The policy with no longer waits between two tries than these."""
        return replace(policy, back_off=tuple(min(one, self.back_off) for one in policy.back_off))


SHIPPED_WAITS = RepairWaits()
