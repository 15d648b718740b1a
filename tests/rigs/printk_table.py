"""Makes the table of printk formats from a kernel's sources, and from it the classes that nodeprep ships.

`formats DIR` reads an unpacked kernel source (DIR has a Makefile and drivers/) and writes docs/kernel_log/formats.tsv.
`ship` reads that table and docs/kernel_log/classes.tsv and writes the module that the agent matches by.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from nodeprep.facts.machine.printk import CONVERSION, LITERAL_LENGTH, LineClass, own_words, pattern_of

HERE = Path(__file__).resolve().parents[2]
FORMATS = HERE / "docs" / "kernel_log" / "formats.tsv"
CLASSES = HERE / "docs" / "kernel_log" / "classes.tsv"
SHIPPED = HERE / "agent" / "nodeprep" / "facts" / "machine" / "printk_formats.py"

DRIVERS = {  # the name in the table: what of the source tree belongs to it
    "bnxt_en": ("drivers/net/ethernet/broadcom/bnxt",),
    "bnxt_re": ("drivers/infiniband/hw/bnxt_re",),
    "driver core": ("drivers/base/dd.c",),
    "efa": ("drivers/infiniband/hw/efa",),
    "erdma": ("drivers/infiniband/hw/erdma",),
    "hns3": ("drivers/net/ethernet/hisilicon/hns3",),
    "hns_roce": ("drivers/infiniband/hw/hns",),
    "ice": ("drivers/net/ethernet/intel/ice",),
    "irdma": ("drivers/infiniband/hw/irdma",),
    "mlx4_core": ("drivers/net/ethernet/mellanox/mlx4",),
    "mlx4_ib": ("drivers/infiniband/hw/mlx4",),
    "mlx5_core": ("drivers/net/ethernet/mellanox/mlx5",),
    "mlx5_ib": ("drivers/infiniband/hw/mlx5",),
    "net": ("net/sched/sch_generic.c",),
    "pci": (
        *(f"drivers/pci/{name}.c" for name in ("access", "ats", "bus", "iov", "irq", "pci", "pci-acpi", "pci-driver")),
        *(f"drivers/pci/{name}.c" for name in ("probe", "quirks", "rebar", "remove", "rom", "search", "setup-bus")),
        *(f"drivers/pci/{name}.c" for name in ("setup-irq", "setup-res", "slot", "vc", "vpd")),
        "drivers/pci/msi",
        "drivers/pci/pcie",
        *(f"drivers/pci/hotplug/{name}.c" for name in ("acpiphp_glue", "pci_hotplug_core")),
        *(f"drivers/pci/hotplug/pciehp_{name}.c" for name in ("core", "ctrl", "hpc", "pci")),
    ),
}
LEVELS = {"emerg": 0, "alert": 1, "crit": 2, "err": 3, "error": 3, "warn": 4, "warning": 4, "notice": 5, "info": 6}
ANY_LEVEL = "0-6"  # the level is a variable
# Where the format is among the arguments, by the family of the macro.
PLACES = {
    "pr": 0,
    "mcg": 0,
    **dict.fromkeys(("dev", "netdev", "pci", "ibdev", "ctrl", "mlx4", "mlx4_ib", "en", "mlx5_core", "mlx5_ib"), 1),
    **dict.fromkeys(("mlx5dr", "mlx5_fpga", "mlx5e_rss", "esw", "fs", "qos", "mcg_group", "hns3_rl"), 1),
    "hwrm": 2,
    "netif": 3,
}
UNKNOWN = 99  # a function that is named like such a macro
PLAIN = {  # where the format is, and the level if neither an argument nor the format says it
    "printk": (0, ANY_LEVEL),
    "dev_printk": (2, ANY_LEVEL),
    "netdev_printk": (2, ANY_LEVEL),
    "pci_printk": (2, ANY_LEVEL),
    "mlx5_log": (2, ANY_LEVEL),
    "mlx5_pci_trace": (1, "6"),
    "WARN": (1, "4"),
    "WARN_ONCE": (1, "4"),
}
PREFIXES = {"mlx5_pci_trace": "%s Device state = %d health sensors: %d pci_status: %d. "}
CALL = re.compile(
    r"\b(?:(?P<family>[a-z0-9]+(?:_(?:core|ib|fpga|rss|rl))?)_(?P<level>emerg|alert|crit|err|error|warn|warning|notice|info)"
    r"(?P<group>_group)?(?:_once|_ratelimited|_rl|_probe)?"
    r"|(?P<plain>(?:(?:dev|netdev|pci)_)?printk(?:_once|_ratelimited)?|mlx5_log|mlx5_pci_trace|WARN(?:_ONCE)?))\s*\("
)
STRING = r'"(?:[^"\\\n]|\\.)*"'
COMMENT_OR_TEXT = re.compile(rf"/\*.*?\*/|//[^\n]*|{STRING}|'(?:[^'\\\n]|\\.)+'", re.DOTALL)
DEFINED = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+({STRING})[ \t]*$", re.MULTILINE)
PIECE = re.compile(rf"\s*(?:({STRING})|(\w+))\s*")
KNOWN = {"FW_BUG": "[Firmware Bug]: ", "FW_WARN": "[Firmware Warn]: ", "FW_INFO": "[Firmware Info]: "}
DECLARED = re.compile(r"(?:const\s+)?char\s*\*.*|fmt|format|\.\.\.", re.DOTALL)  # of a function that hands one on
KERNEL_LEVEL = re.compile(r"^KERN_(EMERG|ALERT|CRIT|ERR|WARNING|NOTICE|INFO|DEBUG|CONT)\b\s*")
INFORMATION = ("5", "6")  # the levels of notices and of information
UNDECIDED = "-"
NEWLINE = "\n"
HEAD = """\
# Formats that drivers print at levels 0 to 6, of linux-source-6.1 of Debian 12, Linux {kernel}.
# Made by tests/rigs/printk_table.py; the classes are those of classes.tsv, and NOTHING for levels 5 and 6 by default.
# {counts} (nobody decided). Calls whose format is a variable, and that are not here: {variable}.
# Columns: driver, level ("0-6": a variable; "?": another kernel), class, format, file (of a format with arguments
# filled in: the file and the format that it fills in; of another kernel's: where it was found).
"""
SHIPPED_HEAD = '''"""Formats of printk by class; made by tests/rigs/printk_table.py from docs/kernel_log/formats.tsv."""

# ruff: noqa: E501
'''
ESCAPES = {r"\n": "\n", r"\t": " ", r"\"": '"', r"\\": "\\"}


class Format(NamedTuple):
    """One format as a driver says it: `level` 0 to 6, or ANY_LEVEL."""

    driver: str
    level: str
    format: str
    file: str


def version(source: Path) -> str:
    """The version that the source's Makefile gives, such as 6.1.192."""
    makefile = (source / "Makefile").read_text()
    found = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", makefile, re.MULTILINE))
    return ".".join(found[key] for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))


