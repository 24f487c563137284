"""The documentation, built once for all tests of a run.

`site/` is not read, so that `make docs` may write it at the same time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.shared_folders import fill_once, shared_root

ROOT = Path(__file__).parents[2]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Call every test slow that may have to build the pages first."""
    for item in items:
        if item.path.parent == Path(__file__).parent and "site" in item.fixturenames:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built pages."""
    return fill_once(shared_root(tmp_path_factory) / "site", _build)


def _build(folder: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
