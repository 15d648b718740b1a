"""Kubernetes' own objects as values: the Node and its pods. Raises OddObject where one does not follow its schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, TypeVar

from nodeprep import newer_python, redaction
from nodeprep.facts.kubernetes.cluster import (
    DOMAINS,
    INSTANCE_NUMBERS,
    INSTANCE_TYPE,
    MULTUS,
    NODE_ANNOTATIONS,
    NODE_CONDITIONS,
    NODE_LABELS,
    POD_ANNOTATIONS,
    POD_LABELS,
    SYSTEM,
    TERWAY_APPS,
    Container,
    KubeNode,
    Owner,
    Pod,
    StatedCondition,
    Toleration,
)
from nodeprep.model import Unreadable, Why
from nodeprep.newer_python import UTC
from nodeprep.pattern import Pattern

T = TypeVar("T")
QUANTITY = Pattern(r"[+-]?[0-9.]{1,30}([eE][+-]?[0-9]{1,3}|[KMGTPE]i|[numkMGTPE])?")  # as of resources
Object = Mapping[str, Any]

DEVICES = PurePosixPath("/dev")
MESSAGE_LIMIT_CHARACTERS = 1000  # characters of a message: the kubelet keeps 4 KiB of a container's last words
# k8s.io/apimachinery/pkg/api/resource: extended resources are whole numbers, which it shortens
SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


class OddObject(ValueError):
    """A field holds another kind of value than its schema says; the text names the field and never its value."""


def field(thing: object, kind: type[T], *keys: str) -> T:
    """The value at `keys`; the empty one of its kind where there is none. Raises OddObject for another kind."""
    for key in keys:
        if not isinstance(thing, dict):
            raise OddObject(f"above .{'.'.join(keys)} is no object")
        thing = thing.get(key)
        if thing is None:
            return kind()
    if not isinstance(thing, kind) or (kind is int and isinstance(thing, bool)):
        raise OddObject(f".{'.'.join(keys)} is no {kind.__name__}")
    return thing


def words(thing: object, *keys: str) -> dict[str, str]:
    """A mapping of strings to strings, such as labels."""
    found = field(thing, dict, *keys)
    return {str(key): field(found, str, key) for key in found}


def understood(where: str, read: Callable[[], T]) -> T | Unreadable:
    """What `read` makes of an object; Unreadable where the object does not follow its schema."""
    try:
        return read()
    except OddObject as odd:
        return Unreadable(Why.MALFORMED, where, detail=str(odd))


def age(time: str, now: float) -> float | None:
    """Seconds from a time of the API server to `now`, seconds since 1970; None where it holds none."""
    then = moment(time)
    return None if then is None else max(0.0, now - then)


def moment(time: object) -> float | None:
    """A time of the API server (RFC 3339) in seconds since 1970; None for any other text."""
    try:
        then = newer_python.moment(time) if isinstance(time, str) else None
    except ValueError:
        return None
    at = 0.0 if then is None else then.replace(tzinfo=then.tzinfo or UTC).timestamp()
    return at if at > 0 else None  # Go's zero time, the year 1, stands for no time


def node(told: Object, now: float) -> KubeNode:
    metadata = field(told, dict, "metadata")
    addresses = field(told, list, "status", "addresses")
    inside = [field(one, str, "address") for one in addresses if field(one, str, "type") == "InternalIP"]
    return KubeNode(
        name=field(metadata, str, "name"),
        uid=field(metadata, str, "uid"),
        provider_id=field(told, str, "spec", "providerID"),
        address=inside[0] if inside else "",
        labels=words(metadata, "labels"),
        annotations=_annotations(words(metadata, "annotations")),
        capacity=_quantities(words(told, "status", "capacity")),
        allocatable=_quantities(words(told, "status", "allocatable")),
        conditions=tuple(
            StatedCondition(
                type=field(one, str, "type"),
                status=field(one, str, "status"),
                reason=field(one, str, "reason"),
                message=said(field(one, str, "message")),
                age=age(field(one, str, "lastHeartbeatTime"), now),
            )
            for one in field(told, list, "status", "conditions")
            if field(one, str, "type") in NODE_CONDITIONS
        ),
    )


def pod(told: Object) -> Pod:
    metadata, status = field(told, dict, "metadata"), field(told, dict, "status")
    namespace = field(metadata, str, "namespace")
    conditions, labels = field(status, list, "conditions"), words(metadata, "labels")
    terway = namespace == SYSTEM and labels.get("app") in TERWAY_APPS
    addresses = [field(one, str, "ip") for one in field(status, list, "podIPs")] or [field(status, str, "podIP")]
    return Pod(
        namespace=namespace,
        name=field(metadata, str, "name"),
        uid=field(metadata, str, "uid"),
        phase=field(status, str, "phase"),
        ready=any(field(one, str, "type") == "Ready" and field(one, str, "status") == "True" for one in conditions),
        host_network=field(told, bool, "spec", "hostNetwork"),
        deleted=bool(field(metadata, str, "deletionTimestamp")),
        addresses=tuple(filter(None, addresses)),
        labels=_of(POD_LABELS, labels),
        annotations=_pod_annotations(words(metadata, "annotations")),
        requests=_requests(field(told, dict, "spec")),
        containers=tuple(
            _container(one, init=init, speaks=init and terway)
            for key, init in (("initContainerStatuses", True), ("containerStatuses", False))
            for one in field(status, list, key)
        ),
        owner=_owner(field(metadata, list, "ownerReferences")),
        tolerations=tuple(_toleration(one) for one in field(told, list, "spec", "tolerations")),
        writes=_writes(field(told, dict, "spec")),
        devices=_devices(field(told, dict, "spec")),
        claims=len(field(told, list, "spec", "resourceClaims")),
    )


def _owner(references: list[Any]) -> Owner | None:
    """The one controller among them, as the API server sees to."""
    found = (one for one in references if field(one, bool, "controller"))
    return next((Owner(*(field(one, str, key) for key in ("apiVersion", "kind", "name"))) for one in found), None)


def _toleration(told: object) -> Toleration:
    return Toleration(*(field(told, str, key) for key in ("key", "operator", "value", "effect")))


def _pod_annotations(found: Mapping[str, str]) -> dict[str, str]:
    """Those that checks ask for. Of Multus' networks only that there are some: they may be an object with addresses."""
    return _of(POD_ANNOTATIONS, found) | {key: "" for key in (MULTUS,) if found.get(key)}


