"""Configuration files: their settings, and for each mistake the one line that an operator reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep import job_profile, profile_selection, typed_yaml, values
from nodeprep.checks import CHECKS as EVERY
from nodeprep.config import config_file, configuration, profile_files, waiver_rules, wants, yaml_document
from nodeprep.config.configuration import Settings
from nodeprep.config.document import ConfigError
from nodeprep.config.profile_files import BUILT_IN
from nodeprep.config.waiver_rules import Waiver
from nodeprep.job_profile import AtLeast, Profile
from nodeprep.model import (
    Check,
    Confirmation,
    Finding,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Verdict,
    Waived,
)
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Value, field

TODAY = "2026-01-10"


class Want(Value):
    at_least: int = 4200
    allowance: float = 0.5
    strict: bool = False
    boards: tuple[str, ...] = ()
    limit: int | None = None
    mode: Literal["shared", "exclusive"] | None = None
    pools: Mapping[str, int] = field(default_factory=dict)


def nothing(seen: Seen) -> Iterator[Verdict]:  # noqa: ARG001
    yield from ()


def check(check_id: str, want: type | None = None) -> Check:
    return Check(
        check_id, "Is it?", "So.", "So.", "here", Severity.GATE, Stage.DEVICE, Confirmation.FAST, (), nothing, want=want
    )


CHECKS = {one.id: one for one in (check("port.state"), check("port.mtu", Want), check("pci.link"))}

DOCUMENTS = [
    # bytes                                   says
    (b"", "F:1: the file: found nothing, wanted keys with values"),
    (b"# only a remark\n", "F:1: the file: found nothing, wanted keys with values"),
    (b"- a\n- b\n", "F:1: the file: found a list, wanted keys with values"),
    (b"\nhello\n", "F:2: the file: found 'hello', wanted keys with values"),
    (b"a: 1\nb: [\n", "F:3: this is no YAML: did not find expected node content"),
    (b"a: 1\nb: c: d\n", "F:2: this is no YAML: mapping values are not allowed in this context"),
    (b"a: 1\n\tb: 2\n", None),
    (b"a: \xff\n", "F:1: the file: found byte 0xff, wanted UTF-8"),
    (b"a: 1\nb: \x80\n", "F:2: the file: found byte 0x80, wanted UTF-8"),
    ("a: \u00e9\nb: \x07\n".encode(), "F:2: the file: found character 0x07, wanted YAML, which is text"),
    (b"a: 1\nb: 2\na: 3\n", "F:3: a: found it twice (first in line 1), wanted it once"),
    (b"a:\n  b: 1\n  b: 2\n", "F:3: a.b: found it twice (first in line 2), wanted it once"),
    (b"a: 1\n---\nb: 2\n", "F:2: the file: found a second document, wanted one document"),
    (b"a: !!python/object/apply:os.system [x]\n", None),
    (b"a: 1\nb: !secret x\n", "F:2: b: found the tag '!secret', wanted plain YAML"),
    (b"b: !secret {}\n", "F:1: b: found the tag '!secret', wanted plain YAML"),
    (b"a: *x\n", "F:1: a: found the alias *x, wanted an anchor of that name above it"),
    (b"a: &a [*a]\n", "F:1: a[0]: found the alias *a, wanted an anchor of that name above it"),
    (b"[a]: 1\n", "F:1: the file: found a key that is no word, wanted words as keys"),
    (b'"a\\nb\\e[2J": !x y\n', "F:1: a\\nb\\x1b[2J...: found the tag '!x', wanted plain YAML"),
    (b"[" * 1_000_000, "F:1: [0][0][0]: found values in values without end, wanted at most 16 in one another"),
    (b"{a: " * 250_000, "F:1: a.a.a: found values in values without end, wanted at most 16 in one another"),
    (b"a:\n" + b"- x\n" * 60_000, "F:50000: a[49998]: found more than 50000 values, wanted fewer"),
    (
        b"a: &a [1,2,3,4,5,6,7,8,9]\n"
        + b"".join(b"%c: &%c [%s]\n" % (one, one, b",".join([b"*%c" % (one - 1)] * 9)) for one in range(98, 110)),
        "F:5: e[5]: found more than 50000 values, wanted fewer",
    ),
]


@pytest.mark.parametrize(("data", "says"), DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_file_that_is_no_configuration_is_one_line(data: bytes, says: str | None) -> None:
    with pytest.raises(ConfigError) as error:
        yaml_document.read(data, "F")
    assert says is None or str(error.value) == says
    assert str(error.value).isprintable()


def test_words_are_read_as_yaml_1_2_reads_them() -> None:
    text = b"""\
