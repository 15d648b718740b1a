"""The rules that must hold under all chaos: over the deeds, and over samples of the agent.

This module does no I/O: tests/chaos_watch.py looks, and tests/test_chaos_rules.py feeds values. All times are
CLOCK_BOOTTIME seconds.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

STEP = 0.2  # seconds that one sample counts for at most: while this machine stood still, nobody could act
STILL = 1.0  # seconds in which the agent, or everything, stood still; a look of the agent may have been too late
AGAIN = 16.0  # seconds until the agent has asked again for an unreadable fact; it waits 15
START = 4.0  # seconds from a start to the first look
AGREE = 2.0  # seconds for which files and metrics may differ
HEALTH = 10.0  # seconds without an answer, or without a round
IMDS = 25.0  # seconds until a metadata service that answers again is asked again
SLOWER = 3.0  # factor of time while another process takes the processor
MOST = {"rss": 70 << 20, "threads": 40, "descriptors": 80}
TIMELINE = 60.0  # seconds of earlier deeds that are shown with a violation
PLANTED = "planted"  # the time in a gate file that the chaos made
PLANTED_PART = f'"since": "{PLANTED}"'


@dataclass(slots=True)
class Fault:
    """A fault of the chaos. It is `certain` to be seen when it has stood for `limit` seconds in which an agent ran."""

    name: str
    limit: float
    by_metadata: bool
    stood: float = 0.0
    certain: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment. `gates` are the files of the stage ready by profile. None stands for a thing that could not be asked.

    `metrics` were served within the last second. `healthy` is the answer of `/healthz`. `sizes` are as in MOST.
    `waited` are the seconds since the moment before in which the agent waited for a processor.
    """

    at: float
    gates: Mapping[str, str]
    metrics: Mapping[str, float] | None = None
    healthy: bool | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    wall: float = 0.0
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """A thread at one moment: seconds that it ran and that it waited for a processor, and whether it wants one now."""

    ran: float
    waited: float
    wants: bool


def waited(before: Mapping[str, Turn], after: Mapping[str, Turn], seconds: float) -> float:
    """For how many of these seconds the thread that waited longest had no processor.

    The kernel counts a wait when it ends. One that goes on shows by a thread that wants to run and did not.
    """
    longest = 0.0
    for name, now in after.items():
        then = before.get(name)
        if then is None:
            continue
        goes_on = then.wants and now.wants and now.ran == then.ran
        longest = max(longest, seconds if goes_on else min(seconds, now.waited - then.waited))
    return longest


