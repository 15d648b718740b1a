"""Does the kubelet answer?"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.kubelet import HEALTHZ_PORT, SOCKET, Kubelet
from nodeprep.model import (
    NODE,
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    Why,
)

PORT = f"127.0.0.1:{HEALTHZ_PORT}"
WANTED_ANSWER = "an answer"
NOBODY = (errno.ECONNREFUSED, errno.ENOENT)


def judge(seen: Seen) -> Iterator[Verdict]:
    kubelet = seen[Kubelet]
    if kubelet.present:
        yield verdict(kubelet, seen)


def verdict(kubelet: Kubelet, seen: Seen) -> Verdict:
    port, socket = kubelet.port_silence, kubelet.socket_silence
    if port is None and kubelet.healthz is not None:
        if not kubelet.healthz.is_fine:
            failed = ", ".join(kubelet.healthz.failed) or f"HTTP status {kubelet.healthz.status}"
            message = f"the kubelet says on {PORT} that it is not healthy: {failed}"
            return Verdict(NODE, Status.FAIL, "Unhealthy", message, None, failed, "ok")
        return beside_its_port(socket)
    if socket is None:
        if is_late(port):
            message = f"the kubelet answers on {SOCKET}, and not on {PORT} within a second"
            return Verdict(NODE, Status.WARN, "PortHangs", message, None, "no answer", WANTED_ANSWER)
        return answers(f"on {SOCKET}; its health port {PORT} is not in use")
    if is_late(port) or is_late(socket):
        where = PORT if is_late(port) else SOCKET
        message = f"the kubelet takes connections on {where} and answers none within a second: it is stopped or hangs"
        return Verdict(NODE, Status.FAIL, "Hangs", message, None, "no answer", WANTED_ANSWER)
    if socket.errno in NOBODY:
        message = f"nobody listens on {SOCKET}{since(kubelet)} nor on {PORT}: the kubelet does not run"
        return Verdict(NODE, Status.FAIL, "NotRunning", message, None, errno.errorcode[socket.errno], WANTED_ANSWER)
    if port is None and not socket.is_not_mounted and is_ready(seen):
        message = f"the kubelet has no health port (healthzPort: 0), and {socket}; its Node is Ready"
        return Verdict(NODE, Status.ABSENT, "NoHealthPort", message)
    raise CannotLook(port if port is not None and port.kind is Why.BUSY else socket)


def beside_its_port(socket: Unreadable | None) -> Verdict:
    """Its process runs, for the port says so. The socket shows whether its device manager answers."""
    if socket is None:
        return answers(f"on {PORT} and {SOCKET}")
    if is_late(socket):
        message = (
            f"the kubelet runs ({PORT} says ok), and gives no answer on {SOCKET} within a second: its device manager "
            "hangs, and pods that ask for devices may not start"
        )
        return Verdict(NODE, Status.WARN, "SocketHangs", message, None, "no answer", WANTED_ANSWER)
    if socket.errno in NOBODY:
        code = errno.errorcode[socket.errno]
        message = f"the kubelet runs ({PORT} says ok), and nobody listens on {SOCKET} ({code})"
        return Verdict(NODE, Status.WARN, "SocketRefuses", message, None, code, WANTED_ANSWER)
    return answers(f"on {PORT}; {socket}")


def answers(how: str) -> Verdict:
    return Verdict(NODE, Status.OK, "Answers", f"the kubelet answers {how}", None, WANTED_ANSWER, WANTED_ANSWER)


def is_late(silence: Unreadable | None) -> bool:
    return silence is not None and silence.kind is Why.TIMEOUT


def since(kubelet: Kubelet) -> str:
    """Whether the dead socket is of a former boot."""
    try:
        started = kubelet.started
    except CannotLook:
        return ""
    return " (of a former boot)" if started is not None and started < 0 else ""


def is_ready(seen: Seen) -> bool:
    cluster = seen.get(Cluster)
    ready = None if cluster is None else cluster.node.ready
    return ready is not None and ready.status == "True"


CHECK = Check(
    id="kubelet.health",
    question="Does the kubelet answer?",
    why="Without it no pod starts or ends here, and what the Node says of its devices is what it last said.",
    fix="systemctl status kubelet; journalctl -u kubelet -n 100",
    reasons=(
        Reason("Answers", Status.OK),
        Reason("NoHealthPort", Status.ABSENT),
        Reason("Unhealthy", Status.FAIL),
        Reason("Hangs", Status.FAIL, "cat /proc/$(pidof kubelet)/{{status,stack}}; then systemctl restart kubelet"),
        Reason(
            "NotRunning",
            Status.FAIL,
            "systemctl status kubelet; journalctl -u kubelet -n 100. A host that has left its cluster: kubeadm reset",
        ),
        Reason("PortHangs", Status.WARN),
        Reason("SocketHangs", Status.WARN, "journalctl -u kubelet -n 100 names the plugin that it waits for"),
        Reason("SocketRefuses", Status.WARN, "systemctl restart kubelet: it makes the socket at its start"),
    ),
    source="kubernetes cmd/kubelet/app/server.go (healthz), pkg/kubelet/server/server.go (ListenAndServePodResources)",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.SLOW,
    needs=(Kubelet,),
    uses=(Cluster,),
    judge=judge,
)
