"""Labels, taints and ports as kube-scheduler compares them: what a pod may demand of a Node besides resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeprep.jobs.manifest_part import ManifestPart
from nodeprep.pattern import Pattern
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Value

Object = Mapping[str, Any]

IN, NOT_IN, EXISTS, NOT_EXISTS, GREATER, LESS = "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
OPERATORS = (IN, NOT_IN, EXISTS, NOT_EXISTS, GREATER, LESS)
NAME_FIELD = "metadata.name"
INTEGER = Pattern(r"[+-]?[0-9]{1,19}")  # strconv.ParseInt, base 10
INTEGER_LIMIT = 1 << 63
KEEPS_AWAY = ("NoSchedule", "NoExecute")  # effects of taints that keep a new pod away; PreferNoSchedule does not
TOLERATION_OPERATORS = ("", "Equal", "Exists")
ALL_ADDRESSES, TCP = "0.0.0.0", "TCP"  # noqa: S104 - what Kubernetes calls all of them


class NodeRequirement(Value):
    """A demand on one label of a Node, or on its name."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in (EXISTS, NOT_EXISTS):
            return f"{self.key} {self.operator}"
        return f"{self.key} {self.operator} {','.join(self.values)}"

    def holds(self, labels: Mapping[str, str]) -> bool:
        """As labels.Requirement.Matches: NotIn holds where the label is missing, Gt and Lt do not."""
        found = labels.get(self.key)
        if self.operator == NOT_IN:
            return found not in self.values
        if self.operator in (EXISTS, NOT_EXISTS):
            return (found is not None) == (self.operator == EXISTS)
        if self.operator == IN:
            return found in self.values
        one, other = _integer(found), _integer(self.values[0] if len(self.values) == 1 else None)
        if one is None or other is None:
            return False
        return one > other if self.operator == GREATER else one < other


class NodeTerm(Value):
    """Requirements that all hold, of labels and of fields. A term without any matches no Node."""

    labels: tuple[NodeRequirement, ...] = ()
    fields: tuple[NodeRequirement, ...] = ()

    def failing(self, name: str, labels: Mapping[str, str]) -> tuple[NodeRequirement, ...]:
        """The requirements that do not hold on a Node."""
        wrong = [one for one in self.labels if not one.holds(labels)]
        wrong += [one for one in self.fields if not one.holds({NAME_FIELD: name})]
        return tuple(wrong)

    @property
    def is_empty(self) -> bool:
        return not self.labels and not self.fields


class NodeTaint(Value):
    """A taint of a Node."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


class PodToleration(Value):
    """A toleration as it is written: an empty key or effect stands for all, an empty operator for Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: NodeTaint) -> bool:
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == EXISTS or (self.operator in ("", "Equal") and self.value == taint.value)


class HostPort(Value):
    """A port of the host that a container wants for itself."""

    address: str
    protocol: str
    port: int

    def __str__(self) -> str:
        return f"{self.port}/{self.protocol}" + ("" if self.address == ALL_ADDRESSES else f" of {self.address}")

    def conflicts(self, other: HostPort) -> bool:
        """All addresses conflict with each of them."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return ALL_ADDRESSES in (self.address, other.address) or self.address == other.address


def terms(affinity: ManifestPart) -> tuple[NodeTerm, ...] | None:
    """The terms of a required node affinity, one of which must hold; None without one. Raises InvalidValueError."""
    required = affinity.part("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if not required.value:
        return None
    return tuple(
        NodeTerm(
            tuple(map(_requirement, one.parts("matchExpressions"))), tuple(map(_requirement, one.parts("matchFields")))
        )
        for one in required.parts("nodeSelectorTerms")
    )


def tolerations(spec: ManifestPart) -> tuple[PodToleration, ...]:
    """Raises InvalidValueError."""
    return tuple(
        PodToleration(*(one.text(key) for key in ("key", "operator", "value", "effect")))
        for one in spec.parts("tolerations")
    )


def taints(spec: Object) -> tuple[NodeTaint, ...]:
    """The taints of a Node of the API server."""
    found = spec.get("taints")
    told = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []
    return tuple(NodeTaint(*(str(one.get(key) or "") for key in ("key", "value", "effect"))) for one in told)


def host_ports(spec: Object) -> tuple[HostPort, ...]:
    """The ports of the host that containers and sidecars want. On the host's network each port is the host's."""
    own = spec.get("hostNetwork") is True
    found: list[HostPort] = []
    for key in ("initContainers", "containers"):
        for container in _objects(spec, key):
            if key == "initContainers" and container.get("restartPolicy") != "Always":
                continue
            for one in _objects(container, "ports"):
                port = one.get("hostPort") or (one.get("containerPort") if own else None)
                if isinstance(port, int) and port > 0:
                    address, protocol = one.get("hostIP") or ALL_ADDRESSES, one.get("protocol") or TCP
                    found.append(HostPort(str(address), str(protocol), port))
    return tuple(found)


def _objects(part: Object, key: str) -> tuple[Object, ...]:
    found = part.get(key)
    return tuple(one for one in found if isinstance(one, Mapping)) if isinstance(found, list | tuple) else ()


def _requirement(part: ManifestPart) -> NodeRequirement:
    operator = part.text("operator")
    if operator not in OPERATORS:
        raise InvalidValueError((*part.keys, "operator"), operator or None, f"one of {', '.join(OPERATORS)}")
    return NodeRequirement(part.text("key"), operator, part.words("values"))


def _integer(text: str | None) -> int | None:
    if text is None or not INTEGER.fullmatch(text):
        return None
    found = int(text)
    return found if -INTEGER_LIMIT <= found < INTEGER_LIMIT else None