0000:50:00.0: no
yes: 010
a: [0, -7, 1.5, .5, 1e3, 12:30:45, 2026-01-02, true, ~, null, "true", !!str 5, '7', 1_000, .inf]
b:
c: &same {d: x}
e: *same
"""
    assert yaml_document.read(text, "F").value == {
        "0000:50:00.0": "no",
        "yes": "010",
        "a": (0, -7, 1.5, 0.5, "1e3", "12:30:45", "2026-01-02", True, None, None, "true", "5", "7", "1_000", ".inf"),
        "b": None,
        "c": {"d": "x"},
        "e": {"d": "x"},
    }


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=80) | st.text("abc01:-[]{}&*!|>%@#'\"\n\t ,.?<", max_size=60).map(str.encode))
def test_whatever_the_bytes_are_it_is_read_or_refused(data: bytes) -> None:
    try:
        yaml_document.read(data, "F")
    except ConfigError as error:
        said = str(error)
    else:
        said = ""
    assert "\n" not in said


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (str, "no such file"),
        (Path.mkdir, "the file: found a directory, wanted a file in YAML of at most 1048576 bytes"),
        (os.mkfifo, "the file: found a FIFO, wanted a file in YAML of at most 1048576 bytes"),
        (
            lambda path: path.write_bytes(b"a: 1 # " + b"x" * (1 << 20)),
            "the file: found longer than 1048576 bytes, wanted a file in YAML of at most 1048576 bytes",
        ),
    ],
)
def test_what_is_no_file_of_reasonable_size_is_not_read(tmp_path: Path, made: object, says: str) -> None:
    path = tmp_path / "site.yaml"
    assert callable(made)
    made(path)
    with pytest.raises(ConfigError) as error:
        config_file.load(str(path))
    assert str(error.value) == f"{path}: {says}"


def test_dumped_text_is_read_back_and_leaves_no_room_for_doubt() -> None:
    value = {
        "0000:50:00.0/1": {"rate": 400, "speed": 2.5, "on": True},
        "list": ("a", "1e3", "no"),
        "empty": "",
        "x": "y z",
    }
    text = yaml_document.dump(value)
    assert yaml_document.read(text.encode(), "F").value == value
    assert (
        text.startswith('"0000:50:00.0/1":\n  rate: 400\n  speed: 2.5\n  "on": true\n') or '"0000:50:00.0/1":\n' in text
    )


# --- numbers of single checks ---


def stated(**numbers: object) -> Profile:
    return Profile("site", want={"port.mtu": {key.replace("_", "-"): value for key, value in numbers.items()}})


def test_what_is_stated_is_read_by_type_and_the_rest_keeps_its_default() -> None:
    profile = stated(at_least=9000, allowance=1, strict=True, boards=("a",), mode="shared", pools={"2M": 8})
    own = Want(9000, 1.0, True, ("a",), None, "shared", {"2M": 8})
    assert wants.wants(profile, CHECKS) == {"port.mtu": own}
    assert isinstance(own.allowance, float)
    assert wants.wants(stated(limit=None), CHECKS) == {"port.mtu": Want()}


WANTS = [
    ({"port.mut": {}}, "want.port.mut: found 'port.mut', wanted 'port.mtu' (nodeprep list)"),
    (
        {"zzz": {}},
        "want.zzz: found 'zzz', wanted the id of a check port.state, port.mtu, pci.link (nodeprep list)",
    ),
    (
        {"port.state": {"a": 1}},
        "want.port.state: found keys with values, wanted nothing: port.state has no numbers to set",
    ),
    ({"port.mtu": {"atleast": 1}}, "want.port.mtu.atleast: found 'atleast', wanted 'at-least'"),
    ({"port.mtu": {"at_least": 1}}, "want.port.mtu.at_least: found 'at_least', wanted 'at-least'"),
    (
        {"port.mtu": {"q": 1}},
        "want.port.mtu.q: found 'q', wanted one of at-least, allowance, strict, boards, limit, mode, pools",
    ),
    ({"port.mtu": {"at-least": "9000"}}, "want.port.mtu.at-least: found '9000', wanted a whole number, at least 0"),
    ({"port.mtu": {"at-least": -1}}, "want.port.mtu.at-least: found -1, wanted a whole number, at least 0"),
    ({"port.mtu": {"allowance": -0.5}}, "want.port.mtu.allowance: found -0.5, wanted a number, at least 0"),
    ({"port.mtu": {"at-least": True}}, "want.port.mtu.at-least: found true, wanted a whole number, at least 0"),
    ({"port.mtu": {"at-least": 1.0}}, "want.port.mtu.at-least: found 1.0, wanted a whole number, at least 0"),
    ({"port.mtu": {"at-least": None}}, "want.port.mtu.at-least: found nothing, wanted a whole number, at least 0"),
    ({"port.mtu": {"allowance": True}}, "want.port.mtu.allowance: found true, wanted a number, at least 0"),
    ({"port.mtu": {"allowance": float("inf")}}, "want.port.mtu.allowance: found inf, wanted a number, at least 0"),
    ({"port.mtu": {"strict": 1}}, "want.port.mtu.strict: found 1, wanted true or false"),
    ({"port.mtu": {"boards": 5}}, "want.port.mtu.boards: found 5, wanted a list of words"),
    (
        {"port.mtu": {"boards": ("a", 5)}},
        "want.port.mtu.boards[1]: found 5, wanted a word (quote it if it looks like a number)",
    ),
    ({"port.mtu": {"limit": "x"}}, "want.port.mtu.limit: found 'x', wanted a whole number, at least 0"),
    ({"port.mtu": {"mode": "common"}}, "want.port.mtu.mode: found 'common', wanted one of shared, exclusive"),
    ({"port.mtu": {"pools": {"2M": "x"}}}, "want.port.mtu.pools.2M: found 'x', wanted a whole number, at least 0"),
    ({"port.mtu": {"pools": 5}}, "want.port.mtu.pools: found 5, wanted keys with values"),
]


@pytest.mark.parametrize(("want", "says"), WANTS, ids=range(len(WANTS)))
def test_numbers_that_no_check_takes_are_refused(want: Mapping[str, Mapping[str, object]], says: str) -> None:
    with pytest.raises(InvalidValueError) as error:
        wants.wants(Profile("site", want=want), CHECKS)
    assert str(error.value) == says


def test_a_type_that_nobody_can_write_in_yaml_is_a_fault_of_the_check() -> None:
    with pytest.raises(TypeError, match="no operator can write"):
        typed_yaml.of_type(set[str])


@pytest.mark.parametrize("check", [check for check in EVERY.values() if check.want], ids=lambda check: check.id)
def test_the_numbers_of_every_check_can_be_stated(check: Check) -> None:
    assert check.want is not None
    assert wants.wants(Profile("site", want={check.id: {}}), EVERY) == {check.id: check.want()}


# --- profiles, their parents and where they come from ---


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_profiles_are_sound(name: str) -> None:
    profile = profile_files.effective(name)
    assert profile.name == name
    assert profile.extends is None
    assert profile.description
    assert job_profile.parse(job_profile.mapping(profile)) == values.replace(profile, want_by={})
    assert {"pci.expected-nic", "pci.answers", "pci.driver-bound", "klog.nic"} <= set(profile.gates)


@pytest.mark.parametrize("name", BUILT_IN)
def test_gates_of_built_in_profiles_are_checks_that_may_fail(name: str) -> None:
    severities = {check.id: check.severity for check in EVERY.values()}
    assert {gate: severities.get(gate) for gate in profile_files.effective(name).gates} == dict.fromkeys(
        profile_files.effective(name).gates, Severity.GATE
    )


RDMA_RESTS = ("port.present", "port.state", "pci.driver-bound")
RESTS_ON = {
    "base": ("pci.driver-bound",),
    "rdma": RDMA_RESTS,
    "rdma-roce": RDMA_RESTS,
    "rdma-infiniband": RDMA_RESTS,
    "rdma-lingjun": RDMA_RESTS,
    "rdma-erdma-cpu": RDMA_RESTS,
    "rdma-erdma-gpu": RDMA_RESTS,
    "tcp-shared-eni": ("eni.missing-link", "route.rules"),
    "mpijob-exclusive-eni": ("eni.missing-link", "terway.mode"),
    "mpijob-trunk-eni": ("eni.missing-link", "terway.mode"),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_profiles_rest_on_gates_of_theirs(name: str) -> None:
    profile = profile_files.effective(name)
    assert profile.rests_on == profile.needed_gates == RESTS_ON[name]


REFUSED_RESTS = [
    # gate              one line says
    ("port.stat", "rests-on[0]: found 'port.stat', wanted the id of a check such as 'port.state' (nodeprep list)"),
    ("eni.up", "rests-on[0]: found 'eni.up', wanted a gate of this profile"),
    ("time.sync", "rests-on[0]: found 'time.sync', wanted a gate of this profile"),
]


@pytest.mark.parametrize(("gate", "says"), REFUSED_RESTS)
def test_a_profile_rests_on_nothing_but_its_gates(gate: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(f"apiVersion: nodeprep.io/v1\nkind: Profile\nname: site\nextends: rdma-roce\nrests-on: [{gate}]\n")
    with pytest.raises(ConfigError) as refused:
        profile_files.effective(str(file))
    assert str(refused.value) == f"{file}:5: {says}"


def test_a_gate_that_is_inherited_may_be_rested_on(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    head = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: site\n"
    file.write_text(f"{head}extends: rdma-roce\nrests-on: [port.gid]\n")
    assert profile_files.effective(str(file)).needed_gates == ("port.gid",)


def test_profiles_that_are_in_force_together_rest_on_what_each_rests_on() -> None:
    parts = [profile_files.named(name) for name in ("rdma-roce", "tcp-shared-eni")]
    assert profile_selection.merged(parts).rests_on == (*RDMA_RESTS, "eni.missing-link", "route.rules")


def test_the_rdma_profiles_count_ports_of_their_own_network() -> None:
    assert profile_files.effective("rdma-roce").expect.at_least == AtLeast(1, "Ethernet")
    assert profile_files.effective("rdma-infiniband").expect.at_least == AtLeast(1, "InfiniBand")
    assert "port.gid" in profile_files.effective("rdma-roce").gates
    assert not {"port.gid", "port.netdev"} & set(profile_files.effective("rdma-infiniband").gates)


def test_a_file_extends_files_beside_it_and_built_in_ones(tmp_path: Path) -> None:
    head = "apiVersion: nodeprep.io/v1\nkind: Profile\n"
    (tmp_path / "sub").mkdir()
    (tmp_path / "site.yaml").write_text(head + "name: site\nextends: rdma-roce\ngates: [pci.link]\n")
    (tmp_path / "sub/rack.yaml").write_text(
        head + "name: rack\nextends: ../site.yaml\nwant: {port.mtu: {at-least: 9000}}\n"
    )
    rack = profile_files.effective(str(tmp_path / "sub/rack.yaml"), known=CHECKS)
    assert (rack.name, rack.extends, rack.want) == ("rack", None, {"port.mtu": {"at-least": 9000}})
    assert rack.gates == (*profile_files.effective("rdma-roce").gates,)
    assert rack.expect.at_least == AtLeast(1, "Ethernet")
    assert profile_files.effective("site.yaml", str(tmp_path), CHECKS) == profile_files.effective(
        str(tmp_path / "site.yaml"), known=CHECKS
    )


def test_a_file_is_validated_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base").write_text("apiVersion: nodeprep.io/v1\nkind: Profile\nname: mine\n")
    assert profile_files.validate("base").name == "mine"
    with pytest.raises(ConfigError, match="there is no profile 'mine'; wanted a file or one of base"):
        profile_files.effective("mine")


# --- the configuration file ---

CONFIG = """\
apiVersion: nodeprep.io/v1
kind: Config
default: rdma-roce
want:
  port.mtu: {at-least: 9000}
