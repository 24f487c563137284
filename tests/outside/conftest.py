"""Every test here takes seconds, since it installs something first."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.outside.environments import Environments
from tests.packaging.built import dist, wheel
from tests.shared_folders import shared_root

__all__ = ["dist", "wheel"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Call every test slow that needs an environment of its own, and begin with these.

    The longest take a minute: at the end, the other processes would wait for them.
    """
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)
    for item in items:
        if item.path.parent == Path(__file__).parent and "environments" in item.fixturenames:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def environments(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environments:
    """Virtual environments with the wheel, by what a page tells to install."""
    folder = shared_root(tmp_path_factory) / "environments"
    folder.mkdir(exist_ok=True)
    return Environments(wheel, folder)
