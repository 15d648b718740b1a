"""Writes a page of docs/runbooks for each family, from the checks and from docs/runbooks/source: `make docs`.

A family has a page if a check of it stands in the gates of a built-in profile, or has the severity GATE. The second
counts because an operator's own profile may gate on such a check: its fault closes a gate as well. The page has a
section for each check of the family, also for those that only warn: a person who came to the page by one of them
should not have to look elsewhere for the other.

Facts come from the check (question, severity, reasons, fixes) and are never written by hand. Judgement comes from the
source file: what the finding means, whose fault it is, how to mend it. Examples are what `nodeprep check` prints for a
node of the test trees that has the fault. tests/test_runbooks.py proves that the pages are current.

The pages of alerts in docs/runbooks/alerts are written by hand. dashboards/prometheus_rule.py makes their addresses.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from typer.testing import CliRunner

from nodeprep.checks import CHECKS
from nodeprep.cli.app import app
from nodeprep.config import built_in_profiles, profile_files, remedy_files
from nodeprep.model import Check, Severity, Status, filled
from tests.rigs import faults, recordings, trees

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "runbooks"
SOURCES = TARGET / "source"
CASES = ROOT / "tests" / "trees" / "cases"
SNAPSHOTS = ROOT / "tests" / "snapshots"
WIDTH = 120  # columns of a page
NODE = "gpu-17"  # what the example's copy of a node is called
BAD = (Status.FAIL, Status.WARN)

# Keys of a check's judgement. All but `network` must be there: a fault inside the node has no network side.
FIRST, EXAMPLE, REASONS = "first", "example", "reasons"
WORDS = ("meaning", "impact", FIRST, "network", "node", "nodeprep", "mend", "escalate")
OPTIONAL = frozenset({"network"})
SOURCES_OF_EXAMPLES = frozenset({"case", "node", "snapshot", "recording", "none"})
EXAMPLE_KEYS = SOURCES_OF_EXAMPLES | {"profile", "about"}
HEAD = "Written by `make docs` from the checks and from [{source}](source/{source}). Edit that file."
ITEM = re.compile(r"(?:- |\d+\. )")


class BadSourceError(ValueError):
    """A source file that lacks a judgement, or has one for nothing."""


@dataclass(frozen=True, slots=True)
class Example:
    """A command that was run, what the file that it names says ("" for none), and what it printed."""

    about: str
    command: str
    file: str
    output: str


def alerts() -> list[str]:
    """The alerts that have a page."""
    return sorted(path.stem for path in (TARGET / "alerts").glob("*.md"))


def families() -> dict[str, list[Check]]:
    """Each family that gates with all of its checks, in the operator's order."""
    gating = {gate for gates in gates_of_profiles().values() for gate in gates}
    gating |= {check.id for check in CHECKS.values() if check.severity is Severity.GATE}
    names = dict.fromkeys(check.family for check in CHECKS.values() if check.id in gating)
    return {name: [check for check in CHECKS.values() if check.family == name] for name in names}


def gates_of_profiles() -> dict[str, tuple[str, ...]]:
    """The gates of each built-in profile, with those that it inherits."""
    return {name: tuple(profile_files.effective(name).gates) for name in built_in_profiles.PROFILES}


def source(family: str) -> dict[str, Any]:
    """The judgements of a family by check. Raises BadSourceError."""
    path = SOURCES / f"{family}.yaml"
    if not path.is_file():
        raise BadSourceError(f"{path}: is not there")
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    wanted = ["about", *(check.id for check in families()[family])]
    if list(found) != wanted:
        raise BadSourceError(f"{path}: has {', '.join(found)}; wanted, in this order: {', '.join(wanted)}")
    for check in families()[family]:
        validate(path, check, found[check.id])
    return dict(found)


def validate(path: Path, check: Check, judgement: Mapping[str, Any]) -> None:
    """Raises BadSourceError if the judgement of a check lacks something, or says something that nobody reads."""
    where = f"{path}: {check.id}"
    lacks = {*WORDS, EXAMPLE, REASONS} - OPTIONAL - judgement.keys()
    beside = judgement.keys() - {*WORDS, EXAMPLE, REASONS}
    if lacks or beside:
        raise BadSourceError(f"{where}: lacks {sorted(lacks)}, has {sorted(beside)} that nobody reads")
    said, known = set(judgement[REASONS] or ()), {one.name for one in check.reasons if one.status in BAD}
    if said != known:
        raise BadSourceError(f"{where}: reasons: lacks {sorted(known - said)}, has {sorted(said - known)}")
    example = judgement[EXAMPLE]
    if not example.keys() <= EXAMPLE_KEYS or len(SOURCES_OF_EXAMPLES & example.keys()) != 1:
        raise BadSourceError(f"{where}: example: wanted one of {', '.join(sorted(SOURCES_OF_EXAMPLES))}")


