"""Messages of the container runtime (CRI v1) about running containers: which there are, and the request to stop one.

k8s.io/cri-api pkg/apis/runtime/v1/api.proto. The kubelet labels each container with its pod and its name
(pkg/kubelet/kuberuntime/labels.go).
"""

from __future__ import annotations

from nodeprep.facts.kubernetes import protobuf
from nodeprep.values import Value

SERVICE = "/runtime.v1.RuntimeService"
LIST, STATUS, STOP = f"{SERVICE}/ListContainers", f"{SERVICE}/ContainerStatus", f"{SERVICE}/StopContainer"
NAMESPACE, POD = "io.kubernetes.pod.namespace", "io.kubernetes.pod.name"
POD_UID, CONTAINER = "io.kubernetes.pod.uid", "io.kubernetes.container.name"
RUNNING = 1  # enum ContainerState
# Numbers of fields.
FILTER, FILTER_STATE, STATE_VALUE = 1, 2, 1
CONTAINERS, CONTAINER_ID, CONTAINER_SANDBOX, CONTAINER_LABELS = 1, 1, 2, 8
KEY, VALUE = 1, 2  # of an entry of a map
STOP_ID, STOP_TIMEOUT = 1, 2
STATUS_ID, STATUS_STATUS, STATUS_MOUNTS, MOUNT_HOST_PATH, MOUNT_READ_ONLY = 1, 1, 14, 2, 3


class RunningContainer(Value):
    """A container that runs, by what the kubelet says of it. `id` and `sandbox` are the runtime's."""

    id: str
    namespace: str
    pod: str
    pod_uid: str
    name: str
    sandbox: str = ""

    @property
    def where(self) -> str:
        """Its pod, NAMESPACE/NAME."""
        return f"{self.namespace}/{self.pod}"

    @property
    def label(self) -> str:
        return f"{self.where} (container {self.name})"


class ContainerMount(Value):
    """A path of the host that a container mounts."""

    host_path: str
    is_read_only: bool = False


LIST_RUNNING = protobuf.field(
    FILTER, protobuf.field(FILTER_STATE, protobuf.field(STATE_VALUE, RUNNING))
)  # a ListContainersRequest


def running(answer: bytes) -> tuple[RunningContainer, ...]:
    """The containers of a ListContainersResponse that the kubelet made. Raises NotProtobuf."""
    found = (_container(one) for one in protobuf.parts(answer, CONTAINERS))
    return tuple(sorted((one for one in found if one.name and one.pod), key=lambda one: (one.where, one.name)))


def stop_request(container: str, seconds: int) -> bytes:
    """A StopContainerRequest: SIGTERM, and SIGKILL after so many seconds."""
    return protobuf.field(STOP_ID, container.encode()) + protobuf.field(STOP_TIMEOUT, seconds)


def status_request(container: str) -> bytes:
    """A ContainerStatusRequest."""
    return protobuf.field(STATUS_ID, container.encode())


def mounts(answer: bytes) -> tuple[ContainerMount, ...]:
    """What the container of a ContainerStatusResponse mounts of the host. Raises NotProtobuf."""
    return tuple(
        _mount(mount)
        for status in protobuf.parts(answer, STATUS_STATUS)
        for mount in protobuf.parts(status, STATUS_MOUNTS)
    )


def _mount(message: bytes) -> ContainerMount:
    path, is_read_only = "", False
    for number, value in protobuf.fields(message):
        if number == MOUNT_HOST_PATH:
            path = protobuf.text(value, number)
        elif number == MOUNT_READ_ONLY:
            is_read_only = bool(protobuf.whole(value, number))
    return ContainerMount(path, is_read_only)


def _container(message: bytes) -> RunningContainer:
    labels: dict[str, str] = {}
    container, sandbox = "", ""
    for number, value in protobuf.fields(message):
        if number == CONTAINER_ID:
            container = protobuf.text(value, number)
        elif number == CONTAINER_SANDBOX:
            sandbox = protobuf.text(value, number)
        elif number == CONTAINER_LABELS:
            pair = dict(protobuf.fields(protobuf.part(value, number)))
            labels[protobuf.text(pair.get(KEY, b""), KEY)] = protobuf.text(pair.get(VALUE, b""), VALUE)
    namespace, pod, uid, name = (labels.get(one, "") for one in (NAMESPACE, POD, POD_UID, CONTAINER))
    return RunningContainer(container, namespace, pod, uid, name, sandbox)
