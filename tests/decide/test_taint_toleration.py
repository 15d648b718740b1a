"""Who would not bear our taint: what was seen of it, and for how long that is believed."""

from __future__ import annotations

from math import inf

import pytest

from nodeprep import state_file
from nodeprep.agent import startup
from nodeprep.agent_state import AgentState
from nodeprep.decide import stored_state, taint_toleration
from nodeprep.decide.taint_toleration import ABSENT_LIMIT_SECONDS
from nodeprep.model import Finding, Status
from tests.agent_state_values import agent_state, finding

CHECK, SET, OTHER = "plugin.tolerates-gate", "kube-system/rdma-dp", "kube-system/nvidia-dp"
NO, YES, OTHERS_YES = (
    finding(CHECK, Status.WARN, place="pod-1", name=SET, reason="NotTolerated"),
    finding(CHECK, Status.OK, place="pod-2", name=SET),
    finding(CHECK, Status.OK, place="pod-3", name=OTHER),
)
BOOTSTRAP_ONLY = finding(CHECK, Status.WARN, place="pod-2", name=SET, reason="BootstrapNotTolerated")
GONE = finding(CHECK, Status.ABSENT, place="", port=None, name="node")
UNSEEN = finding(CHECK, Status.UNKNOWN, place="", port=None, name="node")


def lived(*looks: tuple[float, tuple[Finding, ...]], start: AgentState | None = None) -> AgentState:
    after = start or agent_state()
    for at, found in looks:
        after = taint_toleration.with_tolerations(after, found, at, full_round=True)
    return after


LOOKS: list[tuple[list[tuple[float, tuple[Finding, ...]]], bool]] = [
    # looks in turn, whether the taint may stand in the end
    ([], True),
    ([(100, (GONE,))], True),
    ([(100, (UNSEEN,))], True),
    ([(100, (NO,))], False),
    ([(100, (NO,)), (110, (YES,))], True),
    ([(100, (NO,)), (110, (BOOTSTRAP_ONLY,))], True),
    ([(100, (NO,)), (110, (NO, YES))], False),  # both live yet, as with maxSurge
    ([(100, (NO,)), (110, (GONE,))], False),  # its pod is being made anew
    ([(100, (NO,)), (110, (OTHERS_YES,))], False),  # of another DaemonSet
    ([(100, (NO,)), (110, (GONE,)), (709.9, (GONE,))], False),
    ([(100, (NO,)), (110, (GONE,)), (710, (GONE,))], True),
    ([(100, (NO,)), (110, ()), (710, ())], True),  # the check is not run any more
    ([(100, (NO,)), (110, (GONE,)), (400, (NO,)), (710, (GONE,))], False),
    ([(100, (NO,)), (110, (GONE,)), (400, (UNSEEN,)), (710, (GONE,))], False),
    ([(100, (NO,)), (110, (GONE,)), (400, (UNSEEN,)), (410, (GONE,)), (1010, (GONE,))], True),
    ([(100, (NO,)), (110, (UNSEEN,)), (2000, (UNSEEN,))], False),
]


@pytest.mark.parametrize(("looks", "borne"), LOOKS)
def test_who_was_seen_not_to_tolerate_it_is_believed(
    looks: list[tuple[float, tuple[Finding, ...]]], borne: bool
) -> None:
    after = lived(*looks)
    assert after.taint_tolerated is borne
    assert bool(taint_toleration.taint_hindrance(after)) is not borne


def test_before_the_first_full_round_nothing_is_known() -> None:
    before = lived((100, (NO,)), (110, (GONE,)))
    assert taint_toleration.with_tolerations(before, (), 5000.0, full_round=False) is before


def test_a_quiet_turn_changes_nothing() -> None:
    before = lived((100, (NO,)), (110, (GONE,)))
    assert lived((120, (GONE,)), start=before) is before


def test_a_memory_that_names_nobody_holds_as_long() -> None:
    before = agent_state(taint_tolerated=False)
    assert lived((100, (YES,)), (699, (YES,)), start=before).taint_tolerated is False
    assert lived((100, (YES,)), (700, (YES,)), start=before).taint_tolerated is True
    assert lived((100, (NO,)), start=before).intolerant == {SET: None}


def test_a_boot_counts_anew_who_is_gone() -> None:
    before = lived((100, (NO,)), (110, (GONE,)))
    assert before.intolerant == {SET: 110}
    for after in (stored_state.surviving_reboot(before), stored_state.without_future_times(before, 105.0)):
        assert (after.intolerant, after.taint_tolerated) == ({SET: None}, False)
    assert lived((700, (GONE,)), (1299, (GONE,)), start=stored_state.surviving_reboot(before)).taint_tolerated is False
    assert not stored_state.has_plausible_times(before, 105.0)
    assert state_file.loads(state_file.dumps(before)) == before


def test_an_agent_that_starts_again_and_again_lets_the_time_run_out() -> None:
    after = lived((100, (NO,)), (110, (GONE,)))
    for at in (300, 500, 700):
        after = lived((at, (GONE,)), start=startup.resumed(after))
        assert after.taint_tolerated is False
    assert lived((710, (GONE,)), start=startup.resumed(after)).taint_tolerated is True


SAID = [
    (agent_state(), ""),
    (
        agent_state(taint_tolerated=False, intolerant={SET: None}),
        f"no taint: {SET} does not tolerate it; see nodeprep explain",
    ),
    (
        agent_state(taint_tolerated=False, intolerant={SET: 1.0, OTHER: None}),
        f"no taint: {OTHER} and 1 more does not tolerate it",
    ),
    (agent_state(taint_tolerated=False), "no taint: a DaemonSet does not tolerate it"),
]


@pytest.mark.parametrize(("now", "words"), SAID)
def test_says_whose_pods_it_is_for(now: AgentState, words: str) -> None:
    assert taint_toleration.taint_hindrance(now)[: len(words)] == words
    assert bool(taint_toleration.taint_hindrance(now)) is bool(words)


def test_it_is_ten_minutes() -> None:
    assert ABSENT_LIMIT_SECONDS == 600


AGAIN = [
    # since when the taint ought to stand, when their pods were last looked at, whether they bear it, when to look again
    (None, 0.0, True, inf),
    (None, 0.0, False, inf),
    (1000.0, 400.0, True, 1000.0),  # what the taint rests on is ten minutes old
    (1000.0, 970.0, True, 1030.0),  # as it is here, but no oftener than once a minute
    (1000.0, 1000.0, True, inf),
    (1000.0, 1030.0, True, inf),  # once for each time that it is set
    (1000.0, 400.0, False, 1000.0),
    (1000.0, 970.0, False, 1030.0),
    (1000.0, 1030.0, False, 1090.0),  # each minute, until it may be set
    (1000.0, 5000.0, False, 5060.0),
]


@pytest.mark.parametrize(("since", "looked", "borne", "again"), AGAIN)
def test_what_a_taint_rests_on_is_looked_at(since: float | None, looked: float, borne: bool, again: float) -> None:
    seen = lived() if borne else lived((100, (NO,)))
    assert seen.taint_tolerated is borne
    assert taint_toleration.recheck_at(seen, since, looked) == again
