"""A recorded node is judged as the node itself: the same findings, byte for byte, anywhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeprep import check_round, facts
from nodeprep import snapshot as snapshot_file
from nodeprep.checks import CHECKS
from nodeprep.cli.check import check_command
from nodeprep.cli.check.choices import CheckFormat
from nodeprep.cli.files import snapshot_command
from nodeprep.cli.usage import UsageError
from nodeprep.codec import CodecError
from nodeprep.config import profile_files
from nodeprep.config.waiver_rules import Waiver
from nodeprep.doors import clock
from nodeprep.doors.node_host import Host
from nodeprep.facts.rdma.counters import Counters, PortCounters
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.look import Look
from nodeprep.model import Unreadable, Why
from nodeprep.observer import Observer
from nodeprep.snapshot import RecordedLook, Snapshot
from nodeprep.values import replace
from tests.cli.program import timeless
from tests.rigs import trees
from tests.values import BDF, port, rdma

pytestmark = pytest.mark.slow

Damage = Callable[[Path], object]
RAIL = "sys/class/infiniband/mlx5_5"


def state(tree: Path, text: str) -> None:
    (tree / RAIL / "ports/1/state").write_text(text)


NODES: list[tuple[str, Damage]] = [
    ("h100-ib", lambda tree: None),  # noqa: ARG005
    ("h100-ib", lambda tree: state(tree, "1: DOWN\n")),
    ("h100-ib", lambda tree: state(tree, "4: ACTI")),
    ("h100-ib", lambda tree: (tree / RAIL / "ports/1/rate").write_bytes(b"\xff\x00")),
    ("h100-ib", lambda tree: shutil.rmtree(tree / "sys/class/net")),
    ("h100-roce", lambda tree: state(tree, "2: INIT\n")),
    ("h100-flat", lambda tree: (tree / RAIL / "ports/1/state").unlink()),
    ("efa", lambda tree: None),  # noqa: ARG005
    ("plain-vm", lambda tree: None),  # noqa: ARG005
]


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: trees.build(name, tmp_path / name)


def calm(look: Callable[[], str]) -> str:
    """The output of a look without a late fact. On a busy machine a fact can be late, and the outputs then differ."""
    for _ in range(10):
        text = look()
        if '"timeout"' not in text:
            return text
    pytest.fail("some fact was late ten times")


def said(capsys: pytest.CaptureFixture[str], **asked: Any) -> tuple[int, str]:
    codes: list[int] = []

    def look() -> str:
        codes.append(check_command.run(check_command.CheckOptions(output=CheckFormat.JSON, **asked)))
        return capsys.readouterr().out

    text = calm(look)
    return codes[-1], timeless(text)


def record(file: str, **asked: Any) -> None:
    def look() -> str:
        snapshot_command.run(file, **asked)
        return Path(file).read_text()

    calm(look)


@pytest.mark.parametrize("node", NODES, ids=range(len(NODES)))
@pytest.mark.parametrize("profile", [None, "rdma-infiniband"])
def test_a_dead_tree_is_replayed_to_the_byte(
    tree: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    node: tuple[str, Damage],
    profile: str | None,
) -> None:
    name, damage = node
    root = tree(name)
    damage(root)
    file = str(tmp_path / "node.json")
    record(file, root=str(root), profile=profile)
    capsys.readouterr()
    at_the_node = said(capsys, root=str(root), profile=profile)
    shutil.rmtree(root)
    assert said(capsys, snapshot=file) == at_the_node


def test_another_profile_may_be_asked_for(
    tree: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, file = tree("efa"), str(tmp_path / "node.json")
    record(file, root=str(root), profile="base")
    capsys.readouterr()
    assert said(capsys, snapshot=file)[0] == 0
    assert said(capsys, snapshot=file, profile="rdma-infiniband")[0] == 1


def test_waivers_and_numbers_of_the_node_travel_with_it(
    tree: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, file, config = tree("h100-ib"), str(tmp_path / "node.json"), tmp_path / "config.yaml"
    state(root, "1: DOWN\n")
    assert said(capsys, root=str(root), profile="rdma-infiniband")[0] == 1
    until = clock.today()
    config.write_text(
        "apiVersion: nodeprep.io/v1\nkind: Config\nwant: {port.mtu: {at-least: 9000}}\n"
        f"waivers: [{{check: port.*, until: {until}, reason: cable on order}}]\n"
    )
    record(file, root=str(root), profile="rdma-infiniband", config=str(config))
    config.unlink()
    capsys.readouterr()
    code, text = said(capsys, snapshot=file)
    assert code == 0
    assert "cable on order" in text
    assert snapshot_file.loads(Path(file).read_text()).in_force().want == {"port.mtu": {"at-least": 9000}}


def counted(at: float, errors: int) -> tuple[Rdma, Counters]:
    values = (("link_downed", errors), ("port_rcv_packets", 1000), ("symbol_error", errors))
    refused = Unreadable(Why.DENIED, "/x", 13, "Permission denied")
    counters = PortCounters(**(PORT_COUNTERS | {"values": values, "unread": (refused,)}))
    return rdma(port()), Counters(at, (counters,))


PORT_COUNTERS: dict[str, Any] = {"device": "mlx5_3", "number": 1, "bdf": BDF}


def test_two_looks_of_a_live_node_give_the_same_rates() -> None:
    looks = [
        Look(at, True, {Rdma: one, Counters: two, facts.clock.Clock: Unreadable(Why.TIMEOUT, "adjtimex")})
        for at, (one, two) in ((10.25, counted(10.25, 0)), (20.5, counted(20.5, 70)))
    ]
    given = taken(looks=tuple(map(snapshot_file.observed, looks)), live=True, settle=10.25)
    look, before = snapshot_file.loads(snapshot_file.dumps(given)).look()
    assert (look, before) == (looks[1], looks[0])
    profile = profile_files.effective("rdma-roce")
    at_the_node = check_round.judge(CHECKS.values(), looks[1], looks[0], profile, {})
    assert check_round.judge(CHECKS.values(), look, before, profile, {}) == at_the_node
    assert any(finding.status == "fail" for finding in at_the_node.findings)


def taken(**different: Any) -> Snapshot:
    usual: dict[str, Any] = {
        "node": "gpu-17",
        "when": "2026-01-10T12:00:00Z",
        "live": False,
        "root": "/mnt/node",
        "profile": snapshot_file.recorded(profile_files.effective("rdma-roce")),
        "chosen_by": "chosen with --profile",
        "settle": 0.0,
        "looks": (RecordedLook(1.5, {"Rdma": rdma(port())}),),
    }
    return Snapshot(**(usual | different))


def test_a_snapshot_comes_back_whole() -> None:
    given = taken(waivers=(Waiver("port.*", "2026-02-01", "so", nodes=("a", "b")),), missing_hardware="nothing")
    back = snapshot_file.loads(snapshot_file.dumps(given))
    assert back == given
    assert back.in_force() == profile_files.effective("rdma-roce")
    assert (back.today, back.look()[1]) == ("2026-01-10", None)


def test_every_fact_of_a_real_host_can_be_recorded() -> None:
    look = Observer(Host()).look(facts.ALL)
    assert snapshot_file.loads(snapshot_file.dumps(taken(looks=(snapshot_file.observed(look),), live=True))).look() == (
        look,
        None,
    )


ROWS = [
    # changed                                                     says
    (lambda one: one.update(looks=[]), "$.content.looks: found a list of 0, wanted one look or two"),
    (
        lambda one: one["looks"][0]["facts"].update(Pci=one["looks"][0]["facts"].pop("Rdma")),
        "$.content.looks[0].facts.Pci: found Rdma, wanted the fact of that name",
    ),
    (
        lambda one: one["looks"][0]["facts"].update(Port=one["looks"][0]["facts"]["Rdma"]["ports"][0]),
        "$.content.looks[0].facts.Port: found Port, wanted the fact of that name",
    ),
    (lambda one: one.update(when="yesterday"), "$.content: found 'yesterday', wanted dates, YYYY-MM-DD"),
    (
        lambda one: one.update(waivers=[{"_": "Waiver", "check": "*", "until": "20260101", "reason": ""}]),
        "$.content: found '20260101', wanted dates, YYYY-MM-DD",
    ),
    (lambda one: one["profile"].update(gate=1), None),
    (
        lambda one: one["profile"].update(want={"port.mtu": {"at-least": "x"}}),
        "$.content.profile.want.port.mtu.at-least: found 'x', wanted a whole number, at least 0",
    ),
    (lambda one: one["profile"].update(want={"port.mtuu": {}}), None),
    (lambda one: one.update(live="yes"), '$.content.live: found "yes", wanted true or false'),
]


@pytest.mark.parametrize(("change", "says"), ROWS, ids=range(len(ROWS)))
def test_a_snapshot_that_was_tampered_with_is_refused(change: Callable[[Any], object], says: str | None) -> None:
    document = json.loads(snapshot_file.dumps(taken()))
    change(document["content"])
    with pytest.raises(CodecError) as error:
        snapshot_file.loads(json.dumps(document))
    assert says is None or str(error.value) == says


FILES = [
    # content                       says
    (None, "{}: no such file"),
    (b"", "{}:1: this is no JSON: Expecting value; wanted a document that nodeprep wrote"),
    (b'{"format": 1,\n"nodeprep": }', "{}:2: this is no JSON: Expecting value; wanted a document that nodeprep wrote"),
    (b"NaN", "{}: this is no JSON: found NaN; wanted a document that nodeprep wrote"),
    (b"\xff", "{}: byte 0 is not UTF-8; wanted a file that nodeprep snapshot wrote"),
    (
        b'{"format": 7, "nodeprep": "3.1.4", "content": {}}',
        "{}: $.format: found 7, wanted format 1; nodeprep 3.1.4, which wrote it, reads it",
    ),
]


@pytest.mark.parametrize(("content", "says"), FILES, ids=range(len(FILES)))
def test_a_file_that_is_no_snapshot_is_one_line(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "node.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError) as error:
        snapshot_command.read(str(file))
    assert str(error.value) == says.format(file)


def test_a_place_that_cannot_be_written_is_one_line(tree: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^cannot write '.*/no/where': .*No such file or directory"):
        snapshot_command.run(str(tmp_path / "no/where"), root=str(tree("plain-vm")))


def test_the_profile_inside_extends_nothing() -> None:
    profile = replace(profile_files.effective("rdma-roce"), extends="base")
    assert "extends" not in snapshot_file.recorded(profile)
