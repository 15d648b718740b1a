"""Where this process lives, by real namespaces."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nodeprep.doors import own_namespaces
from tests.rigs.absent import needs_root

ASK = "import sys; from nodeprep.doors import own_namespaces; print(own_namespaces.elsewhere(*sys.argv[1:]))"


def asked(*words: str, within: tuple[str, ...] = ()) -> str:
    done = subprocess.run([*within, sys.executable, "-c", ASK, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_beside_a_process_of_the_node() -> None:
    assert own_namespaces.elsewhere(str(os.getppid())) == ""
    assert own_namespaces.elsewhere("self") == ""


@needs_root("it makes namespaces")
@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--net", "another network namespace than the host's first process"),
        ("--mount", "another mount namespace than the host's first process"),
    ],
)
def test_in_namespaces_of_its_own(flag: str, says: str) -> None:
    assert asked(str(os.getpid()), within=("unshare", flag)) == says


@needs_root("it makes namespaces")
def test_the_first_process_of_a_container_is_not_the_hosts() -> None:
    """Its PID namespace is not the first one of the boot, whatever it shares with its own first process."""
    container = ("unshare", "--pid", "--fork", "--mount-proc", "--mount", "--net")
    assert asked(within=container) == "another PID namespace than the host's"


def test_a_process_that_is_not_seen() -> None:
    gone = subprocess.Popen(["true"])
    assert gone.wait() == 0
    assert f"/proc/{gone.pid}/ns/mnt" in own_namespaces.elsewhere(str(gone.pid))
