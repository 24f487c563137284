"""The project of docs/extending.md: its tests pass, and no part takes more than 60 lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.test_code_blocks import FILE, ROOT, write_files

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
MAX_LINES = 60


@pytest.mark.parametrize(("name", "code"), FILE.findall(PAGE), ids=lambda text: text[:30])
def test_a_part_is_short(name, code):
    written = [line for line in code.splitlines() if line.strip()]
    assert len(written) <= MAX_LINES, name


def test_the_tests_of_the_page_pass(tmp_path: Path):
    paths = write_files(PAGE, tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len([path for path in paths if path.name.startswith("test_")]) * 2 == len(paths)
