"""`idle.ignore`: which daemons may have a device open, and what may not stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodeprep.config.configuration import Settings
from nodeprep.config.document import ConfigError
from nodeprep.decide import idleness
from nodeprep.decide.idleness import IdleSource
from nodeprep.decide.remedy_header import SafetyClass
from tests.config_files import settings
from tests.idle_values import QUIET, goal, held

READ = [
    # what the file says                        who is ignored
    ("", Settings().idle.ignore),
    ("idle:\n", Settings().idle.ignore),
    ("idle: {ignore: }\n", Settings().idle.ignore),
    ("idle: {ignore: []}\n", ()),
    ('idle: {ignore: [opensm, "dcgm*", "nv-[ab]?", a]}\n', ("opensm", "dcgm*", "nv-[ab]?", "a")),
]
NAME = "the name of a process, or a glob that begins with three plain characters, such as dcgm*"
REFUSED = [
    ("idle: {ignore: 5}\n", "idle.ignore: found 5, wanted a list of names of processes"),
    ('idle: {ignore: ["*"]}\n', f"idle.ignore[0]: found '*', wanted {NAME}"),
    ('idle: {ignore: [opensm, "py*"]}\n', f"idle.ignore[1]: found 'py*', wanted {NAME}"),
    ('idle: {ignore: ["[a-z]*"]}\n', f"idle.ignore[0]: found '[a-z]*', wanted {NAME}"),
    ('idle: {ignore: ["a b"]}\n', f"idle.ignore[0]: found 'a b', wanted {NAME}"),
    ('idle: {ignore: ["/usr/bin/opensm"]}\n', f"idle.ignore[0]: found '/usr/bin/opensm', wanted {NAME}"),
    ('idle: {ignore: [""]}\n', f"idle.ignore[0]: found '', wanted {NAME}"),
    ("idle: {ignore: [7]}\n", f"idle.ignore[0]: found 7, wanted {NAME}"),
    ("idle: {ignores: []}\n", "idle.ignores: found 'ignores', wanted 'ignore'"),
    ("idle: false\n", "idle: found false, wanted keys with values"),
]


@pytest.mark.parametrize(("text", "ignored"), READ)
def test_what_is_read(tmp_path: Path, text: str, ignored: tuple[str, ...]) -> None:
    assert settings(tmp_path, text).idle.ignore == ignored


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_what_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f":3: {re.escape(says)}\\Z"):
        settings(tmp_path, text)


DEFAULT_ROWS = [
    # as /proc/PID/comm names it     is ignored
    ("opensm", True),
    ("ibacm", True),
    ("dcgm", True),
    ("dcgm-exporter", True),
    ("nv-hostengine", True),
    ("nvidia-persiste", True),
    ("nv-fabricmanage", False),  # a reload of the driver under it stops every NVSwitch
    ("srp_daemon", False),  # it connects disks
    ("python3", False),
]


@pytest.mark.parametrize(("command", "is_ignored"), DEFAULT_ROWS)
def test_who_is_ignored_by_default(command: str, is_ignored: bool) -> None:
    evidence = dict.fromkeys(IdleSource, QUIET)
    evidence[IdleSource.OPEN_DEVICE_NODES] = held(IdleSource.OPEN_DEVICE_NODES, command)
    found = idleness.judge(goal(), evidence, SafetyClass.S2, Settings().idle.ignore)
    assert found.is_idle is is_ignored
