"""Headers of remedies: what each key may be, and the line that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.config import remedy_files
from nodeprep.config.document import ConfigError
from nodeprep.decide.remedy_header import Idle, Parameter, ParameterKind, RemedyHeader, Restarted, SafetyClass

HEADER = """purpose: Sets a link
  up.
class: S1
why: Nobody loses by it.
idle: nothing
by-hand: ["ip link set {interface} up"]
parameters:
  interface: {kind: netdev}
  mtu: {kind: integer, required: false, least: 68, most: 9000}
disturbs: [port.flap]
tools: [ip]
"""


def playbook(directory: Path, header: str = HEADER) -> Path:
    lines = "".join(f"      {line}\n" for line in header.splitlines())
    path = directory / "link_up.yml"
    path.write_text(f"---\n- name: Up\n  hosts: localhost\n  vars:\n    remedy:\n{lines}  tasks: []\n")
    return path


def test_the_header_of_a_playbook(tmp_path: Path) -> None:
    assert remedy_files.header(playbook(tmp_path)) == RemedyHeader(
        "link_up",
        "Sets a link up.",
        SafetyClass.S1,
        "Nobody loses by it.",
        Idle.NOTHING,
        ("ip link set {interface} up",),
        {
            "interface": Parameter(ParameterKind.NETDEV),
            "mtu": Parameter(ParameterKind.INTEGER, required=False, least=68, most=9000),
        },
        disturbs=("port.flap",),
        tools=("ip",),
    )


def test_what_is_started_anew_at_the_end(tmp_path: Path) -> None:
    assert remedy_files.header(playbook(tmp_path)).restarts is Restarted.NOTHING
    assert remedy_files.header(playbook(tmp_path, f"{HEADER}restarts: agent\n")).restarts is Restarted.AGENT


def test_the_header_of_an_act_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "acts").mkdir()
    path = tmp_path / "acts/plugin_restart.yml"
    path.write_text(HEADER)
    found = remedy_files.header(path)
    assert (found.name, found.is_act, found.safety) == ("plugin_restart", True, SafetyClass.S1)


WRONG = [
    ("class: S1", "class: S5", "link_up.yml:8: [0].vars.remedy.class: found 'S5', wanted one of S1, S2, S3, S4"),
    ("class: S1\n", "", "remedy.class: found nothing, wanted one of S1, S2, S3, S4"),
    ("idle: nothing\n", "", "remedy.idle: found nothing, wanted one of nothing, netdev, function, rdma, plugin"),
    ("tools: [ip]", "restarts: job", "remedy.restarts: found 'job', wanted one of nothing, agent"),
    ("idle: nothing", "idle: maybe", "idle: found 'maybe', wanted one of nothing, netdev, function, rdma, plugin"),
    ("why: Nobody loses by it.\n", "", "remedy.why: found nothing, wanted the reason of the class"),
    ("kind: netdev", "kind: text", "interface.kind: found 'text', wanted one of netdev, pci-function"),
    ("{kind: netdev}", "{kinds: netdev}", "interface.kinds: found 'kinds', wanted 'kind'"),
    ("least: 68", "least: x", "mtu.least: found 'x', wanted a whole number"),
    ("tools: [ip]", "tool: [ip]", "remedy.tool: found 'tool', wanted 'tools'"),
]


@pytest.mark.parametrize(("old", "new", "says"), WRONG)
def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in HEADER
    with pytest.raises(ConfigError) as wrong:
        remedy_files.header(playbook(tmp_path, HEADER.replace(old, new)))
    assert says in str(wrong.value)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(
    "text", ["- name: Up\n", "- vars: {remedy: }\n", "[]\n", "a: b\n", "- {}\n- {}\n", "- vars: [remedy]\n"]
)
def test_a_playbook_without_a_header(tmp_path: Path, text: str) -> None:
    path = tmp_path / "link_up.yml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="wanted one play with the header as its variable `remedy`"):
        remedy_files.header(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yml: cannot read it: No such file or directory"):
        remedy_files.header(tmp_path / "gone.yml")