waivers:
  - check: port.*
    device: "0000:5c:00.0*"
    nodes: ["gpu-1*"]
    until: 2026-04-10
    reason: riser on order
exclude: ["/sys/x"]
"""


def config(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return configuration.load_settings(str(path), TODAY, CHECKS)


def test_a_configuration_file_is_read(tmp_path: Path) -> None:
    settings = config(tmp_path, CONFIG)
    assert settings == Settings(
        file=str(tmp_path / "config.yaml"),
        default="rdma-roce",
        want={"port.mtu": {"at-least": 9000}},
        waivers=(Waiver("port.*", "2026-04-10", "riser on order", "0000:5c:00.0*", ("gpu-1*",)),),
        exclude=("/sys/x",),
        default_profile=profile_files.named("rdma-roce"),
    )
    default = profile_selection.by_configuration(settings, None)
    assert default is not None
    profile = default.profile
    assert (profile.name, profile.want, profile.exclude) == ("rdma-roce", {"port.mtu": {"at-least": 9000}}, ("/sys/x",))


def test_its_numbers_win_over_those_of_a_profile() -> None:
    profile = Profile("site", extends="x", want={"port.mtu": {"at-least": 1, "limit": 2}}, exclude=("/a",))
    over = Settings(want={"port.mtu": {"at-least": 9}}, exclude=("/b",)).over(profile)
    assert over == Profile(
        "site",
        extends="x",
        want={"port.mtu": {"at-least": 9, "limit": 2}},
        exclude=("/a", "/b"),
        want_by={"port.mtu": {"at-least": "the configuration"}},
    )
    assert Settings().over(profile) is profile


def test_without_a_file_nothing_is_said() -> None:
    assert Settings().named() is None


def test_the_default_may_be_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("apiVersion: nodeprep.io/v1\nkind: Profile\nname: site\n")
    default = profile_selection.by_configuration(config(tmp_path, CONFIG.replace("rdma-roce", "site.yaml")), None)
    assert default is not None
    assert default.profile.name == "site"


CONFIGS = [
    # changed                                             says
    (("kind: Config", "kind: Profile"), ":2: kind: found 'Profile', wanted Config"),
    (("default: rdma-roce", "default: rdma-rose"), ":3: default: found 'rdma-rose', wanted auto, a file or one of "),
    (
        ("default: rdma-roce", "assing: []"),
        ":3: assing: found 'assing', wanted 'assign'",
    ),
    (("port.mtu", "port.mtuu"), ":5: want.port.mtuu: found 'port.mtuu', wanted 'port.mtu' (nodeprep list)"),
    (("9000", "no"), ":5: want.port.mtu.at-least: found 'no', wanted a whole number, at least 0"),
    (("port.*", "prot.*"), ":7: waivers[0].check: found 'prot.*', wanted "),
    (("  - check: port.*\n   ", "  -"), ":7: waivers[0].check: found nothing, wanted a check's id"),
    (("riser on order", ""), ":11: waivers[0].reason: found nothing, wanted why, for whoever meets it"),
    (
        ("2026-04-10", "2026-04-11"),
        ":10: waivers[0].until: found '2026-04-11', wanted a date no later than 2026-04-10, 90",
    ),
    (("2026-04-10", "2026-4-1"), ":10: waivers[0].until: found '2026-4-1', wanted a date such as 2026-04-10"),
    (("2026-04-10", "20260410"), ":10: waivers[0].until: found 20260410, wanted a word"),
    (("    until: 2026-04-10\n", ""), ":7: waivers[0].until: found nothing, wanted a date"),
    (
        ("    reason", "    because"),
        ":11: waivers[0].because: found 'because', wanted one of check, device, nodes, until",
    ),
    (('["gpu-1*"]', "5"), ":9: waivers[0].nodes: found 5, wanted a list of words"),
    (('["/sys/x"]', "5"), ":12: exclude: found 5, wanted a list of words"),
]


@pytest.mark.parametrize(("change", "says"), CONFIGS, ids=range(len(CONFIGS)))
def test_a_mistake_is_named_by_file_line_and_key(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        config(tmp_path, CONFIG.replace(*change, 1))
    assert str(error.value).startswith(f"{tmp_path}/config.yaml{says}")


def test_a_waiver_that_has_expired_is_no_mistake(tmp_path: Path) -> None:
    assert config(tmp_path, CONFIG.replace("2026-04-10", "2025-12-31")).waivers[0].days_left(TODAY) == -10


# --- waivers ---


def finding(status: Status = Status.FAIL, check: str = "port.state", place: str = "0000:5c:00.0") -> Finding:
    return Finding(check, Severity.GATE, Verdict(Subject(place, 1, "mlx5_3/1"), status, "NoSignal", "down"))


WAIVERS = [
    # waiver                                                            days left, None if it does not cover
    (Waiver("port.state", TODAY, "so"), 0),
    (Waiver("port.state", "2026-01-11", "so"), 1),
    (Waiver("port.*", "2026-01-20", "so"), 10),
    (Waiver("port.state", "2026-01-09", "so"), None),
    (Waiver("port.rate", "2026-01-20", "so"), None),
    (Waiver("port.state", "2026-01-20", "so", device="0000:5c:00.0"), 10),
    (Waiver("port.state", "2026-01-20", "so", device="0000:5c:00.0/1"), 10),
    (Waiver("port.state", "2026-01-20", "so", device="mlx5_3/1"), 10),
    (Waiver("port.state", "2026-01-20", "so", device="0000:5d:*"), None),
    (Waiver("port.state", "2026-01-20", "so", nodes=("gpu-2*", "gpu-1*")), 10),
    (Waiver("port.state", "2026-01-20", "so", nodes=("gpu-2*",)), None),
]


@pytest.mark.parametrize(("waiver", "left"), WAIVERS, ids=range(len(WAIVERS)))
def test_a_waiver_excuses_what_it_covers(waiver: Waiver, left: int | None) -> None:
    (found,), _ = waiver_rules.apply_waivers((finding(),), (waiver,), "gpu-17", TODAY)
    assert found.waived == (None if left is None else Waived("so", waiver.until, left))
    assert found.counts is (left is None)


@pytest.mark.parametrize("status", list(Status))
def test_only_what_is_not_fine_is_excused(status: Status) -> None:
    (found,), _ = waiver_rules.apply_waivers((finding(status),), (Waiver("*", "2026-01-20", "so"),), "gpu-17", TODAY)
    assert bool(found.waived) is (status in (Status.FAIL, Status.WARN, Status.UNKNOWN))


def test_an_expired_waiver_is_a_note_where_it_would_have_counted() -> None:
    old, other = Waiver("port.state", "2026-01-01", "cable"), Waiver("pci.link", "2026-01-01", "riser")
    found, notes = waiver_rules.apply_waivers((finding(), finding(), finding(Status.OK)), (old, other), "gpu-17", TODAY)
    assert notes == ("the waiver of port.state (cable) expired on 2026-01-01: 2 findings count again",)
    assert all(one.counts for one in found)
    _, notes = waiver_rules.apply_waivers((finding(),), (old, Waiver("port.state", TODAY, "again")), "gpu-17", TODAY)
    assert notes == ()


def test_every_built_in_profile_is_a_file_and_every_file_is_named() -> None:
    directory = Path(profile_files.__file__).parents[1] / "profiles"
    assert {path.stem for path in directory.glob("*.yaml")} == set(BUILT_IN)
