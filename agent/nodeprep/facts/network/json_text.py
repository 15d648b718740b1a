"""Reads JSON strictly, and says at which line and column a text stops being JSON."""

from __future__ import annotations

import re
from typing import NoReturn

from nodeprep.pattern import Pattern

DEPTH = 100  # levels; configurations have fewer than ten, and a recursive reader needs a limit
DIGITS = 20  # of an integer; 64 bits need at most 20
SPACE = Pattern(r"[ \t\r\n]*+")
STRING = Pattern(r'"([^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+)"')
NUMBER = Pattern(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
WORD = Pattern(r"true|false|null")
WORDS = {"true": True, "false": False, "null": None}
ESCAPE = Pattern(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4})|)')
ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class NotJson(ValueError):
    """What is wrong with a text, with its place: "line 3, column 17: a comma is missing"."""


def parse(text: str) -> object:
    """The value of a JSON text (RFC 8259): of dict, list, str, int, float, bool and None.

    Stricter than most: a key that stands twice in an object, a number that is none (NaN) or too large, and what is
    nested deeper than 100 are refused, for readers disagree on what these mean.

    Raises:
        NotJson: it is not JSON.
    """
    reader = _Reader(text)
    value = reader.value(0)
    if reader.peek():
        reader.fail("more text behind the end")
    return value


class _Reader:
    """A text and the place up to which it was read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, what: str, at: int | None = None) -> NoReturn:
        at = self.at if at is None else at
        line = self.text.count("\n", 0, at) + 1
        raise NotJson(f"line {line}, column {at - self.text.rfind(chr(10), 0, at)}: {what}")

    def peek(self) -> str:
        """The next character that is not white space, "" at the end."""
        match = SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> object:
        start = self.peek()
        if depth > DEPTH:
            self.fail(f"nested deeper than {DEPTH}")
        if start == "{":
            return self.members(depth)
        if start == "[":
            return self.items(depth)
        if start == '"':
            return self.string()
        word = WORD.match(self.text, self.at)
        if word:
            self.at = word.end()
            return WORDS[word[0]]
        return self.number()

    def members(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        self.at += 1
        if self.took("}"):
            return found
        while True:
            if self.peek() != '"':
                self.fail(f"a key in quotes is wanted, not {self.here()}")
            place = self.at
            key = self.string()
            if key in found:
                self.fail(f"{key[:40]!r} stands here a second time", place)
            if not self.took(":"):
                self.fail(f"a colon is missing before {self.here()}")
            found[key] = self.value(depth + 1)
            if self.took("}"):
                return found
            self.comma("}")

    def items(self, depth: int) -> list[object]:
        found: list[object] = []
        self.at += 1
        if self.took("]"):
            return found
        while True:
            found.append(self.value(depth + 1))
            if self.took("]"):
                return found
            self.comma("]")

    def comma(self, closing: str) -> None:
        if not self.took(","):
            self.fail(f"a comma or {closing} is missing before {self.here()}")

    def took(self, sign: str) -> bool:
        taken = self.peek() == sign
        self.at += taken
        return taken

    def here(self) -> str:
        return repr(self.peek()) if self.peek() else "the end"

    def string(self) -> str:
        match = STRING.match(self.text, self.at)
        if match is None:
            self.fail("a string without its end, or with a control character in it")
        start, self.at = self.at + 1, match.end()
        if "\\" not in match[1]:
            return match[1]
        plain = ESCAPE.sub(lambda escape: self.escaped(escape, start), match[1])
        # A pair of escapes is one character beyond 16 bits. Half a pair is not a character and has no encoding.
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def escaped(self, escape: re.Match[str], start: int) -> str:
        if escape[1]:
            return ESCAPED[escape[1]]
        return (
            chr(int(escape[2], 16)) if escape[2] else self.fail("an escape that JSON has not", start + escape.start())
        )

    def number(self) -> int | float:
        match = NUMBER.match(self.text, self.at)
        if match is None:
            self.fail(f"a value is wanted, not {self.here()}")
        whole = match[1] is None and match[2] is None
        value = int(match[0]) if whole and len(match[0]) <= DIGITS else float(match[0])
        if value in (float("inf"), float("-inf")):
            self.fail("a number that is too large")
        self.at = match.end()
        return value
