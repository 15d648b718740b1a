"""Which profiles a node has by its labels, and what a rule must not say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from nodeprep import profile_selection
from nodeprep.agent import profile_state
from nodeprep.agent_state import AgentState
from nodeprep.config import profile_files
from nodeprep.config.configuration import Settings
from nodeprep.config.document import ConfigError
from nodeprep.job_profile import AtLeast, Expectation
from nodeprep.profile_selection import ProfileSelection
from tests.config_files import CAPTURED, PROFILE, settings

RULES = """\
default: tcp-shared-eni
assign:
  - match: {type: "ecs.ebm*", zone: a}
    use: [rdma-erdma-gpu, base]
  - match: {type: "*"}
    use: [rdma-roce]
"""


def assigned(given: Settings, labels: Mapping[str, str] | None = None) -> ProfileSelection:
    selection = profile_selection.by_configuration(given, labels)
    assert selection is not None
    return selection


def told(selection: ProfileSelection | None) -> str:
    if selection is None:
        return "auto"
    names = " ".join(one.profile.name for one in selection.parts)
    return " ".join(selection.undecided) or f"{names} by {selection.chosen_by}"


CHOICES: list[tuple[str, Mapping[str, str] | None, str]] = [
    # keys                              labels                              says
    ("", {}, "auto"),
    ("", None, "auto"),
    ("default: rdma-roce\n", None, "rdma-roce by the default of FILE"),
    (RULES, {"type": "ecs.ebmgn8", "zone": "a"}, "rdma-erdma-gpu base by assign[0] of FILE"),
    (RULES, {"type": "ecs.ebmgn8", "zone": "b"}, "rdma-roce by assign[1] of FILE"),
    (RULES, {"type": "ecs.ebmgn8"}, "rdma-roce by assign[1] of FILE"),
    (RULES, {"type": ""}, "rdma-roce by assign[1] of FILE"),
    (RULES, {"zone": "a"}, "tcp-shared-eni by the default of FILE"),
    (RULES, {"type": "ECS.EBM"}, "rdma-roce by assign[1] of FILE"),
    (RULES, None, "assign[0] of FILE goes by labels of the node, and they are not known yet"),
    ("assign: [{use: [base]}]\n", None, "base by assign[0] of FILE"),
    ("assign: [{use: [base]}, {match: {a: b}, use: [rdma]}]\n", {"a": "b"}, "base by assign[0] of FILE"),
    ("assign: [{match: {a: b}, use: [rdma]}]\n", {}, "auto"),
    ("assign: [{match: {a: b}, use: [rdma]}, {use: [base]}]\n", {}, "base by assign[1] of FILE"),
]


@pytest.mark.parametrize(("keys", "labels", "says"), CHOICES, ids=range(len(CHOICES)))
def test_the_first_rule_that_matches_holds(
    tmp_path: Path, keys: str, labels: Mapping[str, str] | None, says: str
) -> None:
    selection = profile_selection.by_configuration(settings(tmp_path, keys), labels)
    assert told(selection) == says.replace("FILE", f"{tmp_path}/config.yaml")
    if selection is not None:
        assert bool(selection.parts) is (" by " in says and not selection.undecided)


def test_without_a_file_the_hardware_chooses() -> None:
    assert profile_selection.by_configuration(Settings(), None) is None


REFUSED = [
    # rules                                        says
    ("5", ":3: assign: found 5, wanted a list of rules"),
    ("{use: [base]}", ":3: assign: found keys with values, wanted a list of rules"),
    ("[base]", ":3: assign[0]: found 'base', wanted keys with values"),
    ("[{profiles: [base]}]", ":3: assign[0].profiles: found 'profiles', wanted one of match, use, expect"),
    ("[{mach: {a: b}, use: [base]}]", ":3: assign[0].mach: found 'mach', wanted 'match'"),
    ("[{}]", ":3: assign[0].use: found nothing, wanted one profile or more"),
    ("[{use: []}]", ":3: assign[0].use: found a list, wanted one profile or more"),
    ("[{use: 5}]", ":3: assign[0].use: found 5, wanted a list of words"),
    ("[{use: [bse]}]", ":3: assign[0].use[0]: found 'bse', wanted a file or one of base, rdma"),
    ("[{use: [base, auto]}]", ":3: assign[0].use[1]: found 'auto', wanted a file or one of base, rdma"),
    ("[{use: [base, rdma, base]}]", ":3: assign[0].use[2]: found 'base', wanted each profile once (its name is base)"),
    ("[{use: [base, alias.yaml]}]", ":3: assign[0].use[1]: found 'alias.yaml', wanted each profile once (its name is "),
    (
        "\n- {use: [base]}\n- match: {a: b}\n  use: [none.yaml]",
        ":6: assign[1].use[0]: found 'none.yaml', wanted a file",
    ),
    (
        "[{match: , use: [base]}]",
        ":3: assign[0].match: found nothing, wanted a label with a glob, or no match at all for every node",
    ),
    (
        "[{match: {}, use: [base]}]",
        ":3: assign[0].match: found keys with values, wanted a label with a glob, or no match at all for every node",
    ),
    ("[{match: {a/b/c: x}, use: [base]}]", ":3: assign[0].match.a/b/c: found 'a/b/c', wanted a name as Kubernetes "),
    ("[{match: {a: 5}, use: [base]}]", ":3: assign[0].match.a: found 5, wanted a word (quote it if it looks like a "),
    ("[{match: {a: true}, use: [base]}]", ":3: assign[0].match.a: found true, wanted a word (quote it if it looks"),
    ("[{use: [base], expect: none.yaml}]", ":3: assign[0].expect: found 'none.yaml', wanted a file or one of base"),
    ("[{use: [base], expect: [a.yaml]}]", ":3: assign[0].expect: found a list, wanted a word"),
    (
        "[{use: [base], expect: rdma-roce}]",
        ":3: assign[0].expect: found 'rdma-roce', wanted a file that states devices or ports (nodeprep profile ",
    ),
    ("[{use: [base], expect: alias.yaml}]", ":3: assign[0].expect: found 'alias.yaml', wanted a file that states "),
]


@pytest.mark.parametrize(("rules", "says"), REFUSED, ids=range(len(REFUSED)))
def test_a_rule_that_cannot_be_meant_is_named(tmp_path: Path, rules: str, says: str) -> None:
    (tmp_path / "alias.yaml").write_text(f"{PROFILE}name: base\nextends: rdma-roce\n")
    with pytest.raises(ConfigError) as error:
        settings(tmp_path, f"assign: {rules}\n")
    assert str(error.value).startswith(f"{tmp_path}/config.yaml{says}")


@pytest.mark.parametrize("key", ["use: [base]\n    expect", "use: [base, site.yaml]\n    match: {a: b}\n    expect"])
def test_every_file_is_proven_whichever_rule_will_match(tmp_path: Path, key: str) -> None:
    (tmp_path / "site.yaml").write_text(f"{PROFILE}name: site\ngates: [port.sate]\n")
    keys = f"assign:\n  - use: [base]\n  - {key}: site.yaml\n"
    with pytest.raises(ConfigError, match=r"site.yaml:4: gates\[0\]: found 'port.sate', wanted the id of a check"):
        settings(tmp_path, keys)


def test_a_captured_inventory_is_laid_over_what_each_profile_expects(tmp_path: Path) -> None:
    (tmp_path / "gpu-1.yaml").write_text(CAPTURED + "want: {port.mtu: {at-least: 9000}}\ngates: [pci.link]\n")
    choice = assigned(settings(tmp_path, "assign: [{use: [rdma-roce, base], expect: gpu-1.yaml}]\n"))
    roce, base = (one.profile for one in choice.parts)
    for profile in (roce, base):
        assert set(profile.expect.devices) == {"0000:5c:00.0", "0000:5d:00.0"}
        assert profile.expect.ports["0000:5c:00.0/1"].rate == 400
        assert profile.expect.at_least is None
    built_in = profile_files.effective("rdma-roce")
    assert (roce.name, roce.gates, roce.want) == ("rdma-roce", built_in.gates, built_in.want)
    assert (base.name, base.gates) == ("base", profile_files.effective("base").gates)


def test_who_wants_a_device_is_said_with_file_and_entry(tmp_path: Path) -> None:
    """Someone at 3 a.m. looks for the line that has to change."""
    (tmp_path / "gpu-1.yaml").write_text(CAPTURED)
    rules = "[{match: {a: b}, use: [base]}, {use: [rdma-roce], expect: gpu-1.yaml}]"
    keys = f"want: {{port.mtu: {{at-least: 9000}}}}\nassign: {rules}\n"
    (one,) = assigned(settings(tmp_path, keys), {"a": "c"}).parts
    assert one.profile.inventory_by == "profile rdma-roce (gpu-1.yaml, assign[1].expect)"
    kept = profile_state.with_selection(AgentState(), assigned(settings(tmp_path, keys), {"a": "c"}))
    (remembered,) = profile_selection.remembered_profiles(kept)
    assert remembered.profile.inventory_by == one.profile.inventory_by
    by_agent = profile_selection.by_agent(kept)
    assert by_agent is not None
    assert by_agent.profile.inventory_by == one.profile.inventory_by
    assert profile_files.effective("rdma-roce").inventory_by == "profile rdma-roce"


def test_what_the_parents_of_an_inventory_expect_stays_theirs(tmp_path: Path) -> None:
    text = f'{PROFILE}name: cpu-1\nextends: rdma-roce\nexpect: {{devices: {{"0000:5c:00.0": {{}}}}}}\n'
    (tmp_path / "cpu-1.yaml").write_text(text)
    (one,) = assigned(settings(tmp_path, "assign: [{use: [base], expect: cpu-1.yaml}]\n")).parts
    assert profile_files.effective("rdma-roce").expect.at_least is not None
    assert (set(one.profile.expect.devices), one.profile.expect.at_least) == ({"0000:5c:00.0"}, None)


def test_an_inventory_may_be_a_count_and_may_be_inherited(tmp_path: Path) -> None:
    (tmp_path / "rack.yaml").write_text(f"{PROFILE}name: rack\nexpect: {{ports: {{at-least: 8, rate: 400}}}}\n")
    (tmp_path / "row.yaml").write_text(f"{PROFILE}name: row\nextends: rack.yaml\n")
    choice = assigned(settings(tmp_path, "assign: [{use: [rdma], expect: row.yaml}]\n"))
    assert choice.parts[0].profile.expect.at_least == AtLeast(8, rate=400.0)


def test_a_word_stands_for_a_list_of_it_and_a_mistyped_name_has_a_nearest(tmp_path: Path) -> None:
    one, other = (settings(tmp_path, f"assign: [{{use: {word}}}]\n") for word in ("base", "[base]"))
    assert one.agent.assign == other.agent.assign
    with pytest.raises(ConfigError, match=r"wanted a file or one of .* \(nearest: rdma-roce.*\)"):
        settings(tmp_path, "assign: [{use: rdma-rce}]\n")


@pytest.mark.parametrize(
    ("patterns", "gating"),
    [
        (("rdma-*",), True),
        (("rdma",), True),
        (("gpu-1",), True),
        (("mpijob-*",), False),
        ((), False),
        (("RDMA*",), False),
    ],
)
def test_a_captured_profile_goes_by_the_names_of_its_lineage(
    tmp_path: Path, patterns: tuple[str, ...], gating: bool
) -> None:
    (tmp_path / "gpu-1.yaml").write_text(CAPTURED)
    (one,) = assigned(settings(tmp_path, "assign: [{use: [gpu-1.yaml]}]\n")).parts
    assert one.names == ("gpu-1", "rdma-roce", "rdma", "base")
    assert one.is_one_of(patterns) is gating


def test_the_default_keeps_the_names_of_its_lineage(tmp_path: Path) -> None:
    (tmp_path / "gpu-1.yaml").write_text(CAPTURED)
    (one,) = assigned(settings(tmp_path, "default: gpu-1.yaml\n")).parts
    assert one.names == ("gpu-1", "rdma-roce", "rdma", "base")


@pytest.mark.parametrize("keys", ["default: rdma-roce\n", "assign: [{use: [rdma-roce]}]\n"])
def test_the_files_numbers_and_exclusions_win(tmp_path: Path, keys: str) -> None:
    over = 'want: {port.mtu: {at-least: 9000}}\nexclude: ["/sys/x"]\n'
    (one,) = assigned(settings(tmp_path, keys + over)).parts
    assert one.profile.want["port.mtu"]["at-least"] == 9000
    assert one.profile.exclude == ("/sys/x",)


def test_what_was_read_holds_whatever_becomes_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "gpu-1.yaml").write_text(CAPTURED)
    for keys in ("default: gpu-1.yaml\n", "assign: [{use: [gpu-1.yaml]}]\n"):
        read = settings(tmp_path, keys)
        (tmp_path / "gpu-1.yaml").write_text("nonsense")
        assert assigned(read).parts[0].profile.name == "gpu-1"
        (tmp_path / "gpu-1.yaml").write_text(CAPTURED)


def test_what_built_in_profiles_expect_is_not_stated_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "gpu-1.yaml").write_text(CAPTURED)
    assert profile_files.named("rdma-roce").stated == Expectation()
    assert set(profile_files.named("gpu-1.yaml", str(tmp_path)).stated.ports) == {"0000:5c:00.0/1", "0000:5d:00.0/1"}
