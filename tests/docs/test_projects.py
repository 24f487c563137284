"""Pages that are projects: the blocks under a file's name are written, and their tests pass.

``tests/outside`` does the same in environments that have only what the page tells to install.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.test_code_blocks import FILE, PROJECTS, ROOT, write_files
from tests.requirements import require_mongod

pytestmark = pytest.mark.slow

EXTENDING = ROOT / "docs" / "extending.md"
MAX_LINES_OF_AN_EXTENSION = 60


@pytest.mark.parametrize("page", PROJECTS, ids=lambda page: page.name)
def test_the_tests_of_a_page_pass(page: Path, tmp_path: Path):
    text = page.read_text(encoding="utf-8")
    if "alula.local_mongodb" in text:
        require_mongod()
    write_files(text, tmp_path)
    settings = (
        "[pytest]",
        "anyio_mode = auto",
        "filterwarnings = error",
        "faulthandler_timeout = 120",  # what hangs says where
        "faulthandler_exit_on_timeout = true",
    )
    (tmp_path / "pytest.ini").write_text("\n".join(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "anyio"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    functions = len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE))
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) >= functions > 0


@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param(*part, id=part[0]) for part in FILE.findall(EXTENDING.read_text())],
)
def test_an_extension_is_short(name, code):
    assert len([line for line in code.splitlines() if line.strip()]) <= MAX_LINES_OF_AN_EXTENSION
