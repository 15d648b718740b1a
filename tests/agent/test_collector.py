"""What rounds leave behind is collected soon: `nodeprep` starts with a threshold with which it would stay for hours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from nodeprep.__main__ import GC_THRESHOLD_OBJECTS as OF_A_START

PROGRAM = """
import gc, json, os, sys
from nodeprep.cli.daemon import agent_command
from nodeprep.cli.daemon.agent_command import AgentOptions

def tell(_):
    print(json.dumps([gc.get_threshold()[0], gc.get_freeze_count()]), flush=True)
    os._exit(0)

gc.set_threshold(int(sys.argv[1]))
config, state, run, socket = (f"{sys.argv[2]}/{name}" for name in ("config.yaml", "state", "run", "socket"))
options = AgentOptions(config=config, state_dir=state, run_dir=run, socket_dir=socket, port=0)
agent_command.run(options, (tell,))
"""
PYTHONS_OWN = 700
IMPORTED = 10_000  # objects at least


def test_the_agent_collects_as_python_does_and_leaves_out_what_stays(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("apiVersion: nodeprep.io/v1\nkind: Config\nmode: observe\n")
    command = (sys.executable, "-c", PROGRAM, str(OF_A_START), str(tmp_path))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    threshold, frozen = json.loads(done.stdout)
    assert OF_A_START > threshold == PYTHONS_OWN
    assert frozen > IMPORTED
