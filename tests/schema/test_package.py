"""The package: its public names, and what it says where the extra is missing."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import runpy
import sys

import pytest

import alula.schema

MODULES = [
    module.name
    for module in pkgutil.walk_packages(alula.schema.__path__, "alula.schema.")
    if not module.ispkg
]


@pytest.mark.parametrize("missing", ["jsonschema", "pydantic"])
def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError) as raised:
        runpy.run_path(alula.schema.__file__)
    assert str(raised.value) == (
        f"alula.schema needs {missing}, which is not installed;"
        " install it with: pip install 'alula[schema]'"
    )
    assert isinstance(raised.value.__cause__, ImportError)


def test_all_public_names_are_there_in_order_and_documented():
    names = alula.schema.__all__
    assert names == sorted(names)
    assert {"Validator", "get_validator", "query_syntax", "validate_query"} <= set(names)
    for name in names:
        found = getattr(alula.schema, name)
        assert inspect.getdoc(found) or not callable(found), name


def test_no_module_bears_the_name_of_what_the_package_exports():
    assert not {name.rpartition(".")[2] for name in MODULES} & set(alula.schema.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_for_and_what_it_offers(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert all(hasattr(module, offered) for offered in module.__all__)
    for offered in (getattr(module, each) for each in module.__all__):
        if inspect.isfunction(offered) or (
            inspect.isclass(offered) and offered.__module__.startswith("alula")
        ):
            assert offered.__doc__, offered
