"""What a pod of the agent sees of its host, with the mounts and the capabilities of the manifests and no kubelet."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.daemonset.manifests import ROOT, agent, combined, mounts
from tests.rigs.absent import cannot_start, needs_root

NO_MOUNT = 77  # what our script exits with
BLIND = {
    # checks that a pod cannot look at and a shell on the host can, and why
    "pci.acs-iommu": "PCI's extended configuration space wants CAP_SYS_ADMIN",
    "sysctl.forward-policy": "netfilter wants CAP_NET_ADMIN",
    "kubelet.health": "a pod was started by a kubelet, and this machine has none",
    "kubelet.runtime": "as kubelet.health: it is asked of the kubelet and of the Node",
    "plugin.in-use": "as kubelet.health",
    "terway.two-erdma-owners": "/var/lib/kubelet/device-plugins is not mounted, and here nobody asks Kubernetes either",
}


def as_a_pod(tmp_path: Path, *words: str) -> dict[str, Any]:
    """What the command says where only the mounts of the manifests are, with their capabilities."""
    objects = combined(tmp_path, [ROOT / "overlays/ack"], "gate")
    lines = ["set -e"]
    root = tmp_path / "host"
    for path, shown in sorted(mounts(objects).items()):
        source, target = tmp_path / "empty" / path.lstrip("/"), root / path.lstrip("/")
        source.mkdir(parents=True)
        if "hostPath" in shown and Path(path).exists() and path != "/var/run/eni":
            source = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir() if source.is_dir() else target.touch()
        lines.append(f"mount --rbind {shlex.quote(str(source))} {shlex.quote(f'{root}{path}')}")
        if shown["mount"].get("readOnly"):
            lines.append(f"mount -o remount,bind,ro {shlex.quote(f'{root}{path}')}")
    _, container = agent(objects)
    kept = ",".join(["-all", *(f"+{one.lower()}" for one in container["securityContext"]["capabilities"]["add"])])
    drop = ["setpriv", f"--bounding-set={kept}", "--inh-caps=-all", "--no-new-privs"]
    script = f'{{ {"; ".join(lines)}; }} || exit {NO_MOUNT}\nexec "$@"'
    return ran(["unshare", "--mount", "sh", "-c", script, "sh", *drop, *words, "--host-root", str(root)])


def ran(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=100)
    if done.returncode == NO_MOUNT:
        cannot_start(f"no mount namespace to mount in: {done.stderr.strip()}")
    assert done.stdout, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("NODEPREP_")}


def findings(told: dict[str, Any]) -> dict[tuple[str, str], tuple[str, str]]:
    """What is said of what; time.sync's message holds a number that the kernel raises from look to look."""
    return {
        (one["check"], one["subject"]["place"]): (one["status"], one["message"] if one["check"] != "time.sync" else "")
        for one in told["findings"]
    }


@needs_root("a mount namespace of root")
def test_a_pod_sees_what_root_sees_on_the_host(tmp_path: Path) -> None:
    """What this machine has nothing of may be asked in a pod all the same: there is a kubelet where one runs."""
    check = [sys.executable, "-m", "nodeprep", "check", "-o", "json", "--settle", "0"]
    host, pod = findings(ran(check)), findings(as_a_pod(tmp_path, *check))
    judged = {about: said for about, said in host.items() if said[0] != "absent" and about[0] not in BLIND}
    assert judged
    assert {about: pod.get(about) for about in judged} == judged
    unknown = {about: said for about, said in pod.items() if said[0] == "unknown" and about[0] not in BLIND}
    assert not unknown
