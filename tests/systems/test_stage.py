"""What docs/jobs.md has people type: the stage of each system, and its manifest by its own operator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STAGE = Path(__file__).with_name("stage.py")
TYPED = """set -e
nodeprep preflight -f $JOB
kubectl create --validate=false -f $JOB
until kubectl get pods -A | grep -q "{pod}.* Running"; do sleep 0.5; done
node-enter n1 true
exit 7
"""


@pytest.mark.prove
@pytest.mark.parametrize(
    ("system", "pod"), [("mpijob", "tf-eni-worker-1"), ("pytorchjob", "ddp-worker-2"), ("tfjob", "dist-mnist-worker-1")]
)
def test_a_job_runs_there_and_the_exit_code_is_that_of_the_shell(system: str, pod: str) -> None:
    command = (sys.executable, str(STAGE), system, "--", "bash", "-c", TYPED.format(pod=pod))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 7, done.stdout + done.stderr
    assert "CAN START" in done.stdout
