"""Asks the kernel over netlink, one question at a time. An incomplete answer is an error.

The message classes are those of pyroute2. Its sockets are not used. Each costs an event loop and ten descriptors, which
leak if the protocol is missing. A socket that stays open collects one acknowledgement per question for ever. A dump
that failed half-way (errno in NLMSG_DONE), or that the kernel marked inconsistent, looks like a short and good answer.

Only the message classes are imported (docs/adr/0008): two modules, 30 ms and 4 MiB. The whole package takes 180 ms and
20 MiB, with a database and an event loop.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from typing import Self

# include/uapi/linux/netlink.h
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
ERRNO = struct.Struct("=i")  # negative; follows the header of NLMSG_ERROR and NLMSG_DONE
ATTRIBUTE = struct.Struct("=HH")  # length, type
NLA_TYPE_MASK = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP_INTR, NLM_F_DUMP = 0x01, 0x04, 0x10, 0x300

BUFFER = 1 << 16  # bytes; the kernel fills at most 32 KiB of it (net/netlink/af_netlink.c, netlink_recvmsg)
DUMP_ATTEMPTS = 3  # dumps of a table that changes meanwhile
RECEIVE_TIMEOUT_SECONDS = 5.0  # for an answer that never comes; the kernel answers within the system call


def _netlink() -> Any:
    """pyroute2.netlink. During its import, an empty package that was never run takes the place of pyroute2."""
    spec = importlib.util.find_spec("pyroute2")
    if "pyroute2" in sys.modules or spec is None:
        return importlib.import_module("pyroute2.netlink")
    sys.modules["pyroute2"] = importlib.util.module_from_spec(spec)
    try:
        return importlib.import_module("pyroute2.netlink")
    finally:
        del sys.modules["pyroute2"]  # a later import of pyroute2 gets all of it


_found = _netlink()
nla: Any = _found.nla
nlmsg: Any = _found.nlmsg


class Refused(OSError):
    """The kernel answered with an error. Any other OSError of this module means that there is no valid answer."""


class Attributes:
    """The attributes of a message or of a nest in it, by the names that the class's `nla_map` gives them.

    A map names only what is used. The kernel may send other attributes too.
    """

    __slots__ = ()

    def all(self, name: str) -> list[object]:
        found: list[object] = self.get_attrs(name)  # type: ignore[attr-defined]  # pyroute2's, which ships no types
        return found

    def number(self, name: str) -> int | None:
        value = self._one(name)
        if value is None or isinstance(value, int):
            return value
        raise malformed(f"{name} is {value!r}, not a number")

    def text(self, name: str) -> str | None:
        value = self._one(name)
        return None if value is None else string(value)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(string(value) for value in self.all(name))

    def octets(self, name: str) -> bytes | None:
        value = self._one(name)
        if value is None or isinstance(value, bytes):
            return value
        raise malformed(f"{name} is {value!r}, not bytes")

    def nest(self, name: str) -> Nest:
        """The nest of that name, or an empty one."""
        value = self._one(name)
        return value if isinstance(value, Nest) else Nest()

    def nests(self, name: str) -> list[Nest]:
        return [value for value in self.all(name) if isinstance(value, Nest)]

    def _one(self, name: str) -> object:
        found = self.all(name)
        return found[0] if found else None


class Message(Attributes, nlmsg):  # type: ignore[misc]  # pyroute2 ships no types
    """What follows a netlink header: `fields` first, then attributes."""

    __slots__ = ()

    def field(self, name: str) -> int:
        value: int = self[name]
        return value


class Nest(Attributes, nla):  # type: ignore[misc]
    """An attribute that holds attributes."""

    __slots__ = ()


M = TypeVar("M", bound=Message)
T = TypeVar("T")


class Part(NamedTuple):
    """One message of a datagram. `data` is the whole message with its header."""

    kind: int
    flags: int
    sequence: int
    data: bytes


class NetlinkSocket:
    """A netlink socket for the questions of one look. It is a context manager that closes itself."""

    def __init__(self, protocol: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._socket.settimeout(RECEIVE_TIMEOUT_SECONDS)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def get(self, question: IntEnum, answer: type[M], body: bytes = b"") -> M:
        """The answer to a question about one thing. `body` follows the header.

        Raises:
            Refused: the kernel answered with an error.
            OSError: there is no answer, or no valid one.
        """
        for message in decoded(answer, self._ask(question, body, NLM_F_ACK)):
            return message
        raise malformed(f"{question.name}: acknowledged, but not answered")

    def dump(self, question: IntEnum, answer: type[M], body: bytes = b"") -> Iterator[M]:
        """The messages of a whole table at one moment. Raises as `get`, also if the dump failed half-way."""
        return decoded(answer, self._ask(question, body, NLM_F_DUMP))

    def undecoded(self, question: IntEnum, body: bytes, *, dump: bool) -> list[bytes]:
        """The undecoded messages of `get` or `dump`, for tables that take too long to decode."""
        return self._ask(question, body, NLM_F_DUMP if dump else NLM_F_ACK)

    def _ask(self, question: IntEnum, body: bytes, flags: int) -> list[bytes]:
        for _ in range(DUMP_ATTEMPTS):
            answer = self._exchange(question, body, flags)
            if answer is not None:
                return answer
        raise OSError(errno.EAGAIN, f"{question.name}: the table changed during each of {DUMP_ATTEMPTS} dumps")

    def _exchange(self, question: IntEnum, body: bytes, flags: int) -> list[bytes] | None:
        """The messages of the answer; None if the kernel says that the table changed during the dump."""
        self._sequence += 1
        length = HEADER.size + len(body)
        self._socket.send(HEADER.pack(length, question, NLM_F_REQUEST | flags, self._sequence, 0) + body)
        answer: list[bytes] = []
        changed = 0
        while True:
            datagram, _, received, _ = self._socket.recvmsg(BUFFER)
            if received & socket.MSG_TRUNC:
                raise malformed(f"{question.name}: an answer longer than {BUFFER} bytes")
            for part in parts(datagram):
                if part.sequence != self._sequence:
                    continue
                changed |= part.flags & NLM_F_DUMP_INTR
                if part.kind not in (NLMSG_ERROR, NLMSG_DONE):
                    answer.append(part.data)
                    continue
                code = verdict(part.data)
                if code:
                    raise Refused(code, f"{question.name}: {os.strerror(code)}")
                return None if changed else answer


class TableDecoder(Generic[T]):
    """Makes values of a table's messages. A message that says what it said in the last dump keeps its value.

    From look to look most say the same, and to decode a link takes as long as to read fifteen attributes of sysfs.
    """

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode
        self._last: dict[bytes, T] = {}  # by the message without its header, which counts questions

    def values(self, messages: Iterable[bytes]) -> list[T]:
        """The values of whole messages, in their order. Raises OSError if a message is not valid."""
        last, found = self._last, {}
        values = []
        for message in messages:
            body = message[HEADER.size :]
            value = last[body] if body in last else self._decode(message)
            found[body] = value
            values.append(value)
        self._last = found
        return values


def parts(datagram: bytes) -> Iterator[Part]:
    """The messages of one datagram."""
    offset = 0
    while offset < len(datagram):
        rest = len(datagram) - offset
        if rest < HEADER.size:
            raise malformed(f"{rest} bytes behind the last message")
        length, kind, flags, sequence, _ = HEADER.unpack_from(datagram, offset)
        if not HEADER.size <= length <= rest:
            raise malformed(f"a message says that it has {length} bytes, there are {rest}")
        yield Part(kind, flags, sequence, datagram[offset : offset + length])
        offset += length + 3 & ~3


def verdict(data: bytes) -> int:
    """The errno in an NLMSG_ERROR or NLMSG_DONE; 0 is success."""
    if len(data) < HEADER.size + ERRNO.size:
        raise malformed(f"{len(data)} bytes, too short for a netlink verdict")
    code: int = ERRNO.unpack_from(data, HEADER.size)[0]
    return -code


def decoded(answer: type[M], raw: list[bytes]) -> Iterator[M]:
    """The messages, decoded one at a time, because decoded messages are large."""
    return (decoded_one(answer, data) for data in raw)


def decoded_one(answer: type[M], data: bytes) -> M:
    message = answer(mapped(answer, data))
    message.decode()
    return message


def mapped(answer: type[Message], data: bytes) -> bytes:
    """The message without the attributes that its class does not name.

    pyroute2 would make an object of each: half of the time that the forty attributes of a link take. It also accepts a
    message that is cut short. Here that is an error.
    """
    offset: int = HEADER.size + answer.get_size()
    named = {kind for kind, _, _ in answer.nla_map}
    kept = [data[:offset]]
    while offset + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if not ATTRIBUTE.size <= length <= len(data) - offset:
            raise malformed(f"{answer.__name__}: attribute {kind} of {length} bytes, {len(data) - offset} left")
        if kind & NLA_TYPE_MASK in named:
            kept.append(data[offset : offset + (length + 3 & ~3)])
        offset += length + 3 & ~3
    if len(data) < HEADER.size + answer.get_size() or offset < len(data):
        raise malformed(f"{answer.__name__} cut short: {len(data)} bytes")
    whole = b"".join(kept)
    return struct.pack("=I", len(whole)) + whole[4:]


def attribute(kind: int, payload: bytes) -> bytes:
    """A netlink attribute, padded to 4 bytes."""
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(payload), kind) + payload + bytes(-len(payload) % 4)


def malformed(what: str) -> OSError:
    return OSError(errno.EBADMSG, f"netlink: {what}")


def string(value: object) -> str:
    """A text of the kernel. A name may hold any byte, and pyroute2 does not decode text that is not UTF-8."""
    return value.decode(errors="backslashreplace").rstrip("\0") if isinstance(value, bytes) else str(value)
