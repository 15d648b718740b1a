"""A history as a person reads it: a line for each incident, and each other thing that happened between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nodeprep.cli.history import moment
from nodeprep.cli.history.history_reading import ALIVE_SECONDS, HistoryReading
from nodeprep.history import fold_counts, incidents, record_words, timeline
from nodeprep.history.incidents import CLOSED_EVENTS, Incident, Selection
from nodeprep.history.node_record import BASE, CONVICTED, READY, RELEASED, STARTED, STILL_CONVICTED, NodeRecord
from nodeprep.history.node_state import OpenCase
from nodeprep.history.timeline import Now, StateAt

ARROW = " -> "
CASES_SHOWN = 2  # convictions that one incident names; `-o wide` has them all
STEPS_SHOWN = 8  # steps of an incident; the middle ones of more are counted
WHY_CHARACTERS = 100


def page(reading: HistoryReading, wanted: Selection, *, wide: bool) -> list[str]:
    """The whole timeline, oldest first, then what is missing from it."""
    records = reading.single
    shown = incidents.selected(incidents.grouped(records), wanted)
    gaps = timeline.unseen_ends(records)
    lines: list[str] = []
    for one in shown:
        first = one.records[0]
        if first.event == STARTED and (former := gaps.get((first.boot, first.at))) is not None:
            lines.append(_gap(former, first))
        if wide:
            lines += [
                f"{moment.stamp(record.time)}  {record_words.words(record)}{_why(record)}" for record in one.records
            ]
        else:
            lines.append(_line(one, reading.now))
    older = list(_counts(reading.counts, wanted))
    head = ["before that, by day:", *older, ""] if older else []
    asked = "of that device and check " if wanted.is_narrow else ""
    nothing = f"nothing {asked}is in this history{' since then' if wanted.since else ''}"
    boots = frozenset(record.boot for one in shown for record in one.records)
    return [title(reading), *head, *(lines or [nothing]), *notes(reading, boots)]


def title(reading: HistoryReading) -> str:
    """Whose history this is, since when, and whether its agent runs."""
    since, now = reading.kept_since, reading.now
    kept = f", each record since {moment.stamp(since)}" if since is not None else ""
    return f"{reading.node or 'this node'}, times in UTC{kept}; now {moment.stamp(now.time)}, {_agent(now)}"


def _agent(now: Now) -> str:
    if now.alive_at is None:
        return "and nobody knows whether the agent ran after its last record"
    silent = now.at - now.alive_at
    return "the agent runs" if silent < ALIVE_SECONDS else f"no agent has watched for {moment.span(silent)}"


def _gap(former: NodeRecord, start: NodeRecord) -> str:
    """The line of an agent that ended without a word, and what came after it."""
    how = "a boot without a shutdown" if former.boot != start.boot else "the agent ended unseen"
    return f"{moment.stamp(former.time)}  last record before {how}; nobody watched until {moment.stamp(start.time)}"


def notes(reading: HistoryReading, boots: frozenset[str]) -> list[str]:
    """What of the history is missing or doubtful, for people. Of clocks only those of these boots."""
    found = []
    if reading.is_torn:
        found.append("the last line is torn: it was being written when its writer ended")
    if reading.bad_lines:
        one = reading.bad_lines == 1
        told = "1 line is no record and is" if one else f"{reading.bad_lines} lines are no records and are"
        found.append(f"{told} passed over")
    found += [_step(*one) for one in reading.clock_steps if one[0] in boots]
    return [f"note: {one}" for one in found]


def _step(boot: str, at: float, step: float) -> str:
    way = "forward" if step > 0 else "back"
    return (
        f"the clock was set {way} by {moment.span(abs(step))} in boot {boot}, before {moment.stamp(at)}; times "
        "of that boot are shown as the later clock has them, and those of other boots are as they were"
    )


def past_page(reading: HistoryReading, past: StateAt) -> list[str]:
    """Whether the node was ready then, what was open, and what changed in the half hour before."""
    head = f"{reading.node or 'this node'} at {moment.stamp(past.then)} UTC"
    if past.unknown:
        lines = [f"{head}: NOBODY KNOWS: {past.unknown}"]
        if past.last is not None:
            was = ", ".join(past.state.ready) or "no profile"
            lines.append(f"last known at {moment.stamp(past.last.time)}: state {past.state.state}, ready for {was}")
    else:
        state = past.state
        ready = state.ready
        closed = [name for name in state.profiles if name not in ready]
        word = "READY" if ready and not closed else "NOT READY" if state.profiles else "NO PROFILE"
        lines = [f"{head}: {word}"]
        lines += [_profile(name, *one) for name, one in state.profiles.items()]
        lines += [f"state     {state.state} since {moment.stamp(state.state_since)}{_because(state.why)}"]
        lines += [f"open      {_case(one)}" for one in state.cases.values()]
        lines += [f"mode      {state.mode}"] if state.mode else []
        lines += [f"version   {state.version}, configuration {state.configuration or 'unknown'}"]
    before = [f"  {moment.clock_time(one.time)}  {record_words.words(one)}" for one in past.before]
    return [*lines, "in the 30 minutes before:", *(before or ["  no record"])]


def _profile(name: str, is_ready: bool, since: float) -> str:
    return f"profile   {name}: {'open' if is_ready else 'closed'} since {moment.stamp(since)}"


def _case(one: OpenCase) -> str:
    named = filter(None, (one.check, one.reason, one.name or one.place))
    return f"{' '.join(named)} since {moment.stamp(one.since)}"


def _because(why: str) -> str:
    return f": {why[:WHY_CHARACTERS]}" if why else ""


def _line(one: Incident, now: Now) -> str:
    """One incident in one line: what was convicted, what it brought and when, and how long it took."""
    if len(one.records) == 1 and one.ended is not None:
        return f"{moment.stamp(one.began)}  {record_words.words(one.records[0])}{_why(one.records[0])}"
    convicted = one.convictions
    more = f" (+{len(convicted) - CASES_SHOWN})" if convicted[CASES_SHOWN:] else ""
    causes = ", ".join(record_words.words(record) for record in convicted[:CASES_SHOWN])
    steps = list(_steps(one.records, one.began))
    if len(steps) > STEPS_SHOWN:
        middle = len(steps) - STEPS_SHOWN + 1
        steps = [*steps[: STEPS_SHOWN // 2], f"... {middle} more ...", *steps[-(STEPS_SHOWN // 2 - 1) :]]
    if one.ended is not None:
        steps[-1:] = [f"{step} (all in {moment.span(one.ended - one.began)})" for step in steps[-1:]]
    elif now.alive_at is not None and now.at - now.alive_at < ALIVE_SECONDS:
        steps.append(f"still so after {moment.span(now.time - one.began)}")
    else:
        steps.append(f"no end is recorded; nobody is known to have watched after {moment.stamp(one.records[-1].time)}")
    return f"{moment.stamp(one.began)}  {ARROW.join([causes + more, *steps])}"


def _steps(records: Sequence[NodeRecord], began: float) -> Iterator[str]:
    """What an incident brought; states are left out: they say again what gates and convictions say."""
    for one in records:
        is_same_day = moment.stamp(one.time)[:10] == moment.stamp(began)[:10]
        time = moment.clock_time(one.time) if is_same_day else moment.stamp(one.time)
        if one.event in (READY, *CLOSED_EVENTS):
            how = "open" if one.event == READY else "closed" if one.event == CLOSED_EVENTS[0] else "open for plugins"
            yield f"gate {how} {time}"
        elif one.event == RELEASED:
            yield f"passes {time}"
        elif one.event == STARTED:
            yield f"agent started {time}"
        elif one.event not in (CONVICTED, STILL_CONVICTED, "state", BASE):
            yield f"{record_words.words(one)} {time}"


def _why(record: NodeRecord) -> str:
    why = record.text("message") or record.text("why")
    return f": {why[:WHY_CHARACTERS]}" if why and not record.event.startswith("repair-") else ""


def _counts(counts: Iterable[NodeRecord], wanted: Selection) -> Iterator[str]:
    """How often each case was convicted, a line for each day."""
    days: dict[float, dict[str, int]] = {}
    for record in counts:
        if record.time + float(record.fields.get("seconds", 0)) < wanted.since:
            continue
        day = days.setdefault(record.time // 86400 * 86400, {})
        for case, count in fold_counts.counts_of(record).items():
            check, place, *_ = [*case.split(" "), ""]
            named = NodeRecord(record.time, 0.0, record.boot, CONVICTED, {"check": check, "place": place})
            if count.convicted and (not wanted.is_narrow or wanted.means(named)):
                day[case] = day.get(case, 0) + count.convicted
    for day_began, cases in days.items():
        ranked = sorted(cases.items(), key=lambda one: (-one[1], one[0]))
        told = ", ".join(f"{case} {times} times" for case, times in ranked[:CASES_SHOWN])
        more = f" and {len(ranked) - CASES_SHOWN} more" if ranked[CASES_SHOWN:] else ""
        yield f"{moment.stamp(day_began)[:10]}           {told or 'no conviction'}{more}"
