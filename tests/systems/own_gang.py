"""kube-scheduler's own gang (alpha in Kubernetes 1.36), which a running cluster of the rig can be given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.rigs import beside
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until
from tests.systems.job_pods import JOB_LABEL

Object = dict[str, Any]

# The same everywhere: the rights of the Job controller come with the API server's gate, for example.
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadWithJob=true"
VERSION = "scheduling.k8s.io/v1alpha2"
MORE = {
    "kube-apiserver": (GATES, f"--runtime-config={VERSION}=true"),
    "kube-controller-manager": (GATES,),
    "kube-scheduler": (GATES,),
}
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
PODS_MADE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
# The CRD of TFJob drops this field of a template, so the pods get it as they are made: the group of the job's name.
ADDED = f"""Object{{spec: Object.spec{{schedulingGroup: Object.spec.schedulingGroup{{
    podGroupName: object.metadata.labels["{JOB_LABEL}"]}}}}}}"""
POLICY = {
    "metadata": {"name": "gang"},
    "spec": {
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [PODS_MADE],
            "objectSelector": {"matchExpressions": [{"key": JOB_LABEL, "operator": "Exists"}]},
        },
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": ADDED}}],
    },
}
BINDING = {"metadata": {"name": "gang"}, "spec": {"policyName": "gang"}}


class GatedCluster(Cluster):
    """A cluster whose control plane can start again with kube-scheduler's own gang. Its nodes live on meanwhile."""

    more: Mapping[str, tuple[str, ...]] = {}

    def spawn(self, program: str, *flags: str) -> None:
        super().spawn(program, *flags, *self.more.get(program, ()))

    def switch_on(self) -> None:
        """Returns when the pods of training jobs get the group of their job's name."""
        self.more = MORE
        for program in reversed(MORE):
            beside.end(self, program)
        self.start_server()
        self.start_controllers()
        self.create(POLICIES, POLICY)
        self.create(BINDINGS, BINDING)
        spec = {"containers": [{"name": "main", "image": "none"}]}
        probe = {"metadata": {"name": "probe", "labels": {JOB_LABEL: "probe"}}, "spec": spec}
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        until(lambda: "schedulingGroup" in self.call("POST", path, probe)[1]["spec"], "the policy is in force")


def group(name: str, minimum: int) -> Object:
    """Its own PodGroup: nobody makes one for a TFJob."""
    policy = {"gang": {"minCount": minimum}}
    return {"apiVersion": VERSION, "kind": "PodGroup", "metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}


def groups(namespace: str) -> str:
    """The path of the list of its PodGroups."""
    return f"/apis/{VERSION}/namespaces/{namespace}/podgroups"
