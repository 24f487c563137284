"""What a release uploads, as fixtures: the wheel, and the source archive that it is built from."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.packaging.clean import run
from tests.shared_folders import fill_once, shared_root

ROOT = Path(__file__).parents[2]
OUR_FILES = ("src", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source archive and the wheel built from it."""
    return fill_once(shared_root(tmp_path_factory) / "build", _build) / "dist"


def _build(folder: Path) -> None:
    for name in OUR_FILES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    done = run(sys.executable, "-m", "build", "--no-isolation", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path