def page(family: str) -> str:
    """The whole page of a family."""
    judgements = source(family)
    with Examples() as examples:
        sections = [line for check in families()[family] for line in section(check, judgements[check.id], examples)]
    contents = [flowed(f"- [{check.id}](#{anchor(check.id)}): {check.question}") for check in families()[family]]
    head = HEAD.format(source=f"{family}.yaml")
    return "\n".join([f"# {family}", "", head, "", flowed(judgements["about"]), "", *contents, "", *sections])


def section(check: Check, judgement: Mapping[str, Any], examples: Examples) -> Iterator[str]:
    """The section of a check."""
    yield f"## {check.id}"
    yield ""
    yield flowed(f"**{check.question}** {gates_words(check)} [All facts](../checks.md#{anchor(check.id)}).")
    yield ""
    for key, title in (("meaning", "Meaning"), ("impact", "Impact"), (FIRST, "Look first")):
        yield from (flowed(f"**{title}.** {judgement[key]}"), "")
    yield from shown(examples.of(check, judgement[EXAMPLE]), judgement[EXAMPLE])
    for key, title in (("network", "The network"), ("node", "The node"), ("nodeprep", "nodeprep itself")):
        if key in judgement:
            yield flowed(f"- **{title}:** {judgement[key]}")
    yield ""
    yield from reasons(check, judgement[REASONS] or {})
    yield from (flowed(f"**Mend by hand.** {judgement['mend']}"), "")
    yield from remedies(check)
    yield from (flowed(f"**Escalate.** {judgement['escalate']}"), "")


def remedies(check: Check) -> Iterator[str]:
    """Which playbooks mend its faults, and which are only planned."""
    there = [f"[{name}](remedies.md#{name})" for name in check.remedies if name in remedy_files.headers()]
    planned = [f"planned: {name}" for name in check.remedies if name not in remedy_files.headers()]
    if there or planned:
        yield from (flowed(f"**Remedies.** {', '.join([*there, *planned])}."), "")


def gates_words(check: Check) -> str:
    """What the check may do, and which built-in profiles gate on it."""
    naming = [f"`{name}`" for name, gates in gates_of_profiles().items() if check.id in gates]
    if naming:
        return f"Severity {check.severity}; a gate of {', '.join(naming)}."
    beside = "; no built-in profile gates on it" if check.severity is Severity.GATE else ""
    return f"Severity {check.severity}{beside}."


def reasons(check: Check, judged: Mapping[str, str]) -> Iterator[str]:
    """A table of what the check may say against a node: whose fault it mostly is, and the fix."""
    rows: dict[tuple[str, str], list[str]] = {}
    for reason in check.reasons:
        if reason.status in BAD:
            fix = filled(check.advice(reason.name, reason.status))
            rows.setdefault((reason.name, fix), []).append(str(reason.status))
    if not rows:
        return
    yield "| reason | mostly | fix |"
    yield "|---|---|---|"
    for (name, fix), found in rows.items():
        yield f"| `{name}` ({', '.join(found)}) | {cell(judged[name])} | {cell(fix)} |"
    yield ""


def shown(example: Example | None, given: Mapping[str, Any]) -> Iterator[str]:
    if example is None:
        yield from (flowed(f"No example tree shows it: {given['none']}."), "")
        return
    said = "; `job.yaml` says" if example.file else ""
    yield from (flowed(f"Example, {example.about}{said}:"), "")
    if example.file:
        yield from ("```yaml", example.file.rstrip(), "```", "")
    yield from ("```console", f"$ {example.command}", *example.output.splitlines(), "```", "")


