"""The admission policy as a value: whose it is, which names are in it. What it lets through, a real API server says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep.decide.desired import AREAS, TRAINING_READY, GatePolicy
from nodeprep.publish import admission_policy
from nodeprep.publish.admission_policy import LEASES, NODES, RULE, ServiceAccount

OTHER = GatePolicy(
    unhealthy_taint="example.com/bad",
    bootstrap_taint="startup-taint.cluster-autoscaler.kubernetes.io/new",
    rdma_label="example.com/rdma",
)
DEFAULTS = GatePolicy()
PARTS = ("unhealthy_taint", "bootstrap_taint", "rdma_label")
CONFIG = f"""
apiVersion: nodeprep.io/v1
kind: Config
gate:
  unhealthy-taint: {OTHER.unhealthy_taint}
  bootstrap-taint: {OTHER.bootstrap_taint}
  rdma-label: {OTHER.rdma_label}
"""


def rules(policy: dict[str, Any]) -> dict[str, str]:
    return {one["message"].removeprefix(RULE): one["expression"] for one in policy["spec"]["validations"]}


@pytest.mark.parametrize("part", PARTS)
def test_the_names_of_the_configuration_are_in_it_and_the_default_ones_are_not(part: str) -> None:
    text = json.dumps(admission_policy.admission_policies(OTHER))
    assert getattr(OTHER, part) in text
    assert getattr(DEFAULTS, part) not in text
    assert getattr(DEFAULTS, part) in json.dumps(admission_policy.admission_policies(DEFAULTS))


def test_whom_it_binds() -> None:
    nodes, _, leases, _ = admission_policy.admission_policies(DEFAULTS, ServiceAccount("training", "watcher"))
    for policy in (nodes, leases):
        (condition,) = policy["spec"]["matchConditions"]
        assert condition["expression"] == 'request.userInfo.username == "system:serviceaccount:training:watcher"'
    assert rules(leases)["own-namespace"] == 'request.namespace == "training"'


def test_each_policy_is_bound_denies_and_fails_closed() -> None:
    found = admission_policy.admission_policies(DEFAULTS)
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("ValidatingAdmissionPolicy", NODES),
        ("ValidatingAdmissionPolicyBinding", NODES),
        ("ValidatingAdmissionPolicy", LEASES),
        ("ValidatingAdmissionPolicyBinding", LEASES),
    ]
    for policy, binding in (found[:2], found[2:]):
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_the_rules_of_nodes() -> None:
    found = rules(admission_policy.admission_policies(DEFAULTS)[0])
    assert list(found) == [
        "own-node",
        "metadata",
        "labels",
        "annotations",
        "taints",
        "cordon",
        "spec",
        "conditions",
        "status",
    ]
    for kind in (TRAINING_READY, *AREAS):
        assert f'"{kind}"' in found["conditions"]


ACCOUNTS = [
    ("nodeprep:nodeprep-agent", ServiceAccount()),
    ("a:b.c", ServiceAccount("a", "b.c")),
    ("nodeprep-agent", None),
    ("nodeprep:", None),
    (":a", None),
    ("a:b:c", None),
    ('a:"b', None),
    ("a.b:c", None),  # a namespace is a label
    ("a:b..c", None),
    ("a:b.-c", None),
    ("a-:b", None),
    ("A:b", None),
    (f"{63 * 'a'}:{253 * 'b'}", ServiceAccount(63 * "a", 253 * "b")),
    (f"{64 * 'a'}:b", None),
    (f"a:{254 * 'b'}", None),
    ("a\n:b", None),
    ("a:b\n", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "expected"), ACCOUNTS)
def test_accounts_as_they_are_typed(text: str, expected: ServiceAccount | None) -> None:
    assert ServiceAccount.of(text) == expected


def nodeprep(*words: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "nodeprep", "config", "admission-policy", *words)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_it_for_a_configuration_and_an_account(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    done = nodeprep("--config", str(tmp_path / "config.yaml"), "--service-account", "training:watcher")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(yaml.safe_load_all(done.stdout)) == list(
        admission_policy.admission_policies(OTHER, ServiceAccount("training", "watcher"))
    )


def test_the_command_takes_no_account_that_is_none() -> None:
    done = nodeprep("--service-account", "nodeprep-agent")
    says = "--service-account 'nodeprep-agent': wanted NAMESPACE:NAME, such as nodeprep:nodeprep-agent\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)


def test_the_command_names_what_is_wrong_in_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG.replace(OTHER.rdma_label, "no label"))
    done = nodeprep("--config", str(tmp_path / "config.yaml"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "config.yaml:7: gate.rdma-label: found 'no label'" in done.stderr
