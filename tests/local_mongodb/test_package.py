"""The package: its public names, and its message where the extra is missing."""

from __future__ import annotations

import inspect
import runpy
import sys

import pytest

from alula import local_mongodb


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(ImportError, match=r"needs pymongo, .*pip install 'alula\[mongodb\]'"):
        runpy.run_path(local_mongodb.__file__)


def test_all_public_names_are_there_in_order_and_documented():
    names = local_mongodb.__all__
    assert names == sorted(names)
    for name in names:
        assert inspect.getdoc(getattr(local_mongodb, name)), name
