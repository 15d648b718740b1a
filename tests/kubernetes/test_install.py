"""docs/install.md typed by the letter: its files are written and its commands run, in their order, on real kubelets.

IMAGE:TAG and NAME are the rig's. A rollout waits for 5 s at each node instead of 90. What is not run here says why.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import yaml

from docs import install_pages
from tests.kubernetes import shipped
from tests.kubernetes.shipped import SETTLE, agents
from tests.rigs.cluster import Cluster
from tests.rigs.images import REPOSITORY
from tests.rigs.waiting import until

CHECKOUT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"(?ms)^```(yaml)?\n(.*?)^```$")
HEADING = re.compile(r"(?m)^## (\d)\. ")
# Beginnings of blocks and commands that do not run here.
NOT_RUN = {
    "make image": "tests/daemonset and the rig build it; no container engine is here to push it",
    "kubectl debug": "it wants a terminal: test_rollout.test_debug gives it one",
    "# into config.yaml; h100.yaml": "these nodes have no RDMA device that a profile could name",
    "mode: repair": "the remediator has rigs of its own (test_repairing, test_remediator)",
    "0/2 nodes are available": "what the scheduler says, compared below",
}
# What the old containerd of these nodes leaves, and an API server that a busy machine keeps waiting.
KNOWN_TROUBLE = re.compile(r'"mounts-trouble"|"publish-trouble", "message": "[^"]*: no [\w ]+ in [\d.]+ s;')
SETTLING = f"""
  - target: {{kind: DaemonSet, name: nodeprep}}
    patch: '[{{"op": "replace", "path": "/spec/minReadySeconds", "value": {SETTLE}}}]'