def _containers(spec: Object) -> tuple[Any, ...]:
    return (*field(spec, list, "initContainers"), *field(spec, list, "containers"))


def _mounted(spec: Object) -> Iterator[tuple[PurePosixPath, bool]]:
    """The host's paths that its containers mount, and whether each is read-only."""
    volumes = field(spec, list, "volumes")
    paths = ((field(one, str, "name"), field(one, str, "hostPath", "path")) for one in volumes)
    host = {name: "/" + root.lstrip("/") for name, root in paths if root}  # of "//dev" too
    for mount in (mount for container in _containers(spec) for mount in field(container, list, "volumeMounts")):
        if field(mount, str, "name") in host:
            path = PurePosixPath(host[field(mount, str, "name")], field(mount, str, "subPath"))
            yield path, field(mount, bool, "readOnly")


def _writes(spec: Object) -> tuple[str, ...]:
    """The host's paths that a container mounts and may write to, each once."""
    return tuple(dict.fromkeys(str(path) for path, is_read_only in _mounted(spec) if not is_read_only))


def _devices(spec: Object) -> tuple[str, ...]:
    """Why its containers may open devices of the node, each once. Read-only is the mount and not the device on it."""
    privileged = any(field(one, bool, "securityContext", "privileged") for one in _containers(spec))
    paths = (path for path, _ in _mounted(spec) if path.is_relative_to(DEVICES) or DEVICES.is_relative_to(path))
    return tuple(dict.fromkeys((*(("privileged",) if privileged else ()), *map(str, paths))))


def said(message: str) -> str:
    """A message as it is kept: its beginning, without what looks like a secret."""
    return redaction.masked(message)[:MESSAGE_LIMIT_CHARACTERS]


def judged_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a Node as checks need them; of others in Alibaba Cloud's domains only that they are there."""
    return {key: "" for key in labels if key.partition("/")[0] in DOMAINS} | _of(NODE_LABELS, labels)


def _annotations(found: Mapping[str, str]) -> dict[str, str]:
    known = {key: "" for key in found if key.partition("/")[0] in DOMAINS} | _of(NODE_ANNOTATIONS, found)
    if INSTANCE_TYPE in known:
        known[INSTANCE_TYPE] = _numbers(known[INSTANCE_TYPE])
    return known


def _numbers(text: str) -> str:
    """The numbers that are asked for of a JSON object, as JSON; "" for what is none."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    numbers = (
        {key: told[key] for key in INSTANCE_NUMBERS if type(told.get(key)) is int} if isinstance(told, dict) else {}
    )
    return json.dumps(numbers)


def _quantities(found: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in found.items() if QUANTITY.fullmatch(value)}


def _of(names: tuple[str, ...], found: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in found.items() if key in names}


def _requests(spec: Object) -> dict[str, int]:
    """By extended resource what it gets at least: of all containers and sidecars, or of an init container if more."""
    first = field(spec, list, "initContainers")
    sidecars = [one for one in first if field(one, str, "restartPolicy") == "Always"]
    total: dict[str, int] = {}
    for container in (*field(spec, list, "containers"), *sidecars):
        for name, count in _extended(container):
            total[name] = total.get(name, 0) + count
    for container in first:
        for name, count in _extended(container):
            total[name] = max(total.get(name, 0), count)
    return total


def _extended(container: object) -> Iterator[tuple[str, int]]:
    """Its extended resources: a request is its limit. A quantity that is not a whole number is left out."""
    resources = field(container, dict, "resources")
    for name, quantity in (field(resources, dict, "limits") | field(resources, dict, "requests")).items():
        count = whole(str(quantity)) if "/" in name else None
        if count is not None:
            yield name, count


def whole(quantity: str) -> int | None:
    """A quantity such as "8" or "1k" as a number; None for one with a fraction or another suffix."""
    digits = quantity.rstrip("kKMGi")
    factor = SUFFIXES.get(quantity[len(digits) :])
    return int(digits) * factor if factor and digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def _container(told: object, *, init: bool, speaks: bool) -> Container:
    state, last = field(told, dict, "state"), field(told, dict, "lastState")
    name = next((one for one in ("running", "waiting", "terminated") if state.get(one) is not None), "waiting")
    reason = field(state, str, name, "reason")
    # A container that is restarted again and again is waiting. Its last words say why.
    ended = field(state, str, "terminated", "message") or field(last, str, "terminated", "message")
    return Container(
        name=field(told, str, "name"),
        init=init,
        ready=field(told, bool, "ready"),
        restarts=field(told, int, "restartCount"),
        state=f"{name}: {reason}" if reason else name,
        message=said(ended or field(state, str, "waiting", "message")) if speaks else "",
    )
