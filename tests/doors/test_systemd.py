"""What a host's systemctl says, and what an agent makes of it that is told to end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nodeprep.agent import node_shutdown
from nodeprep.doors import systemd

SECONDS = 30.0  # more than a busy machine takes to start a shell


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the only program on the PATH, which is not there yet."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "systemctl"


def says(place: Path, *lines: str) -> None:
    place.write_text("\n".join(("#!/bin/sh", *lines, "")))
    place.chmod(0o755)


def test_its_word_counts_whatever_its_exit_code_is(systemctl: Path) -> None:
    says(systemctl, '[ "$*" = is-system-running ] || exit 2', "echo stopping", "exit 1")
    assert systemd.system_state(SECONDS) == "stopping"


def test_a_host_without_systemd_says_nothing(systemctl: Path) -> None:
    assert not systemctl.exists()
    assert systemd.system_state(SECONDS) == ""


def test_a_systemctl_that_hangs_says_nothing_and_is_not_waited_for(systemctl: Path) -> None:
    says(systemctl, "while :; do :; done")
    began = time.monotonic()
    assert systemd.system_state(0.2) == ""
    assert time.monotonic() - began < SECONDS


@pytest.mark.parametrize("word", ["running", "degraded", "starting", "offline", ""])
def test_only_stopping_means_that_the_machine_goes_down(word: str) -> None:
    assert node_shutdown.announced(None, lambda _: word) == ""


def test_stopping_needs_no_api_server() -> None:
    assert node_shutdown.announced(None, lambda _: "stopping") == "systemd is stopping"
