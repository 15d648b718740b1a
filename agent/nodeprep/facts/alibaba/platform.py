"""Whether this is a node of Alibaba Cloud: by what it shows of itself, never by what it lacks."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.facts.alibaba.erdma import Erdma
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.lingjun import Lingjun
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.system import System
from nodeprep.model import Shown, Unreadable, raw

SIGNS: tuple[tuple[type, str], ...] = (
    (Imds, "instance"),
    (Terway, "present"),
    (Erdma, "functions"),
    (Lingjun, "topologies"),
)
VENDOR = "Alibaba Cloud"  # the vendor's and product's words in SMBIOS: "Alibaba Cloud", "Alibaba Cloud ECS"


def is_alibaba(facts: Mapping[type, object]) -> bool:
    """One sign is enough. A machine whose own words (SMBIOS) cannot be read counts: its verdicts are then unknown."""
    system = facts.get(System)
    words = [raw(system)[name] for name in ("vendor", "product")] if isinstance(system, System) else []
    if any(isinstance(word, Unreadable) or str(word).startswith(VENDOR) for word in words):
        return True
    return any(_has(facts.get(kind), field) for kind, field in SIGNS) or _is_alibabas(facts.get(Cluster))


def _has(fact: object, field: str) -> bool:
    value = raw(fact)[field] if isinstance(fact, Shown) else None
    return bool(value) and not isinstance(value, Unreadable)


def _is_alibabas(cluster: object) -> bool:
    node = raw(cluster)["node"] if isinstance(cluster, Cluster) else None
    return node is not None and not isinstance(node, Unreadable) and node.is_alibaba
