"""The admission policy for the agent's account, as objects that the API server enforces (design 3.5).

RBAC cannot say "only your own Node" or "only these keys". These ValidatingAdmissionPolicies can. What no rule names is
denied: a field that a later Kubernetes adds to a Node is out of reach until someone allows it. A policy binds one
account by its name, so a policy with a mistyped name binds nobody. To find that out, the agent tries a forbidden write
as a dry run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from nodeprep.decide.desired import AGENT_PREFIX, PREFIX, GatePolicy
from nodeprep.doors.kube.reader import NAMESPACE, NODE_NAME
from nodeprep.pattern import Pattern
from nodeprep.publish.agent_lease import AGENT
from nodeprep.publish.node_object import OUR_CONDITIONS
from nodeprep.values import Value

NODES, LEASES = "nodeprep-nodes", "nodeprep-leases"  # names of the policies and of their bindings
RULE = "nodeprep:"  # before a rule's name in the message of a denial
SLOT = "nodeprep-slot-"  # what the names of a fleet's Leases begin with
ORDERS = f"{PREFIX}/"  # what the keys of annotations begin with that only humans write
EFFECTS = ("NoSchedule", "PreferNoSchedule")  # never NoExecute: nothing of ours ends a pod
API = "admissionregistration.k8s.io/v1"
# As in the API server: a namespace is a DNS label; an account's name is a DNS subdomain, like a Node's.
NAMESPACE_NAME, ACCOUNT_NAME = Pattern(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"), NODE_NAME
# A token that is bound to a pod names the pod's node (Kubernetes 1.30).
CLAIM = "authentication.kubernetes.io/node-name"
OWN_NODE = f"request.userInfo.?extra[?'{CLAIM}'][?0].orValue('')"
# The API server itself rewrites these at each write.
BOOKKEEPING = ("managedFields", "resourceVersion", "generation")
CREATION_FIELDS = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
)  # set at creation, then kept by the API server
LEASE_DURATION_LIMIT_SECONDS = 3600  # seconds that a slot may be held without being renewed
CLOCK_SKEW_SECONDS = 60  # seconds by which a node's clock may differ from the API server's, to either side


class ServiceAccount(Value):
    """The service account that the admission policy binds, and whose namespace holds the agents' Leases."""

    namespace: str = NAMESPACE
    name: str = "nodeprep-agent"

    @property
    def user(self) -> str:
        """What the API server calls it."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @classmethod
    def of(cls, text: str) -> ServiceAccount | None:
        """From "NAMESPACE:NAME". None for anything else, and for what no cluster accepts as a name."""
        namespace, _, name = text.partition(":")
        return cls(namespace, name) if NAMESPACE_NAME.fullmatch(namespace) and ACCOUNT_NAME.fullmatch(name) else None


class AdmissionPolicy(Value):
    """One policy: CEL expressions by the name of the rule. All must hold; the API server names the first that does not.

    The rules in `first` come before the others and also work if the object does not exist. The `rules` do not apply
    where `unless` holds.
    """

    name: str
    group: str
    resources: tuple[str, ...]
    variables: Mapping[str, str]
    first: Mapping[str, str]
    unless: str
    rules: Mapping[str, str]

    def objects(self, account: ServiceAccount) -> tuple[dict[str, Any], dict[str, Any]]:
        """The policy and its binding."""
        rules = {**self.first, **{name: f"{self.unless} || ({says})" for name, says in self.rules.items()}}
        resources = {
            "apiGroups": [self.group],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": list(self.resources),
        }
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [resources]},
            "matchConditions": [{"name": "agent", "expression": f"request.userInfo.username == {_text(account.user)}"}],
            "variables": [{"name": name, "expression": says} for name, says in self.variables.items()],
            "validations": [{"expression": says, "message": f"{RULE}{name}"} for name, says in rules.items()],
        }
        binding = {"policyName": self.name, "validationActions": ["Deny"]}
        return _object("ValidatingAdmissionPolicy", self.name, spec), _object(
            "ValidatingAdmissionPolicyBinding", self.name, binding
        )


AGENT_ACCOUNT = ServiceAccount()


def admission_policies(names: GatePolicy, account: ServiceAccount = AGENT_ACCOUNT) -> tuple[dict[str, Any], ...]:
    """All objects of the admission policy, for taints and a label of these names and for this account."""
    return tuple(one for policy in (nodes(names), leases(account)) for one in policy.objects(account))


def nodes(names: GatePolicy) -> AdmissionPolicy:
    """Only the own Node, and of it only the taints, labels, annotations and conditions that are ours."""
    label = f"k == {_text(names.rdma_label)} || k.startsWith({_text(f'{PREFIX}/')})"
    annotation = f"k.startsWith({_text(f'{AGENT_PREFIX}/')})"
    others = f".filter(c, !(c.type in {_list(sorted(OUR_CONDITIONS))}))"
    return AdmissionPolicy(
        name=NODES,
        group="",
        resources=("nodes", "nodes/status"),
        variables={
            "ownNode": OWN_NODE,
            # dyn: the parts are maps, whatever fields of a Node the type checker knows.
            **_both("Metadata", "dyn({}).metadata"),
            **_both("Spec", "dyn({}).?spec.orValue({{}})"),
            **_both("Status", "dyn({}).?status.orValue({{}})"),
            **_both("Labels", "{}.metadata.?labels.orValue({{}})"),
            **_both("Annotations", "{}.metadata.?annotations.orValue({{}})"),
            **_both("Taints", "{}.spec.?taints.orValue([])"),
            **_both("Conditions", "{}.status.?conditions.orValue([])"),
        },
        first={
            "own-node": "request.operation == 'UPDATE'"
            " && variables.ownNode != '' && variables.ownNode == oldObject.metadata.name"
        },
        unless="request.operation != 'UPDATE'",
        rules={
            "metadata": _same("Metadata", f"k in {_list(('labels', 'annotations', *BOOKKEEPING))}")
            + " && (variables.newMetadata.?managedFields.orValue([]) != []"
            " || variables.oldMetadata.?managedFields.orValue([]) == [])",
            "labels": _same("Labels", label),
            "annotations": _same("Annotations", annotation),
            "taints": _taints(names),
            "cordon": "oldObject.spec.?unschedulable.orValue(false) == object.spec.?unschedulable.orValue(false)",
            "spec": _same("Spec", "k in ['taints', 'unschedulable']"),
            "conditions": f"variables.oldConditions{others} == variables.newConditions{others}",
            "status": _same("Status", "k == 'conditions'"),
        },
    )


def leases(account: ServiceAccount) -> AdmissionPolicy:
    """The Lease of the own agent, and slots of the fleet: an agent may take and give back an existing slot.

    It may neither create nor delete a slot, because the operator decides how many there are. What it tells others about
    repairs is an annotation of its own Lease. What humans order is one of a Lease that it cannot write.

    CEL has no clock, and a writer may lie about the time. The API server notes its own time in `managedFields`, beside
    the fields that a writer has changed. A writer can put any other entry there, but cannot leave out the entry of its
    own write. So if there is only one entry, and the write has changed a field, it is that one. Therefore an agent that
    takes or keeps a slot sends `managedFields` with one entry that claims only `renewTime`. The entries of others go,
    and so does this one, because the write takes `renewTime` from it.
    """
    holder, was = (f"{which}.spec.?holderIdentity.orValue('')" for which in ("object", "oldObject"))
    mine = "['', variables.ownNode]"
    # The write has an entry of its own only if it has set a field.
    clock = (
        "variables.newMetadata.?managedFields.orValue([]).size() == 1 && has(object.spec.renewTime)"
        " && object.spec.?renewTime != oldObject.spec.?renewTime"
    )
    # Subtracted from the true time: the other time and the duration may be anything, and must not overflow.
    expired = (
        "has(oldObject.spec.renewTime) && has(oldObject.spec.leaseDurationSeconds)"
        " && variables.now - duration(string(oldObject.spec.leaseDurationSeconds) + 's')"
        " > timestamp(oldObject.spec.renewTime)"
    )
    expires = (
        f"has(object.spec.leaseDurationSeconds) && object.spec.leaseDurationSeconds <= {LEASE_DURATION_LIMIT_SECONDS}"
        f" && timestamp(object.spec.renewTime) <= variables.now + duration('{CLOCK_SKEW_SECONDS}s')"
        f" && timestamp(object.spec.renewTime) >= variables.now - duration('{CLOCK_SKEW_SECONDS}s')"
    )
    owner = "o.kind == 'Node' && o.name == variables.ownNode"
    free = (
        "ownerReferences",
        "labels",
        "annotations",
        *CREATION_FIELDS,
        *BOOKKEEPING,
    )  # webhooks add labels to new objects
    return AdmissionPolicy(
        name=LEASES,
        group="coordination.k8s.io",
        resources=("leases",),
        variables={
            "ownNode": OWN_NODE,
            "own": f"object.metadata.name == {_text(AGENT)} + variables.ownNode",
            "slot": f"request.operation == 'UPDATE' && object.metadata.name.startsWith({_text(SLOT)})",
            "oldMetadata": "oldObject == null ? {} : dyn(oldObject).metadata",
            "newMetadata": "dyn(object).metadata",
            "oldAnnotations": "variables.oldMetadata.?annotations.orValue({})",
            "newAnnotations": "variables.newMetadata.?annotations.orValue({})",
            "now": "timestamp(variables.newMetadata.managedFields[0].time)",  # the server's, if slot-clock holds
        },
        first={
            "own-namespace": f"request.namespace == {_text(account.namespace)}",
            "own-lease": "request.operation != 'DELETE'"
            " && variables.ownNode != '' && (variables.own || variables.slot)",
        },
        unless="request.operation == 'DELETE'",
        rules={
            "lease-holder": f"!variables.own || {holder} == variables.ownNode",
            "lease-owner": f"!variables.own || object.metadata.?ownerReferences.orValue([]).all(o, {owner})",
            "lease-metadata": f"!variables.own || ({_same('Metadata', f'k in {_list(free)}')})",
            "lease-orders": f"!variables.own || ({_same('Annotations', f'!k.startsWith({_text(ORDERS)})')})",
            "slot-holder": f"!variables.slot || {holder} in {mine}",
            "slot-clock": f"!variables.slot || ({holder} == '' && {was} in {mine}) || ({clock})",
            "slot-taken": f"!variables.slot || {was} in {mine} || ({expired})",
            "slot-expiry": f"!variables.slot || {holder} == '' || ({expires})",
            "slot-metadata": f"!variables.slot || ({_same('Metadata', f'k in {_list(BOOKKEEPING)}')})",
        },
    )


def _taints(names: GatePolicy) -> str:
    """The taints of others stay as they are, the bootstrap taint may go, and ours may do anything except evict pods."""
    others = f".filter(t, !(t.key in {_list((names.unhealthy_taint, names.bootstrap_taint))}))"
    unhealthy = f"t.key == {_text(names.unhealthy_taint)} && t.effect in {_list(EFFECTS)}"
    ours = _list((names.unhealthy_taint, names.bootstrap_taint))
    return (
        f"variables.oldTaints{others} == variables.newTaints{others}"
        f" && variables.newTaints.all(t, !(t.key in {ours}) || ({unhealthy}) || t in variables.oldTaints)"
    )


def _same(part: str, free: str) -> str:
    """A mapping changed in no key except `free` ones: no key is new, none is gone, none has another value."""
    old, new = f"variables.old{part}", f"variables.new{part}"
    return f"{new}.all(k, {free} || (k in {old} && {old}[k] == {new}[k])) && {old}.all(k, {free} || k in {new})"


def _both(part: str, of: str) -> dict[str, str]:
    """Variables for a part of the object before and after. Each is evaluated only if a rule uses it."""
    return {f"old{part}": of.format("oldObject"), f"new{part}": of.format("object")}


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "nodeprep"}
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": dict(spec)}


def _text(text: str) -> str:
    """A text of CEL, which has JSON's escapes."""
    return json.dumps(text)


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"
