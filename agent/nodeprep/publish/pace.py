"""When the API server may be asked: a token bucket, and back-off after something failed. Pure.

All times are CLOCK_BOOTTIME seconds.
"""

from __future__ import annotations

from random import Random

from nodeprep.values import Struct

RATE, BURST = 2.0, 12.0  # requests per second in the long run, and how many at once: closing a gate takes five
GATE_TOKENS = 5.0  # of them that nothing may take but what closes and opens gates
FIRST, MOST = 1.0, 30.0  # seconds of back-off: the first may be as long, and each as this
FUTILE_RETRY_SECONDS = (
    30.0  # seconds until something is asked again that no haste makes succeed: a right, a Node that is not there
)
# What comes again and again comes so many times later than it might, drawn each time: a fleet that started at once does
# not ask at once for ever. Design 3.5 adds up what that makes a minute.
SPREAD_FACTORS = (1.07, 1.1)
# Refusals in a row before one counts as that: an API server that just started answers 403 until it has read its roles
# (kubernetes #101422), and roles that are applied with the agent are known a moment later.
QUICK_RETRIES = 3


def later(seconds: float, chance: Random) -> float:
    """A time of its own from now until something comes again."""
    return seconds * chance.uniform(*SPREAD_FACTORS)


class TokenBucket(Struct):
    """How much may still be asked. It may be overdrawn: what began with one token is not cut in the middle."""

    tokens: float = BURST
    at: float = 0.0

    def wait(self, now: float, reserve: float = 0.0) -> float:
        """Seconds until something may begin that leaves the reserve to others, 0.0 if it may now."""
        return max(0.0, (1.0 + reserve - self._filled(now)) / RATE)

    def take(self, now: float) -> None:
        """A request goes out."""
        self.tokens, self.at = self._filled(now) - 1.0, now

    def _filled(self, now: float) -> float:
        return min(BURST, self.tokens + max(0.0, now - self.at) * RATE)


class Backoff(Struct):
    """When one kind of thing may be tried again. `chance` spreads a fleet: who fails together comes back apart."""

    chance: Random
    failures: int = 0
    refusals: int = 0
    not_before: float = 0.0

    def failed(self, now: float, least: float = 0.0) -> None:
        """Wait for as long as the server said, or `least`, and a drawn time that doubles with each failure in a row."""
        self.refusals = 0
        self._wait(now, least)

    def refused(self, now: float) -> None:
        """A right or a thing is not there yet: wait too, from the fourth in a row on `FUTILE_RETRY_SECONDS` more."""
        self.refusals += 1
        self._wait(now, FUTILE_RETRY_SECONDS if self.refusals > QUICK_RETRIES else 0.0)

    def succeeded(self) -> None:
        self.failures, self.refusals, self.not_before = 0, 0, 0.0

    def _wait(self, now: float, least: float) -> None:
        longest = min(MOST, FIRST * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self.not_before = now + least + self.chance.uniform(0.1, 1.0) * longest
