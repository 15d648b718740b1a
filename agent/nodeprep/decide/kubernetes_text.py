"""Text as the Kubernetes API accepts it. What a node shows may have any length and any characters."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

CONDITION_MESSAGE_LIMIT_CHARACTERS = 512  # characters; a message is for people (design 3.5), details are in the report
WORD_LIMIT_CHARACTERS = 80  # characters; a longer word is cut in the middle, or hardly anything would be left
NAMES_IN_CONDITION = 3
LABEL_LIMIT_CHARACTERS = (
    63  # characters of a label's value and of its name (apimachinery, validation.LabelValueMaxLength)
)


def line(text: str, most: int = CONDITION_MESSAGE_LIMIT_CHARACTERS, tail: str = "") -> str:
    """One printable line of at most `most` characters that ends with `tail`. It is cut before the tail, at a blank."""
    end = _printable(tail)[:most]
    body = _printable(text)
    room = most - len(end)
    if len(body) > room:
        body = f"{_whole_words(body, room - 3)}..." if room > 3 else ""
    return body + end


def few(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = len(names) - NAMES_IN_CONDITION
    return ", ".join(names[:NAMES_IN_CONDITION]) + (f" and {more} more" if more > 0 else "")


def reason(text: str) -> str:
    """A CamelCase word: letters and digits, a letter first."""
    return re.sub(r"[^A-Za-z0-9]", "", text).lstrip("0123456789")[:LABEL_LIMIT_CHARACTERS] or "Unnamed"


def label(text: str) -> str:
    """A value of a label or a taint, or the name in a label's key.

    A text that has to be changed gets a checksum of the whole at its end, so that two names do not become one.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", text)
    if plain == text and len(text) <= LABEL_LIMIT_CHARACTERS and re.fullmatch(r"[A-Za-z0-9](.*[A-Za-z0-9])?", text):
        return text
    mark = f"{zlib.crc32(text.encode(errors='backslashreplace')):08x}"
    return f"{plain[: LABEL_LIMIT_CHARACTERS - 9].strip('._-') or 'x'}-{mark}"


def _whole_words(text: str, most: int) -> str:
    end = text.rfind(" ", max(most - WORD_LIMIT_CHARACTERS, 0), most + 1)
    return text[:most] if end < 0 else text[:end].rstrip()


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)
