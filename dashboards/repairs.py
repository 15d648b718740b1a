"""The board of repairs: what runs now and where, what is held back and why, and whether it helps."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards import links, panels, prometheus_rule, queries
from dashboards.panels import BAD, GOOD, NEUTRAL, WARNING, query
from dashboards.queries import REPAIRS

UID, TITLE = links.REPAIRS_UID, "nodeprep / Repairs"
ABOUT = (
    "What agents in mode repair do about faults: what runs now, what does not run and why, how it comes out, and which "
    "nodes wait for a human. Of now only agents speak that have looked lately."
)
STEP, NOW, LEFT = "nodeprep_repair_step", "nodeprep_repair_suppressed_now", "nodeprep_repair_tries_left"
RUNS, TOOK = "nodeprep_repair_runs_total", "nodeprep_repair_seconds_bucket"
CLOSED = "nodeprep_gate_closed_seconds"
IN_RANGE = "$__range"
ASKS_AGAIN = "3m"  # a node asks the fleet again each 30 s, and may come further meanwhile than before
# Of a row of "A human is to look": the tries that are left, or the state.
WAITS_BECAUSE = {"0": ("no try is left", BAD), "1": ("latched, or no remedy", WARNING)}
COLOURS = {"bootstrap": NEUTRAL, "unhealthy": BAD, "repair": GOOD}


def now(expression: str) -> str:
    """By the word of agents that speak."""
    return f"({queries.by_target(expression, queries.speaks(REPAIRS))})"


def number_of(expression: str) -> str:
    return queries.or_zero(f"count({expression})", REPAIRS)


def share_that_helped() -> str:
    """Of the attempts of the board's time that were judged with a plain result; none where there was none."""
    helped = f"sum({queries.counted(REPAIRS(RUNS, outcome='released'), IN_RANGE)})"
    judged = f"sum({queries.counted(REPAIRS(RUNS, outcome='~released|unreleased'), IN_RANGE)})"
    return f"({queries.or_zero(helped, REPAIRS)}) / ({judged} > 0)"


def mean_closed() -> str:
    """How long gates were closed that opened in an hour, by phase. Quantiles would ask three times as many series."""
    total, count = (f"sum by (phase) (increase({REPAIRS(f'{CLOSED}{part}')}[1h]))" for part in ("_sum", "_count"))
    return f"{total} / ({count} > 0)"


