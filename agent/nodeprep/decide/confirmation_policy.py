"""The numbers of confirmation as data (design 3.2)."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.model import Confirmation
from nodeprep.values import Value, field


class ConfirmationRule(Value):
    """How often a failure must be seen.

    It is confirmed after `fails` of the last `of` fresh looks. Each is `apart` seconds after the one before; the first
    and the last are `span` seconds apart.
    """

    fails: int
    of: int
    apart: float = 0.0
    span: float = 0.0

    @property
    def least_span(self) -> float:
        """Seconds at least from the first failure to the one that confirms it."""
        return max(self.span, self.apart * (self.fails - 1))

    @property
    def look_interval(self) -> float:
        """Seconds between two looks if a failure is to be confirmed as soon as possible."""
        return self.least_span / max(1, self.fails - 1)

    @property
    def must_be_consecutive(self) -> bool:
        """Whether one pass ends a suspicion."""
        return self.fails == self.of


# Design 3.2: gpud confirms after 11 to 29 s; metadata lags 10 s; NVSentinel takes 3 of 5.
RULES: Mapping[Confirmation, ConfirmationRule] = {
    Confirmation.FAST: ConfirmationRule(fails=2, of=2, apart=0.5),
    Confirmation.RECORDS: ConfirmationRule(fails=2, of=2, apart=15.0),
    Confirmation.SLOW: ConfirmationRule(fails=3, of=5, span=60.0),
    Confirmation.LATCHED: ConfirmationRule(fails=1, of=1),
}


class ConfirmationPolicy(Value):
    """Quick to close, slow to open (design 3.2). Times are seconds.

    A release and a proof take `passes` fresh looks without a fault over `pass_span`. The agent looks for them every
    `pass_every`. `flap_count` releases within `flap_window` latch a case. A check that could not look for `blind_after`
    has a condition of its own.
    """

    rules: Mapping[Confirmation, ConfirmationRule] = field(default_factory=lambda: RULES)
    passes: int = 3
    pass_span: float = 30.0
    pass_every: float = 10.0
    flap_count: int = 3
    flap_window: float = 1800.0
    blind_after: float = 600.0

    def is_enough(self, passes: int, since: float | None, until: float) -> bool:
        """Whether so many passes in a row, the first of which ended at `since`, are enough at `until`."""
        return passes >= self.passes and since is not None and until - since >= self.pass_span
