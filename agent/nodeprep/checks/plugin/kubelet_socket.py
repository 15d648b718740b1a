"""Can device plugins register with the kubelet?"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from nodeprep.facts.kubernetes.device_plugins import DIRECTORY, REGISTRATION, DevicePlugins, PluginSocket
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Verdict,
)

SOCKET = f"{DIRECTORY}/{REGISTRATION}"
ACCEPTS = "accepts"
HUNG_CODES = (errno.EAGAIN, errno.ETIMEDOUT)  # the queue of its connections is full


def judge(seen: Seen) -> Iterator[Verdict]:
    plugins = seen[DevicePlugins]
    if not plugins.present or plugins.sockets is None:
        return
    socket = next((one for one in plugins.sockets if one.name == REGISTRATION), None)
    if socket is not None:
        yield verdict(socket)
    elif seen[Kubelet].present:  # a directory that is left without a kubelet is nobody's
        yield missing(seen)


def missing(seen: Seen) -> Verdict:
    """Without the socket: a kubelet that runs makes it at its start."""
    kubelet = seen[Kubelet]
    if kubelet.is_starting:
        message = f"there is no {SOCKET} yet: the kubelet began {kubelet.age:.0f} s ago"
        return Verdict(NODE, Status.UNKNOWN, "Starting", message, observed="absent")
    message = f"there is no {SOCKET}: somebody removed it, and no plugin can register"
    return Verdict(NODE, Status.FAIL, "Missing", message, None, "absent", ACCEPTS)


def verdict(socket: PluginSocket) -> Verdict:
    code = socket.errno
    if code is None:
        message = f"the kubelet accepts connections on {SOCKET}"
        return Verdict(NODE, Status.OK, "Accepts", message, None, ACCEPTS, ACCEPTS)
    name = errno.errorcode.get(code, str(code))
    if code in HUNG_CODES:
        message = f"nobody takes connections on {SOCKET} ({name}): the kubelet hangs, and no plugin can register"
        return Verdict(NODE, Status.FAIL, "Hangs", message, None, name, ACCEPTS)
    message = f"nobody listens on {SOCKET} ({name}): the kubelet does not run, or it has left this file behind"
    return Verdict(NODE, Status.FAIL, "Refuses", message, None, name, ACCEPTS)


CHECK = Check(
    id="plugin.kubelet-socket",
    question="Can device plugins register with the kubelet?",
    why="A plugin that cannot register advertises nothing, and after a restart of the kubelet every plugin must.",
    fix="systemctl restart kubelet: it makes the socket at its start, and plugins see this and register.",
    reasons=(
        Reason("Accepts", Status.OK),
        Reason("Starting", Status.UNKNOWN),
        Reason("Missing", Status.FAIL),
        Reason("Refuses", Status.FAIL, "systemctl status kubelet; journalctl -u kubelet -n 100"),
        Reason("Hangs", Status.FAIL, "journalctl -u kubelet -n 100; then systemctl restart kubelet"),
    ),
    source="kubernetes pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.SLOW,
    needs=(DevicePlugins, Kubelet),
    after=("kubelet.health",),
    judge=judge,
)
