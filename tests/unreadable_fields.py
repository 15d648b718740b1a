"""Asks a failing check again, with one other field unreadable at a time: the fault must stay (tests/given.py)."""

from __future__ import annotations

import ast
import errno
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import nodeprep
import nodeprep.door_values
import nodeprep.facts
from nodeprep.model import Shown, Status, Unreadable, Why, raw
from tests.values import Asked

EIO = Unreadable(Why.IO_ERROR, "/damaged", errno.EIO)
Field = tuple[str, str]  # class and field
Put = Callable[[object], tuple[object, ...]]  # the facts with a value in this field

# Without these fields nobody can say that there is a fault, whatever values the tests have of them.
ALONG = "unreadable only along with the files that it lists"
ITSELF = "the sign itself: each value that the tests have is a fault here"
DEAD = "unreadable only in a dead tree, where the check does not run"
LEFT_OUT = {
    ("cni.binaries", "Cni", "directory"): ALONG,
    ("cni.binaries", "Cni", "paths"): ALONG,
    ("cni.directory", "Cni", "directory"): ALONG,
    ("cni.first", "Cni", "directory"): ALONG,
    ("cni.parse", "Cni", "directory"): ALONG,
    ("eni.addresses", "Interface", "addresses"): ITSELF,
    ("eni.eri-address", "Interface", "primary_address"): ITSELF,
    ("eni.up", "Link", "index"): DEAD,
    ("imds.identity", "Instance", "id"): ITSELF,
    ("imds.identity", "Instance", "region"): ITSELF,
    ("lingjun.zone", "EniConfig", "settings"): ITSELF,
    ("plugin.registered", "Cluster", "node"): "a controller may have written the resource to the Node",
    ("port.flap", "Link", "index"): DEAD,
    ("port.gid", "Gid", "value"): ITSELF,
    ("rdma.device-nodes", "DevNode", "number"): ITSELF,
    ("route.rules", "Link", "index"): DEAD,
    ("route.tables", "Link", "index"): DEAD,
    ("terway.mode", "Cluster", "node"): ITSELF,
}


def guarded_fields() -> frozenset[Field]:
    """The fields that an observation may leave unreadable: those that the sources of facts make with `guarded`."""
    found: set[Field] = set()
    for source in sorted(Path(nodeprep.__file__).parent.glob("**/*.py")):
        tree = ast.parse(source.read_text())
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id in KINDS:
                names = KINDS[call.func.id].__slots__
                given = [*zip(names, call.args, strict=False), *((one.arg or "", one.value) for one in call.keywords)]
                found |= {(call.func.id, name) for name, value in given if "guarded" in ast.dump(value)}
    return frozenset(found)


def _kinds(kind: type[Shown]) -> Iterator[tuple[str, type[Shown]]]:
    for below in kind.__subclasses__():
        yield below.__name__, below
        yield from _kinds(below)


KINDS: dict[str, type[Shown]] = dict(_kinds(Shown))
FIELDS = guarded_fields()


def fields(value: object, put: Put) -> Iterator[tuple[Field, object, Put]]:
    """Every field of every thing in a value that may be unreadable, with what it holds and how to change it."""
    if isinstance(value, tuple):
        for index, one in enumerate(value):
            yield from fields(one, lambda new, index=index: put((*value[:index], new, *value[index + 1 :])))  # type: ignore[misc]
    elif isinstance(value, Shown):
        for name, held in raw(value).items():

            def inside(new: object, name: str = name) -> tuple[object, ...]:
                return put(type(value)(**(raw(value) | {name: new})))

            if (type(value).__name__, name) in FIELDS and not isinstance(held, Unreadable):
                yield (type(value).__name__, name), held, inside
            yield from fields(held, inside)


def hidden(asked: Iterable[Asked]) -> tuple[int, list[str]]:
    """The number of pairs of a failing verdict and another field, and those whose fault the field hid or made."""
    every = list(asked)
    known: dict[Field, dict[str, object]] = {}
    for one in every:
        for field, held, _ in fields(one.facts, tuple):  # type: ignore[arg-type]
            known.setdefault(field, {})[repr(held)] = held
    pairs, wrong = 0, set[str]()
    for one in every:
        for field, _, put in fields(one.facts, tuple) if one.failing else ():  # type: ignore[arg-type]
            pairs += 1
            if (one.check.id, *field) in LEFT_OUT or _fails(one, put(EIO)):
                continue
            if all(_fails(one, put(value)) for value in known[field].values()):
                wrong.add(f"{one.check.id}: {'.'.join(field)}")
    return pairs, sorted(wrong)


def _fails(asked: Asked, changed: tuple[object, ...]) -> bool:
    failing = {(one.subject.place, one.subject.port) for one in asked.again(changed) if one.status is Status.FAIL}
    return asked.failing <= failing
