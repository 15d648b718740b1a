"""docs/repair-reasons.md has each word of why a remedy does not run, and agrees with the alerts."""

from __future__ import annotations

import re

import pytest

from dashboards import prometheus_rule
from docs import repair_reasons
from docs.repair_reasons import SuppressionEnd
from nodeprep.decide.repair_refusal import SuppressionReason

RULES = {rule["alert"]: rule for group in prometheus_rule.groups() for rule in group["rules"]}
ASKED = re.compile(r'nodeprep_repair_suppressed_now\{[^}]*\breason=~?"([^"]+)"')


def asked(alert: str) -> set[str]:
    """The reasons that an alert asks for."""
    return {reason for found in ASKED.findall(RULES[alert]["expr"]) for reason in found.split("|")}


def test_the_page_is_current() -> None:
    assert repair_reasons.TARGET.read_text(encoding="utf-8") == repair_reasons.page(), "run `make docs`"


def test_each_reason_is_told_in_the_order_in_which_hindrances_are() -> None:
    assert list(repair_reasons.REASONS) == list(SuppressionReason)


@pytest.mark.parametrize("reason", SuppressionReason)
def test_a_reason_says_what_it_means_who_ends_it_and_what_to_run(reason: SuppressionReason) -> None:
    advice = repair_reasons.REASONS[reason]
    assert advice.meaning.endswith(".")
    assert advice.how.endswith(".")
    assert advice.commands
    assert not advice.alert or advice.alert in RULES


@pytest.mark.parametrize("alert", [name for name in RULES if asked(name)])
def test_an_alert_asks_for_the_reasons_that_name_it(alert: str) -> None:
    assert asked(alert) == {reason for reason, advice in repair_reasons.REASONS.items() if advice.alert == alert}


def test_what_only_we_can_mend_has_an_alert_and_what_somebody_wants_has_none_but_an_approval() -> None:
    quiet = {reason for reason, advice in repair_reasons.REASONS.items() if not advice.alert}
    wanted = {reason for reason, advice in repair_reasons.REASONS.items() if advice.end is SuppressionEnd.WILL}
    assert wanted - quiet == {SuppressionReason.APPROVAL}
    assert not [one for one in quiet if repair_reasons.REASONS[one].end is SuppressionEnd.REPAIR]
