"""The documentation, built once for all tests of a run.

`site/` is not read, so that `make docs` may write it at the same time.
"""

from __future__ import annotations

import shutil
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
    return fill_once(shared_root(tmp_path_factory) / "pages", _build) / "site"


def _build(folder: Path) -> None:
    # Copies, because Zensical builds where the file of its settings is.
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, folder / name)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
