"""The fleet's board: which nodes can take a job now, and why the others cannot."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards import links, panels, prometheus_rule, queries
from dashboards.panels import BAD, GOOD, NEUTRAL, UNKNOWN, WARNING, query
from dashboards.queries import FLEET

UID, TITLE = "nodeprep-fleet", "nodeprep / Fleet"
PROFILE = "~$profile"
PLACES = ("profile", "zone", "instance_type")
PLACE = ", ".join(PLACES)
REASON = "check, reason, runbook"
ABOUT = (
    "Which nodes can take a training job now, and why the others cannot. A node whose agent is silent counts as "
    "unknown, never as ready."
)
DETECTION = "nodeprep_detection_seconds_bucket"


def board(runbooks: str = prometheus_rule.RUNBOOKS) -> Dashboard:
    """The board; `runbooks` is where docs/ of this version is served."""
    ready, closed = queries.can_take_a_job(FLEET, PROFILE), queries.cannot(FLEET, PROFILE)
    silent = queries.silent(FLEET)
    why_not = panels.with_runbook(queries.why_not(FLEET, profile=PROFILE))
    variables = [*panels.place_variables(), panels.variable("profile", "Profile", "nodeprep_ready")]
    return panels.board(
        UID,
        TITLE,
        ABOUT,
        runbooks=runbooks,
        variables=variables,
        parts=[
            panels.number(
                "Can take a job",
                "Nodes that are ready for all of their chosen profiles, by an agent that has looked in the last "
                f"{queries.HANGS_SECONDS} s.",
                query(queries.or_zero(f"count({ready})", FLEET), "nodes"),
                steps=[(None, BAD), (1, GOOD)],
            ),
            panels.number(
                "Cannot",
                "Nodes that are not ready for at least one of the chosen profiles. The tables below say why.",
                query(queries.or_zero(f"count({closed})", FLEET), "nodes"),
                steps=[(None, GOOD), (1, BAD)],
            ),
            panels.number(
                "Unknown: agent silent",
                "Nodes of which nobody knows: the agent does not answer Prometheus, or has ended no round for "
                f"{queries.HANGS_SECONDS} s. Their gates stand as they stood.",
                query(queries.or_zero(f"count({silent})", FLEET), "nodes"),
                steps=[(None, GOOD), (1, WARNING)],
            ),
            panels.number(
                "Node-hours lost",
                "In the time of the board: hours in which nodes were not ready for a chosen profile, or in which "
                "nobody knew because their agent was silent. Each node counts once.",
                query(queries.node_hours_lost(FLEET, PROFILE), "hours", now=True),
                unit=panels.HOURS,
                width=6,
                steps=[(None, NEUTRAL)],
            ),
            panels.number(
                "From fault to conviction",
                "In the time of the board: nine of ten faults were convicted within this time of the first look at "
                'them, and then their gates closed. "No data" means that no fault was convicted.',
                query(queries.quantile(0.9, f"sum by (le) (increase({FLEET(DETECTION)}[$__range]))"), "90 %", now=True),
                unit=panels.SECONDS,
                width=6,
                steps=[(None, NEUTRAL)],
            ),
            panels.lines(
                "Nodes over time",
                "The same three numbers. A node without a chosen profile is in none. A dead agent moves its "
                "node from one of the first two to the third.",
                [
                    query(queries.or_zero(f"count({ready})", FLEET), "can take a job", ref="A"),
                    query(queries.or_zero(f"count({closed})", FLEET), "cannot", ref="B"),
                    query(queries.or_zero(f"count({silent})", FLEET), "unknown", ref="C"),
                ],
                colours={"can take a job": GOOD, "cannot": BAD, "unknown": UNKNOWN},
                stacked=True,
                steps=True,
            ),
            panels.lines(
                "Checks that fail",
                "Nodes by the check that fails on them. What follows from another fault is not counted. Empty: no "
                "check fails anywhere.",
                [query(f"count by (check) ({FLEET('nodeprep_check_status', status='fail')} == 1)", "{{check}}")],
                steps=True,
            ),
            panels.rows(
                "Why not: nodes by reason",
                "What keeps gates closed now: the check, its reason, and how many nodes of a pool have it. One reason "
                "on many nodes of one pool is a switch, a driver version or a configuration. Empty: every gate is "
                "open.",
                [
                    query(
                        f"count by ({REASON}, pool) (count by ({queries.TARGET}, {REASON}, pool) ({why_not}))",
                        now=True,
                    )
                ],
                columns={
                    **{name: name for name in ("check", "reason", "pool", "runbook")},
                    "Value": "nodes",
                },
                sort="nodes",
                links={"runbook": panels.runbook(runbooks)},
            ),
            panels.rows(
                "By profile, zone and instance type",
                "Nodes with a profile, and those that are ready for it. A node with two profiles is in two rows.",
                [
                    query(f"count by ({PLACE}) ({FLEET('nodeprep_ready', profile=PROFILE)})", now=True, ref="A"),
                    query(
                        f"count by ({PLACE}) ({queries.can_take_a_job(FLEET, PROFILE, *PLACES)}) "
                        f"or count by ({PLACE}) ({FLEET('nodeprep_ready', profile=PROFILE)}) * 0",
                        now=True,
                        ref="B",
                    ),
                ],
                columns={
                    "profile": "profile",
                    "zone": "zone",
                    "instance_type": "instance type",
                    "Value #A": "nodes",
                    "Value #B": "can take a job",
                },
                sort="nodes",
            ),
            panels.rows(
                "Nodes that cannot take a job",
                "Each with its reason, and links to its own board, to its repairs and to the runbook of its check. A "
                "second row of a node is another reason. Empty: every gate is open.",
                [query(f"count by (node, pool, {REASON}) ({why_not})", now=True)],
                columns={name: name for name in ("node", "pool", "check", "reason", "runbook")},
                links={"node": links.NODE, "check": links.REPAIRS, "runbook": panels.runbook(runbooks)},
            ),
            panels.rows(
                "Nodes of which nothing is known",
                "Their agent does not answer, or has stopped looking. kubectl -n nodeprep get pods -o wide says what "
                "it is. Empty: every agent speaks.",
                [query(silent, now=True)],
                columns={
                    "node": "node",
                    "instance": "address",
                    "pool": "pool",
                    "zone": "zone",
                    "Value": "agent",
                },
                words={"agent": {"0": ("silent", BAD), "1": ("hangs", WARNING)}},
                links={"node": links.NODE},
            ),
            panels.rows(
                "Devices that fail again and again",
                "Devices that the same check convicted in many different hours of the last days, and that passed each "
                "time: nodeprep history on the node shows when. Empty: none does.",
                [query(FLEET("nodeprep_repeat_offender"), now=True)],
                columns={"node": "node", "device": "device", "check": "check", "pool": "pool", "Value": "hours"},
                sort="hours",
                links={"node": links.NODE},
                width=24,
            ),
        ],
    )
