"""Folders that all worker processes of a test run share, each filled by the first that needs it."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of this test run: the same in every worker of xdist."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


def fill_once(folder: Path, fill: Callable[[Path], object]) -> Path:
    """Let one process fill a folder while the others wait; return the folder.

    Args:
        folder: A folder that all processes know by this path. Its parent exists.
        fill: Fills it. If that fails, the next process tries again in an empty folder.
    """
    done = folder.with_name(f"{folder.name}.done")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fill(folder)
            done.touch()
    return folder
