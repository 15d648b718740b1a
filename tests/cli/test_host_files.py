"""Files for a host without Kubernetes: the systemd unit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from nodeprep.cli.daemon import directories
from tests.rigs.absent import cannot_start

UNIT = Path(__file__).resolve().parents[2] / "agent/host/nodeprep.service"


def values(key: str) -> list[str]:
    return [line.partition("=")[2] for line in UNIT.read_text().splitlines() if line.startswith(f"{key}=")]


def test_the_unit_lets_the_agent_write_its_directories_and_no_other() -> None:
    where = directories.directories("/", None, None, None)
    assert values("ReadWritePaths")[0].split() == [where.state, where.run, where.socket]
    assert values("ExecStartPre") == [f"+/bin/mkdir -p {where.state} {where.run} {where.socket}"]
    assert values("ProtectSystem") == ["strict"]


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        cannot_start("systemd is not installed here")
    program = tmp_path / "nodeprep"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "nodeprep.service"
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/nodeprep", str(program)))
    done = subprocess.run(("systemd-analyze", "verify", str(unit)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
