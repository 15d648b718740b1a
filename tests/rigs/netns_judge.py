"""Runs the checks of routes and sysctls on this node, and prints their verdicts as JSON.

    echo '{}' | python tests/rigs/netns.py run -- python tests/rigs/netns_judge.py

One look for each line of its input. Real here: every fact except one. Not real: the records of Kubernetes, because the
node has no API server. A line names the pods with their addresses. Without any, the server counts as not accessible.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from nodeprep.values import replace

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nodeprep import check_round
from nodeprep.checks.route import default, out, reverse_path, rules, tables
from nodeprep.checks.sysctl import arp, forward, forward_policy, rp_filter
from nodeprep.cli import place
from nodeprep.facts.alibaba import imds, lingjun, terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network import cni, links, netfilter, routes, sysctls
from nodeprep.job_profile import NO_PROFILE
from nodeprep.look import Look
from nodeprep.model import Finding
from nodeprep.observer import Observer
from tests.cluster_values import cluster, pod, terway_pod

CHECKS = [one.CHECK for one in (forward, rp_filter, arp, forward_policy, default, rules, tables, out, reverse_path)]
FACTS = [one.FACT for one in (routes, sysctls, netfilter, links, terway, cni, imds, lingjun)]


def main() -> int:
    observer = Observer(place.place(None, "/").host())
    for line in sys.stdin:
        look = with_pods(observer.look(FACTS), json.loads(line))
        print(
            json.dumps([shown(one) for one in check_round.judge(CHECKS, look, None, NO_PROFILE, {}).findings]),
            flush=True,
        )
    return 0


def with_pods(look: Look, addresses: dict[str, str]) -> Look:
    if not addresses:
        return look
    pods = (pod(name=name, addresses=(address,)) for name, address in addresses.items())
    return replace(look, facts={**look.facts, Cluster: cluster(pods=(terway_pod(), *pods), terway=None)})


def shown(finding: Finding) -> dict[str, Any]:
    verdict = finding.verdict
    return {
        "check": finding.check,
        "status": finding.status,
        "reason": verdict.reason,
        "subject": verdict.subject.name,
        "root": finding.root,
        "message": verdict.message,
        "remedy": verdict.remedy.playbook if verdict.remedy else None,
        "blind": {"kind": verdict.blind.kind} if verdict.blind else None,
    }


if __name__ == "__main__":
    sys.exit(main())