def board(runbooks: str = prometheus_rule.RUNBOOKS) -> Dashboard:
    """The board; `runbooks` is where docs/ of this version is served."""
    spent, human = f"{REPAIRS(LEFT)} == 0", f"{REPAIRS('nodeprep_state', state='AwaitingHuman')} == 1"
    asked_again = f"max_over_time({REPAIRS(NOW, reason='held')}[{ASKS_AGAIN}])"
    reasons = "What the reason means and what to run", f"{runbooks}/docs/repair-reasons.md#${{__value.raw}}"
    places = ("cluster", "pool", "zone")
    return panels.board(
        UID,
        TITLE,
        ABOUT,
        runbooks=runbooks,
        variables=[*panels.place_variables(), panels.variable("node", "Node", "up", places)],
        parts=[
            panels.number(
                "On their way",
                "Nodes with a remedy on its way now: from the first proof that the node is closed to the judgement.",
                query(number_of(now(REPAIRS(STEP))), "nodes"),
                steps=[(None, NEUTRAL)],
            ),
            panels.number(
                "Wait for a human",
                "Nodes in the state AwaitingHuman: a fault is latched, or no remedy helps. They stay closed.",
                query(number_of(now(human)), "nodes"),
                width=5,
                steps=[(None, GOOD), (1, BAD)],
            ),
            panels.number(
                "No try is left",
                "Nodes with a fault that has had its tries of the day, whatever else is wrong with them.",
                query(number_of(f"count by ({queries.TARGET}) ({now(spent)})"), "nodes"),
                width=5,
                steps=[(None, GOOD), (1, BAD)],
            ),
            panels.number(
                "Held remedies",
                "Remedies that no node runs any more because they did not help on three, and that some node waits for.",
                query(number_of(f"count by (cluster, remedy) ({now(asked_again)})"), "remedies"),
                width=5,
                steps=[(None, GOOD), (1, WARNING)],
            ),
            panels.number(
                "Helped",
                "In the time of the board: share of attempts after which the fault was gone. The others ran and left "
                'it. What was refused did not run, and a fault that changed is neither. "No data": none was judged.',
                query(share_that_helped(), "share", now=True),
                unit=panels.SHARE,
                width=5,
                steps=[(None, BAD), (0.5, WARNING), (0.9, GOOD)],
            ),
            panels.rows(
                "On its way now, and where it stands",
                "Nothing acts before the step ledger. A remedy that is held back asks again each 30 s, and is here "
                "meanwhile. Empty: nothing is on its way, or these agents are silent.",
                [query(now(REPAIRS(STEP)), now=True)],
                columns={name: name for name in ("node", "pool", "remedy", "check", "step")},
                links={"node": links.NODE},
            ),
            panels.rows(
                "A human is to look",
                "Faults without a try left, and nodes that wait for a human although some remedy has one, or none is "
                "known. Mend the cause, then: nodeprep nodes reset NODE. Empty: nobody waits, or these agents are "
                "silent.",
                [
                    query(
                        f"{now(spent)} or ({now(human)} unless on ({queries.TARGET}) {now(spent)})",
                        now=True,
                    )
                ],
                columns={**{name: name for name in ("node", "pool", "check", "remedy")}, "Value": "why"},
                words={"why": WAITS_BECAUSE},
                sort="node",
                descending=False,
                links={"node": links.NODE},
            ),
            panels.rows(
                "Held back now, and why",
                "Remedies that are due and do not run. The reason leads to what it means and who ends it. Empty: "
                "nothing is held back, or these agents are silent.",
                [query(now(REPAIRS(NOW)), now=True)],
                columns={name: name for name in ("node", "pool", "check", "remedy", "reason")},
                sort="reason",
                descending=False,
                links={"node": links.NODE, "reason": reasons},
            ),
            panels.lines(
                "Held back, by reason",
                "Remedies that are due on a node and do not run, by what holds them back (docs/repair-reasons.md). "
                "Empty: nothing is held back.",
                [query(f"sum by (reason) ({now(REPAIRS(NOW))})", "{{reason}}")],
                stacked=True,
                steps=True,
            ),
            panels.rows(
                "Outcomes by remedy",
                "In the time of the board. released: the fault is gone. changed: another fault is in the way now. "
                "unreleased: it stayed. refused: nothing ran. cut-off: nobody can judge it. Empty: none has ended.",
                [query(f"round(sum by (remedy, outcome) ({queries.counted(REPAIRS(RUNS), IN_RANGE)})) > 0", now=True)],
                columns={"remedy": "remedy", "outcome": "outcome", "Value": "times"},
                sort="times",
            ),
            panels.lines(
                "How long a repair takes",
                "Of the attempts that were judged in the last hour, from the ledger to the judgement: half took less "
                "than the one line, nine of ten less than the other. 35 s are our own caution. Empty: none was judged.",
                [
                    query(queries.quantile(share, f"sum by (le) (increase({REPAIRS(TOOK)}[1h]))"), name, ref=ref)
                    for ref, name, share in (("A", "half", 0.5), ("B", "nine of ten", 0.9))
                ],
                unit=panels.SECONDS,
                interval="10m",
                colours={"half": NEUTRAL, "nine of ten": WARNING},
            ),
            panels.lines(
                "How long gates were closed, by phase",
                "Of the gates that opened in the last hour: their mean time. repair: a remedy ran meanwhile. "
                "unhealthy: a fault, and none ran. bootstrap: a start, and none ran. Empty: no gate opened.",
                [query(mean_closed(), "{{phase}}")],
                unit=panels.SECONDS,
                width=24,
                interval="30m",
                colours=COLOURS,
            ),
        ],
    )
