"""When the API server may be asked: a token bucket, and back-off after something failed. Pure.

All times are CLOCK_BOOTTIME seconds.
"""

from __future__ import annotations

from random import Random

from nodeprep.values import Struct

RATE_PER_SECOND = 2.0  # requests in the long run
BURST_REQUESTS = 12.0  # requests at once; closing a gate takes five
GATE_TOKENS = 5.0  # of them, only for what closes and opens gates
BACKOFF_FIRST_SECONDS = 1.0  # the longest first back-off
BACKOFF_LIMIT_SECONDS = 30.0  # the longest of all
# Seconds until a request is repeated that haste does not help: a missing right, or a Node that is not there.
FUTILE_RETRY_SECONDS = 30.0
# A periodic request comes so many times later than its period, drawn each time. So a fleet that started at once does
# not ask at once for ever. Design 3.5 adds up what that makes a minute.
SPREAD_FACTORS = (1.07, 1.1)
# Refusals in a row that are retried quickly. An API server that just started answers 403 until it has read its roles
# (kubernetes #101422), and roles that are applied together with the agent are known a moment later.
QUICK_RETRIES = 3


def spread(seconds: float, rng: Random) -> float:
    """A drawn time until a periodic request comes again: a little more than `seconds`."""
    return seconds * rng.uniform(*SPREAD_FACTORS)


class TokenBucket(Struct):
    """How many requests may be sent. It may be overdrawn: what began with one token is finished."""

    tokens: float = BURST_REQUESTS
    at: float = 0.0

    def wait(self, now: float, reserve: float = 0.0) -> float:
        """Seconds until something may begin that leaves `reserve` tokens to others. 0.0 if it may begin now."""
        return max(0.0, (1.0 + reserve - self._filled(now)) / RATE_PER_SECOND)

    def take(self, now: float) -> None:
        """A request goes out."""
        self.tokens, self.at = self._filled(now) - 1.0, now

    def _filled(self, now: float) -> float:
        return min(BURST_REQUESTS, self.tokens + max(0.0, now - self.at) * RATE_PER_SECOND)


class Backoff(Struct):
    """When one kind of request may be tried again. `rng` spreads a fleet: who fails together comes back apart."""

    rng: Random
    failures: int = 0
    refusals: int = 0
    not_before: float = 0.0

    def failed(self, now: float, least: float = 0.0) -> None:
        """Wait as long as the server said (`least`), plus a drawn time that doubles with each failure in a row."""
        self.refusals = 0
        self._wait(now, least)

    def refused(self, now: float) -> None:
        """A right or an object is not there yet. Wait too, and from the fourth in a row `FUTILE_RETRY_SECONDS` more."""
        self.refusals += 1
        self._wait(now, FUTILE_RETRY_SECONDS if self.refusals > QUICK_RETRIES else 0.0)

    def succeeded(self) -> None:
        self.failures, self.refusals, self.not_before = 0, 0, 0.0

    def _wait(self, now: float, least: float) -> None:
        longest = min(BACKOFF_LIMIT_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self.not_before = now + least + self.rng.uniform(0.1, 1.0) * longest
