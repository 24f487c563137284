"""A page that is a project: what its files must not become. `tests/outside` runs the projects."""

from __future__ import annotations

import pytest
from tests.docs.test_code_blocks import FILE, ROOT

EXTENDING = ROOT / "docs" / "extending.md"
MAX_LINES_OF_AN_EXTENSION = 60


@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param(*part, id=part[0]) for part in FILE.findall(EXTENDING.read_text())],
)
def test_an_extension_is_short(name, code):
    assert len([line for line in code.splitlines() if line.strip()]) <= MAX_LINES_OF_AN_EXTENSION
