"""What Prometheus gets from the real agent on a node with 8 rails, 4 front-end ports and 8 GPUs."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.agent import host
from tests.rigs.absent import cannot_start

MOST = 300  # series (design 6)
LONG = 60.0  # seconds


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page, once the first full round is done."""
    place = tmp_path_factory.mktemp("agent")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with host() as root:
        options = [
            "--host-root",
            str(root),
            "--port",
            str(port),
            "--state-dir",
            f"{place}/state",
            "--run-dir",
            f"{place}/run",
            "--socket-dir",
            f"{place}/socket",
        ]
        with Path(place, "log").open("w") as log:
            agent = subprocess.Popen([sys.executable, "-m", "nodeprep", "agent", *options], stderr=log)
        try:
            end = time.monotonic() + LONG
            while page(port, "/readyz")[0] != 200:
                assert time.monotonic() < end, Path(place, "log").read_text()
                time.sleep(0.1)
            yield page(port, "/metrics")[1]
        finally:
            agent.terminate()
            assert agent.wait(30) == 0


def page(port: int, path: str) -> tuple[int, str]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        link.close()


def test_a_node_with_all_rails_has_few_series(scraped: str) -> None:
    series = [line for line in scraped.splitlines() if line and not line.startswith("#")]
    assert len({line.rpartition(" ")[0] for line in series}) == len(series)
    assert 100 < len(series) <= MOST
    assert sum(line.startswith("nodeprep_port_up{") for line in series) == 12
    assert 'nodeprep_state{state="Bootstrap"} 1.0' in series


def test_promtool_finds_nothing_to_say(scraped: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        cannot_start("promtool is not installed (Debian: prometheus)")
    done = subprocess.run(
        [str(promtool), "check", "metrics"], input=scraped, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
