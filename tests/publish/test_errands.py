"""How long the answer to the test of a fence is believed, and what comes of a Lease that a policy denies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from nodeprep.doors import clock
from nodeprep.doors.kube import Access
from nodeprep.doors.kube_http import Peer
from nodeprep.doors.kube_write import JSON, LOST, MERGE, Outcome
from nodeprep.publish.errands import AGAIN, FIRST, FOREIGN, FOREIGN_LEASE, LAST, TEST, WAVER, Errands
from nodeprep.publish.lease import RENEW
from nodeprep.publish.node import Seen
from nodeprep.publish.pace import FUTILE, LATER
from nodeprep.publish.publisher import LOOK
from nodeprep.publish.writing import MEND, Ask

Asked = tuple[str, str, object]
Answers = Callable[[str], Outcome]  # by the method

ACCESS = Access("n1", Peer("https://127.0.0.1:1"), dict)
SEEN = Seen.of({"metadata": {"name": "n1", "uid": "u1"}})
LEASES = "/apis/coordination.k8s.io/v1/namespaces/nodeprep/leases"


def denied(rule: str) -> Outcome:
    said = f"is forbidden: ValidatingAdmissionPolicy 'one' with binding 'one' denied request: {rule}"
    return Outcome(422, {"message": said}, f"HTTP 422: {said}")


ALLOWED = Outcome(200)
LABELS, OWN_LEASE = denied("nodeprep:labels"), denied("nodeprep:own-lease")
OTHERWISE = denied("somebody else's rule")
GONE = Outcome(LOST)
ANSWERS = [
    # known before, answer to the label, answer to the Lease, known then, seconds until it is tried again
    (None, LABELS, OWN_LEASE, True, TEST),
    (None, ALLOWED, ALLOWED, False, FIRST),
    (None, LABELS, ALLOWED, False, FIRST),
    (None, ALLOWED, OWN_LEASE, False, FIRST),
    (None, GONE, ALLOWED, False, FIRST),
    (None, denied("nodeprep:own-node"), OWN_LEASE, None, FIRST),
    (None, LABELS, denied("nodeprep:own-namespace"), None, FIRST),
    (None, OTHERWISE, OWN_LEASE, None, FIRST),
    (None, LABELS, OTHERWISE, None, FIRST),
    (None, LABELS, Outcome(403, LABELS.body), None, FIRST),
    (None, LABELS, Outcome(409), None, FIRST),
    (None, GONE, GONE, None, FIRST),
    (True, LABELS, ALLOWED, False, FIRST),
    (True, GONE, GONE, True, AGAIN),
    (True, LABELS, GONE, True, AGAIN),
    (True, OTHERWISE, OTHERWISE, True, AGAIN),
    (True, LABELS, OWN_LEASE, True, TEST),
    (False, LABELS, OWN_LEASE, True, TEST),
    (False, Outcome(503), Outcome(503), False, FIRST),
]


def made(answers: Answers, asked: list[Asked], seed: int = 0) -> Errands:
    """Errands of a server that answers so, which notes what it is asked."""

    def ask(method: str, where: str, body: object = None, content_type: str = MERGE, /) -> Outcome:
        assert content_type == (JSON if method == "POST" else MERGE)
        asked.append((method, where, body))
        return answers(method)

    @contextmanager
    def connected() -> Iterator[Ask]:
        yield ask

    return Errands(ACCESS, RENEW, Random(seed), connected, lambda: True)


def tried(known: bool | None, label: Outcome, held: Outcome, seed: int) -> tuple[bool | None, float]:
    """What errands know that have just tried the fence, and seconds from then until they try again."""
    answers = {
        None: {"PATCH": GONE, "POST": GONE},
        True: {"PATCH": LABELS, "POST": OWN_LEASE},
        False: {"PATCH": ALLOWED, "POST": ALLOWED},
    }[known].copy()
    errands = made(answers.__getitem__, [], seed)
    errands.test_fence()
    assert errands.fenced is known
    errands.believe_anew()  # both are tried
    answers.update({"PATCH": label, "POST": held})
    errands.test_fence()
    return errands.fenced, errands.fence_at - clock.now()


@pytest.mark.parametrize(("known", "label", "held", "then", "again"), ANSWERS)
def test_a_fence_is_believed_for_longer_than_its_absence(
    known: bool | None,
    label: Outcome,
    held: Outcome,
    then: bool | None,
    again: float,
) -> None:
    found = [tried(known, label, held, seed) for seed in range(100)]
    assert {fenced for fenced, _ in found} == {then}
    shares = sorted(seconds / again for _, seconds in found)
    assert 1.0 <= shares[0] < 1.01  # a fleet that started at once does not try at once for ever
    assert 1.0 + 0.9 * WAVER < shares[-1] <= 1.0 + WAVER


def test_a_fence_that_is_not_in_force_yet_is_looked_for_soon_and_ever_more_seldom() -> None:
    """It is applied together with the agent, and the API server takes a moment: nobody shall read for long of none."""
    answers = {"PATCH": ALLOWED, "POST": ALLOWED}
    errands = made(answers.__getitem__, [])

    def tested() -> float:
        errands.test_fence()
        return errands.fence_at - clock.now()

    waits = [15.0, 30.0, 60.0, LAST, LAST]
    assert [tested() for _ in waits] == [pytest.approx(seconds, rel=0.07) for seconds in waits]
    answers.update({"PATCH": LABELS, "POST": OWN_LEASE})
    assert tested() == pytest.approx(TEST, rel=0.07)
    answers["PATCH"] = ALLOWED
    assert [tested(), tested()] == [pytest.approx(seconds, rel=0.07) for seconds in (FIRST, 2 * FIRST)]
    errands.believe_anew()  # another configuration: whatever was found before is of another fence
    assert tested() == pytest.approx(FIRST, rel=0.07)


def test_a_server_that_wants_to_be_left_alone_is_left_alone() -> None:
    busy = Outcome(429, retry_after=50.0)
    for answers in ({"PATCH": busy, "POST": busy}, {"PATCH": LABELS, "POST": busy}):
        _, again = tried(None, answers["PATCH"], answers["POST"], seed=0)
        assert again == pytest.approx(50.0, abs=1.0)


def test_each_policy_is_tried_within_two_minutes_by_one_dry_run_a_minute() -> None:
    """As shipped: design 3.5 and docs/security.md. A lost policy is noticed by the second dry run after it went."""
    longest = TEST * (1.0 + WAVER)
    assert 2 * longest + AGAIN * (1.0 + WAVER) <= 119.0, "the requests take a moment, too"
    assert LOOK * LATER[1] <= 66.0 + 1e-9, "what others did to the Node is seen"
    assert LAST <= 120.0, "where there is none, both each two minutes"


@pytest.mark.parametrize("lost", ["PATCH", "POST"])
@pytest.mark.parametrize("turns", range(4))
def test_a_policy_that_is_lost_is_missed_within_two_dry_runs_whoevers_turn_it_is(lost: str, turns: int) -> None:
    asked: list[Asked] = []
    answers = {"PATCH": LABELS, "POST": OWN_LEASE}
    errands = made(answers.__getitem__, asked)
    errands.test_fence()
    for _ in range(turns):
        errands.test_fence()
    assert (errands.fenced, [method for method, _, _ in asked]) == (
        True,
        ["PATCH", "POST", *["PATCH", "POST"] * 2][: 2 + turns],
    )
    answers[lost] = ALLOWED
    waited = 0.0
    found = [errands.fenced]
    while found[-1] and waited < 200.0:
        errands.test_fence()
        found.append(errands.fenced)
        waited += TEST * (1.0 + WAVER)
    assert found[-1] is False
    assert waited <= 120.0
    assert len(asked) <= 2 + turns + 2, "one at a time"
    assert errands.fence_at - clock.now() == pytest.approx(FIRST, rel=0.07)
    answers[lost] = LABELS if lost == "PATCH" else OWN_LEASE
    errands.test_fence()
    found.append(errands.fenced)
    assert found[-1] is True


TELL_NOTHING = [GONE, OTHERWISE, Outcome(503)]


@pytest.mark.parametrize("answer", TELL_NOTHING)
@pytest.mark.parametrize(("turn", "other"), [("PATCH", "POST"), ("POST", "PATCH")])
def test_an_answer_that_tells_nothing_is_asked_for_once_more_and_costs_nobody_a_turn(
    answer: Outcome, turn: str, other: str
) -> None:
    asked: list[Asked] = []
    holding = {"PATCH": LABELS, "POST": OWN_LEASE}
    answers = holding.copy()
    errands = made(answers.__getitem__, asked)
    errands.test_fence()
    if turn == "POST":
        errands.test_fence()
    asked.clear()
    answers[turn] = answer
    for _ in range(2):
        errands.test_fence()
        assert errands.fenced is True
    errands.test_fence()
    answers[turn] = holding[turn]
    errands.test_fence()
    assert [method for method, _, _ in asked] == [turn, turn, other, turn]
    answers[other] = ALLOWED
    errands.test_fence()
    assert errands.fenced is False


@pytest.mark.parametrize("answer", TELL_NOTHING)
def test_a_policy_that_is_lost_is_missed_in_time_though_one_answer_tells_nothing(answer: Outcome) -> None:
    told = [LABELS, OWN_LEASE, LABELS, OWN_LEASE, answer, ALLOWED]
    errands = made(lambda _: told.pop(0), [])
    waits = []
    while told:
        errands.test_fence()
        waits.append(errands.fence_at - clock.now())
    assert errands.fenced is False
    assert sum(waits[1:4]) <= 120.0, "from the last test that this policy passed"


def test_a_server_in_trouble_is_not_asked_more_often_for_that() -> None:
    answers = {"PATCH": LABELS, "POST": OWN_LEASE}
    errands = made(answers.__getitem__, [])
    errands.test_fence()
    answers.update({"PATCH": GONE, "POST": GONE})
    waits = []
    for _ in range(6):
        errands.test_fence()
        waits.append(round(errands.fence_at - clock.now()))
    assert waits == [1, pytest.approx(TEST, abs=2), 1, pytest.approx(TEST, abs=2), 1, pytest.approx(TEST, abs=2)]


def test_half_a_fence_stays_half_until_the_missing_half_denies() -> None:
    answers, found = {"PATCH": ALLOWED, "POST": OWN_LEASE}, []
    errands = made(answers.__getitem__, [])
    for label, held in ((ALLOWED, OWN_LEASE), (GONE, OWN_LEASE), (LABELS, GONE)):
        answers.update({"PATCH": label, "POST": held})
        errands.test_fence()
        found.append(errands.fenced)
    assert found == [False, False, True]


def test_it_is_tried_by_what_is_not_ours_and_is_never_written() -> None:
    asked: list[Asked] = []
    made({"PATCH": LABELS, "POST": OWN_LEASE}.__getitem__, asked).test_fence()
    foreign = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": FOREIGN_LEASE, "namespace": "nodeprep"},
    }
    assert asked == [
        ("PATCH", "/api/v1/nodes/n1?dryRun=All", {"metadata": {"labels": {FOREIGN: "denied"}}}),
        ("POST", f"{LEASES}?dryRun=All", foreign),
    ]


DENIALS = {
    "renewed": {"PATCH": OWN_LEASE}.__getitem__,
    "made": {"PATCH": Outcome(404), "POST": OWN_LEASE}.__getitem__,
}


@pytest.mark.parametrize("answers", DENIALS.values(), ids=DENIALS)
def test_a_lease_that_a_policy_denies_is_asked_for_once(answers: Answers) -> None:
    asked: list[Asked] = []
    errands = made(answers, asked)
    for _ in range(3):
        errands.renew(SEEN)
    assert [method for method, _, _ in asked if method == "PATCH"] == ["PATCH"]
    assert errands.trouble == ""
    assert errands.denied.startswith("denied by nodeprep:own-lease: HTTP 422")
    assert errands.renew not in [getattr(work, "func", work) for _, work in errands.due(SEEN, 0.0, with_events=False)]
    (told,) = errands.events
    assert (told["reason"], told["type"], told["involvedObject"]["uid"]) == ("WriteDenied", "Warning", "u1")
    assert told["message"] == f"{errands.denied}; {MEND}"


WHO = "system:serviceaccount:nodeprep:nodeprep-agent may not"


@pytest.mark.parametrize("words", ["somebody else's rule", WHO])
def test_a_lease_that_others_deny_is_asked_for_again(words: str) -> None:
    """Their policy may be mended at any time, and nobody tells the agent."""
    asked: list[Asked] = []
    errands = made(lambda _: denied(words), asked)
    errands.renew(SEEN)
    assert (errands.denied, list(errands.events)) == ("", [])
    assert errands.trouble.startswith("denied: HTTP 422")
    (at, work), _ = errands.due(SEEN, 0.0, with_events=False)
    assert clock.now() + 25.0 < at < clock.now() + 65.0
    work()
    assert len(asked) == 2


def test_it_is_asked_for_again_at_once_where_it_may_be_allowed() -> None:
    told = [OWN_LEASE]
    errands = made(lambda _: told[0], [])
    errands.renew(SEEN)
    errands.fence_at = clock.now() + TEST
    told[0] = ALLOWED
    errands.believe_anew()
    (renewal, work), (fence, _) = errands.due(SEEN, 0.0, with_events=False)
    assert max(fence, renewal) < clock.now()
    work()
    assert (errands.denied, errands.trouble) == ("", "")
    assert errands.due(SEEN, 0.0, with_events=False)[0][0] > clock.now() + RENEW


def test_after_a_fault_of_our_own_nothing_is_tried_for_a_while() -> None:
    asked: list[Asked] = []
    errands = made(lambda method: LABELS if method == "PATCH" else OWN_LEASE, asked)
    errands.events.append({})
    assert [at <= clock.now() for at, _ in errands.due(SEEN, 0.0, with_events=True)] == [True] * 3
    now = clock.now()
    errands.rest(now)
    assert [at >= now + FUTILE for at, _ in errands.due(SEEN, 0.0, with_events=True)] == [True] * 3
    errands.fence_at = now + 2 * FUTILE
    errands.rest(now)
    assert errands.fence_at == now + 2 * FUTILE, "what is put off for longer stays so"


def test_a_node_that_was_made_anew_has_its_lease_at_once() -> None:
    """It went with the former Node: for more than a minute nobody would know that there is an agent."""
    asked: list[Asked] = []
    errands = made(lambda _: ALLOWED, asked)
    errands.renew(SEEN)
    assert errands.due(SEEN, 0.0, with_events=False)[0][0] > clock.now() + RENEW
    anew = Seen.of({"metadata": {"name": "n1", "uid": "u2"}})
    at, work = errands.due(anew, 0.0, with_events=False)[0]
    assert at < clock.now()
    work()
    assert errands.due(anew, 0.0, with_events=False)[0][0] > clock.now() + RENEW
    assert "u2" in str(asked[-1])


@pytest.mark.parametrize("seen", [SEEN, Seen.of({"metadata": {"name": "n1", "uid": "u2"}})])
def test_an_agent_whose_checks_do_not_run_waits(seen: Seen) -> None:
    asked: list[Asked] = []
    errands = made(lambda _: ALLOWED, asked)
    errands.renew(SEEN)
    errands.is_alive = lambda: False
    errands.renew(seen)
    assert len(asked) == 1
    assert errands.due(seen, 0.0, with_events=False)[0][0] > clock.now() + 1.0


def test_what_is_to_be_believed_anew_while_it_is_asked_is_asked_again() -> None:
    """Another thread says so between a request and its answer."""

    def answers(method: str) -> Outcome:
        errands.believe_anew()
        return OWN_LEASE if method == "PATCH" else ALLOWED

    errands = made(answers, [])
    errands.renew(SEEN)
    assert (errands.denied, list(errands.events)) == ("", [])
    errands.test_fence()
    assert all(at < clock.now() for at, _ in errands.due(SEEN, 0.0, with_events=False))