def extracted(source: Path) -> tuple[list[Format], int]:
    """Every format of the drivers, sorted, and how many calls have a format that is no literal."""
    found: set[Format] = set()
    variable = 0
    for driver, places in DRIVERS.items():
        files = sorted({file for place in places for file in sources(source / place)})
        texts = {file: without_comments(file.read_text(errors="replace")) for file in files}
        names = {name: text for content in texts.values() for name, text in DEFINED.findall(content)}
        for file, content in texts.items():
            for level, formats in calls(content, names):
                variable += not formats
                told = (Format(driver, level, one, file.relative_to(source).as_posix()) for one in formats)
                found.update(one for one in told if one.format)
    return sorted(found), variable


def sources(place: Path) -> Iterable[Path]:
    return [place] if place.is_file() else [file for file in place.rglob("*.[ch]") if "trace" not in file.name]


def without_comments(content: str) -> str:
    return COMMENT_OR_TEXT.sub(lambda match: match[0] if match[0][0] in "\"'" else " ", content.replace("\\\n", " "))


def calls(content: str, names: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """The level and the formats of each call; no format where it is no literal."""
    for match in CALL.finditer(content):
        if content[content.rfind("\n", 0, match.start()) + 1 : match.start()].lstrip().startswith("#"):
            continue  # the definition of a macro
        place, level = place_and_level(match)
        given = arguments(content, match.end())
        if len(given) <= place:
            continue
        said = KERNEL_LEVEL.match(given[0].strip()) or KERNEL_LEVEL.match(given[place].strip())
        level = level_of(said[1]) if said else level
        wanted = KERNEL_LEVEL.sub("", given[place].strip())
        if level and not DECLARED.fullmatch(wanted):
            prefix = PREFIXES.get(match["plain"] or "", "")
            forms = (one.strip().partition("\n")[0] for one in literals(wanted, names))  # what follows is another line
            yield level, [prefix + one.replace("\t", " ").strip() for one in forms]


def place_and_level(call: re.Match[str]) -> tuple[int, str]:
    """Where the format is among the arguments, and the level that the name of the macro says."""
    if call["plain"]:
        return PLAIN[call["plain"].removesuffix("_once").removesuffix("_ratelimited")]
    place = PLACES.get(call["family"] + (call["group"] or ""), UNKNOWN)
    return place + ("_probe" in call[0]), str(LEVELS[call["level"]])


def level_of(word: str) -> str:
    return str(LEVELS[word.lower()]) if word.lower() in LEVELS else ""


def arguments(content: str, start: int) -> list[str]:
    """The arguments of the call whose parenthesis was opened just before `start`."""
    depth, begun, given = 1, start, []
    at = start
    while at < len(content) and depth:
        text = re.compile(rf"{STRING}|'(?:[^'\\\n]|\\.)+'").match(content, at)
        if text:
            at = text.end()
            continue
        depth += (content[at] in "([{") - (content[at] in ")]}")
        if depth == 0 or (depth == 1 and content[at] == ","):
            given.append(content[begun:at])
            begun = at + 1
        at += 1
    return given


def literals(wanted: str, names: dict[str, str]) -> list[str]:
    """The formats that an argument can be: one, or both of a `a ? b : c`."""
    if "?" in re.sub(STRING, "", wanted):
        return [unescaped(one) for one in re.findall(STRING, wanted)]
    text, at = "", 0
    while at < len(wanted):
        piece = PIECE.match(wanted, at)
        if piece is None:
            return []
        if piece[1]:
            text += unescaped(piece[1])
        elif piece[2] in names:
            text += unescaped(names[piece[2]])
        elif piece[2] in KNOWN:
            text += KNOWN[piece[2]]
        elif piece[2].startswith("PRI"):
            text += "llx"
        else:
            return []
        at = piece.end()
    return [text]


def unescaped(literal: str) -> str:
    return re.sub(r"\\.", lambda match: ESCAPES.get(match[0], match[0]), literal[1:-1])


class Row(NamedTuple):
    """A format with its class, "-" if nobody decided. `source` is its file, or the other kernel."""

    driver: str
    level: str
    kind: str
    format: str
    source: str


class Decision(NamedTuple):
    """The class of one format as a hand wrote it. `note` says which other kernel has the format, "" if this one has."""

    driver: str
    kind: str
    format: str
    note: str


def decisions() -> list[Decision]:
    rows = [line.split("\t") for line in CLASSES.read_text().splitlines() if not line.startswith("#")]
    return [Decision(driver, kind, form, "".join(note)) for driver, kind, form, *note in rows]


def table(formats: list[Format], decided: list[Decision]) -> list[Row]:
    """The formats with their classes; those with arguments filled in and those of other kernels are rows too.

    Raises ValueError for a decision about a format that neither the sources nor a note know.
    """
    by_hand = {(one.driver, one.format): one.kind for one in decided}
    rows = [
        Row(one.driver, one.level, by_hand.get((one.driver, one.format), default(one)), *one[2:]) for one in formats
    ]
    known = {(one.driver, one.format) for one in formats}
    rows += [filled_in(one, formats) for one in decided if (one.driver, one.format) not in known]
    return sorted(rows)


def default(form: Format) -> str:
    """What the driver itself calls a notice or an information says nothing of a fault."""
    return LineClass.NOTHING if form.level in INFORMATION else UNDECIDED


def filled_in(decision: Decision, formats: list[Format]) -> Row:
    if decision.note:
        return Row(decision.driver, "?", decision.kind, decision.format, decision.note)
    own = [one for one in formats if one.driver == decision.driver and makes(one.format, decision.format)]
    if not own:
        raise ValueError(f"{decision.driver} never says {decision.format!r}, and no note says who does")
    best = max(own, key=lambda one: len(CONVERSION.sub("", one.format)))
    return Row(decision.driver, best.level, decision.kind, decision.format, f"{best.file}: {best.format}")


def makes(form: str, filled: str) -> bool:
    """Whether a format with some of its arguments filled in is the other one."""
    literals_of = CONVERSION.sub("\0", form).split("\0")
    own = len("".join(literals_of)) >= LITERAL_LENGTH
    return own and re.fullmatch(".*".join(map(re.escape, literals_of)), filled) is not None


def shipped(rows: list[Row]) -> str:
    """The module that the agent matches by: what a hand decided, and of what says nothing the warnings and worse.

    Raises ValueError for a format that has two classes, or too little of its own.
    """
    kinds: dict[str, set[str]] = {one: set() for one in LineClass}
    classes: dict[str, str] = {}
    for row in rows:
        if row.kind in kinds and not (row.kind == LineClass.NOTHING and row.level in INFORMATION):
            kinds[row.kind].add(row.format)
            if classes.setdefault(row.format, row.kind) != row.kind:
                raise ValueError(f"{row.format!r} is {classes[row.format]} and {row.kind}")
            pattern_of(row.format)
            own_words(row.format)
    blocks = "".join(f'    "{kind}": r"""{NEWLINE.join(sorted(forms))}""",\n' for kind, forms in kinds.items())
    return f"{SHIPPED_HEAD}\nFORMATS = {{\n{blocks}}}\n"


def written(rows: list[Row], kernel: str, variable: int) -> str:
    """The table as text."""
    counts = Counter(row.kind for row in rows)
    told = ", ".join(f"{counts[kind]} {kind}" for kind in (*LineClass, UNDECIDED))
    head = HEAD.format(kernel=kernel, counts=told, variable=variable)
    return head + "".join("\t".join(row) + "\n" for row in rows)


def rows_written() -> list[Row]:
    """The rows of the committed table."""
    return [Row(*line.split("\t")) for line in FORMATS.read_text().splitlines() if not line.startswith("#")]


def main(arguments: list[str]) -> int:
    """Writes the table from sources, and from the table the module."""
    match arguments:
        case ["formats", source]:
            formats, variable = extracted(Path(source))
            FORMATS.write_text(written(table(formats, decisions()), version(Path(source)), variable))
        case ["ship"]:
            pass
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2
    SHIPPED.write_text(shipped(rows_written()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
