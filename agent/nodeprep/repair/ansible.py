"""The child that runs Ansible. It is a program of its own: `python -I ansible.py DIRECTORY DESCRIPTOR`.

DIRECTORY is private to this run and holds the order. It gets the result. DESCRIPTOR takes a line of JSON for each task
that has ended. Of nodeprep it imports nothing, and whatever it leaves behind the supervisor ends.
"""

from __future__ import annotations

import difflib
import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ansible_runner

TEXT = 4096  # characters kept of a message
DIFF = 65536  # and of a diff
POLL = 1  # seconds in which ansible-runner notices that a child has ended whose terminal somebody still holds
# Of Ansible itself. How often it looks whether a task has ended: its own 0.001 s take 7 % of a processor all the time.
SETTINGS = "[defaults]\ninternal_poll_interval = 0.02\n"
# `python -m ansible` without the search for cycles: an eighth of what Ansible computes in an emulated guest. A play is
# over before cycles matter, and takes 13 MiB more meanwhile.
PROGRAM = "import gc, runpy; gc.disable(); runpy.run_module('ansible', run_name='__main__', alter_sys=True)"

RESULTS = {
    "runner_on_ok": "ok",
    "runner_on_skipped": "skipped",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "failed",
}


class Watch:
    """Follows the events of a run: says each task that has ended, and keeps what the result needs."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.failed: dict[str, str] | None = None
        self.diffs: list[dict[str, str]] = []
        self.stats: Mapping[str, Any] | None = None

    def event(self, event: Mapping[str, Any]) -> bool:
        """For ansible-runner. False: nobody needs the event on disk."""
        kind, data = event.get("event", ""), event.get("event_data", {})
        if kind == "playbook_on_stats":
            self.stats = {key: data.get(key) or {} for key in ("ok", "changed", "failures", "dark", "processed")}
        if kind == "playbook_on_task_start":
            self.say(begun=str(data.get("task", ""))[:TEXT])
        if kind in RESULTS:
            self.task(RESULTS[kind], data)
        return False

    def task(self, result: str, data: Mapping[str, Any]) -> None:
        name, told = str(data.get("task", "")), data.get("res") or {}
        if result == "ok" and told.get("changed"):
            result = "changed"
        if result == "failed" and not data.get("ignore_errors"):
            self.failed = {"task": name, "message": message(told)}
        self.diffs += ({"task": name, "text": text} for text in diffs(told))
        self.say(task=name[:TEXT], result=result)

    def say(self, **told: str) -> None:
        os.write(self.lines, json.dumps(told).encode() + b"\n")


def message(told: Mapping[str, Any]) -> str:
    """What a failed task says: the first failed item's words if it has items, what it wrote on stderr, else its msg."""
    for item in told.get("results") or ():
        if item.get("failed"):
            return message(item)
    words = (str(told.get("msg", "")).strip(), str(told.get("stderr") or told.get("module_stderr") or "").strip())
    return ": ".join(word for word in words if word)[-TEXT:]


def diffs(told: Mapping[str, Any]) -> list[str]:
    """The differences that a task shows, each as unified text."""
    found: list[str] = []
    for one in (told, *(told.get("results") or ())):
        shown = one.get("diff") or []
        found += map(difference, shown if isinstance(shown, list) else [shown])
    return [text for text in found if text]


def difference(shown: Mapping[str, Any]) -> str:
    if "prepared" in shown:
        return str(shown["prepared"])[:DIFF]
    before, after = (lines(shown.get(side, "")) for side in ("before", "after"))
    was, becomes = (str(shown.get(f"{side}_header") or side) for side in ("before", "after"))
    return "\n".join(difflib.unified_diff(before, after, was, becomes, lineterm=""))[:DIFF]


def lines(side: object) -> list[str]:
    return (side if isinstance(side, str) else json.dumps(side, indent=1, sort_keys=True)).splitlines()


def command(order: Mapping[str, Any], private: Path) -> str:
    """The arguments of the interpreter: `python -m ansible` needs no program on PATH."""
    words = ["-I", "-c", PROGRAM, "playbook", "-e", f"@{private}/variables.json"]
    words += ["--check", "--diff"] if order["check"] else []
    return shlex.join([*words, order["playbook"]])


def settings(private: Path) -> dict[str, str]:
    """Ansible's own, so that no file of this machine or of a user has a say, and nothing is written elsewhere."""
    places = ("HOME", "LOCAL_TEMP", "REMOTE_TEMP", "COLLECTIONS_PATH", "ROLES_PATH", "SSH_CONTROL_PATH_DIR")
    return {f"ANSIBLE_{place}": str(private / "ansible" / place.lower()) for place in places} | {
        "ANSIBLE_CONFIG": str(private / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false",
        "ANSIBLE_INVENTORY_ENABLED": "yaml",
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_PIPELINING": "true",  # a module goes to Python's stdin, and not into a file that programs make
    }


def prepare(order: Mapping[str, Any], private: Path) -> None:
    for directory in (Path(os.environ["TMPDIR"]), private / "runner"):
        directory.mkdir()
    (private / "ansible.cfg").write_text(SETTINGS)
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (private / "inventory.yml").write_text(json.dumps({"all": {"hosts": {"localhost": host}}}))
    (private / "variables.json").write_text(json.dumps(literal(order["variables"])))


def literal(value: Any) -> Any:
    """As Ansible takes it without reading it as a template."""
    if isinstance(value, dict):
        return {key: literal(one) for key, one in value.items()}
    return [literal(one) for one in value] if isinstance(value, list) else {"__ansible_unsafe": value}


def main() -> None:
    private, descriptor = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(descriptor, False)  # what Ansible starts must not hold it
    order = json.loads((private / "order.json").read_text())
    prepare(order, private)
    watch = Watch(descriptor)
    run = ansible_runner.run(
        private_data_dir=str(private / "runner"),
        binary=sys.executable,
        cmdline=command(order, private),
        inventory=str(private / "inventory.yml"),
        envvars=settings(private),
        settings={"pexpect_timeout": POLL},
        event_handler=watch.event,
        suppress_env_files=True,
        quiet=True,
    )
    with run.stdout as output:
        said = output.read()[-TEXT:]
    result = {"code": run.rc, "stats": watch.stats, "failed": watch.failed, "diffs": watch.diffs, "said": said}
    (private / "result.new").write_text(json.dumps(result))
    (private / "result.new").rename(private / "result.json")


if __name__ == "__main__":
    main()
