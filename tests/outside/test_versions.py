"""The ranges that are declared: both ends are tried, and on each Python that is named."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from tests.outside.environments import ROOT, variables

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCRIPT = ROOT / "scripts" / "try-versions"
EXTRAS = [
    Requirement(line)
    for extra, lines in PROJECT["optional-dependencies"].items()
    if extra not in {"all", "embedded"}
    for line in lines
    if not line.startswith("alula[")  # another extra, whose ranges are among these
]


def test_every_range_begins_at_a_version_that_can_be_installed():
    for each in EXTRAS:
        assert [spec.version for spec in each.specifier if spec.operator == ">="], str(each)


def test_both_ends_of_the_ranges_are_tried_by_ci():
    assert {"lowest", "newest"} <= words_after("check", ROOT / ".ci" / "run")


def test_each_python_that_is_named_is_tried_before_a_release():
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    tried = re.findall(r"wanted=(3\.\d+)", SCRIPT.read_text())
    of_ci = PROJECT["requires-python"].removeprefix(">=")
    assert set(named) == {of_ci, *tried}
    before_a_release = words_after("version", ROOT / "scripts" / "release-check")
    assert set(named) - {of_ci} <= before_a_release


def words_after(variable: str, script: Path) -> set[str]:
    """Return what a loop of a shell script goes through."""
    loop = re.search(rf"^for {variable} in (.*); do$", script.read_text(), re.MULTILINE)
    return set(loop[1].split()) if loop else set()


def test_a_python_that_is_not_here_is_left_out_with_a_line():
    done = subprocess.run(
        [SCRIPT, "3.99"], env=variables(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "try-versions: Python 3.99 is not installed: skipped\n"
    assert not (ROOT / ".venv" / "versions" / "3.99").exists()
