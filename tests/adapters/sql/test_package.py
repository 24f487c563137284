"""The package: its public names, and what it says where the extra is missing."""

from __future__ import annotations

import inspect
import runpy
import sys

import pytest

from alula.adapters import sql


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(
        ImportError, match=r"needs sqlalchemy, .*pip install 'alula\[sql\]'"
    ) as raised:
        runpy.run_path(sql.__file__)
    assert isinstance(raised.value.__cause__, ImportError)


def test_all_public_names_are_there_in_order_and_documented():
    names = sql.__all__
    assert names == sorted(names)
    for name in names:
        assert inspect.getdoc(getattr(sql, name)), name
