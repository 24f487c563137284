"""The documentation, built once: what `make docs` has left, where nothing has changed since."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.shared_folders import fill_once, shared_root

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "site"
SOURCES = ("docs", "src", "mkdocs.yml")


def changed_at(*paths: Path) -> float:
    """Return when the newest file at or below the paths was changed."""
    files = [file for path in paths for file in (path, *path.rglob("*")) if file.is_file()]
    return max(file.stat().st_mtime for file in files if "__pycache__" not in file.parts)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Call every test slow that may have to build the pages first."""
    for item in items:
        if item.path.parent == Path(__file__).parent and "site" in item.fixturenames:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built pages."""
    index = BUILT / "index.html"
    sources = changed_at(*(ROOT / name for name in SOURCES))
    if index.exists() and index.stat().st_mtime >= sources:
        return BUILT
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