class Examples:
    """Runs examples in a directory of its own. Good nodes and their captured profiles are made once."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="nodeprep-runbooks-")
        self._captured: dict[str, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def of(self, check: Check, given: Mapping[str, Any]) -> Example | None:
        """The example of a check; None where its source says that there is none."""
        place = Path(self._scratch.name) / check.id
        place.mkdir()
        if "none" in given:
            return None
        if "snapshot" in given:
            shutil.copy(SNAPSHOTS / f"{given['snapshot']}.json", place / f"{NODE}.json")
            about = f"a real node that was [recorded](../../tests/snapshots/{given['snapshot']}.json)"
            return self._run(check, place, about, ["--snapshot", f"{NODE}.json"], "")
        if "recording" in given:
            about = recordings.write(given["recording"], place / f"{NODE}.json").about
            return self._run(check, place, about, ["--snapshot", f"{NODE}.json"], "")
        if "node" in given:
            trees.build(given["node"], place / NODE)
            options, file = self._profile(given.get("profile"), given["node"], place)
            return self._run(check, place, given["about"], ["--root", NODE, *options], file)
        case = yaml.safe_load((CASES / f"{given['case']}.yaml").read_text(encoding="utf-8"))
        faults.apply(case, trees.build(case["node"], place / NODE))
        about = f"{case['about']} ([the case](../../tests/trees/cases/{given['case']}.yaml))"
        options, file = self._profile(given.get("profile"), case["node"], place)
        return self._run(check, place, about, ["--root", NODE, *options], file)

    def _profile(self, wanted: Any, node: str, place: Path) -> tuple[list[str], str]:
        """Options that choose the profile, and the text of its file if the page has to show it."""
        match wanted:
            case None:
                return [], ""
            case "captured":
                shutil.copy(self._capture(node), place / "good.yaml")
                return ["--profile", "good.yaml"], ""
            case str():
                return ["--profile", wanted], ""
            case _:
                text = yaml.safe_dump(
                    {"apiVersion": "nodeprep.io/v1", "kind": "Profile", **dict(wanted)}, sort_keys=False
                )
                (place / "job.yaml").write_text(text, encoding="utf-8")
                return ["--profile", "job.yaml"], text

    def _capture(self, node: str) -> Path:
        if node not in self._captured:
            place = Path(self._scratch.name) / f"good {node}"
            good, target = trees.build(node, place / "node"), place / "good.yaml"
            _nodeprep(place, "profile", "capture", "--root", str(good), "-o", str(target), "--name", "good-sibling")
            self._captured[node] = target
        return self._captured[node]

    def _run(self, check: Check, place: Path, about: str, options: list[str], file: str) -> Example:
        arguments = ["check", *options, "--only", check.id, "--no-color"]
        said = findings(_nodeprep(place, *arguments, ends=(0, 1)))
        if not re.search(rf"^(?:FAIL|WARN) +{re.escape(check.id)}:", said, re.MULTILINE):
            raise BadSourceError(f"{check.id}: its example shows no fault of it:\n{said}")
        return Example(about, f"nodeprep {' '.join(arguments)}", file, said)


def _nodeprep(place: Path, *arguments: str, ends: Iterable[int] = (0,)) -> str:
    """What the program prints there. In this process: a hundred starts would take half a minute."""
    with contextlib.chdir(place):
        done = CliRunner().invoke(app, arguments)
    if done.exit_code not in ends:
        raise BadSourceError(f"{' '.join(arguments)}: ended with {done.exit_code}: {done.output}") from done.exception
    return done.stdout


def findings(output: str) -> str:
    """The verdict and the findings. The lines about node, profile and notes are the same for each example."""
    verdict, *parts = output.strip().split("\n\n")
    found = (part for part in parts if part.startswith(("FAIL", "WARN", "UNKNOWN", "  ")))
    return "\n\n".join([verdict, *found])


def flowed(text: str) -> str:
    """Paragraphs and lists, broken to the width of a page."""
    return "\n\n".join("\n".join(_block(block)) for block in re.split(r"\n\s*\n", text.strip()))


def _block(block: str) -> Iterator[str]:
    items: list[str] = []
    for line in block.splitlines():
        if ITEM.match(line) or not items:
            items.append(line.strip())
        else:
            items[-1] += f" {line.strip()}"
    for item in items:
        marker = ITEM.match(item)
        indent = " " * len(marker[0]) if marker else ""
        yield from textwrap.wrap(item, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def anchor(check_id: str) -> str:
    return check_id.replace(".", "")  # as GitHub makes them of headings


def cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def main() -> None:
    for family in families():
        (TARGET / f"{family}.md").write_text(page(family), encoding="utf-8")


if __name__ == "__main__":
    main()
