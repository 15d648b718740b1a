"""What is believed after which looks: convictions, releases, latches, proofs, and when the next look is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.agent_state import AgentState, BlindSince, Case, NodeState, PassStreak
from nodeprep.decide import fault_confirmation
from nodeprep.decide.fault_confirmation import ConfirmationPolicy
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.model import Check, Confirmation, Finding, Remedy, Severity, Status
from nodeprep.values import replace
from tests.agent_state_values import BLIND, PLACE, WAIVED, agent_state, case, check, checks, finding, observation

POLICY = ConfirmationPolicy()
WORDS = {"F": Status.FAIL, "P": Status.OK, "U": Status.UNKNOWN, "W": Status.WARN, "A": Status.ABSENT}
NODE: dict[str, Any] = {"place": "", "port": None, "name": "node"}
SEVERAL: dict[str, Any] = {"place": "*", "port": None, "name": "ports"}
LOADED = f"mlx5_core {PLACE}: firmware version: 28.41.1000"

History = Iterable[tuple[float, str]]


def seen(before: AgentState, at: float, *findings: Finding, of: Check | None = None, took: float = 0.0) -> AgentState:
    """The memory after one look at a check that said this."""
    asked = of or check()
    return fault_confirmation.confirm(
        before, findings, {asked.id: observation(at, took)}, checks(asked), POLICY, at + took
    )


def lived(history: History, of: Check | None = None, before: AgentState | None = None) -> AgentState:
    """The memory after looks at one port: each a time and a letter, F for fail, P for pass, U for unknown."""
    now = agent_state() if before is None else before
    asked = of or check()
    for at, word in history:
        now = seen(now, at, finding(asked.id, WORDS[word]), of=asked)
    return now


def every(seconds: float, words: str, start: float = 100.0) -> list[tuple[float, str]]:
    return [(start + number * seconds, word) for number, word in enumerate(words)]


def short(memory: AgentState) -> str:
    """What is held against the port: "nothing", "suspected", "convicted", "latched" or "remembered"."""
    if not memory.cases:
        return "nothing"
    (one,) = memory.cases
    if one.latched:
        return "latched"
    if one.convicted:
        return "convicted"
    return "remembered" if one.flaps and not one.looks[-1][1] else "suspected"


HARD, BOOKS, SOFT, LATCH = Confirmation.FAST, Confirmation.RECORDS, Confirmation.SLOW, Confirmation.LATCHED

CONVICTED = [
    # confirmation, looks, what is held
    (HARD, [(100, "F")], "suspected"),
    (HARD, [(100, "F"), (100.4, "F")], "suspected"),
    (HARD, [(100, "F"), (100.5, "F")], "convicted"),
    (HARD, [(100, "F"), (100.4, "F"), (100.8, "F")], "convicted"),
    (HARD, every(0.1, "FFFFF"), "suspected"),
    (HARD, every(0.1, "FFFFFF"), "convicted"),
    (HARD, [(100, "F"), (101, "P")], "nothing"),
    (HARD, [(100, "F"), (101, "W")], "nothing"),
    (HARD, [(100, "F"), (101, "A")], "nothing"),
    (HARD, [(100, "F"), (101, "P"), (102, "F")], "suspected"),
    (HARD, [(100, "F"), (101, "U"), (102, "F")], "convicted"),
    (HARD, [(100, "U"), (101, "U"), (102, "U")], "nothing"),
    (HARD, [(100, "F"), (101, "U"), (102, "U")], "suspected"),
    (BOOKS, [(100, "F"), (114.9, "F")], "suspected"),
    (BOOKS, [(100, "F"), (115, "F")], "convicted"),
    (BOOKS, every(1, "F" * 15), "suspected"),
    (BOOKS, every(1, "F" * 16), "convicted"),
    (BOOKS, [(100, "F"), (110, "P"), (120, "F")], "suspected"),
    (SOFT, every(30, "FF"), "suspected"),
    (SOFT, every(30, "FFF"), "convicted"),
    (SOFT, every(29, "FFF"), "suspected"),
    (SOFT, every(60, "FF"), "suspected"),
    (SOFT, every(30, "FPFPF"), "convicted"),
    (SOFT, every(30, "FPPFPF"), "suspected"),
    (SOFT, every(10, "FPFPF"), "suspected"),
    (SOFT, every(10, "FPFPFPFPFPFPF"), "suspected"),
    (SOFT, every(1, "F" * 60), "suspected"),
    (SOFT, every(1, "F" * 61), "convicted"),
    (SOFT, every(30, "FPPPP"), "suspected"),
    (SOFT, every(30, "FPPPPP"), "nothing"),
    (SOFT, every(30, "FUFUF"), "convicted"),
    (LATCH, [(100, "F")], "latched"),
    (LATCH, [(100, "U")], "nothing"),
]


@pytest.mark.parametrize(("confirmation", "history", "held"), CONVICTED)
def test_convicts_after(confirmation: Confirmation, history: History, held: str) -> None:
    assert short(lived(history, check(confirmation=confirmation))) == held


RELEASED = [
    # looks after a conviction at 100.5, what is held
    (every(10, "PPP", 110), "convicted"),
    (every(15, "PPP", 110), "remembered"),
    (every(10, "PPPP", 110), "remembered"),
    (every(30, "PP", 110), "convicted"),
    (every(14.9, "PPP", 110), "convicted"),
    (every(15, "PPFPP", 110), "convicted"),
    (every(15, "PPUPP", 110), "convicted"),
    (every(15, "PPUPPP", 110), "remembered"),
    (every(15, "UUUUUUUU", 110), "convicted"),
    (every(15, "WAW", 110), "remembered"),
]


@pytest.mark.parametrize(("history", "held"), RELEASED)
def test_releases_after(history: History, held: str) -> None:
    assert short(lived([(100, "F"), (100.5, "F"), *history])) == held


def test_silence_is_believed_at_once_and_released_by_passes() -> None:
    """A driver that resets itself answers no two looks, and all is well after; what the class is about does latch."""
    flap = check(confirmation=LATCH)
    told = finding(flap.id, reason="DeviceNotAnswering")
    silent = replace(told, verdict=replace(told.verdict, blind=BLIND))
    held = seen(agent_state(), 100, silent, of=flap)
    assert short(held) == "convicted"
    assert short(lived(every(15, "PPP", 110), flap, before=held)) == "remembered"
    assert short(lived([(110, "F")], flap, before=held)) == "latched"


def test_a_look_that_took_long_counts_between_its_facts() -> None:
    first = seen(agent_state(), 100, finding(), took=2.0)
    assert short(seen(first, 102.4, finding())) == "suspected"
    assert short(seen(first, 102.5, finding())) == "convicted"
    assert short(seen(lived([(100, "F")]), 100.4, finding(), took=2.0)) == "suspected"


def test_a_pass_that_rests_on_the_look_before_does_not_count() -> None:
    held = lived([(100, "F"), (101, "F"), (110, "P")])
    assert seen(held, 110, finding(status=Status.OK)).cases == held.cases
    proved = lived([(100, "P")])
    assert seen(proved, 100, finding(status=Status.OK)) is proved


def test_a_conviction_says_when_it_began_and_what_was_seen_last() -> None:
    mend = Remedy("link_up", {"interface": "eth2"})
    first = seen(agent_state(), 100, finding(reason="NoSignal", observed="2"), took=0.1)
    both = seen(first, 101, finding(reason="Disabled", message="it is off", observed="3", remedy=mend, name="new"))
    (one,) = both.cases
    assert (one.opened_at, one.convicted_at) == (100, 101)
    assert (one.reason, one.message, one.observed, one.remedy, one.name) == ("Disabled", "it is off", "3", mend, "new")
    assert one.looks == ((100.1, True), (101, True))


def test_words_of_a_node_are_kept_short() -> None:
    (one,) = seen(
        agent_state(), 100, finding(reason="R" * 999, message="m" * 999, observed="o" * 999, name="n" * 999)
    ).cases
    assert [len(text) for text in (one.reason, one.message, one.observed, one.name)] == [120, 400, 120, 120]
    blind = seen(agent_state(), 100, finding(status=Status.UNKNOWN, message="m" * 999)).blind["port.state"]
    assert len(blind.message) == 400


def test_a_suspicion_that_was_dropped_begins_anew() -> None:
    soft = check(confirmation=SOFT)
    (one,) = lived([(100, "F"), *every(30, "PPPPP", 200), (500, "F")], soft).cases
    assert one.opened_at == 500


def test_a_fault_excused_is_a_pass_and_a_consequence_is_none() -> None:
    waived, folded = finding(waived=WAIVED), finding(root="pci.present")
    assert not seen(agent_state(), 100, waived).cases
    held = lived([(100, "F"), (101, "F")])
    for at in (110, 125, 140):
        held = seen(held, at, waived)
    assert short(held) == "remembered"
    assert short(seen(seen(agent_state(), 100, folded), 101, folded)) == "convicted"


def test_of_several_faults_of_one_subject_the_root_is_told() -> None:
    both = (finding(reason="A", root="pci.present"), finding(reason="B"))
    for order in permutations(both):
        (one,) = seen(agent_state(), 100, *order).cases
        assert one.reason == "B"


GONE = [
    # what the check says once the port is not among its findings, what is held in the end
    ([finding(status=Status.ABSENT, **NODE)], "remembered"),
    ([finding(status=Status.OK, place="0000:9c:00.0")], "remembered"),
    ([finding(status=Status.UNKNOWN, place="0000:9c:00.0")], "remembered"),
    ([finding(status=Status.UNKNOWN, port=2)], "remembered"),
    ([finding(status=Status.UNKNOWN, port=None)], "convicted"),
    ([finding(status=Status.UNKNOWN, **NODE)], "convicted"),
    ([finding(status=Status.UNKNOWN, **SEVERAL)], "convicted"),
    ([finding(status=Status.UNKNOWN, waived=WAIVED, **NODE)], "convicted"),
    ([finding(status=Status.UNKNOWN, waived=WAIVED)], "convicted"),
    ([finding(status=Status.UNKNOWN, root="pci.present")], "convicted"),
    ([finding(status=Status.OK), finding(status=Status.UNKNOWN, **NODE)], "convicted"),
    ([finding(status=Status.OK), finding(status=Status.UNKNOWN)], "convicted"),
    ([finding(status=Status.OK), finding()], "convicted"),
    ([], "convicted"),
]


@pytest.mark.parametrize(("findings", "held"), GONE)
def test_silence_is_a_pass_only_where_one_could_look(findings: list[Finding], held: str) -> None:
    memory = lived([(100, "F"), (101, "F")])
    for at in (110, 125, 140):
        memory = seen(memory, at, *findings)
    assert short(memory) == held


def test_a_fault_counts_where_the_rest_could_not_be_seen() -> None:
    said = (finding(), finding(status=Status.UNKNOWN, **NODE))
    assert short(seen(seen(agent_state(), 100, *said), 101, *said)) == "convicted"


def turned(times: int, start: float = 100.0, each: float = 100.0) -> list[tuple[float, str]]:
    """So many convictions, each followed by the passes of a release."""
    return [look for turn in range(times) for look in every(15, "FFPPP", start + turn * each)]


def test_the_third_release_within_half_an_hour_latches() -> None:
    assert short(lived(turned(2))) == "remembered"
    third = lived(turned(3))
    assert short(third) == "latched"
    assert "3 times within 30 min" in third.cases[0].latched
    assert third.cases[0].convicted
    assert short(lived(every(60, "P" * 60, 500), before=third)) == "latched"


def test_turns_that_are_long_gone_do_not_latch() -> None:
    assert short(lived(turned(3, each=901))) == "remembered"
    assert short(lived(turned(3, each=899))) == "latched"


def test_a_released_case_is_remembered_for_its_turns_and_then_dropped() -> None:
    released = lived(turned(1))
    assert released.cases[0].flaps == (160.0,)
    assert short(lived([(1959, "P")], before=released)) == "remembered"
    assert short(lived([(1960, "P")], before=released)) == "nothing"
    assert short(lived([(300, "F"), (301, "P")], before=released)) == "remembered"
    assert short(lived([(300, "F"), (301, "F")], before=released)) == "convicted"


def test_passes_free_no_latch() -> None:
    assert short(lived([(100, "F"), *every(30, "P" * 50, 130)], check(confirmation=LATCH))) == "latched"


def probed(at: float, text: str = LOADED, from_kernel: bool = True) -> KernelLog:
    return KernelLog(at, (KernelLogLine(1, at, 6, from_kernel, text),))


FREED = [
    # the log at 150, what is held of a latch since 100
    (probed(120), "convicted"),
    (probed(100), "latched"),
    (probed(99), "latched"),
    (probed(151), "latched"),
    (probed(120, LOADED.replace("5c", "5d")), "latched"),
    (probed(120, f"mlx5_core {PLACE}: Link up"), "latched"),
    (probed(120, from_kernel=False), "latched"),
    (probed(120, "mlx5_core: firmware version: 28"), "latched"),
    (KernelLog(150, (KernelLogLine(1, 120, 6, True, LOADED), KernelLogLine(2, 99, 6, True, LOADED))), "convicted"),
    (None, "latched"),
]


@pytest.mark.parametrize(("log", "held"), FREED)
def test_a_new_probe_makes_a_latch_an_ordinary_conviction(log: KernelLog | None, held: str) -> None:
    latch = check(confirmation=LATCH)
    before = lived([(100, "F"), *every(10, "PPPP", 110)], latch)
    after = fault_confirmation.confirm(before, (), {}, checks(latch), POLICY, 150.0, log)
    assert short(after) == held
    if held == "latched":
        assert after is before
        return
    assert short(lived(every(10, "PPP", 160), latch, after)) == "convicted"
    assert short(lived(every(10, "PPPP", 160), latch, after)) == "remembered"


def test_a_probe_that_was_used_up_frees_no_later_latch() -> None:
    latch = check(confirmation=LATCH)
    freed = fault_confirmation.confirm(lived([(100, "F")], latch), (), {}, checks(latch), POLICY, 150.0, probed(120))
    again = lived([(160, "F")], latch, freed)
    assert short(again) == "latched"
    assert again.cases[0].convicted_at == 100
    assert fault_confirmation.confirm(again, (), {}, checks(latch), POLICY, 170.0, probed(120)) is again
    assert short(fault_confirmation.confirm(again, (), {}, checks(latch), POLICY, 170.0, probed(165))) == "convicted"


def test_a_latch_without_a_place_on_the_bus_is_freed_by_no_probe() -> None:
    latch = check(confirmation=LATCH)
    held = seen(agent_state(), 100, finding(**NODE), of=latch)
    assert (
        fault_confirmation.confirm(
            held, (), {}, checks(latch), POLICY, 150.0, probed(120, "firmware: firmware version: 2")
        )
        is held
    )


PROVEN = [
    ("PP", 15, False),
    ("PPP", 15, True),
    ("PPP", 14.9, False),
    ("PPPP", 10, True),
    ("WAP", 15, True),
    ("PUPP", 15, False),
    ("PFPP", 15, False),
    ("PUPPP", 15, True),
    ("UUUUUU", 15, False),
    ("PPPFFFU", 15, True),
]


@pytest.mark.parametrize(("words", "seconds", "proven"), PROVEN)
def test_a_check_is_proven_after(words: str, seconds: float, proven: bool) -> None:
    assert lived(every(seconds, words)).pass_streaks["port.state"].proven is proven


PROOFS = [
    ([finding(status=Status.OK), finding(port=2, status=Status.UNKNOWN)], False),
    ([finding(status=Status.OK), finding(port=2)], False),
    ([finding(status=Status.OK), finding(port=2, root="pci.present")], False),
    ([finding(status=Status.OK), finding(port=2, status=Status.UNKNOWN, root="pci.present")], False),
    ([finding(status=Status.OK), finding(port=2, waived=WAIVED)], True),
    ([finding(status=Status.OK), finding(port=2, status=Status.UNKNOWN, waived=WAIVED)], True),
    ([finding("port.gid")], False),
    ([], False),
]


@pytest.mark.parametrize(("findings", "passes"), PROOFS)
def test_a_proof_takes_the_whole_check(findings: list[Finding], passes: bool) -> None:
    first = seen(agent_state(), 100, finding(status=Status.OK))
    assert seen(first, 101, *findings).pass_streaks["port.state"] == (
        PassStreak(2, 100, 101) if passes else PassStreak()
    )


def test_a_check_is_blind_since_it_could_not_look() -> None:
    blind = finding(status=Status.UNKNOWN, message="/sys denied")
    first = seen(agent_state(), 100, blind, took=2)
    assert first.blind == {"port.state": BlindSince(100, "/sys denied")}
    assert seen(first, 200, blind).blind == first.blind
    assert seen(first, 200, replace(blind, root="pci.present")).blind == {}
    assert seen(first, 200, replace(blind, waived=WAIVED)).blind == {}
    assert seen(first, 200, finding()).blind == {}


PASSED = [
    # findings, the value that is kept where "4" was before
    ([finding(status=Status.OK, observed="5")], "5"),
    ([finding(status=Status.OK)], None),
    ([finding(status=Status.OK, observed="x" * 120)], "x" * 120),
    ([finding(status=Status.OK, observed="x" * 121)], None),
    ([finding(status=Status.OK, observed="4"), finding(status=Status.OK, observed="5")], None),
    ([finding(status=Status.OK, observed="4"), finding(observed="5")], None),
    (
        [finding(observed="5", waived=WAIVED)],
        "5",
    ),  # whoever takes the waiver away changes the verdict, and not the value
    ([finding(status=Status.WARN, observed="5")], "4"),
    ([finding(status=Status.UNKNOWN)], "4"),
    ([finding(status=Status.ABSENT, **NODE)], "4"),
]


@pytest.mark.parametrize(("findings", "kept"), PASSED)
def test_values_that_passed_are_kept(findings: list[Finding], kept: str | None) -> None:
    before = seen(agent_state(), 100, finding(status=Status.OK, observed="4"))
    assert seen(before, 200, *findings).passed.get(f"port.state {PLACE} 1") == kept


def test_values_of_checks_that_close_no_gate_are_not_kept() -> None:
    warns = check(severity=Severity.WARN)
    assert seen(agent_state(), 100, finding(status=Status.OK, observed="4"), of=warns).passed == {}


def test_of_many_values_the_newest_are_kept() -> None:
    many = [finding(status=Status.OK, observed="1", place=f"{number:04}") for number in range(1000)]
    before = seen(agent_state(), 100, *many)
    after = seen(before, 200, finding(status=Status.OK, observed="1", place="new"))
    assert len(after.passed) == 1000
    assert set(before.passed) - set(after.passed) == {"port.state 0000 1"}
    again = seen(before, 200, finding(status=Status.OK, observed="2", place="0000"))
    assert "port.state 0000 1" in seen(again, 300, finding(status=Status.OK, observed="1", place="new")).passed


STILL = [
    ("PPP", "P", HARD),
    ("FFFFF", "F", HARD),
    ("FFPPPPPPP", "P", HARD),
    ("FPPPPPP", "P", LATCH),
    ("FFFFFFU", "U", HARD),
    ("UUU", "U", HARD),
]


@pytest.mark.parametrize(("words", "again", "confirmation"), STILL)
def test_a_node_that_stays_as_it_is_leaves_the_memory_alone(words: str, again: str, confirmation: Confirmation) -> None:
    asked = check(confirmation=confirmation)
    before = lived(every(15, words), asked)
    assert lived([(400, again), (430, again)], asked, before) is before


def test_what_was_not_looked_at_afresh_changes_nothing() -> None:
    before = lived(every(15, "FFPP"))
    for said in (finding(), finding(status=Status.OK), finding(status=Status.UNKNOWN)):
        assert fault_confirmation.confirm(before, (said,), {}, checks(check()), POLICY, 9000.0) is before
        assert (
            fault_confirmation.confirm(
                before, (said,), {"port.gid": observation(9000)}, checks(check()), POLICY, 9000.0
            )
            is before
        )


def test_serial_and_time_are_left_to_who_keeps_it() -> None:
    after = lived([(100, "F"), (101, "F")], before=agent_state(serial=7, at=50.0))
    assert (after.serial, after.at) == (7, 50.0)


TO_COME = [float("nan"), float("inf"), 1e6]


@pytest.mark.parametrize("never", TO_COME)
def test_a_time_that_has_not_come_opens_nothing(never: float) -> None:
    damaged = agent_state(
        pass_streaks={"port.state": PassStreak(3, 10, never, proven=True), "port.gid": PassStreak(2, never, 20)},
        cases=(
            case(passes=9, passing_since=50.0, looks=((never, False), (60.0, False))),
            case("port.gid", convicted_at=never, passes=9, passing_since=50.0),
            case("port.mtu", convicted_at=None, latched_at=never),
            case("port.guid", deferred_until=never),
            case("port.rate", opened_at=never, latched_at=never, latched="why", passing_since=never, passes=2),
            case("port.flap", flaps=(never, 90.0)),
        ),
        blind={"port.state": BlindSince(never, "why")},
        rules_changed_at=never,
    )
    after = fault_confirmation.confirm(damaged, (), {}, {}, POLICY, 200.0)
    state, gid, mtu, guid, rate, turned = after.cases
    assert after.pass_streaks == {"port.state": PassStreak(), "port.gid": PassStreak()}
    assert (state.passes, state.passing_since, state.looks, state.convicted_at) == (0, None, ((60.0, False),), 100)
    assert (gid.passes, gid.convicted_at) == (0, 200)
    assert (mtu.convicted, mtu.latched_at) == (False, 200)
    assert guid.deferred_until is None
    assert guid.passes == damaged.cases[3].passes
    assert (rate.latched, rate.latched_at, rate.opened_at) == ("why", 200, 200)
    assert (rate.passes, rate.passing_since) == (0, None)
    assert turned.flaps == (200.0, 90.0)
    assert after.blind["port.state"].since == 200
    assert after.rules_changed_at is None
    assert fault_confirmation.confirm(after, (), {}, {}, POLICY, 200.0) is after


def test_a_look_that_ended_after_the_round_began_counts() -> None:
    asked = check()
    first = fault_confirmation.confirm(
        agent_state(), [finding()], {asked.id: observation(100)}, checks(asked), POLICY, 99.0
    )
    assert (
        short(fault_confirmation.confirm(first, [finding()], {asked.id: observation(101)}, checks(asked), POLICY, 99.0))
        == "convicted"
    )


WANTED = [
    # confirmation, looks, when the next is wanted
    (HARD, [(100, "F")], 100.5),
    (HARD, [(100, "F"), (100.2, "F")], 100.5),
    (HARD, [(100, "F"), (101, "U")], None),
    (HARD, [(100, "F"), (101, "P")], None),
    (HARD, [(100, "F"), (101, "F")], None),
    (HARD, [(100, "F"), (101, "F"), (110, "P")], 120),
    (HARD, [(100, "F"), (101, "F"), (110, "P"), (120, "P")], 130),
    (HARD, [(100, "F"), (101, "F"), (110, "P"), (135, "P")], 140),
    (HARD, [(100, "F"), (101, "F"), (110, "P"), (120, "U")], None),
    (HARD, [(100, "F"), (101, "F"), (110, "P"), (120, "F")], None),
    (HARD, turned(1), None),
    (BOOKS, [(100, "F")], 115),
    (BOOKS, [(100, "F"), (105, "F")], 115),
    (SOFT, [(100, "F")], 130),
    (SOFT, [(100, "F"), (125, "F")], 155),
    (SOFT, [(100, "F"), (125, "F"), (150, "F")], 160),
    (SOFT, [(100, "F"), (130, "P")], None),
    (SOFT, [(100, "F"), (130, "P"), (160, "F")], 190),
    (LATCH, [(100, "F")], None),
    (LATCH, [(100, "F"), (110, "P")], None),
]


@pytest.mark.parametrize(("confirmation", "history", "at"), WANTED)
def test_a_look_is_wanted(confirmation: Confirmation, history: History, at: float | None) -> None:
    asked = check(confirmation=confirmation)
    wanted = fault_confirmation.wanted_looks(lived(history, asked), checks(asked), (), POLICY)
    assert wanted == ({} if at is None else {asked.id: at})


GATE = [
    ([(100, "P")], 110),
    ([(100, "P"), (110, "P")], 120),
    ([(100, "P"), (125, "P")], 130),
    ([(100, "P"), (110, "U")], None),
    ([(100, "P"), (110, "F"), (120, "P")], 130),
    (every(15, "PPP"), None),
]


@pytest.mark.parametrize(("history", "at"), GATE)
def test_a_pass_of_a_gate_is_wanted_until_it_is_proven(history: History, at: float | None) -> None:
    memory = lived(history)
    assert fault_confirmation.wanted_looks(memory, checks(check()), ["port.state"], POLICY) == (
        {} if at is None else {"port.state": at}
    )
    assert fault_confirmation.wanted_looks(memory, {}, ["port.state", "port.gid"], POLICY) == {}
    assert fault_confirmation.wanted_looks(memory, checks(check()), [], POLICY) == {}


PROVEN_STREAK = PassStreak(3, 0.0, 30.0, proven=True)
COUNTED = [
    # what the state holds                                                      another look that says the same matters
    ({"pass_streaks": {"port.state": PROVEN_STREAK}}, False),
    ({"pass_streaks": {}}, True),
    ({"pass_streaks": {"port.state": PassStreak(2, 0.0, 20.0)}}, True),
    ({"pass_streaks": {"port.state": PROVEN_STREAK, "port.gid": PassStreak(1, 0.0, 0.0)}}, False),
    ({"pass_streaks": {"port.state": PROVEN_STREAK}, "blind": {"port.state": BlindSince(1.0, "no answer")}}, True),
    ({"pass_streaks": {"port.state": PROVEN_STREAK}, "blind": {"port.gid": BlindSince(1.0, "no answer")}}, False),
]


@pytest.mark.parametrize(("held", "counts"), COUNTED)
def test_looks_that_say_the_same_matter_while_something_is_open(held: dict[str, Any], counts: bool) -> None:
    assert fault_confirmation.counts_looks(replace(agent_state(), **held), ["port.state"]) is counts
    suspected = seen(replace(agent_state(), **held), 100, finding())
    assert fault_confirmation.counts_looks(suspected, ["port.state"])


@pytest.mark.parametrize(
    ("different", "counts"),
    [
        ({}, False),
        ({"convicted_at": None}, True),
        ({"passes": 1, "passing_since": 110.0}, True),
        ({"blind": True}, True),
        ({"latched": "why"}, True),
        ({"deferred_until": 900.0}, True),
        ({"remedy": Remedy("link_up", {})}, True),
    ],
)
def test_a_confirmed_fault_that_fails_on_needs_no_count(different: dict[str, Any], counts: bool) -> None:
    held = agent_state(pass_streaks={"port.state": PROVEN_STREAK}, cases=(case("port.gid", **different),))
    assert fault_confirmation.counts_looks(held, ["port.state"]) is counts


def test_of_several_wishes_the_first_counts() -> None:
    both = seen(agent_state(), 100, finding())
    both = seen(both, 100.2, finding(), finding(port=2))
    assert fault_confirmation.wanted_looks(both, checks(check()), (), POLICY) == {"port.state": 100.5}
    held = lived([(100, "F"), (101, "F"), (110, "P"), (117, "P")])
    for last, at in ((105, 115), (120, 127)):
        gate = replace(held, pass_streaks={"port.state": PassStreak(1, last, last)})
        assert fault_confirmation.wanted_looks(gate, checks(check()), ["port.state"], POLICY) == {"port.state": at}


@pytest.mark.parametrize(
    # seconds from the end of the span of 30 to the begin and the end of the look, and when to look again
    ("began", "ended", "at"),
    [(-3.0, -2.0, 140.0), (-0.1, -0.1, 140.0), (-0.1, 0.1, 141.1), (-2.0, 3.0, 144.0), (0.0, 0.1, None)],
)
def test_a_pass_that_was_begun_just_too_soon_is_soon_followed_by_the_next(
    began: float, ended: float, at: float | None
) -> None:
    """Facts of a check are looked at one after the other. Without this, a gate opens ten seconds later."""
    held = lived([(100, "F"), (101, "F"), (110, "P"), (120, "P"), (130, "P")])
    held = seen(held, 140.0 + began, finding(status=Status.OK), took=ended - began)
    wanted = fault_confirmation.wanted_looks(held, checks(check()), (), POLICY)
    assert wanted == {} if at is None else wanted == pytest.approx({"port.state": at})


@pytest.mark.parametrize(("confirmation", "least", "most"), [(HARD, 0.5, 0.6), (BOOKS, 15, 16), (SOFT, 60, 70)])
@settings(deadline=None)
@given(start=st.floats(0, 1e7), took=st.floats(0, 0.04))
def test_who_looks_when_it_is_wanted_convicts_and_releases_in_time(
    confirmation: Confirmation, least: float, most: float, start: float, took: float
) -> None:
    """Whatever the sums are rounded to: a look at the very time that was wanted is not too soon."""
    asked = check(confirmation=confirmation)
    memory = seen(agent_state(), start, finding(), of=asked, took=took)
    for _ in range(2):
        if not memory.cases[0].convicted:
            at = fault_confirmation.wanted_looks(memory, checks(asked), (), POLICY)[asked.id]
            memory = seen(memory, at, finding(), of=asked, took=took)
    (one,) = memory.cases
    assert one.convicted_at is not None
    assert least - 1e-6 <= one.convicted_at - start <= most
    at = one.convicted_at + 20
    for look in range(5):
        memory = seen(memory, at, finding(status=Status.OK), of=asked, took=took)
        wanted = fault_confirmation.wanted_looks(memory, checks(asked), (), POLICY)
        assert (asked.id in wanted) == memory.cases[0].convicted
        if not wanted:
            assert look == 3
            break
        at = wanted[asked.id]


def test_a_reset_forgets_what_is_held_and_what_is_proven() -> None:
    before = lived(
        [*every(15, "PPP"), (200, "F"), (201, "F")],
        before=agent_state(hardware_profiles=("rdma-roce",), passed={"a b 1": "4"}),
    )
    before = replace(before, state=NodeState.AWAITING_HUMAN, blind={"a": BlindSince(1, "b")}, all_passing_since=3.0)
    after = fault_confirmation.reset(before, 300.0)
    assert (after.cases, after.pass_streaks, after.blind, after.all_passing_since) == ((), {}, {}, None)
    assert (after.state, after.since, after.why) == (NodeState.BOOTSTRAP, 300.0, "reset by a human")
    assert (after.hardware_profiles, after.passed, after.boot_id) == (
        before.hardware_profiles,
        before.passed,
        before.boot_id,
    )


LOOKS = st.lists(st.tuples(st.floats(0.01, 100), st.sampled_from("FPUWA")), max_size=40)
CONFIRMATIONS = st.sampled_from([HARD, BOOKS, SOFT, LATCH])


def timed(looks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    at = 100.0
    told = []
    for after, word in looks:
        at += after
        told.append((at, word))
    return told


def steps(looks: list[tuple[float, str]], asked: Check) -> Iterable[tuple[list[tuple[float, str]], Case | None]]:
    """After each look: the looks that could look, and what is held."""
    memory = agent_state()
    for number, look in enumerate(timed(looks)):
        memory = lived([look], asked, memory)
        told = [one for one in timed(looks)[: number + 1] if one[1] != "U"]
        yield told, memory.cases[0] if memory.cases else None


NEEDS = {HARD: (2, 2, 0.5), BOOKS: (2, 2, 15), SOFT: (3, 5, 60), LATCH: (1, 1, 0)}


@settings(deadline=None)
@given(LOOKS, CONFIRMATIONS)
def test_never_convicted_with_fewer_failures_than_the_rule(
    looks: list[tuple[float, str]], confirmation: Confirmation
) -> None:
    fails, of, seconds = NEEDS[confirmation]
    was = False
    for told, one in steps(looks, check(confirmation=confirmation)):
        is_convicted = one is not None and one.convicted
        if is_convicted and not was:
            failed = [at for at, word in told if word == "F"]
            assert sum(word == "F" for _, word in told[-of:]) >= fails
            assert told[-1][1] == "F"
            assert failed[-1] - failed[0] >= seconds
        was = is_convicted


@settings(deadline=None)
@given(LOOKS, CONFIRMATIONS)
def test_never_released_with_fewer_passes(looks: list[tuple[float, str]], confirmation: Confirmation) -> None:
    memory, was = agent_state(), False
    history = timed(looks)
    for number, look in enumerate(history):
        memory = lived([look], check(confirmation=confirmation), memory)
        is_convicted = any(one.convicted for one in memory.cases)
        if was and not is_convicted:
            row = list(history[: number + 1])
            last = row[max((at for at, one in enumerate(row) if one[1] in "FU"), default=-1) + 1 :]
            assert len(last) >= 3
            assert last[-1][0] - last[0][0] >= 30
            assert confirmation is not LATCH
        was = is_convicted


@settings(deadline=None)
@given(LOOKS, CONFIRMATIONS)
def test_unknown_neither_convicts_nor_releases_nor_proves(
    looks: list[tuple[float, str]], confirmation: Confirmation
) -> None:
    asked = check(confirmation=confirmation)
    memory = agent_state()
    for look in timed(looks):
        after = lived([look], asked, memory)
        if look[1] == "U":
            held = [(one.place, one.convicted_at, one.latched, one.flaps, one.looks) for one in memory.cases]
            assert [(one.place, one.convicted_at, one.latched, one.flaps, one.looks) for one in after.cases] == held
            assert after.pass_streaks[asked.id] in (PassStreak(), memory.pass_streaks.get(asked.id))
            assert not fault_confirmation.wanted_looks(after, checks(asked), [asked.id], POLICY)
        memory = after


@settings(deadline=None)
@given(LOOKS)
def test_three_turns_within_half_an_hour_latch(looks: list[tuple[float, str]]) -> None:
    freed: list[float] = []
    states = [(told[-1][0] if told else 0.0, one) for told, one in steps(looks, check())]
    for (_, before), (at, after) in pairwise(states):
        if before is not None and before.convicted and (after is None or not after.convicted):
            freed.append(at)
        assert before is None or not before.latched or (after is not None and after.latched)
    assert all(third - first >= 1800 for first, third in zip(freed, freed[2:], strict=False))


SAID = st.lists(
    st.builds(
        lambda status, place, port, reason, observed: finding(
            status=status, place=place, port=port, reason=reason, observed=observed
        ),
        st.sampled_from(list(Status)),
        st.sampled_from(["", "*", PLACE, "00:16:3e:aa:bb:02"]),
        st.sampled_from([None, 1, 2]),
        st.sampled_from(["A", "B"]),
        st.sampled_from(["", "1", "2"]),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(st.lists(SAID, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_findings_does_not_matter(rounds: list[list[Finding]], chance: Random) -> None:
    one = other = agent_state()
    for number, said in enumerate(rounds):
        mixed = list(said)
        chance.shuffle(mixed)
        one, other = seen(one, 100 + 20 * number, *said), seen(other, 100 + 20 * number, *mixed)
        assert one == other
