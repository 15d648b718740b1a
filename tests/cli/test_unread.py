"""What could not be read, and what is to be done about it."""

from __future__ import annotations

import pytest

from nodeprep.cli.check import unread
from nodeprep.model import NO_ACCESS, Unreadable, Why

AS_ROOT = "run it as root"
ROWS = [
    (Unreadable(Why.DENIED, "/dev/kmsg", 13), "denied (EACCES)", AS_ROOT),
    (Unreadable(Why.DENIED, "netlink route", 1, "not permitted"), "denied (EPERM, not permitted)", AS_ROOT),
    (Unreadable(Why.DENIED, "https://10.0.0.1:6443", 13, "HTTP 401: no"), "denied (EACCES, HTTP 401: no)", ""),
    (Unreadable(Why.DENIED, "nodes worker-1", 13, "HTTP 403: may not"), "denied (EACCES, HTTP 403: may not)", ""),
    (Unreadable(Why.DENIED, "http://100.100.100.200", detail="disabled"), "denied (disabled)", ""),
    (Unreadable(Why.MISSING, "Kubernetes", detail=NO_ACCESS), f"missing ({NO_ACCESS})", ""),
    (
        Unreadable(Why.MISSING, "Node worker-9"),
        "missing",
        "kubectl get nodes lists the names; give one with --node",
    ),
    (Unreadable(Why.TIMEOUT, "/sys/class/net/eth0/carrier", 9999), "timeout (9999)", ""),
]


@pytest.mark.parametrize(("blind", "why", "what_to_do"), ROWS)
def test_says(blind: Unreadable, why: str, what_to_do: str) -> None:
    assert (unread.unread(blind), unread.cure(blind)) == (why, what_to_do)
