"""Writes docs/runbooks/remedies.md from the headers of the playbooks: `make docs`.

tests/test_runbooks.py proves that it is current.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from docs import runbooks
from nodeprep.checks import CHECKS
from nodeprep.config import remedy_files
from nodeprep.decide.remedy_header import Idle, Parameter, ParameterKind, RemedyHeader, Restarted, SafetyClass

TARGET = runbooks.TARGET / "remedies.md"
INTRODUCTION = """\
# Remedies

What a playbook does about a fault, why it may, and how to do the same by hand. Written by `make docs` from the headers
of the playbooks ([playbooks/README.md](../../playbooks/README.md)). In the commands, words in braces are the arguments
that the finding names.
"""
CLASSES = {
    SafetyClass.S1: "safe while jobs run",
    SafetyClass.S2: "only while nobody uses the device",
    SafetyClass.S3: "only with an approval",
    SafetyClass.S4: "asked for, never done",
}
IDLE = {
    Idle.NOTHING: "nothing",
    Idle.NETDEV: "the interface of the argument",
    Idle.FUNCTION: "the PCI function of the argument, with its interfaces and RDMA devices",
    Idle.RDMA: "every RDMA device of the node",
    Idle.PLUGIN: "nothing; the pod whose container is restarted holds no device itself",
}
RESTARTED = {
    Restarted.NOTHING: "",
    Restarted.AGENT: "the agent's own pod, where one runs on the node: the runtime stops its sandbox",
}
KINDS = {
    ParameterKind.NETDEV: "an interface of the node",
    ParameterKind.PCI_FUNCTION: "the address of a PCI function",
    ParameterKind.PCI_SLOT: "the address of a PCI function, also of one that the bus does not list",
    ParameterKind.NEW_RDMA_DEVICE: "a name that no RDMA device has",
    ParameterKind.POD: "namespace/name of a pod",
}


def page(headers: Mapping[str, RemedyHeader]) -> str:
    """The whole page."""
    contents = [f"- [{name}](#{name})" for name in headers]
    sections = [line for header in headers.values() for line in section(header)]
    return "\n".join([INTRODUCTION, *contents, "", *sections])


def section(header: RemedyHeader) -> Iterator[str]:
    """The section of a remedy."""
    act = " The container runtime does it; there is no playbook." if header.is_act else ""
    yield from (f"## {header.name}", "", runbooks.flowed(f"{header.purpose}{act}"), "")
    yield runbooks.flowed(f"**{header.safety}, {CLASSES[header.safety]}.** {header.why}")
    yield ""
    named = [check.id for check in CHECKS.values() if header.name in check.remedies]
    yield from item("named by", ", ".join(f"[{one}](../checks.md#{runbooks.anchor(one)})" for one in named))
    yield from item("must be idle", IDLE[header.idle])
    for name, parameter in header.parameters.items():
        yield from item(f"argument `{name}`", argument(parameter))
    yield from item("is started anew at the end", RESTARTED[header.restarts])
    yield from item("may make fail for a moment", ", ".join(f"`{one}`" for one in header.disturbs))
    yield from item("keeps its effect in", ", ".join(f"`{one}`" for one in header.writes))
    yield from item("at a reboot", header.reboot)
    for title, commands in (("By hand", header.by_hand), ("To take it back", header.undo)):
        if commands:
            yield from ("", f"{title}:", "", "```", *commands, "```")
    yield ""


def item(title: str, text: str) -> Iterator[str]:
    """An item of a list, and none where there is nothing to say."""
    if text:
        yield runbooks.flowed(f"- {title}: {text}")


def argument(parameter: Parameter) -> str:
    """What an argument may be."""
    also = "" if parameter.required else "; need not be given"
    if parameter.kind is ParameterKind.INTEGER:
        return f"{parameter.least} to {parameter.most}{also}"
    said = KINDS.get(parameter.kind) or f"one of {', '.join(f'`{one}`' for one in parameter.choices)}"
    return f"{said}{also}"


def main(target: Path = TARGET) -> None:
    target.write_text(page(remedy_files.headers()), encoding="utf-8")


if __name__ == "__main__":
    main()
