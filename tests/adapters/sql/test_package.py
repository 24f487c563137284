"""The package: its public names, and what it says where the extra is missing."""

from __future__ import annotations

import inspect
import runpy
import subprocess
import sys

import pytest

from alula.adapters import sql

pytestmark = pytest.mark.slow


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(
        ImportError, match=r"needs sqlalchemy, .*pip install 'alula\[sql\]'"
    ) as raised:
        runpy.run_path(sql.__file__)
    assert isinstance(raised.value.__cause__, ImportError)


ON_A_TABLE = """
import sys
from sqlalchemy import Column, Integer, MetaData, Table
from alula.adapters.sql import Database, SQLService
SQLService(Table("notes", MetaData(), Column("id", Integer, primary_key=True)), Database("sqlite://"))
sys.exit("sqlalchemy.orm" in sys.modules)
"""


def test_only_mapped_classes_need_the_orm():
    """It takes 0.2 s to load, in each process and for each run of an application's tests."""
    subprocess.run([sys.executable, "-c", ON_A_TABLE], check=True)


def test_all_public_names_are_there_in_order_and_documented():
    names = sql.__all__
    assert names == sorted(names)
    for name in names:
        assert inspect.getdoc(getattr(sql, name)), name
