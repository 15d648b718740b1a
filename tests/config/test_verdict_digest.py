"""Another digest for settings that judge otherwise, and the same for those that only look or tell otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.config import configuration, verdict_digest

CONFIG = "apiVersion: nodeprep.io/v1\nkind: Config\n"
POOL = "apiVersion: nodeprep.io/v1\nkind: Profile\nname: pool\nexpect: {{ports: {{at-least: 1, rate: {0}}}}}\n"
JUDGING = [
    "want: {port.mtu: {at-least: 9000}}",
    "waivers: [{check: port.state, until: 2030-01-31, reason: a cable is on order}]",
    'exclude: ["/sys/class/infiniband/mlx5_0/*"]',
    "default: rdma-roce",
    "metadata-url: http://127.0.0.1:1",
    "assign: [{use: [rdma-roce]}]",
    "assign: [{use: [rdma-roce], expect: pool.yaml}]",
    "gate: {profiles: [tcp-shared-eni]}",
    "gate: {allow-auto: true}",
    "gate: {effect: PreferNoSchedule}",  # plugin.tolerates-gate asks for it
]
OTHER = ["mode: gate", "metrics: {port: 9999}", "every: {links: 20}"]


def digest(directory: Path, text: str, rate: int = 400) -> str:
    (directory / "config.yaml").write_text(f"{CONFIG}{text}\n")
    (directory / "pool.yaml").write_text(POOL.format(rate))
    return verdict_digest.digest(configuration.load_settings(str(directory / "config.yaml"), None))


def test_every_key_that_judges_makes_another(tmp_path: Path) -> None:
    found = [digest(tmp_path, text) for text in ("", *JUDGING)]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("text", OTHER)
def test_what_does_not_judge_makes_none(tmp_path: Path, text: str) -> None:
    assert digest(tmp_path, text) == digest(tmp_path, "")


def test_a_changed_profile_makes_another(tmp_path: Path) -> None:
    assert digest(tmp_path, JUDGING[6], 400) != digest(tmp_path, JUDGING[6], 800)


def test_where_the_file_lies_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert digest(tmp_path / "a", JUDGING[6]) == digest(tmp_path / "b", JUDGING[6])
