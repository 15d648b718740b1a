"""Messages of the container runtime (CRI v1) about sandboxes, of which each pod has one.

k8s.io/cri-api pkg/apis/runtime/v1/api.proto. The kubelet gives a sandbox the labels of its pod
(pkg/kubelet/kuberuntime/labels.go).
"""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.facts.kubernetes import protobuf
from nodeprep.facts.kubernetes.cri_containers import SERVICE
from nodeprep.values import Value

LIST, STOP = f"{SERVICE}/ListPodSandbox", f"{SERVICE}/StopPodSandbox"
# Numbers of fields. A filter for the state READY, which is 0, is an empty message.
FILTER, FILTER_STATE, FILTER_LABELS, KEY, VALUE = 1, 2, 3, 1, 2
SANDBOXES, ID, METADATA, POD, POD_UID, NAMESPACE = 1, 1, 2, 1, 2, 3
STOP_ID = 1


class PodSandbox(Value):
    """A sandbox that is ready, and its pod. `id` is the runtime's."""

    id: str
    namespace: str
    pod: str
    pod_uid: str

    @property
    def where(self) -> str:
        """Its pod, NAMESPACE/NAME."""
        return f"{self.namespace}/{self.pod}"


def list_request(labels: Mapping[str, str]) -> bytes:
    """A ListPodSandboxRequest for those that are ready and whose pods have all of these labels."""
    pairs = (protobuf.field(KEY, name.encode()) + protobuf.field(VALUE, one.encode()) for name, one in labels.items())
    wanted = b"".join(protobuf.field(FILTER_LABELS, pair) for pair in pairs)
    return protobuf.field(FILTER, protobuf.field(FILTER_STATE, b"") + wanted)


def sandboxes(answer: bytes) -> tuple[PodSandbox, ...]:
    """Those of a ListPodSandboxResponse. Raises NotProtobuf."""
    return tuple(_sandbox(one) for one in protobuf.parts(answer, SANDBOXES))


def stop_request(sandbox: str) -> bytes:
    """A StopPodSandboxRequest: SIGKILL to what still runs in it."""
    return protobuf.field(STOP_ID, sandbox.encode())


def _sandbox(message: bytes) -> PodSandbox:
    told = dict(protobuf.fields(message))
    pod = dict(protobuf.fields(protobuf.part(told.get(METADATA, b""), METADATA)))
    names = (protobuf.text(pod.get(number, b""), number) for number in (NAMESPACE, POD, POD_UID))
    return PodSandbox(protobuf.text(told.get(ID, b""), ID), *names)
