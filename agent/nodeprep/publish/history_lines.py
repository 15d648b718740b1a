"""Which lines of the log a node's history keeps, and as what: transitions, without what is only of use at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nodeprep.agent_state import AgentState, Case
from nodeprep.decide.attempt_steps import AttemptStep
from nodeprep.history.node_record import BOOT_DIGITS, CONVICTED, STILL_CONVICTED, NodeRecord
from nodeprep.publish.log_lines import LogEntry

# What a human may do is in the log and in `check`; what is planned did not happen; the keys of a configuration have a
# record of their own, without their values.
PASSED_OVER = frozenset({"would-run", "configuration-read", "history-trouble", "history-fine-again"})
PASSED_OVER_PREFIXES = ("event-source-",)
PASSED_OVER_FIELDS = frozenset({"fix", "boot_id", "drill_session"})


def records(
    entries: Iterable[LogEntry], agent_state: AgentState, time: float, at: float, began: float = 0.0
) -> Iterator[NodeRecord]:
    """The records of these lines. `time` is wall time, `at` CLOCK_BOOTTIME, `began` when this agent started.

    A conviction from before the start is told again by the log, and is no second conviction.
    """
    convicted = {(case.check, case.subject.key): case for case in agent_state.cases}
    for one in entries:
        is_passed_over = one.event in PASSED_OVER or one.event.startswith(PASSED_OVER_PREFIXES)
        if is_passed_over or one.fields.get("step", AttemptStep.RUNNING) != AttemptStep.RUNNING:
            continue  # of the steps of a repair only that it runs
        fields = {name: value for name, value in one.fields.items() if name not in PASSED_OVER_FIELDS and value != ""}
        if one.event == "config-trouble":
            fields = {}  # its message quotes the configuration
        event = STILL_CONVICTED if one.event == CONVICTED and _is_older(one.fields, convicted, began) else one.event
        yield NodeRecord(time, at, agent_state.boot_id[:BOOT_DIGITS], event, fields)


def _is_older(fields: Mapping[str, object], cases: Mapping[tuple[str, str], Case], began: float) -> bool:
    case = cases.get((str(fields.get("check", "")), str(fields.get("place", ""))))
    return case is not None and case.convicted_at is not None and case.convicted_at < began
