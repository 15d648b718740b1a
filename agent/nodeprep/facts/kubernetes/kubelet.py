"""The kubelet by its own word: whether it answers, since when it runs, and which pods hold devices.

It listens on a unix socket (PodResources) and, unless `healthzPort` is 0, on a port of the loopback. On that port it
says "ok" as long as its process runs (cmd/kubelet/app/server.go): only the socket shows that its parts answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from nodeprep.facts.kubernetes import pod_resources, protobuf
from nodeprep.facts.kubernetes.pod_resources import PodDevices
from nodeprep.facts.kubernetes.protobuf import NotProtobuf
from nodeprep.model import Fact, Shown, Unreadable, Why, guarded, not_mounted, raw, shown

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

T = TypeVar("T")
HOME = "/var/lib/kubelet"
DIRECTORY = f"{HOME}/pod-resources"
SOCKET = f"{DIRECTORY}/kubelet.sock"
MANIFEST = "daemonset/base/daemonset.yaml"
HEALTHZ_PORT, HEALTHZ_PATH = 10248, "/healthz"  # the default of KubeletConfiguration.healthzPort
HEALTHZ_BYTES = 64 << 10
ANSWER_SECONDS = 1.0  # for the answer of a kubelet; 60 pods take it some milliseconds
LAST_SECONDS = 0.2  # for the socket, if the port has used up the time before
ANSWER_BYTES = 16 << 20  # 110 pods with 1,000 ids each have 2 MiB
REST_SECONDS = 30.0  # a kubelet that hangs is not asked again for so long
# A plugin that sees the new socket registers within seconds; the kubelet forgets one that does not after 5 minutes
# (endpointStopGracePeriod).
GRACE_SECONDS = 300.0
FAILED = "[-]"  # how /healthz names a check that failed: "[-]syncloop failed: reason withheld"
NAMED_CHECKS = 8
OK = 200
# The kernel's names of processes that are kubelets: alone, or with all of k3s, RKE2 or MicroK8s in one.
PROCESSES = ("kubelet", "k3s-agent", "k3s-server", "kubelite")


@shown
class Healthz(Shown):
    """The kubelet's answer on its health port: the HTTP status, and the names of its own checks that failed."""

    status: int
    failed: tuple[str, ...]

    @property
    def is_fine(self) -> bool:
        return self.status == OK


@shown
class Kubelet(Shown):
    """`present` is whether a kubelet runs or ran here; else nobody was asked.

    `started` is when it began to serve its PodResources socket, in seconds of CLOCK_BOOTTIME like `at`; None where
    there is no such socket. `healthz` is None where nobody listens on the port. `pods` are those that hold devices,
    also ones that have ended: a kubelet before 1.34 names them until they are deleted.
    """

    at: float
    present: bool
    started: float | None
    healthz: Healthz | None
    pods: tuple[PodDevices, ...]

    @property
    def age(self) -> float | None:
        """Seconds since it began to serve its socket."""
        return None if self.started is None else self.at - self.started

    @property
    def is_starting(self) -> bool:
        """Whether it began so lately that its plugins may not have registered again."""
        return self.age is not None and self.age < GRACE_SECONDS

    @property
    def port_silence(self) -> Unreadable | None:
        """Why its health port gave no answer; None if it gave one, or if nobody listens there."""
        silence: object = raw(self)["healthz"]
        return silence if isinstance(silence, Unreadable) else None

    @property
    def socket_silence(self) -> Unreadable | None:
        """Why its PodResources socket gave no answer; None if it gave one."""
        silence: object = raw(self)["pods"]
        return silence if isinstance(silence, Unreadable) else None


def pids(commands: Mapping[int, str]) -> tuple[int, ...]:
    """Which of these processes are kubelets."""
    return tuple(sorted(pid for pid, command in commands.items() if command in PROCESSES))


def is_present(host: Host) -> bool:
    """Whether there is a kubelet here, or was. A pod of the agent was started by one."""
    return not host.files.shows_processes or host.files.entry(DIRECTORY) is not None


def observe(host: Host) -> Kubelet:
    if not is_present(host):
        return Kubelet(host.now(), False, None, None, ())
    at = host.now()
    healthz = _healthz(host)
    late = isinstance(healthz, Unreadable) and healthz.kind is Why.TIMEOUT
    listed = asked(host, pod_resources.LIST, pod_resources.pods, LAST_SECONDS if late else ANSWER_SECONDS)
    return Kubelet(at, True, guarded(_started(host, at)), guarded(healthz), guarded(listed))


def asked(host: Host, method: str, read: Callable[[bytes], T], deadline: float = ANSWER_SECONDS) -> T | Unreadable:
    """The kubelet's answer to one method of PodResources, as `read` makes a value of it."""
    unseen = _unseen(host)
    if unseen is not None:
        return unseen
    answer = host.grpc(SOCKET, method, b"", deadline=deadline, limit=ANSWER_BYTES, rest=REST_SECONDS)
    if isinstance(answer, Unreadable):
        return answer
    try:
        return read(answer)
    except NotProtobuf as error:
        return protobuf.malformed(SOCKET, method, error)


def _unseen(host: Host) -> Unreadable | None:
    """Why the socket is not seen in a pod of the agent, although a kubelet started that pod."""
    files = host.files
    if files.shows_processes or files.entry(SOCKET) is not None:
        return None
    if files.entry(DIRECTORY) is None:
        return not_mounted(DIRECTORY, MANIFEST)
    return Unreadable(Why.MISSING, SOCKET, detail="no socket: the kubelet starts, or its --root-dir is another")


def _started(host: Host, at: float) -> float | None | Unreadable:
    """To the second, so that it is the same in each look. A kubelet makes its socket anew at each start."""
    made = _unseen(host) or host.files.modified(SOCKET)
    if not isinstance(made, float):
        return made
    age = host.wall() - made
    if age < 0:
        return Unreadable(Why.MALFORMED, SOCKET, detail=f"made {-age:.0f} s in the future: the clock was set back")
    return float(round(at - age))


def _healthz(host: Host) -> Healthz | None | Unreadable:
    answer = host.page(HEALTHZ_PORT, HEALTHZ_PATH, deadline=ANSWER_SECONDS, limit=HEALTHZ_BYTES)
    if not isinstance(answer, tuple):
        return answer
    status, body = answer
    lines = body.decode(errors="replace").splitlines()
    failed = (line.removeprefix(FAILED).split(" ", 1)[0] for line in lines if line.startswith(FAILED))
    return Healthz(status, tuple(failed)[:NAMED_CHECKS])


FACT = Fact(Kubelet, observe, live=True)
