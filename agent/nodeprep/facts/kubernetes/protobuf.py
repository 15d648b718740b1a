"""Messages in protobuf's wire format: numbers of fields and their values. What they mean is the caller's.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.model import Unreadable, Why

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types; groups (3, 4) are of proto2
FIXED = {FIXED64: 8, FIXED32: 4}  # bytes
VARINT_BYTES = 10  # of 64 bits
LAST_FIELD = (1 << 29) - 1
NEGATIVE = 1 << 63


class NotProtobuf(ValueError):
    """What is wrong with a message, and at which byte of it."""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Each field of a message in its order: its number, and its value as a whole number or as bytes.

    A number without a sign: `signed` makes an int64 of it. Raises NotProtobuf, also after fields.
    """
    at, size = 0, len(message)
    while at < size:
        tag = message[at]
        at += 1
        if tag & 0x80:
            tag, at = _varint(message, at - 1)
        number, kind = tag >> 3, tag & 7
        if not 0 < number <= LAST_FIELD:
            raise NotProtobuf(f"byte {at - 1}: no field has the number {number}")
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            length, at = _varint(message, at)
        elif kind in FIXED:
            length = FIXED[kind]
        else:
            raise NotProtobuf(f"byte {at - 1}: field {number} is of the unknown wire type {kind}")
        end = at + length
        if end > size:
            raise NotProtobuf(f"byte {at}: field {number} has {length} bytes, and {size - at} are left")
        yield number, message[at:end] if kind == BYTES else int.from_bytes(message[at:end], "little")
        at = end


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the lowest first, and where it ends."""
    value = 0
    for shift, byte in enumerate(message[at : at + VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, at + shift + 1
    raise NotProtobuf(f"byte {at}: a number that is cut or longer than 64 bits")


def parts(message: bytes, wanted: int) -> Iterator[bytes]:
    """The values of one field that holds messages or text; other fields are skipped. Raises NotProtobuf."""
    return (part(value, number) for number, value in fields(message) if number == wanted)


def part(value: int | bytes, number: int) -> bytes:
    """The bytes of a field that holds a message or text. Raises NotProtobuf."""
    if isinstance(value, int):
        raise NotProtobuf(f"field {number} is a number, wanted text or a message")
    return value


def text(value: int | bytes, number: int) -> str:
    """The text of a field. Raises NotProtobuf."""
    try:
        return part(value, number).decode()
    except UnicodeDecodeError as error:
        raise NotProtobuf(f"field {number} is no UTF-8 at byte {error.start}") from error


def whole(value: int | bytes, number: int) -> int:
    """The number of a field. Raises NotProtobuf."""
    if not isinstance(value, int):
        raise NotProtobuf(f"field {number} is no number")
    return value


def signed(value: int) -> int:
    """An int64: a negative one is sent as 10 bytes, in two's complement."""
    return value - (NEGATIVE << 1) if value >= NEGATIVE else value


def field(number: int, value: int | bytes) -> bytes:
    """A field of a message to send: a number that is not negative, or the bytes of a text or message."""
    if isinstance(value, int):
        return _encoded(number << 3 | VARINT) + _encoded(value)
    return _encoded(number << 3 | BYTES) + _encoded(len(value)) + value


def _encoded(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes((low | 0x80,)) + _encoded(rest) if rest else bytes((low,))


def malformed(path: str, what: str, error: NotProtobuf) -> Unreadable:
    """Stands for a message that cannot be read."""
    return Unreadable(Why.MALFORMED, path, detail=f"{what}: {error}")
