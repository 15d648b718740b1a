"""`nodeprep profile` and `nodeprep config` as an operator meets them: what they print, one line for each mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeprep import job_profile
from nodeprep.config import profile_files, yaml_document
from nodeprep.config.profile_files import BUILT_IN
from tests.rigs import trees

PROGRAM = (sys.executable, "-m", "nodeprep")
HEAD = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: site\n"
Runs = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def nodeprep(tmp_path: Path) -> Runs:
    def runs(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run((*PROGRAM, *words), cwd=tmp_path, capture_output=True, text=True, check=False)

    def calm(*words: str) -> subprocess.CompletedProcess[str]:
        """On a busy machine a fact can be late; it says so, and is asked again."""
        done = runs(*words)
        for _ in range(10):
            if "no answer in" not in done.stderr + done.stdout:
                break
            done = runs(*words)
        return done

    return calm


PROFILES = [
    # content                                              the one line on stderr
    ("", "site.yaml:1: the file: found nothing, wanted keys with values"),
    (
        "apiVersion: nodeprep.io/v1\nkind: Config\ndefault: base\n",
        "site.yaml:2: kind: found 'Config', wanted Profile",
    ),
    ("- a\n", "site.yaml:1: the file: found a list, wanted keys with values"),
    (HEAD + "gates: [", "site.yaml:5: this is no YAML: did not find expected node content"),
    (HEAD + "name: other\n", "site.yaml:4: name: found it twice (first in line 3), wanted it once"),
    (
        HEAD + "gates: [port.sate]\n",
        "site.yaml:4: gates[0]: found 'port.sate', wanted the id of a check such as 'port.state'",
    ),
    (HEAD + "gates:\n  - port.state\n  - 7\n", "site.yaml:6: gates[1]: found 7, wanted a word"),
    (
        HEAD + "want:\n  port.mtu: {atleast: 9000}\n",
        "site.yaml:5: want.port.mtu.atleast: found 'atleast', wanted 'at-least'",
    ),
    (
        HEAD + "want: {port.mtu: {at-least: no}}\n",
        "site.yaml:4: want.port.mtu.at-least: found 'no', wanted a whole number",
    ),
    (
        HEAD + "want: {port.mut: {}}\n",
        "site.yaml:4: want.port.mut: found 'port.mut', wanted the id of a check such as 'port.mtu'",
    ),
    (
        HEAD + "expect:\n  ports:\n    0000:5c:00.0/1:\n      link-layer: RoCE\n",
        "site.yaml:7: expect.ports.0000:5c:00.0/1.link-layer: found 'RoCE', wanted one of InfiniBand, Ethernet",
    ),
    (
        HEAD + "expect: {devices: {5c:00.0: {}}}\n",
        "site.yaml:4: expect.devices.5c:00.0: found '5c:00.0', wanted a PCI address as the kernel writes it",
    ),
    (HEAD + "extends: bose\n", "site.yaml:4: extends: found 'bose', wanted a file or one of base, rdma, rdma-roce"),
    (HEAD + "extends: other.yaml\n", "site.yaml:4: extends: found 'other.yaml', wanted a file or one of base"),
    (
        HEAD + "extends: site.yaml\n",
        "site.yaml:4: extends: found 'site.yaml', wanted a profile that does not lead back here",
    ),
    (HEAD.replace("v1", "v2"), "site.yaml:1: apiVersion: found 'nodeprep.io/v2', wanted nodeprep.io/v1"),
    (HEAD.replace("name: site\n", ""), "site.yaml:1: name: found nothing, wanted a name"),
    (HEAD + '"\\e[31m": 1\n', "site.yaml:4: \\x1b[31m...: found '\\x1b[31m', wanted one of apiVersion, kind, name"),
]


@pytest.mark.parametrize(("content", "says"), PROFILES, ids=range(len(PROFILES)))
def test_a_mistake_in_a_profile_is_one_line(nodeprep: Runs, tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "site.yaml").write_text(content)
    for words in (("profile", "validate", "site.yaml"), ("profile", "show", "./site.yaml")):
        done = nodeprep(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.removeprefix("nodeprep: ").removeprefix("./").startswith(says)
        assert done.stderr.count("\n") == 1
        assert done.stderr.rstrip("\n").isprintable()


def test_a_circle_of_files_is_shown_whole(nodeprep: Runs, tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "c"), ("c", "b")):
        (tmp_path / f"{name}.yaml").write_text(f"{HEAD}extends: {other}.yaml\n")
    done = nodeprep("profile", "validate", "a.yaml")
    assert done.returncode == 2
    assert "c.yaml:4: extends: found 'b.yaml', wanted a profile that does not lead back here (" in done.stderr


def test_each_file_is_validated_and_the_bad_one_counts(nodeprep: Runs, tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(
        HEAD + "extends: rdma-roce\nexpect: {ports: {at-least: 8, link-layer: Ethernet}}\n"
    )
    (tmp_path / "bad.yaml").write_text("")
    gates = len(profile_files.effective("rdma-roce").gates)
    good = f"good.yaml: profile site, {gates} gates, 0 devices, at least 8 ports\n"
    done = nodeprep("profile", "validate", "bad.yaml", "good.yaml")
    assert (done.returncode, done.stdout) == (2, good)
    assert "bad.yaml:1: the file: found nothing" in done.stderr
    assert nodeprep("profile", "validate", "good.yaml").returncode == 0


def test_a_profile_of_ours_is_validated_by_name_unless_a_file_is_called_so(nodeprep: Runs, tmp_path: Path) -> None:
    name = "rdma-erdma-gpu"
    done = nodeprep("profile", "validate", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{name}: profile {name}, {len(profile_files.effective(name).gates)} gates, ")
    (tmp_path / name).write_text("")
    assert nodeprep("profile", "validate", name).returncode == 2


def test_show_prints_what_a_profile_comes_to(nodeprep: Runs) -> None:
    done = nodeprep("profile", "show", "rdma-roce")
    assert (done.returncode, done.stderr) == (0, "")
    assert job_profile.parse(yaml_document.read(done.stdout.encode(), "F").value) == profile_files.effective(
        "rdma-roce"
    )


def test_show_of_an_unknown_name_is_one_line(nodeprep: Runs) -> None:
    done = nodeprep("profile", "show", "rdma-rose")
    assert done.returncode == 2
    assert done.stderr.startswith("there is no profile 'rdma-rose'; nearest: rdma-roce, ")
    assert "; wanted a file or one of base, rdma, " in done.stderr


def test_capture_writes_a_profile_that_holds(nodeprep: Runs, tmp_path: Path) -> None:
    trees.build("h100-ib", tmp_path / "good")
    done = nodeprep("profile", "capture", "--root", "good", "-o", "site.yaml", "--name", "rack-7")
    assert (done.returncode, done.stdout) == (0, "")
    assert "captured 12 RDMA devices and 12 ports, 9 of them required, 8 GPUs, from good" in done.stderr
    profile = profile_files.effective(str(tmp_path / "site.yaml"))
    assert profile.name == "rack-7"
    assert profile.description.startswith("as h100-ib was on 2")
    shown = nodeprep("profile", "capture", "--root", "good", "--name", "rack-7")
    assert shown.stdout == (tmp_path / "site.yaml").read_text()
    assert nodeprep("profile", "validate", "site.yaml").returncode == 0
    assert nodeprep("check", "--root", "good", "--profile", "site.yaml").returncode == 0
    (tmp_path / "good/sys/class/infiniband/mlx5_9/ports/1/state").write_text("1: DOWN\n")
    assert nodeprep("check", "--root", "good", "--profile", "site.yaml").returncode == 1


def test_capture_names_what_it_had_to_leave_out(nodeprep: Runs, tmp_path: Path) -> None:
    trees.build("h100-ib", tmp_path / "good")
    (tmp_path / "good/sys/class/infiniband/mlx5_9/ports/1/rate").write_bytes(b"\xff")
    done = nodeprep("profile", "capture", "--root", "good")
    assert done.returncode == 0
    assert (
        "left out, could not be read: /sys/class/infiniband/mlx5_9/ports/1/rate: malformed (not UTF-8)" in done.stderr
    )
    assert (
        job_profile.mapping(job_profile.parse(yaml_document.read(done.stdout.encode(), "F").value))["expect"]["ports"][
            "0000:bb:00.0/1"
        ].get("rate")
        is None
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--root", "plain"), "nothing to capture in plain: looked for RDMA devices in /sys/class/infiniband"),
        (("--root", "nowhere"), "nowhere: no such directory"),
        (("--root", "h100", "-o", "no/where"), "cannot write 'no/where': "),
    ],
)
def test_a_capture_that_cannot_be_made_is_one_line(
    nodeprep: Runs, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    trees.build("plain-vm", tmp_path / "plain")
    trees.build("h100-flat", tmp_path / "h100")
    done = nodeprep("profile", "capture", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


REFUSED = [
    # a node with its fault            what stands against a capture, as --accept takes it
    ("rate-halved", "port.rate@0000:4c:00.0/1"),
    ("rail-with-a-small-mtu", "port.mtu@0000:4c:00.0/1"),
    ("firmware-of-one-differs", "rdma.firmware@0000:9b:00.0"),
    ("slot-of-half-width", "pci.link@0000:5d:00.0"),
    ("two-rails-down", "port.state@0000:5d:00.0/1"),
    ("function-answers-all-ones", "pci.answers@0000:5d:00.0"),
]


@pytest.mark.parametrize(("case", "name"), REFUSED)
def test_a_node_that_is_worse_than_its_likes_is_no_model(nodeprep: Runs, tmp_path: Path, case: str, name: str) -> None:
    trees.build_case(case, tmp_path / "node")
    done = nodeprep("profile", "capture", "--root", "node", "-o", "site.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert not (tmp_path / "site.yaml").exists()
    assert done.stderr.startswith("not captured: ")
    assert f" {name} " in done.stderr


def test_what_is_accepted_by_name_is_written_into_the_profile(nodeprep: Runs, tmp_path: Path) -> None:
    trees.build_case("two-rails-down", tmp_path / "node")
    capture = ("profile", "capture", "--root", "node", "-o", "site.yaml")
    one = nodeprep(*capture, "--accept", "port.state@mlx5_5")
    assert (one.returncode, (tmp_path / "site.yaml").exists()) == (1, False)
    assert " port.state@0000:db:00.0/1 " in one.stderr
    assert "port.state@0000:5d:00.0/1" not in one.stderr
    both = nodeprep(*capture, "--accept", "port.state@mlx5_5", "--accept", "port.state@0000:db:00.0/1")
    assert both.returncode == 0
    assert profile_files.effective(str(tmp_path / "site.yaml")).description.endswith(
        "; accepted: port.state@0000:5d:00.0/1 (AdministrativelyDown); port.state@0000:db:00.0/1 (NoSignal)"
    )
    assert nodeprep(*capture, "--accept", "port.state", "--force").returncode == 0
    assert nodeprep("check", "--root", "node", "--profile", "site.yaml").returncode == 0


def test_a_captured_port_that_is_worse_stays_as_it_is_accepted(nodeprep: Runs, tmp_path: Path) -> None:
    trees.build_case("rate-halved", tmp_path / "node")
    done = nodeprep("profile", "capture", "--root", "node", "-o", "site.yaml", "--accept", "port.rate@0000:4c:00.0")
    assert done.returncode == 0
    ports = profile_files.effective(str(tmp_path / "site.yaml")).expect.ports
    assert (ports["0000:4c:00.0/1"].rate, ports["0000:3b:00.0/1"].rate) == (200.0, 400.0)


def test_a_bond_that_lacks_a_leg_is_no_model_and_one_of_the_front_end_is_listed(nodeprep: Runs, tmp_path: Path) -> None:
    trees.build("roce-bonds", tmp_path / "node")
    (tmp_path / "node/sys/class/net/eth3/carrier").write_text("0\n")
    done = nodeprep("profile", "capture", "--root", "node")
    assert (done.returncode, done.stdout) == (1, "")
    assert " port.bond@bond1 " in done.stderr
    trees.build("h100-ib", tmp_path / "front")
    bond = tmp_path / "front/sys/devices/virtual/net/bond0"
    for name, text in (("mtu", "1500"), ("carrier", "1"), ("operstate", "up"), ("flags", "0x1403")):
        bond.mkdir(parents=True, exist_ok=True)
        (bond / name).write_text(f"{text}\n")
    (bond / "bonding").mkdir()
    (tmp_path / "front/sys/class/net/bond0").symlink_to("../../devices/virtual/net/bond0")
    for leg in ("ens2f0np0", "ens2f1np1"):
        (tmp_path / f"front/sys/class/net/{leg}/master").symlink_to("/sys/devices/virtual/net/bond0")
    done = nodeprep("profile", "capture", "--root", "front", "-o", "site.yaml")
    assert done.returncode == 0
    assert "\n  warn   port.bond@bond0 " in done.stderr.partition("seen on this node, and no part of the profile:")[2]


UNNAMED = [
    ("port.sate", "--accept 'port.sate': no check 'port.sate'; nearest: port.state"),
    ("port.state@", "--accept 'port.state@': found no device after @, wanted a name or an address"),
    ("port.state@mlx5_9", "--accept port.state@mlx5_9: port.state finds nothing wrong with 'mlx5_9'"),
    ("port.rate", "--accept port.rate: port.rate finds nothing wrong"),
    ("*", "--accept '*': no check '*'"),
]


@pytest.mark.parametrize(("word", "says"), UNNAMED)
def test_what_nothing_is_wrong_with_cannot_be_accepted(nodeprep: Runs, tmp_path: Path, word: str, says: str) -> None:
    trees.build_case("two-rails-down", tmp_path / "node")
    done = nodeprep("profile", "capture", "--root", "node", "-o", "site.yaml", "--accept", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "site.yaml").exists()


def test_what_is_not_required_is_a_table(nodeprep: Runs, tmp_path: Path) -> None:
    trees.build("h100-ib", tmp_path / "good")
    lines = nodeprep("profile", "capture", "--root", "good", "-o", "site.yaml").stderr.splitlines()
    start = lines.index("not required; if a job needs one of them, mend it and capture again:")
    rows = [line.split(maxsplit=2) for line in lines[start + 1 : start + 5]]
    assert rows[0] == ["PORT", "NAME", "STATE     WHY"]
    assert rows[1] == ["0000:2a:00.1/1", "mlx5_2/1", "1: DOWN   it carries nothing now"]
    assert len({line.index("1: DOWN") for line in lines[start + 2 : start + 5]}) == 1


CONFIG = "apiVersion: nodeprep.io/v1\nkind: Config\ndefault: rdma-roce\n"


def test_config_is_validated_and_shown(nodeprep: Runs, tmp_path: Path) -> None:
    waiver = '{check: pci.link, device: "0000:5c:00.0", until: 2020-01-01, reason: riser}'
    (tmp_path / "config.yaml").write_text(f"{CONFIG}want: {{port.mtu: {{at-least: 9000}}}}\nwaivers: [{waiver}]\n")
    done = nodeprep("config", "validate", "config.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "config.yaml: default profile rdma-roce, numbers of 1 check, 1 waiver\n"
        "config.yaml: note: waivers[0].until: 2020-01-01 has passed, so the waiver of pci.link excuses nothing\n"
    )
    shown = nodeprep("config", "show", "config.yaml")
    assert shown.returncode == 0
    told = yaml_document.read(shown.stdout.encode(), "F").value
    assert isinstance(told, dict)
    assert {key: told[key] for key in ("apiVersion", "kind", "default", "want", "waivers")} == {
        "apiVersion": "nodeprep.io/v1",
        "kind": "Config",
        "default": "rdma-roce",
        "want": {"port.mtu": {"at-least": 9000}},
        "waivers": (
            {
                "check": "pci.link",
                "device": "0000:5c:00.0",
                "nodes": ("*",),
                "until": "2020-01-01",
                "reason": "riser",
                "days-left": "expired",
            },
        ),
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            CONFIG + "colour: no\n",
            "config.yaml:4: colour: found 'colour', wanted one of apiVersion, kind, default, want",
        ),
        (
            CONFIG + "want: {pci.lnk: {}}\n",
            "config.yaml:4: want.pci.lnk: found 'pci.lnk', wanted the id of a check such as ",
        ),
        (CONFIG + "waivers: [{check: a}]\n", "config.yaml:4: waivers[0].until: found nothing, wanted a date"),
        ("apiVersion: nodeprep.io/v1\nkind: Profile\nname: x\n", "config.yaml:2: kind: found 'Profile', wanted Config"),
        (None, "config.yaml: no such file"),
    ],
)
def test_a_mistake_in_the_configuration_is_one_line_for_every_command(
    nodeprep: Runs, tmp_path: Path, content: str | None, says: str
) -> None:
    if content is not None:
        (tmp_path / "config.yaml").write_text(content)
    for words in (("config", "validate", "config.yaml"), ("check", "--config", "config.yaml")):
        done = nodeprep(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.removeprefix("nodeprep: ").startswith(says)
        assert done.stderr.count("\n") == 1


def test_the_built_in_profiles_are_listed_with_their_jobs(nodeprep: Runs) -> None:
    lines = nodeprep("profile", "list").stdout.splitlines()
    assert lines[0].split() == ["PROFILE", "GATES", "FOR"]
    assert [line.split()[0] for line in lines[1:]] == list(BUILT_IN)
    told = json.loads(nodeprep("profile", "list", "-o", "json").stdout)
    assert [one["name"] for one in told] == list(BUILT_IN)
    assert all(one["gates"] and one["description"] for one in told)
