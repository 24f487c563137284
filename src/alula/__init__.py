"""Alula: name your services; each gets a REST API, one query syntax, hooks and events."""

from alula._app import App
from alula._context import HookContext, Params
from alula._service import CustomMethod, ServiceHandle, TypedService
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
    "TypedService",
    "disallow",
]
