"""The board of the agents themselves: versions, who holds a rollout up, what is wrong with them, what they cost."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards import links, node, panels, prometheus_rule, queries
from dashboards.panels import BAD, GOOD, WARNING, query
from dashboards.queries import FLEET

UID, TITLE = "nodeprep-rollout", "nodeprep / Rollout"
ABOUT = "The agents: which versions run, which nodes hold a rollout up, what is wrong with agents, and what they cost."


def board(runbooks: str = prometheus_rule.RUNBOOKS) -> Dashboard:
    """The board; `runbooks` is where docs/ of this version is served."""
    troubled = node.trouble(FLEET)
    # A runtime before containerd 2 leaves mounts open on each node: that is told, and counts as no trouble.
    troubles = node.trouble(FLEET, besides=["nodeprep_mounts_ok"])
    return panels.board(
        UID,
        TITLE,
        ABOUT,
        runbooks=runbooks,
        variables=panels.place_variables(),
        parts=[
            panels.number(
                "Agents that answer",
                "Of the nodes that Prometheus knows.",
                query(queries.or_zero(f"count({FLEET('up')} == 1)", FLEET), "agents"),
                width=6,
                steps=[(None, BAD), (1, GOOD)],
            ),
            panels.number(
                "Agents that do not",
                "Prometheus asked them, and had no answer.",
                query(queries.or_zero(f"count({FLEET('up')} == 0)", FLEET), "agents"),
                width=6,
                steps=[(None, GOOD), (1, BAD)],
            ),
            panels.number(
                "Nodes that hold a rollout up",
                "There the new version sees a fault that the old one did not, or a new gate has not passed yet. Their "
                "agents are not ready, so Kubernetes waits.",
                query(queries.or_zero(f"count({FLEET('nodeprep_upgrade_deferred_checks')} > 0)", FLEET), "nodes"),
                width=6,
                steps=[(None, GOOD), (1, WARNING)],
            ),
            panels.number(
                "Agents with trouble",
                "At least one of the troubles in the table below, mounts left out.",
                query(queries.or_zero(f"count(count by ({queries.TARGET}) ({troubles}))", FLEET), "agents"),
                width=6,
                steps=[(None, GOOD), (1, WARNING)],
            ),
            panels.lines(
                "Versions",
                "Agents by version. In a rollout one line falls and another rises.",
                [query(f"count by (version) ({FLEET('nodeprep_build_info')})", "{{version}}")],
                stacked=True,
                steps=True,
            ),
            panels.rows(
                "Who holds it up",
                "Nodes, and how many checks are new there, or see what the former version did not. Empty: nobody.",
                [query(f"{FLEET('nodeprep_upgrade_deferred_checks')} > 0", now=True)],
                columns={"node": "node", "pool": "pool", "zone": "zone", "Value": "checks"},
                sort="checks",
                links={"node": links.NODE},
            ),
            panels.rows(
                "Trouble of agents",
                "What does not stand as it should, by node. Each has an alert and a runbook. Empty: all is well.",
                [query(troubled, now=True)],
                columns={"node": "node", "trouble": "trouble", "pool": "pool", "zone": "zone"},
                links={"node": links.NODE},
            ),
            panels.lines(
                "Event sources",
                "Agents that do not hear an event source of the kernel: they find such faults later, by polling. "
                "Empty: all hear all.",
                [query(f"count by (event_source) ({FLEET('nodeprep_event_source_up')} == 0)", "{{event_source}}")],
                steps=True,
            ),
            panels.lines(
                "API requests",
                "Requests of all agents to the API server, by verb and code. 422 once a minute and agent is the "
                'wanted test of the admission policy. "none" had no answer. Empty: no agent has access to an API '
                "server.",
                [
                    query(
                        f"sum by (verb, code) (rate({FLEET('nodeprep_api_requests_total')}[$__rate_interval])) > 0",
                        "{{verb}} {{code}}",
                    )
                ],
                unit="reqps",
            ),
            panels.lines(
                "States",
                "Nodes by what their agent is about.",
                [query(f"count by (state) ({FLEET('nodeprep_state')} == 1)", "{{state}}")],
                colours=node.STATES,
                stacked=True,
                steps=True,
            ),
            panels.lines(
                "Memory of agents",
                "Resident memory: the highest, and the average.",
                [
                    query(f"max({FLEET('process_resident_memory_bytes')})", "highest", ref="A"),
                    query(f"avg({FLEET('process_resident_memory_bytes')})", "average", ref="B"),
                ],
                unit=panels.BYTES,
            ),
            panels.lines(
                "Processor of agents",
                "Share of one core: the highest, and the average.",
                [
                    query(f"max(rate({FLEET('process_cpu_seconds_total')}[$__rate_interval]))", "highest", ref="A"),
                    query(f"avg(rate({FLEET('process_cpu_seconds_total')}[$__rate_interval]))", "average", ref="B"),
                ],
                unit=panels.SHARE,
            ),
        ],
    )
