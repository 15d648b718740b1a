"""What may be asked of the remediator: one JSON object a line. Whatever else comes is refused in one line.

Whoever can connect may have taken the agent over, so nothing here is trusted: sizes, keys, types and nesting are held
before anything looks at a meaning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from nodeprep.pattern import Pattern
from nodeprep.values import Value, field

DIRECTORY, SOCKET = "/run/nodeprep-remediator", "remediator.sock"
LINE_BYTES = 64 << 10  # with its line end, in each direction
ARGUMENTS = 16  # the most that a remedy could ever take
ARGUMENT_CHARACTERS = 256
SHOWN_CHARACTERS = 40  # of what somebody sent, in a message
TASKS, TASK_CHARACTERS = 32, 200  # of the tasks of an attempt, in an answer
VERSION_CHARACTERS = 64
LAST_MOMENT = 1e9  # seconds since a boot: thirty years
MOST_SECONDS = 3600.0  # of a deadline that can be asked for; the limits of the remediator are lower
ATTEMPT = Pattern(r"[0-9a-f]{32}")  # uuid4().hex
REMEDY = Pattern(r"[a-z][a-z0-9_]{0,63}")
ARGUMENT = Pattern(r"[a-z][a-z0-9_-]{0,31}")


class InvalidRequest(Exception):
    """A line that is no request. Its text is one line: the key, what was found and what was wanted."""


class Hello(Value):
    """Who asks. Only a program of the same version may run something."""

    version: str


class RunRequest(Value):
    """Run a remedy once. `attempt` is a fresh id, `deadline` in seconds. `check` changes nothing.

    `begin_by` is when it must have begun, CLOCK_BOOTTIME seconds: later, nobody knows any more whether the gate is
    closed. 0 is whenever.
    """

    attempt: str
    remedy: str
    args: Mapping[str, str] = field(default_factory=dict)
    check: bool = False
    deadline: float = 0.0
    begin_by: float = 0.0


class StatusRequest(Value):
    """How an attempt stands."""

    attempt: str


class CancelRequest(Value):
    """End an attempt that runs."""

    attempt: str


Request = Hello | RunRequest | StatusRequest | CancelRequest


def parsed(line: bytes) -> Request:
    """The request in a line, its end included or not. Raises InvalidRequest."""
    if len(line) > LINE_BYTES:
        raise InvalidRequest(f"found a line of more than {LINE_BYTES} bytes")
    try:
        found = json.loads(line.decode(), object_pairs_hook=_without_doubles, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidRequest("found JSON that is nested too deeply") from None
    except ValueError as error:
        raise InvalidRequest(f"found no JSON object: {error}") from None  # it quotes nothing that was sent
    if not isinstance(found, dict) or len(found) != 1:
        raise InvalidRequest(f"found {_kind(found)}, wanted an object with one key: {', '.join(READERS)}")
    ((verb, body),) = found.items()
    if verb not in READERS:
        raise InvalidRequest(f"found the key {_shown(verb)}, wanted one of {', '.join(READERS)}")
    if not isinstance(body, dict):
        raise InvalidRequest(f"{verb}: found {_kind(body)}, wanted an object")
    return READERS[verb](_Body(verb, body))


class _Body:
    """The object below a verb: each key is taken once, and none may be left."""

    def __init__(self, verb: str, keys: Mapping[str, Any]) -> None:
        self._verb, self._keys = verb, dict(keys)

    def take(self, key: str, kind: type, words: str) -> Any:
        if key not in self._keys:
            raise InvalidRequest(f"{self._verb}.{key}: found nothing, wanted {words}")
        value = self._keys.pop(key)
        if type(value) is not kind:  # a bool is no number
            raise InvalidRequest(f"{self._verb}.{key}: found {_kind(value)}, wanted {words}")
        return value

    def attempt(self) -> str:
        return self._word("attempt", "32 hexadecimal digits", ATTEMPT.fullmatch)

    def remedy(self) -> str:
        return self._word("remedy", "the name of a remedy", REMEDY.fullmatch)

    def _word(self, key: str, words: str, is_one: Callable[[str], object]) -> str:
        value: str = self.take(key, str, words)
        if not is_one(value):
            raise InvalidRequest(f"{self._verb}.{key}: found {_shown(value)}, wanted {words}")
        return value

    def seconds(self, key: str) -> float:
        words = f"seconds, more than 0 and at most {MOST_SECONDS:g}"
        value = self._keys.get(key)
        if type(value) is int:
            self._keys[key] = float(value) if abs(value) <= MOST_SECONDS else math.inf
        number: float = self.take(key, float, words)
        if not 0 < number <= MOST_SECONDS:
            raise InvalidRequest(f"{self._verb}.{key}: found {number:g}, wanted {words}")
        return number

    def moment(self, key: str) -> float:
        """A time since the boot, in seconds; 0 if it is left out."""
        value = self._keys.pop(key, 0.0)
        words = f"seconds since the boot, 0 to {LAST_MOMENT:g}"
        if type(value) not in (int, float):
            raise InvalidRequest(f"{self._verb}.{key}: found {_kind(value)}, wanted {words}")
        if not 0 <= value <= LAST_MOMENT:
            raise InvalidRequest(f"{self._verb}.{key}: found another number, wanted {words}")
        return float(value)

    def arguments(self, key: str) -> Mapping[str, str]:
        given: dict[str, Any] = self.take(key, dict, "an object of strings")
        if len(given) > ARGUMENTS:
            raise InvalidRequest(f"{self._verb}.{key}: found {len(given)} arguments, wanted at most {ARGUMENTS}")
        for name, value in given.items():
            if not ARGUMENT.fullmatch(name):
                raise InvalidRequest(f"{self._verb}.{key}: found the argument {_shown(name)}, wanted a name")
            if type(value) is not str or not 0 < len(value) <= ARGUMENT_CHARACTERS or not value.isprintable():
                what = _shown(value) if type(value) is str else _kind(value)
                words = f"1 to {ARGUMENT_CHARACTERS} printable characters"
                raise InvalidRequest(f"{self._verb}.{key}.{name}: found {what}, wanted {words}")
        return given

    def end(self) -> None:
        if self._keys:
            raise InvalidRequest(
                f"{self._verb}: found the key {_shown(next(iter(self._keys)))}, which it does not take"
            )


def _hello(body: _Body) -> Hello:
    version: str = body.take("version", str, "a version")
    body.end()
    return Hello(version[:VERSION_CHARACTERS])


def _run(body: _Body) -> RunRequest:
    request = RunRequest(
        body.attempt(),
        body.remedy(),
        body.arguments("args"),
        body.take("check", bool, "true or false"),
        body.seconds("deadline"),
        body.moment("begin_by"),
    )
    body.end()
    return request


def _status(body: _Body) -> StatusRequest:
    request = StatusRequest(body.attempt())
    body.end()
    return request


def _cancel(body: _Body) -> CancelRequest:
    request = CancelRequest(body.attempt())
    body.end()
    return request


READERS: Mapping[str, Callable[[_Body], Request]] = {
    "hello": _hello,
    "run": _run,
    "status": _status,
    "cancel": _cancel,
}


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ. Of two alike, one reader takes the first and another the last."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return made


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _kind(value: object) -> str:
    """What a JSON value is, in a word or two. Never the value: it may be long."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number"}
    return kinds.get(type(value), "a number" if type(value) is float else "null")


def _shown(value: str) -> str:
    """What somebody sent, short and with every sign that is not printable written out."""
    return ascii(value if len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]}...")
