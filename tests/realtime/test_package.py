"""The package: its public names, and what it says where the extra is missing."""

from __future__ import annotations

import inspect
import runpy
import sys

import pytest

import alula.realtime


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "orjson", None)
    with pytest.raises(ImportError, match=r"needs orjson.*pip install 'alula\[server,realtime\]'"):
        runpy.run_path(alula.realtime.__file__)


def test_all_public_names_are_there_in_order_and_documented():
    names = alula.realtime.__all__
    assert names == sorted(names)
    for name in names:
        assert inspect.getdoc(getattr(alula.realtime, name)), name
