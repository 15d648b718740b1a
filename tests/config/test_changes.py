"""What a reload changes, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.config import written
from nodeprep.config.configuration import Settings
from tests.config_files import CAPTURED, settings

RESTART = " (needs a restart of the agent; until then the old one holds)"
WAIVER = "{check: pci.link, until: 2026-02-01, reason: riser}"
ROWS = [
    # before                        after                                   says
    ("", "", ()),
    ("", "mode: observe\nconfirmation: {passes: 3}\nassign: []\n", ()),
    ("mode: gate\n", "", ('mode: "gate" -> "observe"',)),
    (
        "confirmation: {passes: 3}\n",
        "confirmation: {passes: 5, fast: {of: 4}}\n",
        ("confirmation.fast.of: 2 -> 4", "confirmation.passes: 3 -> 5"),
    ),
    ("", "gate: {profiles: [x]}\n", ('gate.profiles: ["rdma", "rdma-*"] -> ["x"]',)),
    ("", "every: {rdma: 10}\n", ('every: {} -> {"rdma": 10}',)),
    ("", 'exclude: ["/x"]\n', ('exclude: [] -> ["/x"]',)),
    ("", "want: {port.mtu: {at-least: 1}}\n", ('want: {} -> {"port.mtu": {"at-least": 1}}',)),
    ("", "metadata-url: http://127.0.0.1\n", ('metadata-url: "http://100.100.100.200" -> "http://127.0.0.1"',)),
    ("idle: {ignore: [x]}\n", "idle: {ignore: []}\n", ('idle.ignore: ["x"] -> []',)),
    (
        "repair: {deadline: {idle: 300}}\n",
        "repair: {max-class: S1, back-off: [90]}\n",
        (
            'repair.max-class: "S2" -> "S1"',
            "repair.back-off: [60, 300, 1800] -> [90]",
            "repair.deadline.idle: 300 -> 600",
        ),
    ),
    ("", "metrics: {port: 0}\n", (f"metrics.port: 9842 -> 0{RESTART}",)),
    ('metrics: {bind: "::1"}\n', "", (f'metrics.bind: "::1" -> "127.0.0.1"{RESTART}',)),
    ("default: rdma\n", "default: rdma-roce\n", ('default: "rdma" -> "rdma-roce"',)),
    (
        "assign: [{use: [base]}]\n",
        "assign: [{match: {a: b}, use: [base]}]\n",
        ('assign: [{"use": ["base"]}] -> [{"match": {"a": "b"}, "use": ["base"]}]',),
    ),
    (
        "",
        f"waivers: [{WAIVER}]\n",
        ('waivers: [] -> [{"check": "pci.link", "device": "*", "nodes": ["*"], "un...',),
    ),
    (
        f"waivers: [{WAIVER}]\n",
        f"waivers: [{WAIVER.replace('riser', 'cable')}]\n",
        ("waivers: changed",),
    ),
]


@pytest.mark.parametrize(("before", "after", "says"), ROWS, ids=range(len(ROWS)))
def test_each_key_is_a_line(tmp_path: Path, before: str, after: str, says: tuple[str, ...]) -> None:
    assert written.changes(settings(tmp_path, before), settings(tmp_path, after)) == says


def test_a_file_that_comes_or_goes_changes_what_it_says(tmp_path: Path) -> None:
    file = settings(tmp_path, "mode: gate\n")
    assert written.changes(Settings(), file) == ('mode: "observe" -> "gate"',)
    assert written.changes(file, Settings()) == ('mode: "gate" -> "observe"',)
    assert written.changes(Settings(), settings(tmp_path, "")) == ()


PROFILES = [
    # keys                                                          says
    ("default: gpu-1.yaml\n", "default: the profile gpu-1.yaml says something else"),
    ("assign: [{use: [base]}, {use: [gpu-1.yaml]}]\n", "assign[1]: its profiles say something else"),
    ("assign: [{use: [rdma-roce], expect: gpu-1.yaml}]\n", "assign[0]: its profiles say something else"),
]


@pytest.mark.parametrize(("keys", "says"), PROFILES)
def test_a_profile_that_says_something_else_is_a_change(tmp_path: Path, keys: str, says: str) -> None:
    (tmp_path / "gpu-1.yaml").write_text(CAPTURED)
    before = settings(tmp_path, keys)
    assert written.changes(before, settings(tmp_path, keys)) == ()
    (tmp_path / "gpu-1.yaml").write_text(CAPTURED.replace("rate: 400", "rate: 200"))
    after = settings(tmp_path, keys)
    assert before != after
    assert written.changes(before, after) == (says,)


def test_a_line_stays_a_line(tmp_path: Path) -> None:
    names = [f"profile-{number}" for number in range(100)]
    (one,) = written.changes(Settings(), settings(tmp_path, f"gate: {{profiles: {names}}}\n"))
    assert len(one) < 200
    assert one.isprintable()
