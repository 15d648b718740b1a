"""A page of text for a terminal or a pipe: labelled paragraphs, wrapped on words, colour on labels only."""

from __future__ import annotations

from textwrap import wrap

from nodeprep.cli import terminal
from nodeprep.newer_python import StrEnum
from nodeprep.values import Struct, field

LABEL_COLUMNS = 10  # columns of a label; its paragraph is to the right of them
GAP = "   "  # between two columns of a table
LEAST_COLUMNS = 8  # columns that a cut cell has at least
PARAGRAPH_LIMIT_CHARACTERS = 1200  # characters of one paragraph; a node can show a mebibyte of text


class Paint(StrEnum):
    """SGR parameters of the sixteen colours, which every terminal theme keeps readable."""

    PLAIN = ""
    GOOD = "32"
    BAD = "1;31"
    DOUBT = "33"
    STRONG = "1"


class Page(Struct):
    """Paragraphs as lines of at most `width` columns, without blanks at the end. With `colour`, escape sequences."""

    width: int = 80
    colour: bool = False
    lines: list[str] = field(default_factory=list)

    def gap(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def say(self, text: str, paint: Paint = Paint.PLAIN) -> None:
        """A paragraph without a label. It is painted up to its first ":", or completely if it has none."""
        head, colon, _ = terminal.clean(text).partition(":")
        lines = wrap(_short(text), self.width, break_on_hyphens=False)
        if lines and lines[0].startswith(head + colon):
            lines[0] = self._painted(head + colon, paint) + lines[0].removeprefix(head + colon)
        self.lines += lines

    def item(self, label: str, text: str, *, indent: int = 0, bullet: bool = False, paint: Paint = Paint.PLAIN) -> None:
        """A label with its text to the right. With a bullet if it is one of several texts."""
        first = (" " * indent + label).ljust(LABEL_COLUMNS - 1) + " " + ("- " if bullet else "")
        lines = wrap(
            _short(text),
            self.width,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_on_hyphens=False,
            drop_whitespace=True,
        ) or [first]
        lines[0] = lines[0].replace(label, self._painted(label, paint), 1) if label else lines[0]
        self.lines += [line.rstrip() for line in lines]

    def _painted(self, text: str, paint: Paint) -> str:
        return f"\x1b[{paint}m{text}\x1b[0m" if self.colour and paint and text else text


def _short(text: str) -> str:
    shown = terminal.clean(text)
    if len(shown) <= PARAGRAPH_LIMIT_CHARACTERS:
        return shown
    more = len(shown) - PARAGRAPH_LIMIT_CHARACTERS
    return f"{shown[:PARAGRAPH_LIMIT_CHARACTERS]}... ({more} more characters, see -o json)"


def columns(rows: list[tuple[str, ...]], width: int | None = None) -> list[str]:
    """Aligned rows. Each column is as wide as its widest value; the last column is not padded.

    If the rows are wider than `width`, the widest columns are cut until they fit. A cell keeps eight characters.
    """
    cleaned = [[terminal.clean(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cleaned, strict=True)]
    while width is not None and sum(widths) + len(GAP) * (len(widths) - 1) > width and max(widths) > LEAST_COLUMNS:
        widths[widths.index(max(widths))] -= 1
    padded = ([_cut(cell, size).ljust(size) for cell, size in zip(row, widths, strict=True)] for row in cleaned)
    return [GAP.join(row).rstrip() for row in padded]


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 3]}..."
