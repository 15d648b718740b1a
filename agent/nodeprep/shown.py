"""Values that a node shows, and what replaces a value that could not be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar, cast

from nodeprep.newer_python import StrEnum, dataclass_transform
from nodeprep.values import Value

T = TypeVar("T")
K = TypeVar("K")
NOT_RECORDED = "not recorded"
EXCLUDED = "excluded by the configuration"
NOT_MOUNTED = "not mounted in this pod: "
NO_ACCESS = "no access was given: --kubeconfig FILE --node NAME"


class Why(StrEnum):
    """Why something could not be read."""

    DENIED = "denied"
    MISSING = "missing"
    MISSING_TOOL = "missing-tool"
    TIMEOUT = "timeout"
    IO_ERROR = "io-error"
    MALFORMED = "malformed"
    BUSY = "busy"  # we had no processor: it says nothing about the device


class Unreadable(Value):
    """Replaces a value: `path` could not be read, or its content is not what a kernel writes there (`detail`)."""

    kind: Why
    path: str
    errno: int | None = None
    detail: str = ""

    @property
    def not_recorded(self) -> bool:
        """Whether a dead tree simply holds no record of it."""
        return self.kind is Why.MISSING and self.detail == NOT_RECORDED

    @property
    def not_asked(self) -> bool:
        """Whether it can only be read with an access that was not given, such as a kubeconfig."""
        return self.kind is Why.MISSING and self.detail == NO_ACCESS

    @property
    def is_not_mounted(self) -> bool:
        """Whether the agent's pod lacks a mount of it, which a manifest has that `detail` names."""
        return self.kind is Why.MISSING and self.detail.startswith(NOT_MOUNTED)

    @property
    def is_excluded(self) -> bool:
        """Whether the operator's `exclude` keeps it from being read."""
        return self.kind is Why.MISSING and self.detail == EXCLUDED

    def __str__(self) -> str:
        tail = self.detail or (f"errno {self.errno}" if self.errno else "")
        return f"{self.path}: {self.kind}" + (f" ({tail})" if tail else "")


def excluded(path: str) -> Unreadable:
    """Stands for a fact of which the operator's `exclude` hides the whole list of devices."""
    return Unreadable(Why.MISSING, path, detail=EXCLUDED)


def not_mounted(path: str, manifest: str) -> Unreadable:
    """Replaces what a pod of the agent cannot see before it runs with the mounts of `manifest`. It is never absent."""
    return Unreadable(Why.MISSING, path, detail=f"{NOT_MOUNTED}{manifest} mounts it")


def not_recorded(path: str) -> Unreadable:
    """Replaces a fact that a dead tree does not record: a part was not copied, and nothing failed."""
    return Unreadable(Why.MISSING, path, detail=NOT_RECORDED)


class CannotLook(Exception):
    """Reading a value that is Unreadable raises it. Only the round and `Seen.each` catch it.

    `field` is the name of the field that was read, "" for a whole fact. `possible` are the values that stand for all
    that the field may hold (`Shown.possible`).
    """

    def __init__(self, blind: Unreadable, field: str = "", possible: tuple[object, ...] = ()) -> None:
        super().__init__(str(blind))
        self.blind = blind
        self.field = field
        self.possible = possible


UNREADABLE = "unreadable"  # the word for a supposed value in a message
NOTHING: Mapping[tuple[str, Unreadable], object] = MappingProxyType({})
_SUPPOSED = ContextVar("_SUPPOSED", default=NOTHING)


class _Supposed:
    """A supposed value counts and compares as itself. A message says that it could not be read."""

    def __repr__(self) -> str:
        return UNREADABLE

    def __format__(self, _: str) -> str:
        return UNREADABLE

    __str__ = __repr__


class _SupposedText(_Supposed, str):
    __slots__ = ()


class _SupposedInteger(_Supposed, int):
    __slots__ = ()


class _SupposedNumber(_Supposed, float):
    __slots__ = ()


@contextmanager
def supposing(cannot: CannotLook, value: object) -> Iterator[None]:
    """Read this value in place of the field that could not be read, until the end of the block."""
    hidden: dict[type, type] = {str: _SupposedText, int: _SupposedInteger, float: _SupposedNumber}
    supposed = hidden[type(value)](value) if type(value) in hidden else value
    token = _SUPPOSED.set({**_SUPPOSED.get(), (cannot.field, cannot.blind): supposed})
    try:
        yield
    finally:
        _SUPPOSED.reset(token)


def stands_for_all(**values: object) -> Mapping[str, object]:
    """The value of `Shown.possible`."""
    return values


