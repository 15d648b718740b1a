"""plugin.kubelet-socket: whether the kubelet takes registrations."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from nodeprep.checks.plugin.kubelet_socket import CHECK
from nodeprep.model import Unreadable, Why
from tests.kubelet_values import kubelet, plugins, socket
from tests.values import say, verdicts

DENIED: Any = Unreadable(Why.DENIED, "/var/lib/kubelet/device-plugins/kubelet.sock", errno.EACCES)
ROWS: list[tuple[Any, Any, str]] = [
    # connect      the kubelet    says
    (None, kubelet(), "ok Accepts"),
    (errno.ECONNREFUSED, kubelet(), "fail Refuses"),
    (errno.ECONNREFUSED, kubelet(started=3990.0), "fail Refuses"),
    (errno.ETIMEDOUT, kubelet(), "fail Hangs"),
    (errno.EAGAIN, kubelet(), "fail Hangs"),
    (DENIED, kubelet(), "unknown CannotLook"),
]


@pytest.mark.parametrize(("code", "alive", "says"), ROWS, ids=range(len(ROWS)))
def test_what_it_says(code: Any, alive: Any, says: str) -> None:
    seen = plugins(sockets=(socket("kubelet.sock", code), socket("nvidia-gpu.sock", errno.ECONNREFUSED)))
    assert say(CHECK, seen, alive) == says


MISSING: list[tuple[Any, str]] = [
    (kubelet(), "fail Missing"),
    (kubelet(started=3990.0), "unknown Starting"),
    (kubelet(started=None), "fail Missing"),
]


@pytest.mark.parametrize(("alive", "says"), MISSING, ids=range(len(MISSING)))
def test_without_the_socket(alive: Any, says: str) -> None:
    assert say(CHECK, plugins(sockets=()), alive) == says


def test_a_node_without_it() -> None:
    assert say(CHECK, plugins(present=False, sockets=()), kubelet()) == "absent Nothing"
    assert say(CHECK, plugins(sockets=None), kubelet()) == "absent Nothing", "a copy has no sockets"
    gone = kubelet(present=False, started=None, healthz=None, pods=())
    assert say(CHECK, plugins(sockets=()), gone) == "absent Nothing", "a directory that a kubelet of former times left"


def test_its_words() -> None:
    (found,) = verdicts(CHECK, plugins(sockets=(socket("kubelet.sock", errno.ECONNREFUSED),)), kubelet())
    assert found.message == (
        "nobody listens on /var/lib/kubelet/device-plugins/kubelet.sock (ECONNREFUSED): the kubelet does not run, or "
        "it has left this file behind"
    )
