"""How long the answer to the test of a fence is believed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from nodeprep.doors import clock
from nodeprep.doors.kube import Access
from nodeprep.doors.kube_http import Peer
from nodeprep.doors.kube_write import LOST, MERGE, Outcome
from nodeprep.publish.errands import FOREIGN, SOON, TEST, Errands
from nodeprep.publish.writing import Ask

ACCESS = Access("n1", Peer("https://127.0.0.1:1"), dict)
ALLOWED = Outcome(200)
DENIED = Outcome(422, {"message": "ValidatingAdmissionPolicy 'nodeprep-nodes' denied request: nodeprep:labels"})
OTHERWISE = Outcome(422, {"message": "denied by somebody else's policy"})
ANSWERS = [
    # known before, answer, known then, seconds until it is tried again
    (None, DENIED, True, TEST),
    (None, ALLOWED, False, SOON),
    (None, OTHERWISE, None, SOON),
    (None, Outcome(LOST), None, SOON),
    (True, ALLOWED, False, SOON),
    (True, Outcome(LOST), True, TEST),
    (False, DENIED, True, TEST),
    (False, Outcome(503), False, SOON),
]


def tried(known: bool | None, answer: Outcome, seed: int) -> tuple[Errands, list[tuple[str, str, object]], float]:
    """Errands that have just tried the fence, what they asked, and seconds from then until they try again."""
    asked: list[tuple[str, str, object]] = []

    def ask(method: str, where: str, body: object = None, content_type: str = MERGE, /) -> Outcome:
        assert content_type == MERGE
        asked.append((method, where, body))
        return answer

    @contextmanager
    def connected() -> Iterator[Ask]:
        yield ask

    errands = Errands(ACCESS, 60.0, Random(seed), connected, lambda: True)
    errands.fenced = known
    errands.test_fence()
    return errands, asked, errands.fence_at - clock.now()


@pytest.mark.parametrize(("known", "answer", "then", "again"), ANSWERS)
def test_a_fence_is_believed_for_longer_than_its_absence(
    known: bool | None,
    answer: Outcome,
    then: bool | None,
    again: float,
) -> None:
    found = [tried(known, answer, seed) for seed in range(100)]
    assert {errands.fenced for errands, _, _ in found} == {then}
    shares = sorted(seconds / again for _, _, seconds in found)
    assert 0.89 < shares[0] < 0.92  # a fleet that started at once does not try at once
    assert 1.08 < shares[-1] <= 1.1


def test_it_is_tried_by_a_label_that_is_not_ours_and_that_is_never_written() -> None:
    _, asked, _ = tried(None, DENIED, 0)
    assert asked == [("PATCH", "/api/v1/nodes/n1?dryRun=All", {"metadata": {"labels": {FOREIGN: "denied"}}})]
