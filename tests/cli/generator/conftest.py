"""What makes creating an application cheap: tests do it hundreds of times in one process."""

from __future__ import annotations

from functools import cache

import pytest

from alula._cli.generator import names


@pytest.fixture(scope="session", autouse=True)
def _packages_are_read_once():
    """Read what each installed package needs once; it takes as long as all else of `alula new`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "requires", cache(names.requires))
        yield
