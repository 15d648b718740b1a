"""What the agent knows after a round, as one value. Metrics, pages and gate files are made only from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodeprep.agent_state import AgentState
from nodeprep.decide.desired import Desired
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.rule_change import RuleChange
from nodeprep.doors.events.listener import EventSourceState
from nodeprep.history.repeat_offenders import RepeatOffender
from nodeprep.model import Report
from nodeprep.publish.repair_status import NO_REPAIR, RepairStatus
from nodeprep.values import Value, field, replace

NOT_ENFORCED = (
    "this cluster does not keep the agent from other Nodes and Leases (nodeprep_admission_policy_ok 0): apply the "
    "admission policy"
)

MOUNTS_IN_MESSAGE = 3  # mount points that a message names


def exposed_mounts_message(exposed: Sequence[str]) -> str:
    """The message about mount points of the node that the agent could write and should not. "" if none."""
    if not exposed:
        return ""
    more = f" and {len(exposed) - MOUNTS_IN_MESSAGE} more" if len(exposed) > MOUNTS_IN_MESSAGE else ""
    where = f"{', '.join(exposed[:MOUNTS_IN_MESSAGE])}{more}"
    return f"a taken-over agent could write {where} (nodeprep_mounts_ok 0): containerd before 2.0 leaves that open"


class ApiStatus(Value):
    """What the API server has of the agent's writes.

    `trouble` is why the Node or the Lease does not say what it should, "" if it does. `denied` is the part of it that
    policies deny. It is not tried again before the configuration changes. `policy_enforced`: whether the cluster keeps
    the agent from what is not its own. It is None until that was tested.
    """

    trouble: str = ""
    denied: str = ""
    policy_enforced: bool | None = None

    @property
    def for_condition(self) -> str:
        """What the Node's condition says of it: what others can mend."""
        return "; ".join(filter(None, (self.denied, NOT_ENFORCED if self.policy_enforced is False else "")))


class NodeStatus(Value):
    """The result of one round.

    `facts` are the newest observations by kind, an Unreadable if one failed. `fact_seconds` is how long each took, by
    the name that a configuration has for it. `round_time` is wall time in seconds since 1970, for people. `at` is the
    same moment in CLOCK_BOOTTIME seconds, for ages. `rounds` counts from this start. `complete`: every fact was looked
    at once since the start. `store_trouble`, `config_trouble` and `gate_trouble` are "" if all is well. `exposed` are
    mount points of the node that the agent could write and should not. `api_status` is None if the agent has no access
    to an API server.

    `deferred` are ids of checks with a conviction that only new rules see and that closes no gate yet.
    `rule_disagreements` are these and the ones that close a gate by now. `pending_gates` are gates that are new in
    these rules and have not passed yet. `rollout_blockers` is what closed a gate that was open before. `suspected` is
    what failed and is looked at again. `drill` is the one that runs now. `repeat_offenders` are devices that were
    convicted in many different hours. `repair` is what the agent's repairs
    are about. `api_requests` counts requests to the API server, by verb and HTTP code. `cut_off` are the ids of
    attempts that the start of this agent ended, because they were of another boot.
    """

    report: Report
    desired: Desired
    agent_state: AgentState
    mode: Mode
    facts: Mapping[type, object]
    fact_seconds: Mapping[str, float] = field(default_factory=dict)
    round_time: float = 0.0
    rounds: int = 0
    complete: bool = False
    store_trouble: str = ""
    config_trouble: str = ""
    gate_trouble: str = ""
    exposed: tuple[str, ...] = ()
    api_status: ApiStatus | None = None
    deferred: tuple[str, ...] = ()
    rule_disagreements: tuple[str, ...] = ()
    pending_gates: tuple[str, ...] = ()
    rollout_blockers: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    drill: DrillNotice | None = None
    repeat_offenders: tuple[RepeatOffender, ...] = ()
    waivers: int = 0
    event_sources: Mapping[str, EventSourceState] = field(default_factory=dict)
    repair: RepairStatus = NO_REPAIR
    api_requests: Mapping[tuple[str, str], int] = field(default_factory=dict)
    at: float = 0.0
    cut_off: tuple[str, ...] = ()

    @property
    def former_agent_state(self) -> AgentState:
        """In the first round: the agent state as the former life left it, without what this start ended."""
        kept = tuple(one for one in self.agent_state.attempts if one.id not in self.cut_off)
        return replace(self.agent_state, attempts=kept)

    @property
    def rollout_wait_count(self) -> int:
        """What a rollout waits for: faults that only the new rules see, blockers, suspects and new gates."""
        return len({*self.rule_disagreements, *self.rollout_blockers, *self.suspected, *self.pending_gates})

    @property
    def new_rules(self) -> RuleChange:
        """Which rules came last: a version, a configuration or both."""
        return RuleChange.of(self.agent_state.rule_change)

    @property
    def taint_ok(self) -> bool:
        """Whether our taint is set if it is due, so that it is not withheld because of a plugin."""
        return not self.desired.taint_hindrance
