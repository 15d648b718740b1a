"""One node's board: all of it on one screen."""

from __future__ import annotations

from collections.abc import Collection

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards import links, panels, prometheus_rule, queries
from dashboards.panels import BAD, GOOD, NEUTRAL, UNKNOWN, WARNING, query
from dashboards.queries import NODE, Scope

UID, TITLE = links.NODE_UID, "nodeprep / Node"
ABOUT = "One node: whether it can take a job, what is wrong with it, its rails, its ENIs and its devices."
STATES = {
    "Ready": GOOD,
    "Bootstrap": NEUTRAL,
    "Unhealthy": BAD,
    "Repairing": WARNING,
    "Validating": "#56B4E9",
    "AwaitingHuman": "#CC79A7",
}
ENIS = {
    "primary": NEUTRAL,
    "shared": GOOD,
    "pod": "#56B4E9",
    "rdma": "#CC79A7",
    "free": "#F0E442",
    "missing": BAD,
    "ghost": WARNING,
    "unknown": UNKNOWN,
}
STATUS = {"fail": ("fail", BAD), "unknown": ("unknown", UNKNOWN), "warn": ("warn", WARNING), "ok": ("ok", GOOD)}
# What is wrong with the agent itself where it is 0.
OWN = {
    "nodeprep_config_ok": "an older configuration holds",
    "nodeprep_state_file_ok": "the state file is not kept",
    "nodeprep_gate_files_ok": "gate files say what is not so",
    "nodeprep_node_ok": "Node or Lease are not written",
    "nodeprep_admission_policy_ok": "no admission policy is enforced",
    "nodeprep_mounts_ok": "more of the node is writable than should be",
    "nodeprep_taint_ok": "the taint is withheld",
}


def trouble(scope: Scope, *, besides: Collection[str] = ()) -> str:
    """What is wrong with agents, in words: a series for each of an agent. `besides` are metrics that are left out."""
    told = {f"{scope(name)} == 0": words for name, words in OWN.items() if name not in besides}
    told[f"{scope('nodeprep_upgrade_deferred_checks')} > 0"] = "a new version holds a rollout up"
    each = [f'label_replace({asked}, "trouble", "{words}", "", "")' for asked, words in told.items()]
    dead = f"{scope('nodeprep_event_source_up')} == 0"
    each.append(f'label_replace({dead}, "trouble", "events of $1 are not heard", "event_source", "(.*)")')
    return " or ".join(each)


