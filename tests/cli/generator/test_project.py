"""Finding the application to add to."""

from __future__ import annotations

import pytest

from alula._cli.generator.project import Choices, find_project
from alula._cli.terminal import UsageError

TABLE = """
[project]
name = "shop"

[tool.alula]
database = "mongodb"
authentication = true
prefix = "SHOP_"
"""


def write(folder, text):
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_it_is_found_from_a_subfolder(tmp_path):
    write(tmp_path, TABLE)
    (below := tmp_path / "services" / "messages").mkdir(parents=True)
    write(below.parent, "[project]\nname = 'another'")
    found = find_project(below)
    assert (found.folder, found.name) == (tmp_path, "shop")
    assert found.choices == Choices("mongodb", authentication=True, prefix="SHOP_")


def test_a_byte_order_mark_is_not_part_of_the_file(tmp_path):
    (tmp_path / "pyproject.toml").write_text(TABLE.strip(), encoding="utf-8-sig")
    assert find_project(tmp_path).name == "shop"


def test_defaults(tmp_path):
    found = find_project(write(tmp_path, "[tool.alula]"))
    assert found.name == tmp_path.name
    assert found.choices == Choices("memory", authentication=False, prefix="")
    assert not found.choices.mongodb


def test_its_own_modules(tmp_path):
    (tmp_path / "hooks").mkdir()
    (tmp_path / "data").mkdir()
    for name in ("hooks/__init__.py", "app.py", "data/a.py"):
        (tmp_path / name).touch()
    assert find_project(write(tmp_path, TABLE)).own_modules() == {"app", "hooks"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[project]", "has a pyproject.toml with a table"),
        ("[tool]\nalula = 1", "has a pyproject.toml with a table"),
        ("[tool", "cannot read "),
        ("[tool.alula]\ndatabase = 'files'", "is 'files'; use sqlite, postgresql, mongodb, memory"),
        ("[tool.alula]\nrealtime = 'yes'", "realtime is 'yes'; use true or false"),
        ("[tool.alula]\nauthentication = 1", "is 1; use true or false"),
    ],
)
def test_no_application(tmp_path, text, reason):
    with pytest.raises(UsageError, match=reason):
        find_project(write(tmp_path, text))
