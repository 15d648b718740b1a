"""What `nodeprep kubelet-books` reports, and what the agent's pod makes of it: its root has no plugins' directory."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors import clock
from nodeprep.doors.files import reports
from nodeprep.doors.files.reports import NodeReport
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import device_plugins
from nodeprep.facts.kubernetes.device_plugins import REPORT_NAME, DevicePlugins
from nodeprep.model import Unreadable
from tests.rigs.scratch import in_memory
from tests.rigs.waiting import until

SECRET = "AWS_SECRET=hunter2"
ENTRY = {"PodUID": "u", "ContainerName": "c", "ResourceName": "x/y", "DeviceIDs": {"0": ["d-1"]}, "AllocResp": SECRET}
CHECKPOINT = {"Data": {"PodDeviceEntries": [ENTRY], "RegisteredDevices": {"x/y": ["d-1", "d-2"]}}}
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Node:
    """A host with a kubelet's directory of plugins, and a pod's view of it: only the report is mounted there."""

    def __init__(self, directory: Path) -> None:
        self.host, self.pod = directory / "host", directory / "pod"
        self.plugins = self.host / "var/lib/kubelet/device-plugins"
        self.reports = self.pod / device_plugins.REPORT_DIRECTORY.lstrip("/")
        self.plugins.mkdir(parents=True)
        for root in (self.host, self.pod):
            (root / "proc/sys/kernel/random").mkdir(parents=True)
            (root / "proc/sys/kernel/random/boot_id").write_text(f"{BOOT_ID}\n")
        (self.pod / "proc/1").mkdir()
        (self.pod / "proc/1/mountinfo").write_text("")  # a pod of the agent (docs/adr/0021)
        (self.plugins / "kubelet_internal_checkpoint").write_text(json.dumps(CHECKPOINT))

    @property
    def command(self) -> list[str]:
        program = [sys.executable, "-m", "nodeprep", "kubelet-books"]
        return [*program, "--host-root", str(self.host), "--directory", str(self.reports)]

    def report(self) -> None:
        subprocess.run([*self.command, "--once"], check=True)

    def seen(self) -> DevicePlugins | Unreadable:
        """What the agent in its pod observes."""
        return device_plugins.observe(Host(str(self.pod), live=True))


@pytest.fixture
def node() -> Iterator[Node]:
    with in_memory() as directory:
        yield Node(directory)


def test_without_a_report_the_manifest_is_named(node: Node) -> None:
    found = node.seen()
    assert isinstance(found, Unreadable)
    assert found.is_not_mounted
    assert "daemonset/components/kubelet-books" in found.detail


def test_the_agent_sees_what_the_host_sees(node: Node) -> None:
    with socket.socket(socket.AF_UNIX) as living, socket.socket(socket.AF_UNIX) as dead:
        living.bind(str(node.plugins / "a.sock"))
        living.listen()
        dead.bind(str(node.plugins / "b.sock"))
        node.report()
        found = node.seen()
    assert isinstance(found, DevicePlugins)
    assert [(one.name, one.errno) for one in found.sockets or ()] == [("a.sock", None), ("b.sock", 111)]
    assert found.checkpoint is not None
    assert found.checkpoint.registered == {"x/y": ("d-1", "d-2")}
    assert [one.devices for one in found.checkpoint.entries] == [{"0": ("d-1",)}]


def test_what_containers_were_told_is_never_written(node: Node) -> None:
    node.report()
    text = (node.reports / REPORT_NAME).read_text()
    assert "d-1" in text
    assert "hunter2" not in text


def test_what_the_pod_could_not_see_is_told(node: Node) -> None:
    (node.plugins / "kubelet_internal_checkpoint").write_text("{")
    node.report()
    found = node.seen()
    assert isinstance(found, DevicePlugins)
    with pytest.raises(Exception, match="kubelet_internal_checkpoint: malformed"):
        _ = found.checkpoint


def test_it_reports_until_it_is_told_to_end(node: Node) -> None:
    with subprocess.Popen(node.command) as books:
        until((node.reports / REPORT_NAME).exists, "a report")
        books.send_signal(signal.SIGTERM)
        assert books.wait() == 0
    assert isinstance(node.seen(), DevicePlugins)


STRANGE: list[tuple[Any, str]] = [
    ([], "wanted"),
    ({"_": "Port"}, "wanted"),
    ({"_": "DevicePlugins", "at": "now"}, "wanted"),
    ({"_": "DevicePlugins", "at": 1.0, "present": True, "sockets": [{"_": "PluginSocket"}]}, "name"),
    ({"_": "Unreadable", "why": "nothing"}, "wanted"),
    (7, "wanted"),
]


@pytest.mark.parametrize(("content", "told"), STRANGE, ids=range(len(STRANGE)))
def test_a_strangers_word_breaks_nothing(node: Node, content: Any, told: str) -> None:
    reports.write(str(node.reports), REPORT_NAME, NodeReport(BOOT_ID, clock.now(), content))
    found = node.seen()
    assert isinstance(found, Unreadable)
    assert told in found.detail


def test_an_old_report_is_none(node: Node) -> None:
    found = device_plugins.observe(Host(str(node.host), live=True))
    content = device_plugins.REPORTED.content(found)
    reports.write(str(node.reports), REPORT_NAME, NodeReport(BOOT_ID, clock.now() - 31.0, content))
    seen = node.seen()
    assert isinstance(seen, Unreadable)
    assert "wanted at most 30 s" in seen.detail


def test_a_directory_that_cannot_be_written_is_told(node: Node) -> None:
    node.reports.parent.mkdir(parents=True)
    node.reports.write_text("")
    done = subprocess.run([*node.command, "--once"], capture_output=True, text=True, check=False)
    assert (done.returncode, "cannot be written" in done.stderr) == (2, True)
    assert os.sep not in done.stderr.partition("cannot be written")[2]
