"""JSON by its grammar: what is one, what is none and where; held against Python's own reader for what both take."""

from __future__ import annotations

import json
import random

import pytest

from nodeprep.facts.network import json_text
from nodeprep.facts.network.json_text import DEPTH, NotJson

GOOD = [
    "{}",
    "[]",
    " \t\r\n[1, -2, 0.5, 1e3, -1.25E-2, 12345678901234567890]\n",
    '{"a": {"b": [true, false, null]}, "": ""}',
    '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00 \u00e9\u2028"',
    "[" * DEPTH + "]" * DEPTH,
]


@pytest.mark.parametrize("text", GOOD)
def test_reads_what_is_json(text: str) -> None:
    assert json_text.parse(text) == json.loads(text)


BAD = [
    # text                         where and what
    ("", "line 1, column 1: a value is wanted, not the end"),
    ("{", "line 1, column 2: a key in quotes is wanted, not the end"),
    ('{"a"\n 1}', "line 2, column 2: a colon is missing before '1'"),
    ('{"a": 1,}', "line 1, column 9: a key in quotes is wanted, not '}'"),
    ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: a comma or } is missing before '\"'"),
    ("[1 2]", "line 1, column 4: a comma or ] is missing before '2'"),
    ("[1,2", "line 1, column 5: a comma or ] is missing before the end"),
    ("{a: 1}", "line 1, column 2: a key in quotes is wanted, not 'a'"),
    ("['a']", 'line 1, column 2: a value is wanted, not "\'"'),
    ('{"type": "a", "x": {}, "type": "b"}', "line 1, column 24: 'type' stands here a second time"),
    ("[NaN]", "line 1, column 2: a value is wanted, not 'N'"),
    ("[-Infinity]", "line 1, column 2: a value is wanted, not '-'"),
    ("[1e999]", "line 1, column 2: a number that is too large"),
    ("9" * 5000, "line 1, column 1: a number that is too large"),
    ("[01]", "line 1, column 3: a comma or ] is missing before '1'"),
    ("[\u0661]", "line 1, column 2: a value is wanted, not '\u0661'"),
    ('"a\nb"', "line 1, column 1: a string without its end, or with a control character in it"),
    ('["\\x"]', "line 1, column 3: an escape that JSON has not"),
    ('["\\u12g4"]', "line 1, column 3: an escape that JSON has not"),
    ("{} {}", "line 1, column 4: more text behind the end"),
    ("\ufeff{}", "line 1, column 1: a value is wanted, not '\\ufeff'"),
    ("// none\n{}", "line 1, column 1: a value is wanted, not '/'"),
    ("[\x1b]", "line 1, column 2: a value is wanted, not '\\x1b'"),
    ("[" * 10_000, f"line 1, column {DEPTH + 2}: nested deeper than {DEPTH}"),
    ('{"a":' * 10_000, f"line 1, column {5 * (DEPTH + 1) + 1}: nested deeper than {DEPTH}"),
]


@pytest.mark.parametrize(("text", "says"), BAD)
def test_says_where_it_stops_being_json(text: str, says: str) -> None:
    with pytest.raises(NotJson) as raised:
        json_text.parse(text)
    assert str(raised.value) == says


def test_half_a_pair_is_no_character_and_can_be_written() -> None:
    assert json_text.parse('["\\ud83d", "\\ude00x"]') == ["\ufffd", "\ufffdx"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "text", ['"' + "\\" * (1 << 20), '"' + "a\\n" * 300_000, " " * (1 << 20), "[" + "1" * (1 << 20)]
)
def test_a_mebibyte_of_garbage_is_refused_without_a_hang(text: str) -> None:
    with pytest.raises(NotJson):
        json_text.parse(text)


def test_says_of_damaged_texts_what_python_says() -> None:
    """Ten thousand texts with a character changed: both take it and read the same, or both refuse it."""
    chance = random.Random(4)
    good = '{"cniVersion": "0.4.0", "name": "k8s", "plugins": [{"type": "terway", "mtu": 1500, "up": true, "n": null}]}'
    for _ in range(10_000):
        at = chance.randrange(len(good))
        text = good[:at] + chance.choice('{}[]:,"\\ 0e.-tnu\n') + good[at + chance.randrange(2) :]
        try:
            mine: object = json_text.parse(text)
        except NotJson as error:
            mine = str(error)
        try:
            theirs: object = json.loads(text)
        except ValueError:
            theirs = None
        stricter = isinstance(mine, str) and ("second time" in mine or "too large" in mine)
        assert mine == theirs or stricter or (isinstance(mine, str) and theirs is None), text
