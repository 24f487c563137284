"""Names that a package loads when somebody imports them."""

from __future__ import annotations

import sys

import pytest

from alula._late_imports import late_names


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The globals of a package with a module that counts how often it is loaded."""
    folder = tmp_path / "package_with_late_names"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "_parts.py").write_text("import sys\nsys.loads = sys.loads + 1\npart = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "loads", 0, raising=False)
    yield {"__name__": folder.name, "early": 1}
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]


def test_a_module_is_loaded_for_the_first_of_its_names(package):
    load, _ = late_names(package, {"part": "_parts"})
    assert sys.loads == 0
    part = load("part")
    assert (sys.loads, package["part"]) == (1, part)
    assert load("part") is part
    assert sys.loads == 1


def test_names_are_listed_before_they_are_loaded(package):
    _, names = late_names(package, {"part": "_parts"})
    assert names() == ["__name__", "early", "part"]
    assert sys.loads == 0


def test_an_unknown_name_is_an_attribute_error(package):
    load, _ = late_names(package, {"part": "_parts"})
    with pytest.raises(AttributeError) as raised:
        load("prat")
    assert str(raised.value) == "module 'package_with_late_names' has no attribute 'prat'"
