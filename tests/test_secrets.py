"""Secrets that lie where a snapshot looks do not get into it, and what it says stays the same."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from nodeprep import facts
from nodeprep import snapshot as snapshot_file
from nodeprep.cli.check import check_command
from nodeprep.cli.check.choices import CheckFormat
from nodeprep.cli.files import snapshot_command
from nodeprep.config import profile_files
from nodeprep.doors.files.kmsg import KmsgRecord
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.doors.node_host import Host
from nodeprep.facts.alibaba import imds
from nodeprep.facts.kubernetes import cluster_requests
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine import kernel_log
from nodeprep.look import Look
from nodeprep.model import Unreadable
from nodeprep.snapshot import Snapshot
from tests import api_objects as api
from tests.facts.test_kernel_log import Recorded
from tests.rigs import trees
from tests.rigs.api_server import Server, refused, told
from tests.rigs.imds_server import MetadataServer

SECRET = "PLANTED"
MOUNT = "{} 1 0:{} / /{} rw,{} - {} {} rw,{}"


def mounts() -> str:
    """File systems whose source, options and types tell how one logs in."""
    rows = [
        ("a", "cifs", f"//user:{SECRET}@host/share", f"password={SECRET}"),
        ("b", "cifs", f"//user:{SECRET}/x@host/share", f"pass={SECRET},username={SECRET}"),
        ("c", "fuse.sshfs", f"root:{SECRET}@host:/data", "rw"),
        ("d", "fuse.rclone", f"https://{SECRET}:x@host/dav?token={SECRET}#{SECRET}", "rw"),
        ("e", "fuse.juicefs", f"redis://:{SECRET}@host:6379/1", "rw"),
        ("f", "ceph", f"admin:{SECRET}@fsid.name=/", f"secret={SECRET}"),
        ("g", "nfs4", "nas:/share", f"sec={SECRET}"),
        ("h", "tmpfs", "tmpfs", f"size=1g,context={SECRET}"),
    ]
    lines = ["22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw"]
    lines += [
        MOUNT.format(30 + number, 30 + number, point, options, kind, source, options)
        for number, (point, kind, source, options) in enumerate(rows)
    ]
    return "\n".join(lines)


CONFLIST = {
    "cniVersion": "0.4.0",
    "name": "terway",
    "token": SECRET,
    "plugins": [
        {"type": "terway", "eniip_virtual_type": "datapathv2", "accessKeySecret": SECRET, "env": {"PW": SECRET}},
        {"type": "portmap", "args": [SECRET], "ipam": {"type": "host-local", "etcd_password": SECRET}},
    ],
}
# File, and what stands in it: all that a fact reads and that more than the judged may stand in.
FILES = {
    "proc/cmdline": f"ro pci=nomsi,config_acs=xx@0000:5a:00.0,x={SECRET} ip=dhcp:{SECRET} systemd.setenv=PW={SECRET} "
    f'rd.luks.key={SECRET} inst.ks=https://u:{SECRET}@h/ks "a={SECRET} pci=config_acs={SECRET}" -- pci={SECRET}',
    "proc/1/mountinfo": mounts(),
    "proc/1/mounts": f"tmpfs /dev/shm tmpfs rw,size=1g,context={SECRET} 0 0\n"
    f"//u:{SECRET}@h/s /s cifs pass={SECRET} 0 0",
    "proc/1/environ": f"TOKEN={SECRET}\0https_proxy=http://u:{SECRET}@proxy\0",
    "proc/1/cmdline": f"init\0--password={SECRET}",
    "proc/1871/environ": f"AWS_SECRET_ACCESS_KEY={SECRET}\0",
    "proc/1871/cmdline": f"containerd\0--token\0{SECRET}",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1\nGCC version: gcc",
    "etc/cni/net.d/10-terway.conflist": json.dumps(CONFLIST),
    "etc/cni/net.d/20-broken.conflist": json.dumps({"name": "b", "plugins": SECRET}),
    "etc/cni/net.d/30-broken.conf": json.dumps({"name": "b", "type": "x", "ipam": {"type": [SECRET]}}),
    "etc/cni/net.d/40-broken.conflist": json.dumps({"name": "b", "plugins": [SECRET]}),
    "etc/containerd/config.toml": f'[plugins]\n  password = "{SECRET}"\n  conf_dir = "/etc/cni/net.d"\n'
    f'  auth = {{ token = "{SECRET}" }}',
    "var/run/eni/node_capabilities": f"cni_exclusive_eni = default\naccess_key = {SECRET}\nnew_key = {SECRET}\n",
    "etc/sysctl.d/90-secrets.conf": f"kernel.core_pattern = |/bin/send --token {SECRET}\nnet.ipv4.ip_forward = 1\n"
    f"net.ipv4.tcp_fastopen_key = {SECRET}\nnet.ipv4.conf.all.rp_filter = {SECRET}\n*.*.{SECRET} = 1",
    "etc/systemd/system/multi-user.target.wants/systemd-networkd.service": "",
    "etc/systemd/network/10-all.network": f"[Match]\nName=*\n[Network]\nDHCP=yes\n[WireGuard]\nPrivateKey={SECRET}\n"
    f"[Network]\nDescription={SECRET}",
    "etc/NetworkManager/NetworkManager.conf": f"[connection]\nwifi-sec.psk={SECRET}",
    "etc/cloud/cloud.cfg": f"datasource:\n  AliYun:\n    apply_full_imds_network_config: true\npassword: {SECRET}",
    "var/lib/cloud/instance/datasource": "DataSourceAliYun",
    "sys/class/dmi/id/chassis_asset_tag": SECRET,
    "sys/class/dmi/id/product_serial": SECRET,
    "sys/class/infiniband/mlx5_5/ports/1/pkeys/0": SECRET,
    "root/.kube/config": f"users: [{{name: a, user: {{token: {SECRET}}}}}]",
    "var/lib/kubelet/config.json": json.dumps({"auths": {"r": {"auth": SECRET}}}),
    "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": json.dumps(
        {
            "Data": {
                "PodDeviceEntries": [{"PodUID": "u", "DeviceIDs": {"0": ["GPU-1"]}, "AllocResp": SECRET, "E": SECRET}],
                "RegisteredDevices": {"nvidia.com/gpu": ["GPU-1"]},
                "Token": SECRET,
            }
        }
    ),
    "etc/kubernetes/kubelet.conf": f"client-key-data: {SECRET}",
}


def planted(directory: Path) -> Path:
    root = trees.build("h100-roce", directory)
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_of_the_files_of_a_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, file = planted(tmp_path / "node"), tmp_path / "node.json"
    assert sum(text.count(SECRET) for text in FILES.values()) > 50
    snapshot_command.run(str(file), root=str(root), profile="rdma-roce")
    capsys.readouterr()
    assert SECRET not in file.read_text()
    at_the_node = check_command.run(
        check_command.CheckOptions(output=CheckFormat.JSON, root=str(root), profile="rdma-roce")
    )
    said = capsys.readouterr().out
    assert check_command.run(check_command.CheckOptions(output=CheckFormat.JSON, snapshot=str(file))) == (at_the_node)
    assert json.loads(capsys.readouterr().out)["findings"] == json.loads(said)["findings"]
    assert SECRET not in said


def everywhere(value: Any) -> Any:
    """A Kubernetes object with a secret in each object, list, label and annotation of it that may have one more."""
    if isinstance(value, list):
        return [everywhere(one) for one in value]
    if not isinstance(value, dict):
        return value
    more = {
        "password": SECRET,
        "env": [{"name": "TOKEN", "value": SECRET}],
        "command": ["serve", f"--token={SECRET}"],
        "args": [SECRET],
    }
    texts = bool(value) and all(isinstance(one, str) for one in value.values())
    return {key: everywhere(one) for key, one in value.items()} | ({"password": SECRET} if texts else more)


def whole(thing: dict[str, Any], message: str = "") -> dict[str, Any]:
    thing = everywhere(thing)
    metadata = thing["metadata"]
    for part in ("labels", "annotations"):
        metadata[part] = metadata.get(part, {}) | {
            "example.com/token": SECRET,
            "k8s.aliyun.com/credential": SECRET,
            "alibabacloud.com/ak": SECRET,
        }
        metadata[part].pop("env", None)
    for one in thing.get("status", {}).get("conditions", []):
        one["message"] = f"{one.get('message', '')} {message}"
    return thing


WORDS = f"login failed: password={SECRET}, https://u:{SECRET}@h/"


def objects() -> dict[str, Any]:
    node = whole(api.node(), WORDS)
    node["metadata"]["annotations"]["alibabacloud.com/instance-type-info"] = json.dumps({"EniQuantity": 8, "k": SECRET})
    node["status"]["conditions"].append({"type": "KubeletReady", "status": "False", "message": f"says {SECRET}"})
    pod, terway = whole(api.pod(), WORDS), whole(api.terway_pod(), WORDS)
    pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = SECRET
    pod["status"]["containerStatuses"][0]["lastState"] = {"terminated": {"message": SECRET}}
    terway["status"]["initContainerStatuses"][0]["lastState"]["terminated"]["message"] += WORDS
    other = whole(api.pod("other", "kube-system"))
    other["status"]["initContainerStatuses"] = [api.status("i", {"terminated": {"reason": "e", "message": SECRET}})]
    record, held, eri = whole(api.terway_node()), whole(api.pod_eni()), whole(api.erdma_device())
    record["status"]["networkInterfaces"][api.ENI].pop("password")
    for name, interface in list(record["status"]["networkInterfaces"].items()):
        if isinstance(interface, dict) and "id" in interface:
            interface["conditions"] = {"OperationErr": {"message": WORDS}}
            interface["ipv4"] = api.terway_node()["status"]["networkInterfaces"][name]["ipv4"]
        else:
            del record["status"]["networkInterfaces"][name]
    eri["status"]["devices"][0]["message"] = WORDS
    settings = api.SETTINGS | {"ak": SECRET, "credential_path": SECRET, "extra": {"deep": [SECRET]}, "sk": [SECRET]}
    v1 = "/api/v1"
    return {
        f"{v1}/nodes/{api.NODE}": told(node),
        f"{v1}/pods": told({"items": [terway, pod, other]}),
        f"/apis/network.alibabacloud.com/v1beta1/nodes/{api.NODE}": told(record),
        "/apis/network.alibabacloud.com/v1beta1/podenis": told({"items": [held]}),
        f"/apis/network.alibabacloud.com/v1/erdmadevices/{api.NODE}": told(eri),
        f"{v1}/namespaces/kube-system/configmaps/eni-config": told(whole(api.config_map(settings=settings))),
    }


def kept(look: Look, **different: Any) -> str:
    profile = snapshot_file.recorded(profile_files.effective("rdma-roce"))
    looks = (snapshot_file.observed(look, **different),)
    return snapshot_file.dumps(Snapshot("n", "2026-01-10T12:00:00Z", True, "/", profile, "x", 0.0, looks))


def test_of_kubernetes_objects() -> None:
    answers = objects()
    with Server(answers) as server:
        found = cluster_requests.observe(Host(kubernetes=ApiAccess(api.NODE, Peer(server.url), dict)))
    assert isinstance(found, Cluster)
    look = Look(1.0, True, {cluster_requests.FACT.kind: found})
    unread = [one for one in (found.terway, found.pod_enis, found.erdma, found.eni_config) if one is None]
    assert not unread  # all of it was understood, so all of it could have been kept
    assert SECRET not in kept(look)


def test_of_what_a_server_says_that_cannot_answer() -> None:
    with Server({f"/api/v1/nodes/{api.NODE}": refused(500, WORDS)}) as server:
        found = cluster_requests.observe(Host(kubernetes=ApiAccess(api.NODE, Peer(server.url), dict)))
    assert "login failed" in repr(found)
    assert SECRET not in kept(Look(1.0, True, {cluster_requests.FACT.kind: found}))


def test_of_the_address_of_a_server_that_is_not_there() -> None:
    url = f"http://user:{SECRET}@127.0.0.1:9"
    found = cluster_requests.observe(Host(kubernetes=ApiAccess(api.NODE, Peer(url), dict)))
    assert isinstance(found, Unreadable)
    assert "127.0.0.1:9" in found.path
    assert SECRET not in kept(Look(1.0, True, {cluster_requests.FACT.kind: found}))


def test_of_the_metadata(tmp_path: Path) -> None:
    trees.write({"sys/class/dmi/id/product_name": "Alibaba Cloud ECS"}, tmp_path)
    with MetadataServer("two-enis") as server:
        server.tree = {
            **server.tree,
            "user-data": SECRET,
            "ram": {"security-credentials": {"role": {"AccessKeySecret": SECRET, "SecurityToken": SECRET}}},
            "public-keys": {"0": {"openssh-key": SECRET}},
            "hibernation": {"configured": SECRET},
        }
        for one in server.tree["network"]["interfaces"]["macs"].values():
            one["secret"] = SECRET
        found = imds.observe(Host(str(tmp_path), metadata=server.url))
        assert found.instance is not None
        text = kept(Look(1.0, True, {imds.FACT.kind: found}))
        assert SECRET not in text
        (token,) = server.tokens
        assert token not in text


LINES = [
    # facility, line
    (0, f"Kernel command line: ro pci=config_acs=x@0000:5a:00.0 rd.luks.key={SECRET}"),
    (0, f'Unknown kernel command line parameters "x={SECRET} 0000:5a:00.0", will be passed to user space.'),
    (0, f"Booting kernel: `{SECRET}' invalid for parameter `x'"),
    (0, f"CIFS: Attempting to mount //u:{SECRET}@h/s"),
    (0, f"CIFS: VFS: bad option password={SECRET}"),
    (0, f"mlx5_core 0000:5d:00.0: token: {SECRET}"),
    (1, f"dracut: the passphrase of disk 0 is {SECRET}"),
    (3, f"systemd[1]: {SECRET}"),
]


def test_of_the_kernel_log() -> None:
    records = tuple(KmsgRecord(number, 1.0, 3, facility, text) for number, (facility, text) in enumerate(LINES))
    found = kernel_log.observe(Recorded(records))  # type: ignore[arg-type]
    look = Look(1.0, True, {kernel_log.FACT.kind: found})
    assert SECRET not in kept(look, userspace=False)
    assert f"systemd[1]: {SECRET}" in kept(look)  # where the want accept-userspace listens to processes


@pytest.mark.parametrize("before", [None, 0o644, 0o666])
def test_the_file_is_its_owners_alone(tmp_path: Path, before: int | None) -> None:
    root, file = trees.build("plain-vm", tmp_path / "node"), tmp_path / "node.json"
    if before is not None:
        file.write_text("old" * 100_000)
        file.chmod(before)
    os.umask(umask := os.umask(0))
    snapshot_command.run(str(file), root=str(root), force=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.umask(umask) == umask
    assert snapshot_command.read(str(file)).root == str(root)


def test_what_is_no_file_keeps_its_mode(tmp_path: Path) -> None:
    root = trees.build("plain-vm", tmp_path / "node")
    before = Path("/dev/null").stat().st_mode
    snapshot_command.run("/dev/null", root=str(root))
    assert Path("/dev/null").stat().st_mode == before


def test_every_fact_is_among_those_that_were_thought_of() -> None:
    """A new fact is to be thought of here: is there more in what it reads than is judged?"""
    plain = {
        *("System", "Pci", "Modules", "Rdma", "RdmaNetlink", "DevNodes", "Erdma", "Lingjun", "Links", "Routes"),
        *("Sysctls", "Netfilter", "Imds", "Cluster", "OsNetwork", "Cni", "Terway", "Counters", "KernelLog"),
        *("GpuDriver", "QosSettings", "Limits", "Mounts", "Clock", "Neighbours"),
        *("Kubelet", "AllocatableDevices", "DevicePlugins", "ContainerRuntime", "Nvml"),
        "ResourceSlices",  # names of GPUs and of their drivers; no attribute beside
    }
    assert {fact.kind.__name__ for fact in facts.ALL} == plain
