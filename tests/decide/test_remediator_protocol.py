"""Only what is exactly a request is one: everything else is refused in one short line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.decide import remediator_protocol
from nodeprep.decide.remediator_protocol import (
    LINE_BYTES,
    TASK_CHARACTERS,
    TASKS,
    CancelRequest,
    Hello,
    InvalidRequest,
    RunRequest,
    StatusRequest,
)
from nodeprep.repair import remediator

ID = "0123456789abcdef0123456789abcdef"
RUN: dict[str, Any] = {
    "attempt": ID,
    "remedy": "link_up",
    "args": {"interface": "eth1"},
    "check": False,
    "deadline": 120,
}


def line(value: object) -> bytes:
    return json.dumps(value).encode()


def test_each_request_is_read() -> None:
    assert remediator_protocol.parsed(line({"hello": {"version": "0.3.0"}}) + b"\n") == Hello("0.3.0")
    assert remediator_protocol.parsed(line({"status": {"attempt": ID}})) == StatusRequest(ID)
    assert remediator_protocol.parsed(line({"cancel": {"attempt": ID}})) == CancelRequest(ID)
    run = RunRequest(ID, "link_up", {"interface": "eth1"}, check=False, deadline=120.0)
    assert remediator_protocol.parsed(line({"run": RUN})) == run
    assert remediator_protocol.parsed(line({"run": {**RUN, "deadline": 0.5}})).deadline == 0.5  # type: ignore[union-attr]
    assert remediator_protocol.parsed(line({"run": {**RUN, "begin_by": 7}})).begin_by == 7.0  # type: ignore[union-attr]


def run(**changed: object) -> dict[str, object]:
    return {"run": {**RUN, **changed}}


def without(key: str) -> dict[str, object]:
    return {"run": {name: value for name, value in RUN.items() if name != key}}


A_MOMENT = "wanted seconds since the boot, 0 to 1e+09"
REFUSED: dict[str, tuple[bytes, str]] = {
    "a time that is none": (line(run(begin_by="soon")), f"run.begin_by: found a string, {A_MOMENT}"),
    "a time before the boot": (line(run(begin_by=-1)), f"run.begin_by: found another number, {A_MOMENT}"),
    "a time of 400 digits": (line(run(begin_by=10**400)), f"run.begin_by: found another number, {A_MOMENT}"),
    "a truth for a time": (line(run(begin_by=True)), f"run.begin_by: found true or false, {A_MOMENT}"),
    "nothing": (b"", "found no JSON object: Expecting value: line 1 column 1 (char 0)"),
    "no UTF-8": (
        b"\xff{}",
        "found no JSON object: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ),
    "half a line": (
        line({"run": RUN})[:30],
        "found no JSON object: Unterminated string starting at: line 1 column 21 (char 20)",
    ),
    "a list": (b"[]", "found a list, wanted an object with one key: hello, run, status, cancel"),
    "null": (b"null", "found null, wanted an object with one key: hello, run, status, cancel"),
    "no verb": (b"{}", "found an object, wanted an object with one key: hello, run, status, cancel"),
    "two verbs": (
        line({"hello": {"version": "1"}, "run": RUN}),
        "found an object, wanted an object with one key: hello, run, status, cancel",
    ),
    "another verb": (line({"exec": {}}), "found the key 'exec', wanted one of hello, run, status, cancel"),
    "a text for the body": (line({"run": "link_up"}), "run: found a string, wanted an object"),
    "deep": (b'{"run":' + b"[" * 60_000, "found JSON that is nested too deeply"),
    "long": (line({"hello": {"version": "x" * LINE_BYTES}}), f"found a line of more than {LINE_BYTES} bytes"),
    "NaN": (line(run(deadline=float("nan"))), "found no JSON object: NaN is no JSON"),
    "a key twice": (
        line({"run": RUN})[:-2] + b', "remedy": "mtu"}}',
        "found no JSON object: a key stands twice in an object",
    ),
    "one key more": (line(run(approved=True)), "run: found the key 'approved', which it does not take"),
    "one key more in a hello": (
        line({"hello": {"version": "1", "as": "root"}}),
        "hello: found the key 'as', which it does not take",
    ),
    "one key more in a status": (
        line({"status": {"attempt": ID, "of": 1}}),
        "status: found the key 'of', which it does not take",
    ),
    "one key more in a cancel": (
        line({"cancel": {"attempt": ID, "of": 1}}),
        "cancel: found the key 'of', which it does not take",
    ),
    "no attempt": (line(without("attempt")), "run.attempt: found nothing, wanted 32 hexadecimal digits"),
    "a short attempt": (line(run(attempt="12")), "run.attempt: found '12', wanted 32 hexadecimal digits"),
    "an attempt with a line end": (
        line(run(attempt=ID + "\n")),
        "run.attempt: found '0123456789abcdef0123456789abcdef\\n', wanted 32 hexadecimal digits",
    ),
    "a path for a remedy": (
        line(run(remedy="../../tmp/x")),
        "run.remedy: found '../../tmp/x', wanted the name of a remedy",
    ),
    "no check": (line(without("check")), "run.check: found nothing, wanted true or false"),
    "a number for a check": (line(run(check=1)), "run.check: found a number, wanted true or false"),
    "no deadline": (
        line(without("deadline")),
        "run.deadline: found nothing, wanted seconds, more than 0 and at most 3600",
    ),
    "a deadline of zero": (
        line(run(deadline=0)),
        "run.deadline: found 0, wanted seconds, more than 0 and at most 3600",
    ),
    "a deadline below zero": (
        line(run(deadline=-1)),
        "run.deadline: found -1, wanted seconds, more than 0 and at most 3600",
    ),
    "a huge deadline": (
        line(run(deadline=10**400)),
        "run.deadline: found inf, wanted seconds, more than 0 and at most 3600",
    ),
    "a truth for a deadline": (
        line(run(deadline=True)),
        "run.deadline: found true or false, wanted seconds, more than 0 and at most 3600",
    ),
    "a text for the arguments": (line(run(args="eth1")), "run.args: found a string, wanted an object of strings"),
    "a number for an argument": (
        line(run(args={"mtu": 9000})),
        "run.args.mtu: found a number, wanted 1 to 256 printable characters",
    ),
    "an empty argument": (line(run(args={"a": ""})), "run.args.a: found '', wanted 1 to 256 printable characters"),
    "a line end in an argument": (
        line(run(args={"interface": "eth1\nrm"})),
        "run.args.interface: found 'eth1\\nrm', wanted 1 to 256 printable characters",
    ),
    "a long argument": (
        line(run(args={"interface": "e" * 257})),
        f"run.args.interface: found '{'e' * 40}...', wanted 1 to 256 printable characters",
    ),
    "a name that is none": (line(run(args={"a b": "x"})), "run.args: found the argument 'a b', wanted a name"),
    "many arguments": (
        line(run(args={f"a{n}": "x" for n in range(17)})),
        "run.args: found 17 arguments, wanted at most 16",
    ),
    "no version": (line({"hello": {}}), "hello.version: found nothing, wanted a version"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_request_is_refused(name: str) -> None:
    sent, says = REFUSED[name]
    with pytest.raises(InvalidRequest) as refused:
        remediator_protocol.parsed(sent)
    assert str(refused.value) == says


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NEAR = st.fixed_dictionaries(
    {},
    optional={key: st.just(value) | JSON for key, value in RUN.items()} | {"approved": JSON},
)


@given(
    st.binary(max_size=300)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.builds(lambda body, verb: line({verb: body}), NEAR, st.sampled_from(["run", "status", "hello", "cancel"]))
)
def test_whatever_comes_it_is_a_request_or_one_short_line(sent: bytes) -> None:
    try:
        request = remediator_protocol.parsed(sent)
    except InvalidRequest as refused:
        words = str(refused)
        assert words.isprintable()
        assert words.isascii()
        assert len(words) < 400
        return
    if isinstance(request, RunRequest):
        assert len(request.attempt) == 32
        assert "/" not in request.remedy
        assert all(value.isprintable() for value in request.args.values())
        assert 0 < request.deadline <= 3600


def test_an_answer_with_every_task_is_a_line() -> None:
    """As JSON writes it at its longest."""
    tasks = [{"task": "\u2028" * TASK_CHARACTERS, "result": "changed"}] * TASKS
    assert len(line({"status": "done", "tasks": tasks, "why": "\u2028" * remediator.WORDS})) < LINE_BYTES
