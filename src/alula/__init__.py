"""Alula: name your services; each gets a REST API, one query syntax, hooks and events."""

from alula._app import App
from alula._context import HookContext, Params
from alula._declared import Checks, Declared, answers, checks_by
from alula._service import (
    CustomMethod,
    ServiceHandle,
    StreamedItems,
    StreamMethod,
    TypedService,
)
from alula.errors import FrameworkError
from alula.hooks import Next, disallow
from alula.types import UNSET, Id, Page, Record

__version__ = "0.1.0"

__all__ = [
    "UNSET",
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
    "answers",
    "disallow",
]


def _checks_of_types(declared: Declared) -> Checks:
    """Return the checks of a method that declares types, which need the extra ``schema``."""
    try:
        from alula.schema._declared_methods import make_checks  # noqa: PLC0415  # for these alone
    except ImportError as error:
        raise TypeError(f"{declared.where} declares types: {error}") from error
    return make_checks(declared)


checks_by(_checks_of_types)
