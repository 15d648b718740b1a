"""How long the answer to a dry run is believed, and what comes of a Lease that a policy denies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from threading import Thread

import pytest

from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.doors.kube.writer import JSON, LOST, MERGE, WriteOutcome
from nodeprep.publish.agent_lease import RENEW_SECONDS
from nodeprep.publish.fleet_note import FleetNote
from nodeprep.publish.node_object import WrittenNode
from nodeprep.publish.node_writing import FIX_OURS, WriteRequest
from nodeprep.publish.pace import FUTILE_RETRY_SECONDS, SPREAD_FACTORS
from nodeprep.publish.publisher import NODE_PERIOD_SECONDS
from nodeprep.publish.side_writes import (
    DRY_RUN_RETRY_SECONDS,
    DRY_RUN_SECONDS,
    DRY_RUN_SPREAD,
    FIRST_RETRY_SECONDS,
    FOREIGN_LABEL,
    FOREIGN_LEASE,
    LAST_RETRY_SECONDS,
    SideWrites,
)

Asked = tuple[str, str, object]
Answers = Callable[[str], WriteOutcome]  # by the method

ACCESS = ApiAccess("n1", Peer("https://127.0.0.1:1"), dict)
SEEN = WrittenNode.of({"metadata": {"name": "n1", "uid": "u1"}})
LEASES = "/apis/coordination.k8s.io/v1/namespaces/nodeprep/leases"


def denied(rule: str) -> WriteOutcome:
    said = f"is forbidden: ValidatingAdmissionPolicy 'one' with binding 'one' denied request: {rule}"
    return WriteOutcome(422, {"message": said}, f"HTTP 422: {said}")


ALLOWED = WriteOutcome(200)
LABELS, OWN_LEASE = denied("nodeprep:labels"), denied("nodeprep:own-lease")
OTHERWISE = denied("somebody else's rule")
GONE = WriteOutcome(LOST)
ANSWERS = [
    # known before, answer to the label, answer to the Lease, known then, seconds until it is tried again
    (None, LABELS, OWN_LEASE, True, DRY_RUN_SECONDS),
    (None, ALLOWED, ALLOWED, False, FIRST_RETRY_SECONDS),
    (None, LABELS, ALLOWED, False, FIRST_RETRY_SECONDS),
    (None, ALLOWED, OWN_LEASE, False, FIRST_RETRY_SECONDS),
    (None, GONE, ALLOWED, False, FIRST_RETRY_SECONDS),
    (None, denied("nodeprep:own-node"), OWN_LEASE, None, FIRST_RETRY_SECONDS),
    (None, LABELS, denied("nodeprep:own-namespace"), None, FIRST_RETRY_SECONDS),
    (None, OTHERWISE, OWN_LEASE, None, FIRST_RETRY_SECONDS),
    (None, LABELS, OTHERWISE, None, FIRST_RETRY_SECONDS),
    (None, LABELS, WriteOutcome(403, LABELS.body), None, FIRST_RETRY_SECONDS),
    (None, LABELS, WriteOutcome(409), None, FIRST_RETRY_SECONDS),
    (None, GONE, GONE, None, FIRST_RETRY_SECONDS),
    (True, LABELS, ALLOWED, False, FIRST_RETRY_SECONDS),
    (True, GONE, GONE, True, DRY_RUN_RETRY_SECONDS),
    (True, LABELS, GONE, True, DRY_RUN_RETRY_SECONDS),
    (True, OTHERWISE, OTHERWISE, True, DRY_RUN_RETRY_SECONDS),
    (True, LABELS, OWN_LEASE, True, DRY_RUN_SECONDS),
    (False, LABELS, OWN_LEASE, True, DRY_RUN_SECONDS),
    (False, WriteOutcome(503), WriteOutcome(503), False, FIRST_RETRY_SECONDS),
]


def made(answers: Answers, asked: list[Asked], seed: int = 0) -> SideWrites:
    """Errands of a server that answers so, which notes what it is asked."""

    def ask(method: str, where: str, body: object = None, content_type: str = MERGE, /) -> WriteOutcome:
        assert content_type == (JSON if method == "POST" else MERGE)
        asked.append((method, where, body))
        return answers(method)

    @contextmanager
    def connected() -> Iterator[WriteRequest]:
        yield ask

    return SideWrites(ACCESS, RENEW_SECONDS, Random(seed), connected, lambda: True)


def tried(known: bool | None, label: WriteOutcome, held: WriteOutcome, seed: int) -> tuple[bool | None, float, float]:
    """What errands know that have just tried the admission policy, and seconds from then until they try again.

    The seconds are at least the first number and at most the second, however long the machine stalls.
    """
    answers = {
        None: {"PATCH": GONE, "POST": GONE},
        True: {"PATCH": LABELS, "POST": OWN_LEASE},
        False: {"PATCH": ALLOWED, "POST": ALLOWED},
    }[known].copy()
    answered = list[float]()

    def answer(method: str) -> WriteOutcome:
        answered.append(clock.now())
        return answers[method]

    side_writes = made(answer, [], seed)
    side_writes.test_admission_policy()
    assert side_writes.policy_enforced is known
    side_writes.forget_denials()  # both are tried
    answers.update({"PATCH": label, "POST": held})
    side_writes.test_admission_policy()
    again = side_writes.dry_run_at
    return side_writes.policy_enforced, again - clock.now(), again - answered[-1]


@pytest.mark.parametrize(("known", "label", "held", "then", "again"), ANSWERS)
def test_a_admission_policy_is_believed_for_longer_than_its_absence(
    known: bool | None,
    label: WriteOutcome,
    held: WriteOutcome,
    then: bool | None,
    again: float,
) -> None:
    found = [tried(known, label, held, seed) for seed in range(100)]
    assert {policy_enforced for policy_enforced, _, _ in found} == {then}
    least, most = (sorted(each / again for each in seconds) for seconds in list(zip(*found, strict=True))[1:])
    assert most[0] >= 1.0
    assert least[0] < 1.01  # a fleet that started at once does not try at once for ever
    assert least[-1] <= 1.0 + DRY_RUN_SPREAD
    assert most[-1] > 1.0 + 0.9 * DRY_RUN_SPREAD


def test_a_admission_policy_that_is_not_in_force_yet_is_looked_for_soon_and_ever_more_seldom() -> None:
    """It is applied together with the agent, and the API server takes a moment: nobody shall read for long of none."""
    answers = {"PATCH": ALLOWED, "POST": ALLOWED}
    side_writes = made(answers.__getitem__, [])

    def tested() -> float:
        side_writes.test_admission_policy()
        return side_writes.dry_run_at - clock.now()

    waits = [15.0, 30.0, 60.0, LAST_RETRY_SECONDS, LAST_RETRY_SECONDS]
    assert [tested() for _ in waits] == [pytest.approx(seconds, rel=0.07) for seconds in waits]
    answers.update({"PATCH": LABELS, "POST": OWN_LEASE})
    assert tested() == pytest.approx(DRY_RUN_SECONDS, rel=0.07)
    answers["PATCH"] = ALLOWED
    assert [tested(), tested()] == [
        pytest.approx(seconds, rel=0.07) for seconds in (FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS)
    ]
    side_writes.forget_denials()  # another configuration: whatever was found before is of another admission policy
    assert tested() == pytest.approx(FIRST_RETRY_SECONDS, rel=0.07)


def test_a_server_that_wants_to_be_left_alone_is_left_alone() -> None:
    busy = WriteOutcome(429, retry_after=50.0)
    for answers in ({"PATCH": busy, "POST": busy}, {"PATCH": LABELS, "POST": busy}):
        _, least, most = tried(None, answers["PATCH"], answers["POST"], seed=0)
        assert least <= 50.0 <= most


def test_each_policy_is_tried_within_two_minutes_by_one_dry_run_a_minute() -> None:
    """As shipped: design 3.5 and docs/security.md. A lost policy is noticed by the second dry run after it went."""
    longest = DRY_RUN_SECONDS * (1.0 + DRY_RUN_SPREAD)
    assert 2 * longest + DRY_RUN_RETRY_SECONDS * (1.0 + DRY_RUN_SPREAD) <= 119.0, "the requests take a moment, too"
    assert NODE_PERIOD_SECONDS * SPREAD_FACTORS[1] <= 66.0 + 1e-9, "what others did to the Node is seen"
    assert LAST_RETRY_SECONDS <= 120.0, "where there is none, both each two minutes"


@pytest.mark.parametrize("lost", ["PATCH", "POST"])
@pytest.mark.parametrize("flaps", range(4))
def test_a_policy_that_is_lost_is_missed_within_two_dry_runs_whoevers_turn_it_is(lost: str, flaps: int) -> None:
    asked: list[Asked] = []
    answers = {"PATCH": LABELS, "POST": OWN_LEASE}
    side_writes = made(answers.__getitem__, asked)
    side_writes.test_admission_policy()
    for _ in range(flaps):
        side_writes.test_admission_policy()
    assert (side_writes.policy_enforced, [method for method, _, _ in asked]) == (
        True,
        ["PATCH", "POST", *["PATCH", "POST"] * 2][: 2 + flaps],
    )
    answers[lost] = ALLOWED
    waited = 0.0
    found = [side_writes.policy_enforced]
    while found[-1] and waited < 200.0:
        side_writes.test_admission_policy()
        found.append(side_writes.policy_enforced)
        waited += DRY_RUN_SECONDS * (1.0 + DRY_RUN_SPREAD)
    assert found[-1] is False
    assert waited <= 120.0
    assert len(asked) <= 2 + flaps + 2, "one at a time"
    assert side_writes.dry_run_at - clock.now() == pytest.approx(FIRST_RETRY_SECONDS, rel=0.07)
    answers[lost] = LABELS if lost == "PATCH" else OWN_LEASE
    side_writes.test_admission_policy()
    found.append(side_writes.policy_enforced)
    assert found[-1] is True


TELL_NOTHING = [GONE, OTHERWISE, WriteOutcome(503)]


@pytest.mark.parametrize("answer", TELL_NOTHING)
@pytest.mark.parametrize(("turn", "other"), [("PATCH", "POST"), ("POST", "PATCH")])
def test_an_answer_that_tells_nothing_is_asked_for_once_more_and_costs_nobody_a_turn(
    answer: WriteOutcome, turn: str, other: str
) -> None:
    asked: list[Asked] = []
    holding = {"PATCH": LABELS, "POST": OWN_LEASE}
    answers = holding.copy()
    side_writes = made(answers.__getitem__, asked)
    side_writes.test_admission_policy()
    if turn == "POST":
        side_writes.test_admission_policy()
    asked.clear()
    answers[turn] = answer
    for _ in range(2):
        side_writes.test_admission_policy()
        assert side_writes.policy_enforced is True
    side_writes.test_admission_policy()
    answers[turn] = holding[turn]
    side_writes.test_admission_policy()
    assert [method for method, _, _ in asked] == [turn, turn, other, turn]
    answers[other] = ALLOWED
    side_writes.test_admission_policy()
    assert side_writes.policy_enforced is False


@pytest.mark.parametrize("answer", TELL_NOTHING)
def test_a_policy_that_is_lost_is_missed_in_time_though_one_answer_tells_nothing(answer: WriteOutcome) -> None:
    told = [LABELS, OWN_LEASE, LABELS, OWN_LEASE, answer, ALLOWED]
    side_writes = made(lambda _: told.pop(0), [])
    waits = []
    while told:
        side_writes.test_admission_policy()
        waits.append(side_writes.dry_run_at - clock.now())
    assert side_writes.policy_enforced is False
    assert sum(waits[1:4]) <= 120.0, "from the last test that this policy passed"


def test_a_server_in_trouble_is_not_asked_more_often_for_that() -> None:
    answers = {"PATCH": LABELS, "POST": OWN_LEASE}
    side_writes = made(answers.__getitem__, [])
    side_writes.test_admission_policy()
    answers.update({"PATCH": GONE, "POST": GONE})
    waits = []
    for _ in range(6):
        side_writes.test_admission_policy()
        waits.append(round(side_writes.dry_run_at - clock.now()))
    assert waits == [
        1,
        pytest.approx(DRY_RUN_SECONDS, abs=2),
        1,
        pytest.approx(DRY_RUN_SECONDS, abs=2),
        1,
        pytest.approx(DRY_RUN_SECONDS, abs=2),
    ]


def test_half_a_admission_policy_stays_half_until_the_missing_half_denies() -> None:
    answers, found = {"PATCH": ALLOWED, "POST": OWN_LEASE}, []
    side_writes = made(answers.__getitem__, [])
    for label, held in ((ALLOWED, OWN_LEASE), (GONE, OWN_LEASE), (LABELS, GONE)):
        answers.update({"PATCH": label, "POST": held})
        side_writes.test_admission_policy()
        found.append(side_writes.policy_enforced)
    assert found == [False, False, True]


def test_it_is_tried_by_what_is_not_ours_and_is_never_written() -> None:
    asked: list[Asked] = []
    made({"PATCH": LABELS, "POST": OWN_LEASE}.__getitem__, asked).test_admission_policy()
    foreign = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": FOREIGN_LEASE, "namespace": "nodeprep"},
    }
    assert asked == [
        ("PATCH", "/api/v1/nodes/n1?dryRun=All", {"metadata": {"labels": {FOREIGN_LABEL: "denied"}}}),
        ("POST", f"{LEASES}?dryRun=All", foreign),
    ]


DENIALS = {
    "renewed": {"PATCH": OWN_LEASE}.__getitem__,
    "made": {"PATCH": WriteOutcome(404), "POST": OWN_LEASE}.__getitem__,
}


@pytest.mark.parametrize("answers", DENIALS.values(), ids=DENIALS)
def test_a_lease_that_a_policy_denies_is_asked_for_once(answers: Answers) -> None:
    asked: list[Asked] = []
    side_writes = made(answers, asked)
    for _ in range(3):
        side_writes.renew(SEEN)
    assert [method for method, _, _ in asked if method == "PATCH"] == ["PATCH"]
    assert side_writes.trouble == ""
    assert side_writes.denied.startswith("denied by nodeprep:own-lease: HTTP 422")
    assert side_writes.renew not in [
        getattr(work, "func", work) for _, work in side_writes.due(SEEN, 0.0, with_events=False)
    ]
    (told,) = side_writes.events
    assert (told["reason"], told["type"], told["involvedObject"]["uid"]) == ("WriteDenied", "Warning", "u1")
    assert told["message"] == f"{side_writes.denied}; {FIX_OURS}"


WHO = "system:serviceaccount:nodeprep:nodeprep-agent may not"


@pytest.mark.parametrize("words", ["somebody else's rule", WHO])
def test_a_lease_that_others_deny_is_asked_for_again(words: str) -> None:
    """Their policy may be mended at any time, and nobody tells the agent."""
    asked: list[Asked] = []
    side_writes = made(lambda _: denied(words), asked)
    side_writes.renew(SEEN)
    assert (side_writes.denied, list(side_writes.events)) == ("", [])
    assert side_writes.trouble.startswith("denied: HTTP 422")
    (at, work), _ = side_writes.due(SEEN, 0.0, with_events=False)
    assert clock.now() + 25.0 < at < clock.now() + 65.0
    work()
    assert len(asked) == 2


def test_it_is_asked_for_again_at_once_where_it_may_be_allowed() -> None:
    told = [OWN_LEASE]
    side_writes = made(lambda _: told[0], [])
    side_writes.renew(SEEN)
    side_writes.dry_run_at = clock.now() + DRY_RUN_SECONDS
    told[0] = ALLOWED
    side_writes.forget_denials()
    (renewal, work), (dry_run, _) = side_writes.due(SEEN, 0.0, with_events=False)
    assert max(dry_run, renewal) < clock.now()
    work()
    assert (side_writes.denied, side_writes.trouble) == ("", "")
    assert side_writes.due(SEEN, 0.0, with_events=False)[0][0] > clock.now() + RENEW_SECONDS


def test_after_a_fault_of_our_own_nothing_is_tried_for_a_while() -> None:
    asked: list[Asked] = []
    side_writes = made(lambda method: LABELS if method == "PATCH" else OWN_LEASE, asked)
    side_writes.events.append({})
    assert [at <= clock.now() for at, _ in side_writes.due(SEEN, 0.0, with_events=True)] == [True] * 3
    now = clock.now()
    side_writes.pause(now)
    assert [at >= now + FUTILE_RETRY_SECONDS for at, _ in side_writes.due(SEEN, 0.0, with_events=True)] == [True] * 3
    side_writes.dry_run_at = now + 2 * FUTILE_RETRY_SECONDS
    side_writes.pause(now)
    assert side_writes.dry_run_at == now + 2 * FUTILE_RETRY_SECONDS, "what is put off for longer stays so"


EVENTS = [
    # answer, Events that still wait
    (ALLOWED, ["b"]),
    (WriteOutcome(201), ["b"]),
    (WriteOutcome(409), ["b"]),  # it is there: it was sent before
    (WriteOutcome(403), ["b"]),
    (WriteOutcome(404), ["b"]),
    (OTHERWISE, ["b"]),
    (GONE, ["a", "b"]),
    (WriteOutcome(401), ["a", "b"]),
    (WriteOutcome(429, retry_after=50.0), ["a", "b"]),
    (WriteOutcome(503), ["a", "b"]),
]


@pytest.mark.parametrize(("answer", "left"), EVENTS)
def test_an_event_waits_for_a_server_in_trouble_and_for_no_right(answer: WriteOutcome, left: list[str]) -> None:
    asked: list[Asked] = []
    side_writes = made(lambda _: answer, asked)
    side_writes.events.extend({"reason": reason} for reason in ("a", "b"))
    before = clock.now()
    side_writes.post_event()
    assert [(method, body) for method, _, body in asked] == [("POST", {"reason": "a"})]
    assert [one["reason"] for one in side_writes.events] == left
    (at, _), *_ = reversed(side_writes.due(SEEN, 0.0, with_events=True))
    assert (at > before + answer.retry_after) is (len(left) == 2)


def test_a_node_that_was_made_anew_has_its_lease_at_once() -> None:
    """It went with the former Node: for more than a minute nobody would know that there is an agent."""
    asked: list[Asked] = []
    side_writes = made(lambda _: ALLOWED, asked)
    side_writes.renew(SEEN)
    assert side_writes.due(SEEN, 0.0, with_events=False)[0][0] > clock.now() + RENEW_SECONDS
    anew = WrittenNode.of({"metadata": {"name": "n1", "uid": "u2"}})
    at, work = side_writes.due(anew, 0.0, with_events=False)[0]
    assert at < clock.now()
    work()
    assert side_writes.due(anew, 0.0, with_events=False)[0][0] > clock.now() + RENEW_SECONDS
    assert "u2" in str(asked[-1])


@pytest.mark.parametrize("seen", [SEEN, WrittenNode.of({"metadata": {"name": "n1", "uid": "u2"}})])
def test_an_agent_whose_checks_do_not_run_waits(seen: WrittenNode) -> None:
    asked: list[Asked] = []
    side_writes = made(lambda _: ALLOWED, asked)
    side_writes.renew(SEEN)
    side_writes.is_alive = lambda: False
    side_writes.renew(seen)
    assert len(asked) == 1
    assert side_writes.due(seen, 0.0, with_events=False)[0][0] > clock.now() + 1.0


def test_what_is_to_be_believed_anew_while_it_is_asked_is_asked_again() -> None:
    """Another thread says so between a request and its answer."""

    def answers(method: str) -> WriteOutcome:
        side_writes.forget_denials()
        return OWN_LEASE if method == "PATCH" else ALLOWED

    side_writes = made(answers, [])
    side_writes.renew(SEEN)
    assert (side_writes.denied, list(side_writes.events)) == ("", [])
    side_writes.test_admission_policy()
    assert all(at < clock.now() for at, _ in side_writes.due(SEEN, 0.0, with_events=False))


def test_no_older_note_comes_after_a_newer_one() -> None:
    """The publisher renews the Lease while a repair tells the fleet what it is about to do."""
    note, written = FleetNote(), list[str]()
    note.text = "older"

    def write() -> None:
        with note.held() as text:
            written.append(text)

    other = Thread(target=write)
    with note.held() as text:
        other.start()
        other.join(0.5)
        note.text = "newer"
        written.append(text)
    other.join()
    assert written == ["older", "newer"]
