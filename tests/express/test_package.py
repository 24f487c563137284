"""The package: its public names, and what it says where the extra is missing."""

from __future__ import annotations

import inspect
import runpy
import subprocess
import sys

import pytest

import alula.express


@pytest.mark.parametrize("missing", ["orjson", "starlette", "uvicorn"])
def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError) as raised:
        runpy.run_path(alula.express.__file__)
    assert str(raised.value) == (
        f"alula.express needs {missing}, which is not installed;"
        " install it with: pip install 'alula[server]'"
    )
    assert raised.value.name == missing


def test_all_public_names_are_there_in_order_and_documented():
    names = alula.express.__all__
    assert names == sorted(names)
    for name in names:
        assert inspect.getdoc(getattr(alula.express, name)), name


def test_no_module_bears_the_name_of_a_function_of_the_package():
    functions = {n for n in alula.express.__all__ if inspect.isfunction(getattr(alula.express, n))}
    # The import of a submodule sets an attribute of its package, which would hide the function.
    modules = {n.removeprefix("alula.express.") for n in sys.modules if "alula.express." in n}
    assert functions & modules == set()


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("HTTPProtocol", "uvicorn"),
        ("access_log", "alula.express._middleware.access_log"),
        ("compression", "starlette.middleware.gzip"),
        ("cors", "starlette.middleware.cors"),
        ("health", "alula.express._middleware.health"),
        ("request_id", "alula.express._middleware.request_id"),
        ("serve_static", "starlette.staticfiles"),
    ],
)
def test_parts_that_few_applications_use_are_loaded_when_somebody_names_them(name, module):
    code = (
        "import sys, alula.express as express\n"
        f"loaded = lambda: {module!r} in sys.modules\n"
        f"print(loaded(), {name!r} in dir(express))\n"
        f"print(express.{name} is express.{name}, loaded(), {name!r} in vars(express))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True", "True", "True", "True"]


def test_all_public_names_are_listed(monkeypatch):
    monkeypatch.delitem(vars(alula.express), "cors", raising=False)
    assert set(alula.express.__all__) <= set(dir(alula.express))
    assert "https" in str(alula.express.cors.__doc__)


def test_a_name_that_the_package_does_not_have():
    with pytest.raises(AttributeError, match=r"module 'alula\.express' has no attribute 'cor'"):
        alula.express.cor  # noqa: B018  # reading it is what is tested
    with pytest.raises(ImportError, match="cannot import name 'cor'"):
        exec("from alula.express import cor")  # as text: checkers refuse it
