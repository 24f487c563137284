"""`scripts/setup`, with a Python that only notes what it should install."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.requirements import absent

ROOT = Path(__file__).parents[1]
# Long enough that another command would begin meanwhile.
PYTHON = """#!/bin/sh
[ "$2" = pip ] || exit 0
echo "begins: $*" >>log
sleep 0.2
echo "ends: $*" >>log
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the script, and with an environment in which nothing is installed yet."""
    for name in ("scripts", "requirements", ".venv/bin", ".venv/.stamps"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts")
    for name in ("pyproject.toml", "requirements/build.txt"):
        (tmp_path / name).write_text("")
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def setup(project: Path, *groups: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [project / "scripts" / "setup", *groups],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_two_commands_at_once_install_one_after_the_other(project):
    if shutil.which("flock") is None:
        absent("no flock on the PATH: two commands that install at once are left out")
    both = [setup(project, "demo"), setup(project, "demo")]
    outputs = [each.communicate()[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], outputs
    lines = (project / "log").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == ["begins", "ends"] * 2, lines
    assert min(map(len, outputs)) == 0  # the second one found all of it there


def test_an_unknown_group_is_named(project):
    process = setup(project, "demo", "everything")
    assert "unknown group 'everything'; use demo, test" in process.communicate()[0]
    assert process.returncode == 1
    assert not (project / "log").exists()
