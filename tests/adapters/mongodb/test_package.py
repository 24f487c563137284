"""The package: its public names, and what it says where the extra is missing."""

from __future__ import annotations

import inspect
import runpy
import sys

import pytest

from alula.adapters import mongodb


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(ImportError) as raised:
        runpy.run_path(mongodb.__file__)
    assert str(raised.value) == (
        "alula.adapters.mongodb needs pymongo, which is not installed;"
        " install it with: pip install 'alula[mongodb]'"
    )
    assert isinstance(raised.value.__cause__, ImportError)


def test_all_public_names_are_there_and_documented():
    for name in mongodb.__all__:
        assert inspect.getdoc(getattr(mongodb, name)), name


def test_no_module_bears_the_name_of_a_function_of_the_package():
    functions = {name for name in mongodb.__all__ if inspect.isfunction(getattr(mongodb, name))}
    modules = {name.rpartition(".")[2] for name in sys.modules if name.startswith("alula.adap")}
    assert functions & modules == set()
