"""What lines of the kernel log mean, by the printk formats of the drivers that say them."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from nodeprep import log_speakers
from nodeprep.newer_python import StrEnum
from nodeprep.pattern import Pattern

# A conversion of printk: flags, width, precision, length, letter. %p goes on with letters, and drivers use these
# (Documentation/core-api/printk-formats.rst).
CONVERSION = Pattern(
    r"%(?:%|[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|t|j)?([diuoxXcs]|p(?:[MRrSsEe]|I6c?|I4|N[FD]|ad|UB?)?))"
)
NUMBERS = {"d": r" *[-+]?\d+", "i": r" *[-+]?\d+", "u": r" *\d+", "o": r" *\d+", "c": "."}
HEXADECIMAL = r" *(?:0[xX])?[0-9a-fA-F]+"
# A message begins the line, or follows a prefix: a driver or a device, then words that end in a mark, such as "AER:",
# "<mlx4_ib>", "f:12:(pid 0):". With other words before it the line is somebody else's, who may quote what he likes.
BEFORE = rf"(?:{log_speakers.DEVICE}|\A[\w.-]+ (?=\S*[:>)\]](?: |$)))? *(?:\S*(?:[:>)\]]|\(pid \d+\):)(?: +|$))*"
PREFIX = Pattern(BEFORE)
PREFIX_AND_WORDS = Pattern(rf"{BEFORE}(?:[\w.-]+(?: +|$)){{0,3}}")  # of a format that begins with %s
AFTER = r"(?![\w/])"  # a longer word is another format
ANYTHING = ".{0,120}?"  # an argument; without a limit, three of them in a format could take seconds for a line of 1 KiB
LITERAL_LENGTH = 8  # characters of its own that a format must have: with fewer it would match the lines of others
WORD = Pattern(r"[A-Za-z_]{3,}")
OWN_WORD = Pattern(r"(?<![\w\0])[A-Za-z_]{3,}(?![\w\0])")  # in a format whose conversions were replaced by \0


class LineClass(StrEnum):
    """What a line means."""

    GONE = "GONE"
    RECOVERS = "RECOVERS"
    STALLED = "STALLED"
    HOT = "HOT"
    POWER = "POWER"
    NOTHING = "NOTHING"


def class_of(text: str) -> LineClass | None:
    """What a line means; None if no format of the table matches. The longest match counts.

    A format is tried only in lines that have its rarest word: one regular expression of all formats takes 50 ms to
    compile and 2 ms for each line.
    """
    best: LineClass | None = None
    longest = 0
    by_word = formats_by_word()
    for word in dict.fromkeys(WORD.findall(text)):
        for one, form in by_word.get(word, ()):
            length = length_in(text, form)
            if length > longest:
                best, longest = one, length
    return best


def length_in(text: str, form: str) -> int:
    """How many characters of a line come of a format; 0 if none do."""
    prefix = PREFIX_AND_WORDS if form.startswith("%s") else PREFIX
    for match in pattern(form).finditer(text):
        if prefix.fullmatch(text, 0, match.start()):
            return len(match[0])
    return 0


@cache
def formats_by_word() -> dict[str, list[tuple[LineClass, str]]]:
    """The formats of the table by their rarest word. The table is imported only where a log is judged."""
    from nodeprep.facts.machine.printk_formats import FORMATS  # noqa: PLC0415 - 1 ms that a start can do without

    formats = [(one, form) for one in LineClass for form in FORMATS[one].splitlines()]
    words = {form: own_words(form) for _, form in formats}
    counts = Counter(word for own in words.values() for word in own)
    found: dict[str, list[tuple[LineClass, str]]] = {}
    for one, form in formats:
        rarest = min(words[form], key=lambda word: (counts[word], -len(word), word))
        found.setdefault(rarest, []).append((one, form))
    return found


def own_words(form: str) -> frozenset[str]:
    """The words that stand in each line of a format, whatever its arguments are. Raises ValueError if there is none."""
    words = frozenset(OWN_WORD.findall(CONVERSION.sub("\0", form)))
    if not words:
        raise ValueError(f"{form!r} has no word of its own")
    return words


@cache
def pattern(form: str) -> re.Pattern[str]:
    return Pattern(pattern_of(form))


def pattern_of(form: str) -> str:
    """The regular expression of a printk format. A %s at its begin or end matches anything, so it is left out.

    Raises ValueError for a format that has too little of its own.
    """
    if len(CONVERSION.sub("", form)) < LITERAL_LENGTH:
        raise ValueError(f"{form!r} has fewer than {LITERAL_LENGTH} characters of its own")
    found, at = "", 0
    for conversion in CONVERSION.finditer(form):
        letter = conversion[1]
        found += re.escape(form[at : conversion.start()])
        found += "%" if letter is None else NUMBERS.get(letter) or (HEXADECIMAL if letter in "xX" else ANYTHING)
        at = conversion.end()
    found += re.escape(form[at:])
    end = AFTER if found[-1].isalnum() or found.endswith("+") else ""
    return found.removeprefix(ANYTHING).removesuffix(ANYTHING) + end
