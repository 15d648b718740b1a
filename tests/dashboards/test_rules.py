"""The shipped rules by Prometheus' own tool: each alert fires, and is silent, under the labels of our PodMonitor."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import prometheus_rule, queries, scrape_config
from nodeprep import __version__
from nodeprep.decide.repair_refusal import SuppressionReason
from tests.dashboards import servers, targets
from tests.dashboards.stories import PROFILE, ROUND, Firing, Node, Story

PLAIN = targets.ROOT / "dashboards/plain/rules.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(PLAIN.read_text())["groups"] for rule in group["rules"]
}
RDMA = {"profile": "rdma-roce"}
NO_SIGNAL = {**RDMA, "check": "port.state", "reason": "NoSignal"}
DESIRED = 'kube_daemonset_status_desired_number_scheduled{namespace="nodeprep", daemonset="nodeprep", instance="ksm"}'
STORIES: list[Callable[[], Story]] = []


def story(made: Callable[[], Story]) -> Callable[[], Story]:
    STORIES.append(made)
    return made


@story
def all_is_well() -> Story:
    told = Story("all is well, also on a node without a profile", 180)
    told.node("a")
    bare = told.node("b", pool="")
    for name in [name for name in bare.series if name.startswith("nodeprep_ready")]:
        del bare.series[name]
    told.others[DESIRED] = [2.0] * told.scrapes
    told.silent()
    return told


@story
def all_is_wrong_for_a_moment() -> Story:
    told = Story(
        "all is wrong for a scrape, as at a restart or a reload, and unproven for five minutes after a boot", 90
    )
    one = told.node("a")
    for name in one.series:
        if name.endswith(("_ok", '"links"}')):
            one.says(name, 0, 5, 5.5)
    one.says('nodeprep_state{state="AwaitingHuman"}', 1, 5, 5.5)
    one.says("nodeprep_upgrade_deferred_checks", 1, 5, 5.5)
    one.says('nodeprep_check_status{check="port.state", status="unknown"}', 1, 5, 10)
    for reason in SuppressionReason:
        one.says(suppressed(reason), 1, 5, 5.5)
    one.dead(20, 22)
    one.closed("Bootstrap", 22, 27, check="")
    told.silent()
    return told


@story
def the_agent_is_gone() -> Story:
    told = Story("the agent is gone, and comes back")
    told.node("a")
    gone = told.node("b")
    gone.dead(10, 30)
    told.silent(0, 14)
    told.fires([Firing("NodeprepGone", gone)], 15, 29)
    told.silent(30)
    return told


@story
def the_agent_dies_again_and_again() -> Story:
    told = Story("the agent dies each time soon after it began: one answer in four minutes, for forty minutes", 100)
    told.node("a")
    loops = told.node("b")
    for minute in range(10, 50, 4):
        loops.dead(minute, minute + 3.5)
    told.silent(0, 20)
    told.fires([Firing("NodeprepCrashLoops", loops)], 45, 60)
    told.silent(95)
    return told


@story
def the_node_is_removed() -> Story:
    told = Story("the node goes down and is removed from the cluster: no target, no alert")
    told.node("a")
    removed = told.node("b")
    removed.dead(10, 13)
    removed.removed(13)
    told.silent()
    return told


@story
def nothing_is_scraped() -> Story:
    told = Story("nothing is scraped")
    told.others['up{job="other", instance="a"}'] = [1.0] * told.scrapes
    told.silent(0, 4)
    told.fires([Firing("NodeprepNowhere", labels={"job": "nodeprep"})], 5)
    return told


@story
def a_pod_was_never_made() -> Story:
    told = Story("a node has no pod of the DaemonSet, and so is no target")
    told.node("a")
    told.others[DESIRED] = [1.0 if index < 21 else 2.0 for index in range(told.scrapes)]
    told.silent(0, 24)
    told.fires([Firing("NodeprepMissing", value="2")], 26)
    return told


@story
def a_whole_cluster_is_no_target() -> Story:
    told = Story("of one of two clusters Prometheus knows no agent at all")
    told.node("a")
    told.others[DESIRED.replace("{", '{cluster="b", ')] = [5.0] * told.scrapes
    told.silent(0, 14)
    told.fires([Firing("NodeprepMissing", value="5", labels={"cluster": "b"})], 16)
    return told


@story
def loops_hang() -> Story:
    told = Story("one loop hangs, one never came to its first round, and one turns")
    hangs, begins, _ = told.node("a"), told.node("b"), told.node("c")
    hangs.says(ROUND, 600, 10)
    for name in begins.series:
        begins.says(name, None)
    begins.says("up", 1)
    told.silent(0, 1)
    told.fires([Firing("NodeprepHangs", begins)], 2, 14)
    told.fires([Firing("NodeprepHangs", begins), Firing("NodeprepHangs", hangs)], 15)
    return told


@story
def the_gate_is_closed() -> Story:
    told = Story("the gate is closed for forty minutes, with a restart of the agent in the middle", 90)
    told.node("a")
    one = told.node("b")
    one.closed("NoSignal", 10, 50)
    one.dead(30, 31)
    told.silent(0, 19)
    told.fires([Firing("NodeprepGateClosed", one, labels=NO_SIGNAL)], 20, 64)
    told.silent(66)
    return told


@story
def nodes_join() -> Story:
    told = Story("nodes join: one proves itself for eight minutes, one does not come to an end")
    told.node("a")
    quick, slow = told.node("b"), told.node("c")
    for one in (quick, slow):
        one.closed("Bootstrap", 20, check="")
        for name in one.series:
            one.says(name, None, 0, 20)
    quick.says(f"nodeprep_ready{{{PROFILE}}}", 1, 28)
    quick.says(f'nodeprep_gate_reason{{{PROFILE}, check="", reason="Bootstrap"}}', None, 28)
    told.silent(0, 29)
    told.fires([Firing("NodeprepGateClosed", slow, labels={**RDMA, "reason": "Bootstrap"})], 30)
    return told


@story
def the_reason_changes() -> Story:
    told = Story("the gate is closed for one reason, then for a second one", 90)
    one = told.node("a")
    one.closed("NoSignal", 10, 40)
    one.closed("Missing", 40, check="port.present")
    first = Firing("NodeprepGateClosed", one, labels=NO_SIGNAL)
    second = Firing("NodeprepGateClosed", one, labels={**RDMA, "check": "port.present", "reason": "Missing"})
    told.silent(0, 19)
    told.fires([first], 20, 43)
    told.fires([first, second], 47, 58)
    told.fires([second], 62)
    return told


@story
def the_reason_alternates() -> Story:
    told = Story("the gate is closed, and the reason is another one each minute")
    one = told.node("a")
    for minute in range(10, 60, 3):
        one.closed("NoSignal", minute, minute + 2)
        one.closed("ToBeConfirmed", minute + 2, min(minute + 3, 60))
    told.silent(0, 19)
    told.fires([Firing("NodeprepGateClosed", one, labels=NO_SIGNAL)], 20, 59)
    return told


@story
def a_closed_node_dies() -> Story:
    told = Story("a node that is closed dies: there is no minute without an alert")
    one = told.node("a")
    one.closed("NoSignal", 10)
    one.dead(30)
    closed, gone = Firing("NodeprepGateClosed", one, labels=NO_SIGNAL), Firing("NodeprepGone", one)
    told.fires([closed], 20, 34)
    told.fires([closed, gone], 35, 50)
    told.fires([gone], 56)
    return told


@story
def twenty_flaps() -> Story:
    told = Story(
        "a gate flaps twenty times in an hour, every three minutes: one alert that does not end meanwhile", 210
    )
    told.node("a")
    one = told.node("b")
    for flap in range(20):
        one.closed("NoSignal", 10 + 3 * flap, 11 + 3 * flap)
    turns = [one.changes(f"nodeprep_ready{{{PROFILE}}}", minute, 60) for minute in range(told.minutes + 1)]
    begins = next(minute for minute, count in enumerate(turns) if count > 8)
    last = max(minute for minute, count in enumerate(turns) if count > 8)
    told.silent(0, begins - 1)
    value = 0
    for minute in range(begins, last + 60):
        value = turns[minute] if turns[minute] > 8 else value
        told.fires([Firing("NodeprepGateFlaps", one, str(value), RDMA)], minute, minute)
    told.silent(last + 62)
    assert (begins, last) == (22, 115)
    return told


@story
def a_few_flaps() -> Story:
    told = Story("a gate closes four times in an hour, which is no flapping", 120)
    one = told.node("a")
    for flap in range(4):
        one.closed("NoSignal", 10 + 12 * flap, 15 + 12 * flap)
    told.silent()
    return told


DRILL = {"drill": "link-down", "device": "eth1"}
RUNS = 'nodeprep_drill{drill="link-down", device="eth1"}'


@story
def a_long_drill() -> Story:
    told = Story("a drill closes a gate for a quarter of an hour, and it takes a minute to open: nobody is called")
    one = told.node("a")
    one.says(RUNS, 1, 10, 25)
    one.closed("AdministrativelyDown", 10, 25, drill="link-down")
    one.closed("Validating", 25, 26, check="")
    told.silent(0, 9)
    told.fires([Firing("NodeprepDrillRuns", one, labels=DRILL)], 10, 24)
    told.silent(26)
    return told


@story
def a_fault_during_a_drill() -> Story:
    told = Story("another part fails during a drill: its gate stays closed for that, and somebody is called", 90)
    one = told.node("a")
    one.says(RUNS, 1, 10, 15)
    one.closed("AdministrativelyDown", 10, 14, drill="link-down")
    one.closed("NoSignal", 14)
    told.silent(0, 9)
    told.fires([Firing("NodeprepDrillRuns", one, labels=DRILL)], 10, 14)
    told.silent(16, 19)
    told.fires([Firing("NodeprepGateClosed", one, labels=NO_SIGNAL)], 22)
    return told


REPEATS = {"device": "mlx5_5/1", "check": "port.state"}


@story
def a_device_that_fails_again_and_again() -> Story:
    told = Story(
        "a rail was convicted in three hours of two weeks: somebody may plan its exchange, nobody is called", 90
    )
    one = told.node("a")
    one.says('nodeprep_repeat_offender{device="mlx5_5/1", check="port.state"}', 3, 20, 60)
    told.silent(0, 29)
    told.fires([Firing("NodeprepRepeatOffender", one, "3", REPEATS)], 31, 59)
    told.silent(62)
    return told


@story
def many_drills() -> Story:
    told = Story("six drills in an hour, each for a minute: no gate flaps", 90)
    one = told.node("a")
    for drill in range(6):
        begins = 10 + 10 * drill
        one.says(RUNS, 1, begins, begins + 1)
        one.closed("AdministrativelyDown", begins, begins + 1, drill="link-down")
        told.fires([Firing("NodeprepDrillRuns", one, labels=DRILL)], begins, begins)
        told.silent(begins + 2, begins + 9)
    return told


@story
def the_fleet_is_degraded() -> Story:
    told = Story("a fifth of a pool is gone for hours: it stays degraded, until these nodes are removed", 240)
    nodes = told.fleet(20)
    told.fleet(6, pool="np-2")
    for one in nodes[:6]:
        one.dead(10, 200)
        one.removed(200)
    gone = [Firing("NodeprepGone", one) for one in nodes[:6]]
    degraded = Firing("NodeprepFleetDegraded", value="30%", labels={"job": "nodeprep", "pool": "np-1"})
    told.silent(0, 14)
    told.fires(gone, 15, 24)
    told.fires([*gone, degraded], 25, 199)
    told.silent(201)
    return told


@story
def four_nodes_are_no_fleet() -> Story:
    told = Story("four nodes of a pool of ten boot at once and take long: each is told, not the fleet", 40)
    nodes = told.fleet(10)
    for one in nodes[:4]:
        one.closed("Bootstrap", 5, check="")
    labels = {**RDMA, "reason": "Bootstrap"}
    told.silent(0, 14)
    told.fires([Firing("NodeprepGateClosed", one, labels=labels) for one in nodes[:4]], 15)
    return told


@story
def a_rollout() -> Story:
    told = Story(
        "a rollout: one agent after another is away for a minute, its counters start again, none is alerted", 90
    )
    for index, one in enumerate(told.fleet(10)):
        one.says("nodeprep_rounds_total", 5000)
        one.says("nodeprep_rounds_total", 1, 10 + 5 * index)
        one.says('nodeprep_port_errors_total{device="mlx5_0", port="1", kind="retry"}', 300)
        one.says('nodeprep_port_errors_total{device="mlx5_0", port="1", kind="retry"}', 0, 10 + 5 * index)
        one.dead(10 + 5 * index, 11 + 5 * index)
        one.says('nodeprep_build_info{version="0.1.0"}', 1, 0, 10 + 5 * index)
        one.says('nodeprep_build_info{version="0.2.0"}', 1, 11 + 5 * index)
        # What a new version finds on each node while it settles.
        one.says("nodeprep_upgrade_deferred_checks", 1, 11 + 5 * index, 11.5 + 5 * index)
    told.others[DESIRED] = [10.0] * told.scrapes
    told.silent()
    return told


@story
def a_rollout_waits() -> Story:
    told = Story("a rollout waits: the new version finds a fault that the former did not")
    told.node("a")
    one = told.node("b")
    one.dead(10, 11)
    one.says("nodeprep_upgrade_deferred_checks", 2, 11)
    told.silent(0, 11)
    told.fires([Firing("NodeprepRolloutWaits", one, value="2")], 12)
    return told


def runs(outcome: str, remedy: str = "link_up") -> str:
    return f'nodeprep_repair_runs_total{{remedy="{remedy}", outcome="{outcome}"}}'


def suppressed(reason: str) -> str:
    return f'nodeprep_repair_suppressed_now{{check="port.state", remedy="link_up", reason="{reason}"}}'


def held_back(reason: str) -> dict[str, str]:
    return {"check": "port.state", "remedy": "link_up", "reason": reason}


def asks_again(one: Node, reason: str, since: int, until: int) -> None:
    """It is held back for half a minute, and on its way for the next half."""
    for minute in range(since, until):
        one.says(suppressed(reason), 1, minute, minute + 0.5)
        one.says(suppressed(reason), None, minute + 0.5, minute + 1)


@story
def a_remedy_fails() -> Story:
    told = Story("a remedy helps neither of two nodes and one of a third: it is told with the second", 50)
    first, second, third = told.node("a"), told.node("b"), told.node("c")
    first.says(runs("unreleased"), 1, 10)
    third.says(runs("released"), 1, 15)
    second.says(runs("unreleased"), 1, 20)
    for one in (first, second):
        one.says(runs("released", "mtu"), 7)
    told.silent(0, 24)
    told.fires([Firing("NodeprepRepairFails", value="2", labels={"job": "nodeprep", "remedy": "link_up"})], 25)
    return told


@story
def a_remedy_fails_and_the_agents_start_again() -> Story:
    told = Story("their counters begin anew after a restart, and what was counted before still counts", 120)
    for one in (told.node("a"), told.node("b")):
        one.says(runs("unreleased"), 2, 10, 30)
        one.dead(30, 31)
    told.fires([Firing("NodeprepRepairFails", value="2", labels={"job": "nodeprep", "remedy": "link_up"})], 15)
    return told


@story
def a_remedy_helps_more_often() -> Story:
    told = Story(
        "a remedy that helps on three nodes and not on two is no bad remedy, nor one that fails on one node", 90
    )
    nodes = told.fleet(5)
    for one in nodes[:3]:
        one.says(runs("released"), 1, 10)
    for one in nodes[3:]:
        one.says(runs("unreleased"), 3, 20)
    nodes[0].says(runs("unreleased", "mtu"), 3, 20)
    for one in nodes:
        one.says(runs("changed"), 2, 20)
        one.says(runs("refused", "memlock"), 9, 20)
        one.says(runs("cut-off", "memlock"), 1, 20)
    told.silent()
    return told


@story
def a_remedy_is_held() -> Story:
    told = Story(
        "a remedy is held: the nodes that ask for it each half minute are one alert until a human resumes it", 60
    )
    told.node("a")
    for name in ("b", "c"):
        asks_again(told.node(name), "held", 10, 40)
    told.silent(0, 14)
    told.fires([Firing("NodeprepRepairHeld", value="2", labels={"job": "nodeprep", "remedy": "link_up"})], 15, 41)
    told.silent(44)
    return told


@story
def nobody_runs_a_remedy() -> Story:
    told = Story("one node has no remediator for two hours, another one waits for a slot for half of one", 180)
    one, other = told.node("a"), told.node("b")
    one.says(suppressed("remediator"), 1, 10, 130)
    one.says(suppressed("remediator"), None, 130)
    asks_again(other, "slot", 10, 40)
    told.silent(0, 69)
    told.fires([Firing("NodeprepRepairCannotRun", one, labels=held_back("remediator"))], 70, 138)
    told.silent(141)
    return told


@story
def nothing_can_run() -> Story:
    told = Story("each of the other reasons why repair is on and does nothing, asked again each half minute", 100)
    firing = []
    for reason in ("memory", "taint", "slot", "disputed"):
        one = told.node(reason)
        asks_again(one, reason, 10, 100)
        firing.append(Firing("NodeprepRepairCannotRun", one, labels=held_back(reason)))
    told.silent(0, 69)
    told.fires(firing, 70)
    return told


@story
def somebody_wants_it_so() -> Story:
    told = Story("what somebody wants so, and what ends by itself, is no alert for hours; an approval is a ticket", 240)
    one = told.node("a")
    loud = {"budget", "held", "remediator", "memory", "taint", "slot", "disputed", "approval"}
    for reason in set(SuppressionReason) - loud:
        one.says(suppressed(reason), 1, 10)
    waits = told.node("b")
    waits.says(suppressed("approval"), 1, 10)
    told.silent(0, 69)
    told.fires([Firing("NodeprepRepairUnapproved", waits, labels=held_back("approval"))], 70)
    return told


LINK_UP_RUNS = {"remedy": "link_up", "check": "port.state", "step": "running"}
RUNNING = '{remedy="link_up", check="port.state", step="running"}'
SINGLE = [
    # alert, series, its value, minutes until it fires, its own labels
    ("NodeprepTaintWithheld", "nodeprep_taint_ok", 0, 5, {}),
    ("NodeprepAwaitsHuman", 'nodeprep_state{state="AwaitingHuman"}', 1, 1, {"state": "AwaitingHuman"}),
    ("NodeprepRepairBudgetSpent", suppressed("budget"), 1, 5, held_back("budget")),
    ("NodeprepRepairHangs", f"nodeprep_repair_step{RUNNING}", 1, 30, LINK_UP_RUNS),
    ("NodeprepGateFiles", "nodeprep_gate_files_ok", 0, 1, {}),
    ("NodeprepNodeNotWritten", "nodeprep_node_ok", 0, 5, {}),
    ("NodeprepStateFileNotKept", "nodeprep_state_file_ok", 0, 5, {}),
    ("NodeprepConfigurationBad", "nodeprep_config_ok", 0, 5, {}),
    ("NodeprepNoAdmissionPolicy", "nodeprep_admission_policy_ok", 0, 3, {}),
    ("NodeprepMountsExposed", "nodeprep_mounts_ok", 0, 15, {}),
    (
        "NodeprepEventSourceDown",
        'nodeprep_event_source_up{event_source="links"}',
        0,
        10,
        {"event_source": "links"},
    ),
    (
        "NodeprepCannotLook",
        'nodeprep_check_status{check="klog.nic", status="unknown"}',
        1,
        10,
        {"check": "klog.nic", "status": "unknown"},
    ),
]


def single(alert: str, name: str, value: float, after: int, labels: dict[str, str]) -> Story:
    mended = max(30, 10 + after + 5)
    told = Story(f"{alert} alone, until it is mended", mended + 20)
    told.node("a")
    one = told.node("b")
    one.says(name, value, 10, mended)
    one.says(name, None if value == 1 and "{" in name else 1 - value, mended)
    told.silent(0, 10 + after - 1)
    told.fires([Firing(alert, one, labels=labels)], 10 + after, mended - 1)
    told.silent(mended)
    return told


EVERY = [made() for made in STORIES] + [single(*row) for row in SINGLE]


def by_promtool(directory: Path, *tests: dict[str, Any], rules: Path = PLAIN) -> None:
    words = {"rule_files": [str(rules)], "evaluation_interval": "30s", "tests": list(tests)}
    file = directory / "test.yaml"
    file.write_text(json.dumps(words))  # which is YAML, and quick
    servers.ran("promtool", "test", "rules", file)


@pytest.mark.parametrize("rules", [prometheus_rule.RULES, PLAIN], ids=lambda path: path.parent.name)
def test_promtool_finds_nothing_to_say(rules: Path) -> None:
    servers.ran("promtool", "check", "rules", "--lint=all", "--lint-fatal", rules)


@pytest.mark.parametrize("told", EVERY, ids=lambda told: told.name)
def test_a_story(told: Story, tmp_path: Path) -> None:
    by_promtool(tmp_path, told.test(RULES))


def test_a_remedy_that_failed_is_told_for_a_day(tmp_path: Path) -> None:
    """A day is ten minutes here."""
    name = "NodeprepRepairFails"
    rule = RULES[name] | {"expr": RULES[name]["expr"].replace("1d", "10m")}
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "one", "rules": [rule]}]}))
    told = Story("two failures, and a third one later", 60)
    first, second = told.node("a"), told.node("b")
    first.says(runs("unreleased"), 1, 10)
    second.says(runs("unreleased"), 1, 12)
    first.says(runs("unreleased"), 2, 40)
    failed = Firing(name, value="2", labels={"job": "nodeprep", "remedy": "link_up"})
    told.silent(0, 16)
    told.fires([failed], 17, 19)
    told.silent(22)
    by_promtool(tmp_path, told.test({name: rule}), rules=tmp_path / "rules.yaml")


def test_every_alert_fires_in_a_story_and_is_silent_in_another() -> None:
    assert set.union(*(told.fired() for told in EVERY)) == set(RULES)
    assert [told for told in EVERY if told.expected and not told.fired()]


def test_without_the_job_label_no_story_would_come_true(tmp_path: Path) -> None:
    """The operator calls the job `namespace/name` then. The rules ask for `nodeprep`."""
    monitor = prometheus_rule.monitor()
    del monitor["spec"]["jobLabel"]
    (config,) = scrape_config.scrape_configs(monitor)
    labels = targets.relabelled(targets.discovered("b", "np-1", "b:9842"), config)
    assert labels is not None
    assert labels["job"] == "nodeprep/nodeprep"
    told = the_agent_is_gone().test(RULES)
    for one in told["input_series"]:
        one["series"] = one["series"].replace('job="nodeprep"', f'job="{labels["job"]}"')
    with pytest.raises(AssertionError, match="NodeprepGone"):
        by_promtool(tmp_path, told)


@pytest.mark.parametrize("name", RULES)
def test_an_alert_asks_for_series_and_labels_that_there_are(name: str) -> None:
    """Of a plain scrape. What relabelling adds is only shown, or groups."""
    rule = RULES[name]
    known = {name: {*labels, "job", "instance"} for name, labels in queries.KNOWN.items()}
    of_others = {"kube_daemonset_status_desired_number_scheduled": {"namespace", "daemonset"}}
    asked = re.findall(r"\b(up|nodeprep_\w+|kube_\w+)\b(?:\{([^}]*)\})?", rule["expr"])
    assert asked
    for metric, matchers in asked:
        assert metric in known | of_others
        assert set(re.findall(r"(\w+)\s*=", matchers)) <= (known | of_others)[metric]
    shown = set(re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())))
    added = {"node", "pool", "zone", "instance_type"}
    assert shown <= set.union(added, *(known[metric] for metric, _ in asked if metric in known))


def test_a_summary_names_the_node_or_the_address_where_a_scrape_adds_no_node(tmp_path: Path) -> None:
    assert not [name for name, rule in RULES.items() if "{{ $labels.instance }}" in rule["annotations"]["summary"]]
    for is_added, named in ((True, "b"), (False, "b:9842")):
        told = the_agent_is_gone()
        for node in told.nodes:
            assert node.labels["node"] == node.name
            if not is_added:
                del node.labels["node"]
        asked = told.test(RULES)
        summaries = {one["exp_annotations"]["summary"] for at in asked["alert_rule_test"] for one in at["exp_alerts"]}
        assert summaries == {f"{named}: no nodeprep agent answers"}
        by_promtool(tmp_path, asked)


def test_each_runbook_is_that_of_its_alert_and_of_this_version() -> None:
    for name, rule in RULES.items():
        page = f"/v{__version__}/docs/runbooks/alerts/{name}.md"
        assert rule["annotations"]["runbook_url"].partition("://")[2].partition("/")[2] == page[1:]


def test_a_pod_of_another_name_has_the_same_series() -> None:
    """So they go on over a rollout."""
    config = targets.shipped_scrape_config()
    before, after = (
        targets.discovered("a", "np-1", "10.0.0.1:9842", pod=f"nodeprep-{end}") for end in ("x7k2p", "b2c4d")
    )
    assert targets.relabelled(before, config) == targets.relabelled(after, config)


def test_other_pods_of_ours_are_not_scraped() -> None:
    other = targets.discovered("a", "np-1", "10.0.0.1:9842")
    other["__meta_kubernetes_pod_label_app_kubernetes_io_component"] = "nvml"
    assert targets.relabelled(other, targets.shipped_scrape_config()) is None
