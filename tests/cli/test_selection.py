"""--only and --skip take ids, families and globs; one that matches nothing is refused with what was probably meant."""

from __future__ import annotations

import pytest

from nodeprep.cli.check import check_selection
from nodeprep.cli.usage import UsageError
from tests.cli.reports import LOOK, check

IDS = ("pci.answers", "pci.link", "port.state", "port.rate", "time.sync")
ROWS = [
    # --only                    --skip            runs
    ([], [], "pci.answers pci.link port.state port.rate time.sync"),
    (["port.state"], [], "port.state"),
    (["port"], [], "port.state port.rate"),
    (["time", "pci.link"], [], "pci.link time.sync"),
    (["pci.link,port"], [], "pci.link port.state port.rate"),
    (["*.sync, pci.l*"], [], "pci.link time.sync"),
    ([], ["p*"], "time.sync"),
    ([], ["port", "pci.answers"], "pci.link time.sync"),
    (["port"], ["port.rate"], "port.state"),
    (["p*"], ["time.sync"], "pci.answers pci.link port.state port.rate"),
]


@pytest.mark.parametrize(("only", "skip", "runs"), ROWS)
def test_selects(only: list[str], skip: list[str], runs: str) -> None:
    chosen, others = check_selection.select(IDS, only, skip)
    assert " ".join(chosen) == runs
    assert [one.check for one in others] == [one for one in IDS if one not in chosen]
    assert {one.why for one in others} <= {"deselected"}


REFUSED = [
    # --only              --skip            words of the refusal
    (["port.stat"], [], "--only 'port.stat' matches no check; nearest: port.state"),
    (["prot"], [], "--only 'prot' matches no check; nearest: port"),
    ([], ["time.snc"], "--skip 'time.snc' matches no check; nearest: time.sync"),
    (["port", "qqqqq"], [], "--only 'qqqqq' matches no check; `nodeprep list` names them all"),
    ([""], [], "--only '' matches no check"),
    (["port,"], [], "--only '' matches no check"),
    (["Port.State"], [], "--only 'Port.State' matches no check"),
    (["port"], ["p*"], "leave no check to run"),
]


@pytest.mark.parametrize(("only", "skip", "words"), REFUSED)
def test_refuses(only: list[str], skip: list[str], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_selection.select(IDS, only, skip)
    assert words in str(refused.value)


def test_finds_a_check_by_its_id() -> None:
    checks = {one: check(one, LOOK) for one in IDS}
    assert check_selection.find(checks, "port.rate").id == "port.rate"
    with pytest.raises(UsageError, match=r"there is no check 'port\.rat'; nearest: port\.rate"):
        check_selection.find(checks, "port.rat")
