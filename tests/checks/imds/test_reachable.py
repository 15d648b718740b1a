"""imds.reachable: what keeps the metadata from answering, in one line."""

from __future__ import annotations

import pytest

from nodeprep.checks.imds.reachable import CHECK
from nodeprep.facts.alibaba.imds import PRODUCT
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, node_object
from tests.imds_values import NOT_ECS, imds
from tests.values import say, verdicts

URL = "http://100.100.100.200/latest/api/token"
LATE = Unreadable(Why.TIMEOUT, URL, detail="no connection in 1.0 s")
LINGJUN = cluster(node=node_object(labels={"alibabacloud.com/lingjun-worker": "true"}))

ROWS = [
    # instance                                                                 says
    (LATE, "warn NoAnswer"),
    (Unreadable(Why.DENIED, URL, detail="answered 403: its HttpEndpoint is disabled"), "warn Refused"),
    (Unreadable(Why.IO_ERROR, URL, 111, "no connection: Connection refused"), "warn Unreachable"),
    (Unreadable(Why.IO_ERROR, URL, None, "answered 429 to 3 requests: it throttles"), "warn Busy"),
    (Unreadable(Why.MALFORMED, URL, detail="is no JSON"), "warn StrangeAnswer"),
    (Unreadable(Why.MISSING, "metadata mac", detail="not told"), "warn StrangeAnswer"),
    (Unreadable(Why.IO_ERROR, PRODUCT, 5), "unknown CannotLook"),
]


@pytest.mark.parametrize(("found", "says"), ROWS)
def test_says(found: Unreadable, says: str) -> None:
    assert say(CHECK, imds(found, milliseconds=None)) == says
    assert say(CHECK, imds(found, milliseconds=None), cluster()) == says


def test_whether_it_is_lingjun_cannot_be_told() -> None:
    down = Unreadable(Why.TIMEOUT, "https://10.0.0.1:6443/api/v1/nodes/worker-1")
    assert say(CHECK, imds(LATE, milliseconds=None), cluster(node=down)) == "unknown CannotLook"
    assert say(CHECK, imds(), cluster(node=down)) == "ok Answers"


def test_it_answers() -> None:
    assert say(CHECK, imds()) == "ok Answers"
    assert say(CHECK, imds(), LINGJUN) == "ok Answers"


def test_where_there_is_no_such_service_nothing_is_said() -> None:
    assert say(CHECK, NOT_ECS) == "absent Nothing"
    assert say(CHECK, imds(LATE, milliseconds=None), LINGJUN) == "absent Nothing"


def test_messages() -> None:
    (late,) = verdicts(CHECK, imds(LATE, milliseconds=None))
    assert late.message == (
        "no instance metadata: http://100.100.100.200/latest/api/token: timeout (no connection in 1.0 s); Terway and "
        "cloud-init take ENIs and addresses from it"
    )
    assert (late.observed, late.expected) == ("timeout", "an answer")
    (well,) = verdicts(CHECK, imds(milliseconds=3.4))
    assert (well.message, well.observed) == ("the instance metadata was told in 3 ms", "3 ms")
