"""The numbers of confirmation as data (design 3.2)."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.model import Confirmation
from nodeprep.values import Value, field


class ConfirmationRule(Value):
    """How often a failure must be seen.

    It is believed after `fails` of the last `of` fresh looks, each `apart` seconds after the one before, the first and
    the last of them `span` seconds apart.
    """

    fails: int
    of: int
    apart: float = 0.0
    span: float = 0.0

    @property
    def reach(self) -> float:
        """Seconds from the first of the failures to the last that may be believed."""
        return max(self.span, self.apart * (self.fails - 1))

    @property
    def step(self) -> float:
        """Seconds between failures that are looked for to be believed as soon as may be."""
        return self.reach / max(1, self.fails - 1)

    @property
    def in_a_row(self) -> bool:
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

    A release and a proof take `passes` fresh looks without a fault over `pass_span`, looked for every `pass_every`;
    `flap_count` releases within `flap_window` latch; a check that could not look for `blind_after` has a condition of
    its own.
    """

    rules: Mapping[Confirmation, ConfirmationRule] = field(default_factory=lambda: RULES)
    passes: int = 3
    pass_span: float = 30.0
    pass_every: float = 10.0
    flap_count: int = 3
    flap_window: float = 1800.0
    blind_after: float = 600.0

    def enough(self, passes: int, since: float | None, until: float) -> bool:
        """Whether so many passes in a row, the first of which ended at `since`, are enough at `until`."""
        return passes >= self.passes and since is not None and until - since >= self.pass_span