@dataclass(slots=True)
class Rules:
    """Gets deeds (`tell`) and samples (`see`), in the order of time; returns violations.

    `slower` is this machine's time over the usual time.
    """

    span: float
    slower: float = 1.0
    boot_id: str = ""
    standing: dict[str, Fault] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    awake_since: float | None = None
    proof_since: float | None = None
    proof_wanted: bool = False
    metadata_since: float = 0.0
    metadata_fine: bool = True
    slow_until: float = 0.0
    openings: int = 0
    closings: int = 0
    slowest: float = 0.0
    done: deque[tuple[float, str]] = field(default_factory=deque)
    _before: Sample | None = None
    _closed_for: dict[str, float] = field(default_factory=dict)
    _rounds: float = -1.0
    _said: set[str] = field(default_factory=set)
    _waited: float = 0.0

    def tell(self, event: Mapping[str, Any]) -> str:
        """A deed that was done or will be. Returns a violation that its doer has already seen, or ""."""
        at, what = float(event["at"]), str(event["event"])
        self._remember(at, " ".join(str(value) for key, value in event.items() if key != "at"))
        deeds: dict[str, Callable[[float, Mapping[str, Any]], None]] = {
            "fault": lambda _, event: self._fault(event),
            "mending": self._mending,
            "started": lambda at, _: self._started(at),
            "ending": lambda *_: self._sleeps(),
            "stopping": lambda *_: self._sleeps(),
            "continued": lambda at, _: self._wakes(at),
            "was-reset": lambda _, event: setattr(self, "proof_since", float(event["since"])),
            "proof-wanted": lambda *_: setattr(self, "proof_wanted", True),
            "boot": lambda _, event: setattr(self, "boot_id", str(event["id"])),
            "metadata": self._metadata,
            "slow": self._slow,
        }
        if what in deeds:
            deeds[what](at, event)
        return str(event["text"]) if what == "wrong" else ""

    def see(self, sample: Sample) -> list[str]:
        """The violations of this moment, each once while it lasts."""
        before, self._before = self._before, sample
        if before is None:
            return []
        passed = sample.at - before.at
        step = max(0.0, min(passed, STEP) - sample.waited)
        self._waited = self._waited + passed if sample.waited > passed / 2 else 0.0
        if max(passed, self._waited) > STILL:
            for fault in self.standing.values():
                fault.stood = -AGAIN
        found = dict(self._wrong(before, sample, step))
        fresh = [text for name, text in found.items() if name not in self._said]
        self._said = set(found)
        return fresh

    def timeline(self) -> list[str]:
        """The deeds of the last minute."""
        last = self.done[-1][0] if self.done else 0.0
        return [f"{at - last:+8.2f} s  {what}" for at, what in self.done]

    def _wrong(self, before: Sample, sample: Sample, step: float) -> Iterator[tuple[str, str]]:
        for profile, text in sample.gates.items():
            if before.gates.get(profile) == text:
                continue
            if PLANTED_PART not in text:  # else the chaos made it: the file itself says so, an event may come later
                self.openings += 1
                self._remember(sample.at, f"SEEN {profile}.ready appeared")
                yield from self._too_soon(sample.at, profile)
        for profile in before.gates.keys() - sample.gates.keys():
            self.closings += 1
            self._remember(sample.at, f"SEEN {profile}.ready went")
        awake = self.awake_since is not None and sample.at >= self.awake_since
        for fault in self.standing.values():
            yield from self._stands(fault, sample, step, awake=awake)
        if not awake:
            self._closed_for.clear()
            return
        for profile, text in sample.gates.items():
            yield from self._forged(profile, text)
        yield from self._differ(sample, step)
        yield from self._hangs(sample, step)
        for name, size in sample.sizes.items():
            if size > MOST[name]:
                yield f"size {name}", f"{name} of the agent is {size}, wanted at most {MOST[name]}"

    def _too_soon(self, at: float, profile: str) -> Iterator[tuple[str, str]]:
        for name, ended in self.ended.items():
            if at - ended < self.span:
                yield (
                    f"soon {name}",
                    (f"{profile}.ready appeared {at - ended:.2f} s after {name!r} was mended, wanted {self.span:g} s"),
                )
        for name, fault in self.standing.items():
            if fault.certain:
                yield f"soon {name}", f"{profile}.ready appeared while {name!r} stands"
        if self.proof_since is not None and at - self.proof_since < self.span:
            since = at - self.proof_since
            yield (
                "proof",
                f"{profile}.ready appeared {since:.2f} s after all was to be proven anew, wanted {self.span:g} s",
            )

    def _stands(self, fault: Fault, sample: Sample, step: float, *, awake: bool) -> Iterator[tuple[str, str]]:
        """A fault that must be believed by now, by an agent that ran all the time."""
        told = not fault.by_metadata or (self.metadata_fine and sample.at - self.metadata_since > IMDS)
        if not (awake and told):
            fault.stood = min(fault.stood, 0.0)
            return
        fault.stood += step
        if sample.gates and not fault.certain:
            self.slowest = max(self.slowest, fault.stood)
        if fault.stood > fault.limit * self._slower(sample.at):
            fault.certain = True
            for profile in sample.gates:
                yield f"open {fault.name}", f"{profile}.ready is there {fault.stood:.2f} s after {fault.name!r} began"

    def _forged(self, profile: str, text: str) -> Iterator[tuple[str, str]]:
        try:
            told = json.loads(text)
            boot, name, since = told["boot_id"], told["profile"], told["since"]
        except (ValueError, KeyError, TypeError):
            yield f"parse {profile}", f"{profile}.ready does not parse: {text[:100]!r}"
            return
        if (boot, name) != (self.boot_id, profile):
            yield f"boot {profile}", f"{profile}.ready is of boot {boot} and profile {name}, wanted {self.boot_id}"
        if since == PLANTED:
            yield f"planted {profile}", f"{profile}.ready, which nobody's passes opened, is left by an agent that runs"

    def _differ(self, sample: Sample, step: float) -> Iterator[tuple[str, str]]:
        """Files and metrics that disagree."""
        for key, value in (sample.metrics or {}).items():
            name, _, profile = key.partition(" ")
            if name != "ready":
                continue
            differs = bool(value) != (profile in sample.gates)
            self._closed_for[key] = self._closed_for.get(key, 0.0) + step if differs else 0.0
            if self._closed_for[key] > AGREE * self._slower(sample.at):
                yield (
                    key,
                    f"nodeprep_ready of {profile} is {value:g}, and its file is {'' if not value else 'not '}there",
                )

    def _hangs(self, sample: Sample, step: float) -> Iterator[tuple[str, str]]:
        """A loop that does not turn."""
        sick = self._closed_for.get("healthy", 0.0) + step if not sample.healthy else 0.0
        rounds = (sample.metrics or {}).get("rounds")
        same = self._closed_for.get("rounds", 0.0) + step if rounds in (None, self._rounds) else 0.0
        self._rounds = self._rounds if rounds is None else rounds
        self._closed_for |= {"healthy": sick, "rounds": same}
        allowed = HEALTH * self._slower(sample.at)
        if sick > allowed:
            yield "healthy", f"/healthz has not said 200 for {sick:.1f} s of an agent that runs"
        if same > allowed:
            yield "rounds", f"nodeprep_rounds_total has not grown for {same:.1f} s of an agent that runs"
        last = (sample.metrics or {}).get("last-round")
        if last is not None and sample.wall - last > 2 * allowed:
            yield "last-round", f"nodeprep_last_round_timestamp_seconds is {sample.wall - last:.1f} s old"

    def _slower(self, at: float) -> float:
        return self.slower * (SLOWER if at < self.slow_until else 1.0)

    def _fault(self, event: Mapping[str, Any]) -> None:
        name = str(event["name"])
        self.standing[name] = Fault(name, float(event["limit"]), bool(event.get("by_metadata")))

    def _mending(self, at: float, event: Mapping[str, Any]) -> None:
        fault = self.standing.pop(event["name"], None)
        if fault is not None and fault.certain:
            self.ended[fault.name] = at

    def _started(self, at: float) -> None:
        self._wakes(at + START * self.slower)
        if self.proof_wanted:
            self.proof_since, self.proof_wanted = at, False

    def _sleeps(self) -> None:
        self.awake_since = None

    def _metadata(self, at: float, event: Mapping[str, Any]) -> None:
        self.metadata_fine, self.metadata_since = bool(event["fine"]), at

    def _slow(self, at: float, event: Mapping[str, Any]) -> None:
        self.slow_until = at + float(event["seconds"]) + 1.0

    def _wakes(self, at: float) -> None:
        self.awake_since = at
        for fault in self.standing.values():
            fault.stood = min(fault.stood, 0.0)

    def _remember(self, at: float, what: str) -> None:
        self.done.append((at, what))
        while self.done and at - self.done[0][0] > TIMELINE:
            self.done.popleft()
