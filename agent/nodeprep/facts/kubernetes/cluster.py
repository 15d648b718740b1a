"""What Kubernetes says of this node: the Node, its pods, and the records that Terway and erdma-controller keep.

How it is asked is in facts/kubernetes/cluster_requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nodeprep.facts.alibaba import terway as terway_facts
from nodeprep.model import Shown, shown, stands_for_all
from nodeprep.pattern import Pattern

EXCLUSIVE = "k8s.aliyun.com/exclusive-mode-eni-type"
IGNORED = "k8s.aliyun.com/ignore-by-terway"
LINGJUN = "alibabacloud.com/lingjun-worker"
TRUNK = "k8s.aliyun.com/trunk-on"
INSTANCE_TYPE = "alibabacloud.com/instance-type-info"
OWN_ENI = "k8s.aliyun.com/pod-eni"  # on a pod that has an ENI or a VLAN of its own
MULTUS = "k8s.v1.cni.cncf.io/networks"  # more networks of a pod, of any kind
TERWAY_APPS = ("terway-eniip", "terway-eni")  # DaemonSets: today's, and that of exclusive ENIs before Terway 1.11
SYSTEM = "kube-system"  # where Terway's chart and erdma-controller's README put them, and no user puts a pod
ERDMA_AGENT, ERDMA_TIER = "erdma-agent", "agent"  # DaemonSet alibabacloud-erdma-agent, label tier=agent
SUFFICIENT_IP = "SufficientIP"  # Terway's condition of the Node
READY = "Ready"  # the kubelet's

# What checks ask for, by name; values of other names stay with the API server.
NODE_LABELS = (EXCLUSIVE, IGNORED, LINGJUN, "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type")
NODE_ANNOTATIONS = (TRUNK, INSTANCE_TYPE)
NODE_CONDITIONS = (SUFFICIENT_IP, READY)
INSTANCE_NUMBERS = ("EniQuantity", "EniTotalQuantity", "EriQuantity")  # of INSTANCE_TYPE, which is JSON
POD_LABELS = ("app", "tier")
POD_ANNOTATIONS = (OWN_ENI,)  # with their values, and of MULTUS that it is there

DOMAINS = ("k8s.aliyun.com", "alibabacloud.com")  # of Terway's labels and annotations
# ECS "cn-wulanchabu.i-xxxx", Lingjun "e01-ow037ccv4ux" (Terway docs/ecs.md and linjun.md); others are URLs: "aws:///...".
PROVIDER_ID = Pattern(r"[a-z0-9-]+\.i-[a-z0-9]+|e[0-9]+-[a-z0-9]+")


@shown
class StatedCondition(Shown):
    """`age` is the seconds since its last heartbeat, None where it has none."""

    type: str
    status: str
    reason: str
    message: str
    age: float | None


@shown
class KubeNode(Shown):
    """The Node object. `annotations` are those that checks ask for (NODE_ANNOTATIONS).

    Others of k8s.aliyun.com and alibabacloud.com are there without a value. `conditions` are NODE_CONDITIONS. `labels`
    are whole, because a rule of the configuration may name any; a snapshot keeps NODE_LABELS of them.

    `capacity` and `allocatable` are quantities as Kubernetes writes them ("1k", "8").
    """

    name: str
    uid: str
    provider_id: str
    address: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    conditions: tuple[StatedCondition, ...]

    @property
    def is_alibaba(self) -> bool:
        """Whether it is a node of Alibaba Cloud: only there Terway and erdma-controller keep records."""
        keys = (key.partition("/")[0] for key in (*self.labels, *self.annotations))
        return PROVIDER_ID.fullmatch(self.provider_id) is not None or any(key in DOMAINS for key in keys)

    @property
    def is_lingjun(self) -> bool:
        return self.labels.get(LINGJUN) == "true"

    @property
    def ignored_by_terway(self) -> bool:
        return self.labels.get(IGNORED) == "true"

    @property
    def ready(self) -> StatedCondition | None:
        """What the kubelet says of the node, or the node controller where the kubelet is silent (status Unknown)."""
        return next((one for one in self.conditions if one.type == READY), None)

    @property
    def is_exclusive(self) -> bool:
        return terway_facts.is_eni_only(self.labels.get(EXCLUSIVE, ""))

    def limit(self, key: str) -> int | None:
        """A number of the ECS instance type, such as EniQuantity; None where the annotation does not say."""
        if key not in INSTANCE_NUMBERS:
            raise KeyError(key)
        try:
            value = json.loads(self.annotations.get(INSTANCE_TYPE, "")).get(key)
        except (ValueError, AttributeError):
            return None
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@shown
class Container(Shown):
    """A container's status; `init` for an init container.

    `state` is "running", "waiting: REASON" or "terminated: REASON". `message` is why it ended or waits, with `***` for
    what looks like a secret; it is kept of the init containers of Terway only.
    """

    name: str
    init: bool
    ready: bool
    restarts: int
    state: str
    message: str


@shown
class Toleration(Shown):
    """A toleration as it is written: an empty `key` or `effect` stands for all, an empty `operator` for Equal."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, key: str, effect: str) -> bool:
        """Whether it tolerates a taint with any value: only Exists does."""
        return self.operator == "Exists" and self.key in ("", key) and self.effect in ("", effect)


