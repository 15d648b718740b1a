"""`nodeprep preflight` on values and files: the page, the JSON by its schema, wrong manifests, a bomb of aliases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from nodeprep.cli.jobs import manifest_file, preflight_json, preflight_page, preflight_report
from nodeprep.cli.jobs.cluster_look import ClusterLook, VolcanoState
from nodeprep.cli.jobs.preflight_report import PreflightReport, StartWord
from nodeprep.decide.desired import GatePolicy
from nodeprep.publish import fleet_rows
from nodeprep.publish.fleet_rows import FleetContext
from nodeprep.values import replace
from tests.cli.program import NODEPREP, nodeprep
from tests.cli.test_nodes_rows import NOW, ago
from tests.jobs import job_values
from tests.jobs.job_values import cluster, kubeflow, node, pod, template, wanting

Object = dict[str, Any]

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs/preflight.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
RDMA = "feature.node.kubernetes.io/network-rdma.capable"
TAINT = {"key": "nodeprep.io/unhealthy", "value": "NoSignal", "effect": "NoSchedule"}
GPUS = wanting(name="jax", limits={"nvidia.com/gpu": "8"}, volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}])
SHM = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
NO_CLUSTER = {"KUBECONFIG": "", "HOME": "/nonexistent", "KUBERNETES_SERVICE_HOST": ""}


def judged(name: str, state: str, status: str, reason: str = "NoSignal", **fields: Any) -> Object:
    """A Node with what its agent said a minute and a half ago."""
    told = node(name, **fields)
    told["metadata"]["labels"]["nodeprep.io/state"] = state
    ready = {"type": "nodeprep.io/TrainingReady", "status": status, "reason": reason, "message": "mlx5_4/1 is DOWN"}
    told["status"]["conditions"] = [{"type": "Ready", "status": "True"}, {**ready, "lastTransitionTime": ago(90)}]
    return told


def look(
    *nodes: Object, pods: tuple[Object, ...] | None = (), silent: tuple[str, ...] = (), **fields: Any
) -> ClusterLook:
    """A look at these Nodes; agents live where a Node has a state, but for the silent ones."""
    names = [one["metadata"]["name"] for one in nodes if "nodeprep.io/state" in one["metadata"]["labels"]]
    context = FleetContext({name: NOW - (600 if name in silent else 10) for name in names}, None)
    rows = (fleet_rows.row(fleet_rows.fleet_node(one, GatePolicy()), context, NOW) for one in nodes)
    versions = ("7", None if pods is None else "8")
    known: Object = {"unserved": ("",), "volcano": (VolcanoState(),), **fields}
    return ClusterLook(
        cluster(*nodes, pods=pods), {row.name: row for row in rows}, GatePolicy(), NOW, versions, **known
    )


def report(manifest: Object, seen: ClusterLook, tmp_path: Path) -> PreflightReport:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(manifest))
    found = preflight_report.report(manifest_file.read(str(file)), seen)
    VALIDATOR.validate(json.loads(json.dumps(preflight_json.document(found))))
    return found


def page(found: PreflightReport, *, wide: bool = False) -> list[str]:
    return preflight_page.lines(found, wide=wide, width=100, colour=False)


def workers(count: int, **spec: Any) -> Object:
    role = {"replicas": count, "template": template(GPUS, volumes=SHM, **spec)}
    return kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": role})


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_job_that_can_start(tmp_path: Path) -> None:
    found = report(workers(1), look(judged("a", "Ready", "True", "Ready")), tmp_path)
    assert (found.word, found.exit_code) == (StartWord.CAN, 0)
    assert page(found) == [
        "CAN START JAXJob default/j: 1 of 1 pods fit now",
        "",
        "ROLE     PODS   FIT   NODES   EACH WANTS",
        "Worker   1      1     1/1     nvidia.com/gpu 8",
        "",
        "read      nodes at version 7, pods at version 8, at 08:00:00Z",
    ]


def test_the_finding_behind_our_taint_and_since_when(tmp_path: Path) -> None:
    closed = judged("a", "Unhealthy", "False", taints=[TAINT])
    found = report(workers(1), look(closed), tmp_path)
    assert found.exit_code == 1
    assert page(found)[5:7] == [
        "NODE   ROLES    OBSTACLE",
        "a      Worker   taint nodeprep.io/unhealthy=NoSignal:NoSchedule (NoSignal for 90s: mlx5_4/1 is DOWN)",
    ]
    (obstacle,) = preflight_json.document(found)["jobs"][0]["roles"][0]["refused"][0]["obstacles"]
    assert obstacle["finding"] == {
        "state": "Unhealthy",
        "reason": "NoSignal",
        "message": "mlx5_4/1 is DOWN",
        "since": ago(90),
    }


def test_a_finding_is_said_once_of_a_node(tmp_path: Path) -> None:
    """The rows of a node follow each other, so that "the same" is what stands above."""
    roles = {
        "Master": {"replicas": 1, "template": template(wanting(limits={"cpu": "1"}))},
        "Worker": {"replicas": 1, "template": template(wanting(limits={"cpu": "1"}), nodeSelector={RDMA: "true"})},
    }
    closed = (judged(name, "Unhealthy", "False", taints=[TAINT]) for name in ("a", "b"))
    found = report(kubeflow("XGBoostJob", "xgbReplicaSpecs", roles), look(*closed), tmp_path)
    table = page(found)[page(found).index(next(line for line in page(found) if line.startswith("NODE "))) + 1 :][:6]
    assert [line.split()[0] for line in table] == ["a", "a", RDMA + ":", "b", "b", RDMA + ":"]
    assert [line.count("mlx5_4/1 is DOWN") for line in table] == [1, 0, 0, 1, 0, 0]
    assert [line.endswith(" (the same)") for line in table] == [False, True, True, False, True, True]


def test_it_waits_only_where_waiting_can_help(tmp_path: Path) -> None:
    """Not for what is not judged, and not for a gang that never starts."""
    full = look(judged("a", "Ready", "True", "Ready", room={"nvidia.com/gpu": "0"}))
    (wants,) = report(workers(1), full, tmp_path).jobs
    assert wants.waits
    (foreign,) = report(workers(1, schedulerName="yunikorn"), full, tmp_path).jobs
    assert not foreign.waits
    gang = {"schedulingPolicy": {"minAvailable": 5}}
    (never,) = report(
        kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": {"replicas": 1, "template": template(GPUS)}}, runPolicy=gang),
        full,
        tmp_path,
    ).jobs
    assert not never.waits


def test_of_a_silent_agent_nobody_knows(tmp_path: Path) -> None:
    closed, there = judged("a", "Unhealthy", "False", taints=[TAINT]), judged("b", "Ready", "True", "Ready")
    found = report(workers(1), look(closed, there, silent=("a", "b")), tmp_path)
    assert found.exit_code == 0  # the scheduler would use b; that nobody knows whether it is ready is said
    told = "\n".join(page(found))
    assert "NoSchedule (nobody knows: its agent is silent for 10m, last said Unhealthy: mlx5_4/1 is DOWN)" in told
    assert "doubt     b would be used: nobody knows: its agent is silent for 10m, last said Ready" in told


def test_a_ready_node_without_our_label_says_so(tmp_path: Path) -> None:
    found = report(workers(1, nodeSelector={RDMA: "true"}), look(judged("a", "Ready", "True", "Ready")), tmp_path)
    assert "its agent says Ready, and the label is not there" in page(found)[6]


WITHHELD = [
    ("its agent says why", judged("a", "Unhealthy", "False"), []),
    ("no agent could set it", node("a"), ["LabelNobodySets"]),
    ("an agent that says Ready would have", judged("a", "Ready", "True", "Ready"), ["LabelNobodySets"]),
]


@pytest.mark.parametrize(("there", "wanted"), [case[1:] for case in WITHHELD], ids=[case[0] for case in WITHHELD])
def test_a_label_that_an_agent_withholds_is_not_nobodys(there: Object, wanted: list[str], tmp_path: Path) -> None:
    (found,) = report(workers(1, nodeSelector={RDMA: "true"}), look(there), tmp_path).jobs
    assert [one.lint.word for one in found.lints] == wanted


def test_a_mistyped_label_is_nobodys_though_an_agent_withholds_others(tmp_path: Path) -> None:
    seen = look(judged("a", "Unhealthy", "False"), judged("b", "Ready", "True", "Ready"))
    for label, wanted in (
        ("nodeprep.io/profile.tcp-shared-eni", []),
        ("nodeprep.io/profile.rdma-of-ours", []),  # as `gate.profiles` has them
        ("nodeprep.io/profile.tcp-shraed-eni", ["LabelNobodySets"]),
        (f"{RDMA}-x", ["LabelNobodySets"]),
    ):
        (found,) = report(workers(1, nodeSelector={label: "ready"}), seen, tmp_path).jobs
        assert [one.lint.word for one in found.lints] == wanted, label


def test_a_silent_agent_withholds_nothing(tmp_path: Path) -> None:
    seen = look(judged("a", "Unhealthy", "False"), silent=("a",))
    (found,) = report(workers(1, nodeSelector={RDMA: "true"}), seen, tmp_path).jobs
    assert [one.lint.word for one in found.lints] == ["LabelNobodySets"]


def test_a_node_that_nobody_closes_is_in_doubt(tmp_path: Path) -> None:
    found = report(workers(1), look(judged("a", "Unhealthy", "False")), tmp_path)
    assert found.exit_code == 0
    assert "doubt     a would be used: NoSignal for 90s: mlx5_4/1 is DOWN" in page(found)
    assert not list(report(workers(1), look(node("a")), tmp_path).doubts(found.jobs[0]))


def test_without_pods_no_capacity_and_exit_3(tmp_path: Path) -> None:
    seen = look(node("a"), pods=None, pods_trouble="pods: denied (HTTP 403)")
    found = report(workers(1), seen, tmp_path)
    assert (found.word, found.exit_code) == (StartWord.UNKNOWN, 3)
    assert page(found)[0] == "NOT KNOWN JAXJob default/j: what is free on the nodes is not known"
    assert "unjudged  what is free on the nodes: pods: denied (HTTP 403)" in page(found)
    # What no pod could make possible is still known.
    closed = look(node("a", taints=[TAINT]), pods=None, pods_trouble="pods: denied (HTTP 403)")
    assert report(workers(1), closed, tmp_path).exit_code == 1


ENDS = [
    ("what only restricts, where there is no room anyway", {"resourceClaims": [{"name": "g"}]}, 9, 1),
    ("what only restricts, where there is room", {"resourceClaims": [{"name": "g"}]}, 1, 3),
    ("what may also allow, where there is no room", {"schedulerName": "yunikorn"}, 9, 3),
    ("what may also allow, where there is room", {"schedulerName": "yunikorn"}, 1, 3),
]


@pytest.mark.parametrize(("spec", "count", "code"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_what_is_not_claimed_is_no_yes(spec: Object, count: int, code: int, tmp_path: Path) -> None:
    assert report(workers(count, **spec), look(node("a")), tmp_path).exit_code == code


def test_a_kind_that_the_cluster_lacks_and_a_closed_queue(tmp_path: Path) -> None:
    found = report(workers(1), look(node("a"), unserved=("this cluster has no kind JAXJob",)), tmp_path)
    assert (found.exit_code, page(found)[0]) == (1, "CANNOT    JAXJob default/j: this cluster has no kind JAXJob")
    state = VolcanoState("Volcano's queue q is Closed, wanted Open", (), "PodGroup default/j is Inqueue")
    found = report(workers(1), look(node("a"), volcano=(state,)), tmp_path)
    assert found.exit_code == 1
    assert "volcano   PodGroup default/j is Inqueue" in page(found)


def test_first_fit_is_said(tmp_path: Path) -> None:
    roles = {
        "Master": {"replicas": 2, "template": template(wanting(requests={"cpu": "3"}))},
        "Worker": {"replicas": 3, "template": template(wanting(requests={"cpu": "2"}))},
    }
    manifest = kubeflow("XGBoostJob", "xgbReplicaSpecs", roles)
    found = report(manifest, look(node("a", room={"cpu": "7"}), node("b", room={"cpu": "5"})), tmp_path)
    assert "4 of 5 pods fit now by first fit; another placement may fit more" in page(found)[0]


def test_a_table_is_short_and_wide_has_every_node(tmp_path: Path) -> None:
    nodes = [node(f"n{index:02d}", taints=[TAINT]) for index in range(30)]
    found = report(workers(1), look(*nodes), tmp_path)
    short, wide = page(found), page(found, wide=True)
    assert "and 10 more   10 by taint nodeprep.io/unhealthy; -o wide lists them" in short
    assert sum(line.startswith("n") for line in wide) == 30
    assert all(line.isprintable() for line in wide)


def test_the_pod_that_asks_is_named(tmp_path: Path) -> None:
    found = report(workers(1), look(node("a"), own="default/launcher-0"), tmp_path)
    assert "own pod   default/launcher-0 is not counted: it is the one that asks" in page(found)


def test_the_four_seeds_are_as_the_schema_says() -> None:
    for name in job_values.SEEDS:
        file = manifest_file.read(str(job_values.MANIFESTS / name))
        count = len(file.manifest.jobs)
        seen = look(
            judged("gpu-1", "Ready", "True", "Ready"), unserved=("",) * count, volcano=(VolcanoState(),) * count
        )
        VALIDATOR.validate(json.loads(json.dumps(preflight_json.document(preflight_report.report(file, seen)))))


def test_a_remark_names_file_and_line() -> None:
    file = manifest_file.read(str(job_values.MANIFESTS / "tfjob.yaml"))
    (job,) = file.manifest.jobs
    places = [file.place(job, one).rpartition("/")[2] for one in job.lints]
    assert places == ["tfjob.yaml:8"]


WRONG = [
    ("kind: Job\n", "job.yaml:1: apiVersion: found nothing, wanted that of a Kubernetes object"),
    (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      resources: {limits: {cpu: two}}\n",
        "job.yaml:6: spec.containers[0].resources.limits.cpu: found 'two', wanted a quantity such as 500m, 2 or 1Gi",
    ),
    ("apiVersion: v1\nkind: Service\n", "found Service (no name), wanted an object that makes pods: Pod, Job"),
    ("", "job.yaml: found nothing, wanted an object that makes pods"),
    ("a: [\n", "job.yaml:2: this is no YAML"),
    ("apiVersion: a/v1\nkind: Wat\n", "job.yaml:2: kind: found 'Wat a/v1', wanted one of Pod v1, Job batch/v1"),
    ("---\napiVersion: v1\nkind: Pod\n---\nkind: Job\n", "job.yaml:4: apiVersion: found nothing"),
    ("a: *b\n", "found the alias *b"),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_a_wrong_manifest_is_one_line(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    done = nodeprep("preflight", "-f", str(file), **NO_CLUSTER)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_wrong_use_is_one_line(tmp_path: Path) -> None:
    there = tmp_path / "pod.yaml"
    there.write_text(yaml.safe_dump(pod()))
    for words, says in (
        (("-f", "/nowhere.yaml"), "-f '/nowhere.yaml': No such file or directory"),
        (("-f", str(tmp_path)), "Is a directory"),
        (("-f", str(there), "--wait", "soon"), "--wait: found 'soon'"),
        (("-f", str(there)), "no access to a cluster"),
        ((), "missing option '--filename'"),
    ):
        done = nodeprep("preflight", *words, **NO_CLUSTER)
        assert done.returncode == 2, done.stderr
        assert says.lower() in done.stderr.lower()
        assert done.stderr.count("\n") == 1


def test_merge_keys_and_aliases_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
        "    - &one {name: a, image: x, resources: {limits: {cpu: 1}}}\n    - {<<: *one, name: b}\n"
    )
    (job,) = manifest_file.read(str(file)).manifest.jobs
    assert job.roles[0].pod.demand.requests == {"cpu": 2000}


# Runs a program and says at its end how much memory it had, in KiB, and how many seconds of a processor.
MEASURED = """\
import resource, runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Not ru_maxrss: at first that is what the process had from which it was forked.
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(peak, used.ru_utime + used.ru_stime, file=sys.stderr)
"""
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


# Under the limit of values, where each is read: containers that share their environment.
SHARED = "env: &env [{name: a, value: b}" + ", {name: a, value: b}" * 98 + "]\n"
WIDE = f"{SHARED}spec:\n  containers:\n    - &c {{name: a, image: x, env: *env}}\n" + "    - *c\n" * 300
BOMBS = [(BOMB, 2, "found more than 100000 values, wanted fewer"), (WIDE, 2, "no access to a cluster")]


@pytest.mark.parametrize(("text", "code", "says"), BOMBS, ids=["nested", "wide"])
def test_a_bomb_of_aliases_costs_less_than_a_second_and_64_mib(text: str, code: int, says: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(f"apiVersion: v1\nkind: Pod\n{text}")
    command = (sys.executable, "-c", MEASURED, NODEPREP, "preflight", "-f", str(file))
    environment = {**os.environ, **NO_CLUSTER}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    said, figures = done.stderr.splitlines()
    kibibytes, seconds = figures.split()
    assert done.returncode == code
    assert says in said
    assert int(kibibytes) < 64 << 10
    assert float(seconds) < 1


def test_without_leases_only_what_was_not_ready_is_in_doubt(tmp_path: Path) -> None:
    seen = look(judged("a", "Ready", "True", "Ready"), judged("b", "Unhealthy", "False"))
    rows = {
        name: fleet_rows.row(fleet_rows.fleet_node(one, GatePolicy()), FleetContext(None, None), NOW)
        for name, one in (("a", judged("a", "Ready", "True", "Ready")), ("b", judged("b", "Unhealthy", "False")))
    }
    found = report(workers(1), replace(seen, rows=rows), tmp_path)
    assert list(found.doubts(found.jobs[0])) == [("b", "NoSignal for 90s, if its agent still lives: mlx5_4/1 is DOWN")]