class Shown:
    """A thing that a node shows, made by `@shown`.

    A field may hold an Unreadable instead of its value. Reading that field raises CannotLook, so no check can take it
    for a value. The other fields stay readable. `raw` gives every field as it is.

    `possible` has, for a field that stands beside other signs of a fault, values that stand for all that it may hold:
    the best one where a better value never makes a verdict worse, else one for each answer that matters. What fails
    with each of them fails whatever the field holds (docs/adr/0035). A function makes them from the thing.
    """

    __slots__ = ("_blind", "_derived")
    defaults: ClassVar[Mapping[str, Any]] = {}
    possible: ClassVar[Mapping[str, Any]] = {}
    _blind: Mapping[str, Unreadable]
    _derived: dict[str, Any]
    _values: ClassVar[Any]  # a function: all fields of a thing that has no unreadable one, as a tuple

    if not TYPE_CHECKING:  # mypy takes the constructor from the fields (dataclass_transform)

        def __init__(self, *values: Any, **named: Any) -> None:
            names = self.__slots__
            given = self.defaults | dict(zip(names, values, strict=False)) | named
            if len(values) > len(names) or given.keys() != set(names) or named.keys() & names[: len(values)]:
                raise TypeError(f"{type(self).__name__} takes {', '.join(names)}; got {len(values)} and {list(named)}")
            blind = {}
            for name, value in given.items():
                if value.__class__ is Unreadable:
                    # An empty slot makes Python ask __getattr__, so readable fields cost nothing extra.
                    blind[name] = value
                else:
                    object.__setattr__(self, name, value)
            object.__setattr__(self, "_blind", blind)

        def __getattr__(self, name: str) -> Any:
            if name not in ("_blind", "_derived") and name in self._blind:
                blind, supposed = self._blind[name], _SUPPOSED.get()
                if (name, blind) in supposed:
                    return supposed[name, blind]
                possible = self.possible.get(name, ())
                raise CannotLook(blind, name, possible(self) if callable(possible) else possible)
            raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name}: what was shown does not change")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Shown) or type(self) is not type(other) or self._blind != other._blind:
            return False
        if not self._blind:
            return bool(self._values(self) == self._values(other))
        # The unreadable fields are the same in both. The others are compared until one differs.
        blind = self._blind
        return all(name in blind or getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((type(self).__name__, *raw(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in raw(self).items())})"


class derived(Generic[T]):  # noqa: N801 - used as `property` is
    """A property of a Shown class that is computed once, such as an index of its things: what was shown never changes.

    It is no field: it is neither compared nor recorded.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, thing: Any, owner: type) -> T:
        try:
            known = thing._derived  # noqa: SLF001 - a part of Shown
        except AttributeError:
            object.__setattr__(thing, "_derived", known := {})
        if self.name not in known:
            if _SUPPOSED.get():  # it may rest on a supposed value, which is nobody else's
                return self.compute(thing)
            known[self.name] = self.compute(thing)
        return cast(T, known[self.name])


def grouped(things: Iterable[T], key: Callable[[T], K]) -> dict[K, tuple[T, ...]]:
    """Things by what they have in common, in their order: looked up for each device where a search would take long."""
    found: dict[K, list[T]] = {}
    for thing in things:
        found.setdefault(key(thing), []).append(thing)
    return {one: tuple(of) for one, of in found.items()}


@dataclass_transform(eq_default=False, frozen_default=True)
def shown(cls: type[T]) -> type[T]:
    """Make a slotted class whose constructor takes its annotated fields, in their order.

    It is not a Value, because a field of a Value never raises. Here an unreadable field must raise (docs/adr/0029).
    """
    names = tuple(cls.__annotations__)
    defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
    body = {name: value for name, value in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")}
    body |= {"__slots__": names, "__match_args__": names, "defaults": defaults}
    # attrgetter takes many fields at once, in C; of one field it gives no tuple.
    several = attrgetter(*names) if len(names) > 1 else lambda thing: tuple(getattr(thing, name) for name in names)
    body["_values"] = staticmethod(several)
    return cast("type[T]", type(cls.__name__, cls.__bases__, body))


def raw(thing: Shown) -> dict[str, Any]:
    """Every field of `thing` by name, an Unreadable where it could not be read."""
    blind = thing._blind  # noqa: SLF001 - the only place that reads it from outside
    if not blind:
        return dict(zip(thing.__slots__, thing._values(thing), strict=True))  # noqa: SLF001 - as above
    return {name: blind[name] if name in blind else getattr(thing, name) for name in thing.__slots__}


def unreadable_fields(thing: Shown) -> Collection[str]:
    """The names of its fields that could not be read."""
    return thing._blind.keys()  # noqa: SLF001 - as `raw`


def field_of(thing: Shown, name: str) -> Any:
    """One field of `thing`, as `raw` gives it."""
    blind = thing._blind  # noqa: SLF001 - as `raw`
    return blind[name] if name in blind else getattr(thing, name)


def guarded(value: T | Unreadable) -> T:
    """Type a value for a field of a Shown class. mypy does not see the Unreadable; reading the field raises."""
    return cast(T, value)