"""


@dataclass
class Typist:
    """Somebody who follows the page in a directory of their own."""

    cluster: Cluster
    home: Path
    said: dict[str, str] = field(default_factory=dict)  # by command

    def file(self, block: str) -> None:
        """What a block of YAML says goes into the file that its first line names."""
        first, _, rest = f"{block}\n".partition("\n")
        kustomization, config = self.home / "kustomization.yaml", self.home / "config.yaml"
        if first.startswith("# kustomization.yaml"):
            kustomization.write_text(rest.replace("newName: IMAGE, newTag: TAG", f"newName: {REPOSITORY}, newTag: dev"))
        elif first.startswith("patches:"):
            architecture = self.cluster.nodes["n1"].object()["metadata"]["labels"]["kubernetes.io/arch"]
            with kustomization.open("a") as file:
                file.write(block.replace("arch: amd64", f"arch: {architecture}") + SETTLING)
        elif first.startswith("# config.yaml"):
            config.write_text(block)
        elif first.startswith("# in config.yaml, in place of"):
            config.write_text(f"apiVersion: nodeprep.io/v1\nkind: Config\n{rest}")
        else:
            raise AssertionError(f"which file is this for? {block}")

    def run(self, command: str) -> int:
        """Its exit code."""
        path = f"{self.cluster.directory / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, **self.cluster.environment(), "PATH": path}
        done = subprocess.run(
            ("bash", "-c", command.replace("NAME", "n1")),
            cwd=self.home, env=environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        self.said[command] = done.stdout + done.stderr
        print(f"$ {command}\n{self.said[command]}")
        return done.returncode


def steps(page: str) -> list[tuple[int, str, str]]:
    """The number of the step, the language and the text of each block."""
    numbers = [(found.start(), int(found[1])) for found in HEADING.finditer(page)]
    blocks = []
    for found in FENCE.finditer(page):
        step = [number for start, number in numbers if start < found.start()]
        blocks.append((step[-1] if step else 0, found[1] or "", found[2].rstrip("\n")))
    return blocks


def is_run(text: str) -> bool:
    return not any(text.startswith(beginning) or f"\n{beginning}" in text for beginning in NOT_RUN)


@pytest.mark.parametrize("kind", install_pages.PAGES)
def test_each_block_is_typed_or_says_why_not(kind: str) -> None:
    blocks = [text for _, _, text in steps(install_pages.page(kind))]
    assert len(blocks) > 12
    for beginning in NOT_RUN:
        assert any(not is_run(text) and beginning in text for text in blocks), f"no block has {beginning!r} any more"


def test_the_page_by_the_letter(cluster: Cluster, image: Callable[[str], Path], tmp_path: Path) -> None:
    shipped.load(cluster, image("good"))
    (tmp_path / "nodeprep").symlink_to(CHECKOUT)
    typist = Typist(cluster, tmp_path)
    patches = ""
    pending: dict[str, str] = {}
    for step, language, text in steps(install_pages.page("any")):
        if not is_run(text):
            continue
        if text.startswith("affinity:"):
            pending = waits(cluster, yaml.safe_load(text))
        elif text.startswith("patches:"):
            patches = text  # "into the kustomization of step 3"
        elif language == "yaml":
            typist.file(text)
            if text.startswith("# kustomization.yaml"):
                typist.file(patches)
        else:
            for command in joined(text):
                code = typist.run(command)
                said = typist.said[command]
                if "| grep" in command:  # troubles
                    assert all(KNOWN_TROUBLE.search(line) for line in said.splitlines()), said
                else:
                    assert code == 0, f"step {step}: {command}\n{said}"
    assert len(agents(cluster)) == 2
    assert configurations(cluster) == {"apiVersion: nodeprep.io/v1\nkind: Config\n" + in_step(6)}
    listed = typist.said["nodeprep nodes -o wide"]
    assert "2 Nodes cannot be closed, for gate.profiles names none of their profiles: n1, n2" in listed
    assert "2 of 2 nodes answered; 0 would change, 0 would close" in typist.said["nodeprep config try config.yaml"]
    for said in pending.values():
        assert any(line.rstrip(". ") in said for line in scheduler_lines()), said
    assert {"untolerated taint(s)" in said for said in pending.values()} == {True, False}


def configurations(cluster: Cluster) -> set[str]:
    """The config.yaml that the agents have which run now."""
    found = set()
    for pod in agents(cluster).values():
        (name,) = (one["configMap"]["name"] for one in pod["spec"]["volumes"] if one["name"] == "config")
        config_map = cluster.call("GET", f"/api/v1/namespaces/nodeprep/configmaps/{name}")[1]
        found.add(config_map["data"]["config.yaml"])
    return found


def in_step(number: int) -> str:
    """What the configuration of a step says, without the line that names its file."""
    (block,) = (
        text for step, language, text in steps(install_pages.page("any")) if (step, language) == (number, "yaml")
    )
    return f"{block.partition(chr(10))[2]}\n"


def joined(text: str) -> list[str]:
    """The commands of a block, without their comments; one that sets a variable goes with the next."""
    found: list[str] = []
    for line in text.splitlines():
        command = line.split("   #")[0].rstrip()
        if found and re.match(r"[A-Z]+=", found[-1]):
            found[-1] = f"{found[-1]}; {command}"
        else:
            found.append(command)
    return found


def scheduler_lines() -> list[str]:
    """What the page says that the scheduler says."""
    (block,) = (text for _, _, text in steps(install_pages.page("any")) if text.startswith("0/2 nodes"))
    return [line.rpartition(" ...")[0] for line in block.splitlines()]


def waits(cluster: Cluster, affinity: object) -> dict[str, str]:
    """What is said of a pod that wants the label, and of one that meets a taint."""
    path = "/api/v1/namespaces/default/pods"
    containers = [{"name": "c", "image": "none"}]
    wants = {"containers": containers, "affinity": affinity["affinity"] if isinstance(affinity, dict) else {}}
    cluster.create(path, {"metadata": {"name": "wants-the-label"}, "spec": wants})
    taint = [{"key": "nodeprep.io/unhealthy", "value": "Test", "effect": "NoSchedule"}]
    said = {"wants-the-label": until(partial(refusal, cluster, f"{path}/wants-the-label"), "a word on the label")}
    assert cluster.call("DELETE", f"{path}/wants-the-label?gracePeriodSeconds=0")[0] == 200
    for node in cluster.nodes:
        assert cluster.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": taint}})[0] == 200
    cluster.create(path, {"metadata": {"name": "meets-a-taint"}, "spec": {"containers": containers}})
    said["meets-a-taint"] = until(partial(refusal, cluster, f"{path}/meets-a-taint"), "a word on the taint")
    assert cluster.call("DELETE", f"{path}/meets-a-taint?gracePeriodSeconds=0")[0] == 200
    for node in cluster.nodes:
        cluster.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": None}})
    return said


def refusal(cluster: Cluster, path: str) -> str:
    """What the scheduler says of a pod, "" before, and while it knows only one of both nodes as it is."""
    found = cluster.call("GET", path)[1]["status"].get("conditions", [])
    said = next((str(one.get("message")) for one in found if one["type"] == "PodScheduled"), "")
    return "" if " 1 node(s)" in said else said
