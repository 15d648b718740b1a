"""The container runtime under the kubelet, by its own word over CRI: whether it and the network of pods are ready.

Who may connect to its socket is root of the node. So a pod of the agent has no mount of it, and only `nodeprep` on the
host asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep import redaction
from nodeprep.facts.kubernetes import kubelet, protobuf
from nodeprep.facts.kubernetes.protobuf import NotProtobuf
from nodeprep.model import Fact, Shown, Unreadable, Why, guarded, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

# What names the socket: KubeletConfiguration and kubeadm's flags of the kubelet.
CONFIGURATIONS = ("/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env")
ENDPOINT = Pattern(r"container-?[rR]untime-?[eE]ndpoint[\"']?[=:][ \t]*[\"']?(?:unix://)?(/[^\s\"',]{1,200})")
SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
    "/run/k3s/containerd/containerd.sock",
)
STATUS = "/runtime.v1.RuntimeService/Status"
ANSWER_SECONDS = 2.0  # the kubelet waits for two minutes
ANSWER_BYTES = 1 << 20
REST_SECONDS = 30.0
MESSAGE_CHARACTERS = 300
# Numbers of fields: k8s.io/cri-api pkg/apis/runtime/v1/api.proto.
STATUS_FIELD, CONDITIONS = 1, 1
TYPE, STATE, REASON, MESSAGE = 1, 2, 3, 4


@shown
class RuntimeCondition(Shown):
    """RuntimeReady, NetworkReady or one of the runtime's own. `message` is without what looks like a secret."""

    type: str
    holds: bool
    reason: str
    message: str


@shown
class ContainerRuntime(Shown):
    """`asked` is whether the runtime could be asked: not in a pod of the agent, nor where there is no kubelet.

    `socket` is the one that the kubelet's configuration names, else the first of the usual ones that is there; "" if
    there is none.
    """

    at: float
    asked: bool
    socket: str
    conditions: tuple[RuntimeCondition, ...]

    @property
    def missing(self) -> tuple[RuntimeCondition, ...]:
        """The conditions that do not hold."""
        return tuple(one for one in self.conditions if not one.holds)


def observe(host: Host) -> ContainerRuntime:
    if not host.files.shows_processes or not kubelet.is_present(host):
        return ContainerRuntime(host.now(), False, "", ())
    socket = _socket(host.files)
    if not socket:
        detail = f"the kubelet's configuration names no socket, and none is there of {', '.join(SOCKETS)}"
        unknown = Unreadable(Why.MISSING, "container runtime", detail=detail)
        return ContainerRuntime(host.now(), True, "", guarded(unknown))
    return ContainerRuntime(host.now(), True, socket, guarded(_asked(host, socket)))


def _socket(files: Files) -> str:
    for path in CONFIGURATIONS:
        text = files.text(path)
        named = ENDPOINT.search(text) if isinstance(text, str) else None
        if named is not None:
            return named[1]
    return next((path for path in SOCKETS if files.exists(path)), "")


def _asked(host: Host, socket: str) -> tuple[RuntimeCondition, ...] | Unreadable:
    answer = host.grpc(socket, STATUS, b"", deadline=ANSWER_SECONDS, limit=ANSWER_BYTES, rest=REST_SECONDS)
    if isinstance(answer, Unreadable):
        return answer
    try:
        return conditions(answer)
    except NotProtobuf as error:
        return protobuf.malformed(socket, STATUS, error)


def conditions(answer: bytes) -> tuple[RuntimeCondition, ...]:
    """The conditions of a StatusResponse. Raises NotProtobuf."""
    statuses = protobuf.parts(answer, STATUS_FIELD)
    return tuple(_condition(one) for status in statuses for one in protobuf.parts(status, CONDITIONS))


def _condition(message: bytes) -> RuntimeCondition:
    words = {TYPE: "", REASON: "", MESSAGE: ""}
    holds = False
    for number, value in protobuf.fields(message):
        if number == STATE:
            holds = bool(protobuf.whole(value, number))
        elif number in words:
            words[number] = protobuf.text(value, number)
    return RuntimeCondition(words[TYPE], holds, words[REASON], redaction.masked(words[MESSAGE])[:MESSAGE_CHARACTERS])


FACT = Fact(ContainerRuntime, observe, live=True)