@shown
class Owner(Shown):
    """What recreates a pod: its controller, such as apps/v1 DaemonSet; v1 Node for a static pod."""

    api: str
    kind: str
    name: str


@shown
class Pod(Shown):
    """A pod of this node. `labels` and `annotations` are those that checks ask for (POD_LABELS, POD_ANNOTATIONS).

    `requests` are its extended resources (those with a slash), of all containers together.

    `owner` is None where nothing recreates it. `writes` are the host's paths that its containers may write to.
    `devices` says why they may open any device of the node: "privileged", or paths that they mount and that hold /dev
    or lie in it. `claims` is how many resource claims it names (dynamic resource allocation).
    """

    namespace: str
    name: str
    uid: str
    phase: str
    ready: bool
    host_network: bool
    deleted: bool
    addresses: tuple[str, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    requests: Mapping[str, int]
    containers: tuple[Container, ...]
    owner: Owner | None = None
    tolerations: tuple[Toleration, ...] = ()
    writes: tuple[str, ...] = ()
    claims: int = 0
    devices: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_of_system(self) -> bool:
        """Whether a DaemonSet of kube-system owns it. Labels and names alone are free to whoever may create a pod."""
        return self.namespace == SYSTEM and self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def is_of_terway(self) -> bool:
        return self.is_of_system and self.labels.get("app") in TERWAY_APPS

    @property
    def is_erdma_agent(self) -> bool:
        return self.is_of_system and self.labels.get("tier") == ERDMA_TIER and ERDMA_AGENT in self.name


@shown
class EniAddress(Shown):
    """An IPv4 address in Terway's record of an ENI; `status` is Valid, Invalid or Deleting.

    `pod` is "namespace/name" or "".
    """

    address: str
    primary: bool
    status: str
    pod: str


@shown
class EniRecord(Shown):
    """An ENI in Terway's Node record (network.alibabacloud.com/v1beta1). `troubles` are its conditions, in words."""

    id: str
    mac: str
    status: str
    type: str
    traffic_mode: str
    primary_address: str
    addresses: tuple[EniAddress, ...]
    troubles: tuple[str, ...]


@shown
class TerwayNode(Shown):
    """Terway's Node record (CRD IPAM). `labels` says its mode only; it is empty where the record has no label.

    `synced` is the seconds since it last asked the cloud, None if it never did.
    """

    instance: str
    zone: str
    labels: Mapping[str, str]
    enis: tuple[EniRecord, ...]
    synced: float | None


@shown
class PodEni(Shown):
    """An ENI that a pod of this node holds: by a PodENI ("namespace/name") or a NetworkInterface (its own name)."""

    record: str
    phase: str
    eni: str
    mac: str
    type: str
    trunk: str


@shown
class ErdmaDevice(Shown):
    """An ERI in the ErdmaDevice record: `status` is Pending, Ready or Failed, "" where there is none yet."""

    eni: str
    mac: str
    primary: bool
    status: str
    message: str


@shown
class ErdmaRecord(Shown):
    """erdma-controller's record of this node."""

    jumbo: bool
    devices: tuple[ErdmaDevice, ...]


@shown
class EniConfig(Shown):
    """The ConfigMap eni-config, merged with the one that the node's label terway-config names.

    `settings` are the keys of eni_conf that checks ask for (cluster_records.SETTINGS_READ), its lists as tuples. It is
    Unreadable(malformed) with line and column where it is no JSON. `name` is "kube-system/eni-config" and that of the
    merged one, if any.
    """

    name: str
    settings: Mapping[str, Any]


@shown
class Cluster(Shown):
    """What the API server answered. A record that does not exist is None; one that may not be read is Unreadable."""

    at: float
    node: KubeNode
    pods: tuple[Pod, ...]
    terway: TerwayNode | None
    pod_enis: tuple[PodEni, ...]
    erdma: ErdmaRecord | None
    eni_config: EniConfig | None

    possible = stands_for_all(erdma=(None,))
