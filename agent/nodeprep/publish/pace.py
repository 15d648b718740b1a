"""When the API server may be asked: a token bucket, and back-off after it did not take what was asked. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

RATE, BURST = 1.0, 10.0  # requests per second, and how many at once: closing a gate takes five
FIRST, MOST = 1.0, 30.0  # seconds of back-off: the first may be as long, and each as this


@dataclass(slots=True)
class Pace:
    """Of one agent. `chance` spreads a fleet: two agents that fail together do not come back together.

    All times are CLOCK_BOOTTIME seconds.
    """

    chance: Random
    failures: int = 0
    not_before: float = 0.0
    _tokens: float = BURST
    _at: float = field(default=0.0)

    def wait(self, now: float) -> float:
        """Seconds until the next request may go out, 0.0 if it may now."""
        tokens = self._filled(now)
        short = 0.0 if tokens >= 1.0 else (1.0 - tokens) / RATE
        return max(self.not_before - now, short, 0.0)

    def take(self, now: float) -> None:
        """A request goes out."""
        self._tokens, self._at = self._filled(now) - 1.0, now

    def failed(self, now: float, retry_after: float = 0.0) -> None:
        """Leave the server alone: for as long as it said, and a drawn time that doubles with each failure."""
        longest = min(MOST, FIRST * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self.not_before = now + retry_after + self.chance.uniform(0.1, 1.0) * longest

    def succeeded(self) -> None:
        self.failures, self.not_before = 0, 0.0

    def _filled(self, now: float) -> float:
        return min(BURST, self._tokens + max(0.0, now - self._at) * RATE)
