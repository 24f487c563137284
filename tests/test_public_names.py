"""The public surface of the core: every name of the interface is there, and says what it is."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Protocol

import pytest

import alula
from alula import App, HookContext, Params, ServiceHandle, errors
from alula.errors import FrameworkError

MODULES = [
    *sorted(path.stem for path in Path(alula.__file__).parent.glob("*.py")),
    "_service",
    "hooks",
    "logs",
    "query",
]

INTERFACE = {
    App: [
        "use",
        "service",
        "unuse",
        "hooks",
        "configure",
        "set",
        "get",
        "setup",
        "teardown",
        "on",
        "off",
        "emit",
        "lookup",
        "around",
        "before",
        "after",
        "error",
    ],
    ServiceHandle: [
        "find",
        "get",
        "create",
        "update",
        "patch",
        "remove",
        "call",
        "run",
        "hooks",
        "around",
        "before",
        "after",
        "error",
        "on",
        "off",
        "emit",
    ],
    Params: ["get", "copy", "keys"],
    FrameworkError: ["to_dict", "from_dict"],
}

ERRORS = [
    "FrameworkError",
    "BadRequest",
    "NotAuthenticated",
    "PaymentError",
    "Forbidden",
    "NotFound",
    "MethodNotAllowed",
    "NotAcceptable",
    "Timeout",
    "Conflict",
    "Gone",
    "LengthRequired",
    "PayloadTooLarge",
    "UnsupportedMediaType",
    "Unprocessable",
    "TooManyRequests",
    "GeneralError",
    "NotImplementedMethod",
    "BadGateway",
    "Unavailable",
]


def test_the_package_offers_these_names_and_no_others():
    assert sorted(alula.__all__) == [
        "App",
        "CustomMethod",
        "FrameworkError",
        "HookContext",
        "Id",
        "Next",
        "Page",
        "Params",
        "Record",
        "ServiceHandle",
        "StreamMethod",
        "StreamedItems",
        "TypedService",
        "UNSET",
        "answers",
        "disallow",
    ]
    assert all(hasattr(alula, name) for name in alula.__all__)


def test_the_version_is_one():
    assert alula.__version__.count(".") == 2


@pytest.mark.parametrize(
    ("owner", "name"),
    [(owner, name) for owner, names in INTERFACE.items() for name in names],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_method_of_the_interface_is_there_and_documented(owner, name):
    method = getattr(owner, name)
    assert callable(method)
    assert inspect.getdoc(method)


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_of_the_interface_is_there(name):
    assert name in errors.__all__
    assert issubclass(getattr(errors, name), FrameworkError)


def test_app_takes_and_has_what_the_interface_says():
    app = App(debug=None)
    assert list(inspect.signature(App).parameters) == ["debug"]
    assert list(inspect.signature(App.use).parameters) == [
        "self",
        "path",
        "service",
        "methods",
        "events",
    ]
    assert isinstance(app.settings, dict)


@pytest.mark.parametrize(
    "name",
    [
        "query",
        "provider",
        "headers",
        "route",
        "paginate",
        "adapter",
        "pipeline",
        "docdb",
        "collation",
        "authentication",
        "user",
    ],
)
def test_the_well_known_params_are_typed_and_described(name):
    assert name in Params.__annotations__
    assert f"        {name}: " in Params.__doc__ or f"    {name}: " in inspect.getdoc(Params)
    getattr(Params(), name)


@pytest.mark.parametrize(
    "name",
    [
        "app",
        "service",
        "path",
        "method",
        "type",
        "id",
        "data",
        "params",
        "result",
        "dispatch",
        "error",
        "event",
        "http",
    ],
)
def test_the_context_has_what_the_interface_says(name):
    class Handle:
        path = "messages"

    assert hasattr(HookContext(None, Handle(), "find", Params()), name)
    assert f"    {name}: " in inspect.getdoc(HookContext)


def is_protocol(owner):
    """Tell whether a class only describes the methods of others."""
    return Protocol in owner.__bases__


def public_members(owner):
    """Yield what a class defines itself and shows to the outside."""
    for name, member in vars(owner).items():
        if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
            yield name, member


@pytest.mark.parametrize("name", MODULES)
class TestEveryModule:
    def test_says_what_it_is_for_and_what_it_offers(self, name):
        module = importlib.import_module(f"alula.{name}")
        assert module.__doc__
        assert sorted(module.__all__) == sorted(set(module.__all__))
        assert all(hasattr(module, offered) for offered in module.__all__)

    def test_documents_what_it_offers(self, name):
        module = importlib.import_module(f"alula.{name}")
        for offered in (getattr(module, entry) for entry in module.__all__):
            if inspect.isclass(offered):
                assert "__doc__" in vars(offered)
                assert offered.__doc__
                undocumented = [
                    member for member, value in public_members(offered) if not inspect.getdoc(value)
                ]
                assert undocumented == [] or is_protocol(offered)  # it names methods of others
            elif inspect.isfunction(offered):
                assert offered.__doc__


def test_every_module_of_the_core_is_looked_at():
    assert {"_app", "_context", "_http", "errors", "_events", "hooks"} <= set(MODULES)