def board(runbooks: str = prometheus_rule.RUNBOOKS) -> Dashboard:
    """The board; `runbooks` is where docs/ of this version is served."""
    variables = [
        panels.variable("cluster", "Cluster", "up"),
        panels.variable("node", "Node", "up", ("cluster",), many=False),
    ]
    age = f"time() - {NODE('nodeprep_last_round_timestamp_seconds')}"
    return panels.board(
        UID,
        TITLE,
        ABOUT,
        runbooks=runbooks,
        variables=variables,
        parts=[
            panels.number(
                "Ready for (profiles)",
                "Profiles that this node is ready for. Red: for none of its profiles, or its agent is silent.",
                query(
                    queries.or_zero(f"count({queries.can_take_a_job(NODE, '~.*', 'profile')})", NODE),
                    "profiles",
                ),
                steps=[(None, BAD), (1, GOOD)],
                height=8,
            ),
            panels.number(
                "Last look (ago)",
                f"Seconds since the agent ended a round. Above {queries.HANGS_SECONDS} s it looks at nothing, and what "
                'is shown here is old. "No data": the agent does not answer.',
                query(age, "ago"),
                unit=panels.SECONDS,
                steps=[(None, GOOD), (queries.HANGS_SECONDS, BAD)],
                height=8,
            ),
            panels.rows(
                "Why not? More by: nodeprep check",
                "What keeps each closed gate closed. `nodeprep check` on the node, and `nodeprep explain CHECK`, say "
                "more. Empty: every gate is open, or the agent is silent.",
                [query(panels.with_runbook(queries.why_not(NODE)), now=True)],
                columns={name: name for name in ("profile", "check", "reason", "runbook")},
                links={"check": links.REPAIRS_HERE, "runbook": panels.runbook(runbooks)},
                width=8,
                height=8,
            ),
            panels.rows(
                "What is wrong with the agent",
                "Trouble of nodeprep itself on this node, each with an alert and a runbook. Empty: none.",
                [query(trouble(NODE), now=True)],
                columns={"trouble": "trouble"},
                width=8,
                height=8,
            ),
            panels.lines(
                "State over time",
                "What the agent is about with the node. A gap longer than a point is a time in which it did not "
                "answer.",
                [query(f"{NODE('nodeprep_state')} == 1", "{{state}}")],
                colours=STATES,
                steps=True,
                values=False,
            ),
            panels.rows(
                "Checks",
                "The worst of each check now that is not fine. What is waived or follows from another fault is left "
                "out. Empty: every check is fine, or the agent is silent.",
                [query(f"{NODE('nodeprep_check_status', status='!ok')} == 1", now=True)],
                columns={"check": "check", "status": "status"},
                words={"status": STATUS},
            ),
            panels.rows(
                "Rails",
                "RDMA ports: whether each is ACTIVE, and its rate as the link came up. Empty: the node has none.",
                [
                    query(NODE("nodeprep_port_up"), now=True, ref="A"),
                    query(f"{NODE('nodeprep_port_rate_bytes')} * 8", now=True, ref="B"),
                ],
                columns={"device": "device", "port": "port", "Value #A": "active", "Value #B": "rate"},
                units={"rate": panels.BITS},
                words={"active": {"1": ("yes", GOOD), "0": ("no", BAD)}},
                sort="active",
                descending=False,
            ),
            panels.lines(
                "Errors of rails",
                'Errors per second that ports count, by kind (docs/metrics.md): "link-lost" and "bits" are the cable '
                'or the optics, "gave-up" ends jobs, "retry" is congestion. Empty: the node has no RDMA port.',
                [
                    query(
                        "sum by (device, port, kind) "
                        f"(rate({NODE('nodeprep_port_errors_total')}[$__rate_interval])) > 0",
                        "{{device}}/{{port}} {{kind}}",
                    )
                ],
                unit=panels.RATE,
            ),
            panels.rows(
                "Resources",
                "Extended resources: devices of the node, what the Node says, and units that pods hold. Allocatable "
                "below capacity is a device that its plugin calls unhealthy. A resource that is shared has more units "
                "than devices. Empty: the agent has no access to the API server, or the Node has none.",
                [
                    query(f"sum by (resource) ({NODE('nodeprep_resource', book=book)})", now=True, ref=ref)
                    for ref, book in zip("ABCD", ("hardware", "capacity", "allocatable", "in_use"), strict=True)
                ],
                columns={
                    "resource": "resource",
                    "Value #A": "devices",
                    "Value #B": "capacity",
                    "Value #C": "allocatable",
                    "Value #D": "in use",
                },
            ),
            panels.lines(
                "ENIs",
                "Elastic network interfaces of an ECS instance, by what they are for (docs/metrics.md). `missing` and "
                "`ghost` are faults. Empty: this is no ECS instance, or its metadata does not answer.",
                [query(f"{NODE('nodeprep_eni')} > 0", "{{state}}")],
                colours=ENIS,
                steps=True,
            ),
            panels.lines(
                "Slowest looks of the agent",
                "How long the newest looks at the slowest facts took. A disk, a driver or a server that hangs "
                "shows here first. Empty: each took less than a millisecond.",
                [query(f"topk(5, {NODE('nodeprep_fact_seconds')})", "{{fact}}")],
                unit=panels.SECONDS,
            ),
            panels.lines(
                "What the agent takes",
                "Its processor time, as seconds per second.",
                [query(f"rate({NODE('process_cpu_seconds_total')}[$__rate_interval])", "processor")],
                unit=panels.SHARE,
                width=12,
            ),
        ],
    )
