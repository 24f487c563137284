"""The client installs alone, is pure Python, and costs little to import."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import pytest
from tests.test_import import RUNS, microseconds_of_import, modules_loaded_by

import alula.client

TIMES_ASYNCIO = 3.0
MODULES = sorted(path.stem for path in Path(alula.client.__file__).parent.glob("*.py"))
SERVER = {"express", "adapters", "schema", "authentication", "openapi", "testing", "_cli"}


@pytest.fixture(scope="module")
def loaded():
    return modules_loaded_by("import alula.client")


def test_nothing_of_the_server_is_imported(loaded):
    assert "alula.client._codec" in loaded
    assert {name.split(".")[1] for name in loaded if name.startswith("alula.")} & SERVER == set()


def test_nothing_but_the_standard_library_is_needed(loaded):
    allowed = sys.stdlib_module_names | {"alula"}
    foreign = {name for name in loaded if name.partition(".")[0] not in allowed}
    # Part of the standard library, with the name of the platform in its own.
    assert {name for name in foreign if not name.startswith("_sysconfigdata_")} == set()


def test_what_only_some_calls_need_is_not_loaded(loaded):
    assert loaded & {"http.client", "random", "email.utils", "alula.client._pool"} == set()


def test_its_import_costs_at_most_three_times_as_much_as_asyncio():
    microseconds_of_import("alula.client")  # leaves the compiled files behind
    names = ("alula.client", "asyncio")
    pairs = [[microseconds_of_import(name) for name in names] for _ in range(RUNS)]
    client, asyncio = map(min, zip(*pairs, strict=True))
    assert client <= TIMES_ASYNCIO * asyncio, f"{client / asyncio:.2f} times as much"


@pytest.mark.parametrize("name", alula.client.__all__)
def test_what_is_offered_is_documented(name):
    offered = getattr(alula.client, name)
    assert inspect.getdoc(offered)
    assert name not in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_modules_say_what_they_are_for(name):
    module = importlib.import_module(f"alula.client.{name}")
    assert module.__doc__
    assert all(hasattr(module, offered) for offered in module.__all__)
