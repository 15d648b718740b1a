"""Writes docs/checks.md from the checks themselves, and what else is made from the code: `make docs`.

tests/test_docs.py proves that all of it is current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from docs import (
    built_in_profiles,
    configuration,
    drill_table,
    install_pages,
    job_outcomes,
    metrics,
    remedies,
    repair_proofs,
    repair_reasons,
    runbooks,
)
from nodeprep.checks import CHECKS
from nodeprep.cli.check import check_sheet
from nodeprep.model import EVERYWHERE, Check, filled

TARGET = Path(__file__).with_name("checks.md")
TESTS = Path(__file__).resolve().parent.parent / "tests"
INTRODUCTION = """\
# Checks

Written by `make docs` from the checks; `nodeprep explain ID` prints the same. Do not edit.

- **severity** is the most that a check may do: close the *gate*, *warn*, or only tell (*info*).
- **stage** *device* needs no device plugin; *node* looks at what plugins and Kubernetes advertise.
- **after**: if one of these fails on the same PCI device (or, without a device, at all), the finding is shown as its
  consequence.
- **reasons** are stable words for programs, each with its status and, where it has one, its own fix; the others have
  the check's. In a fix, words in capitals stand for what `nodeprep check` fills in. Of any check can be said
  EVERYWHERE_REASONS: what it needs could not be read, or is not mounted in this pod, it broke, the node has
  nothing of the kind or is of another platform, a device is on the bus and did not answer twice.
- **tested on**: *values* are rows of facts; *trees* whole nodes' file trees in which it is the root finding; *lab* a
  virtual machine with a real RoCE device and real hot-plug in which it is, *netns* a network namespace with Terway's
  links, rules and a metadata server, *cluster* a real Kubernetes API server. Where only *values* stands, no rig here
  makes the fault: the check was tested on built or recorded data only.
- **repair**: which remedy mends it, by `nodeprep repair` or the agent; what is *planned* has a name and cannot be run
  ([design 4](design.md#4-provisioning-and-repair)).
- **numbers** are set in a profile or in the configuration under `want:`, by check and key.
"""


def page(checks: tuple[Check, ...]) -> str:
    """The whole of docs/checks.md."""
    everywhere = ", ".join(f"`{one.status} {one.name}`" for one in EVERYWHERE)
    introduction = INTRODUCTION.replace("EVERYWHERE_REASONS", everywhere)
    return "\n".join([introduction, *_index(checks), "", *(line for check in checks for line in _section(check))])


def _index(checks: tuple[Check, ...]) -> Iterator[str]:
    rigs = {
        "trees": _text("trees/cases/*.yaml"),
        "lab": _text("lab/test_*.py"),
        "netns": _text("netns/test_*.py"),
        "cluster": _text("cluster/test_*.py"),
    }
    yield "| check | question | severity | stage | tested on |"
    yield "|---|---|---|---|---|"
    for check in checks:
        tested = ["values"] if _own_test(check).is_file() else []
        # A test names the findings that it expects: `fail port.state mlx5_3/1 NoSignal`, or the two first words apart.
        named = re.compile(rf'(?:fail|warn|unknown)(?:", "| ){re.escape(check.id)}[" ]')
        tested += [rig for rig, text in rigs.items() if named.search(text)]
        link = f"[{check.id}](#{_anchor(check.id)})"
        yield f"| {link} | {_cell(check.question)} | {check.severity} | {check.stage} | {', '.join(tested)} |"


def _text(pattern: str) -> str:
    return "".join(path.read_text() for path in sorted(TESTS.glob(pattern)))


def _own_test(check: Check) -> Path:
    family, _, question = check.id.partition(".")
    return TESTS / "checks" / family / f"test_{question.replace('-', '_')}.py"


def _section(check: Check) -> Iterator[str]:
    yield f"## {check.id}"
    yield ""
    yield f"**{check.question}**"
    yield ""
    yield check.why
    yield ""
    yield f"*Fix:* {filled(check.fix)}"
    yield ""
    yield f"- severity: {check.severity}, {check_sheet.SEVERITIES[check.severity]}"
    yield f"- stage: {check.stage}, {check_sheet.STAGES[check.stage]}"
    yield f"- confirmation: {check.confirmation}, the agent {check_sheet.CONFIRMATIONS[check.confirmation]}"
    yield f"- needs: {check_sheet.looks(check)}"
    if check.after:
        yield f"- after: {', '.join(map(_link, check.after))}"
    yield f"- repair: {check_sheet.repair(check, '`{}`'.format)}"
    yield from _reasons(check)
    yield f"- source: {check.source}"
    yield ""
    yield from _numbers(check)


def _reasons(check: Check) -> Iterator[str]:
    yield f"- reasons: {', '.join(f'`{one.name}` ({one.status})' for one in check.reasons)}"
    yield from (f"  - `{one.name}` ({one.status}): {filled(one.fix)}" for one in check.reasons if one.fix)


def _numbers(check: Check) -> Iterator[str]:
    if check.want is None:
        return
    for paragraph in check_sheet.about_numbers(check):
        yield paragraph
        yield ""
    yield "| number | default | |"
    yield "|---|---|---|"
    for number in check_sheet.numbers(check):
        yield f"| `{number.key}` | {_cell(number.default)} | {_cell(number.about)} |"
    yield ""


def _link(check_id: str) -> str:
    """To its section, if it has one: `after` may name a check that is not written yet."""
    return f"[{check_id}](#{_anchor(check_id)})" if check_id in CHECKS else check_id


def _anchor(check_id: str) -> str:
    return check_id.replace(".", "")  # as GitHub makes them of headings


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    TARGET.write_text(page(tuple(CHECKS.values())), encoding="utf-8")
    configuration.main()
    metrics.main()
    built_in_profiles.main()
    runbooks.main()
    remedies.main()
    repair_proofs.main()
    repair_reasons.main()
    drill_table.main()
    job_outcomes.main()
    for kind, target in install_pages.PAGES.items():
        target.write_text(install_pages.page(kind), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except runbooks.BadSourceError as error:
        sys.exit(str(error))
