"""What somebody hands to ``use``: middleware, an ASGI application, or a service."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from typing import Any

from alula._user_code import name_of
from alula.types import STANDARD_METHODS

__all__ = ["Kind", "kind_of"]


class Kind(enum.Enum):
    """What an argument of ``use`` is."""

    MIDDLEWARE = "middleware"
    ERROR_MIDDLEWARE = "error middleware"
    HANDLER = "handler"
    ASGI = "ASGI application"
    SERVICE = "service"


_POSITIONAL = frozenset(
    {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
)
_BY_COUNT = {2: Kind.HANDLER, 3: Kind.MIDDLEWARE, 4: Kind.ERROR_MIDDLEWARE}


def kind_of(item: Any) -> Kind:
    """Return what an argument of ``use`` is, by its signature.

    ``(scope, receive, send)`` is an ASGI application, ``(req, res)`` a handler, ``(req, res,
    next)`` middleware, ``(error, req, res, next)`` error middleware. What can not be called, or
    has other arguments and the methods of a service, is taken for a service.

    Raises:
        TypeError: It is none of these; a class, or options that should be keywords.
    """
    if isinstance(item, type):
        raise TypeError(f"{name_of(item)} is a class; use an instance: {item.__name__}()")
    if isinstance(item, Mapping):
        raise TypeError(
            f"{item!r} is no service; options are keywords: use(path, service, methods=[...])"
        )
    if not callable(item):
        return Kind.SERVICE
    try:
        signature = inspect.signature(item)
    except ValueError:  # some built-in functions have none
        raise TypeError(f"{name_of(item)} has no signature; wrap it in a function") from None
    kind = _kind_by(signature)
    if kind is not None:
        return kind
    if any(callable(getattr(item, name, None)) for name in STANDARD_METHODS):
        return Kind.SERVICE
    raise TypeError(
        f"{name_of(item)}{signature} fits nothing that can be used: middleware takes (req, res,"
        " next), error middleware (error, req, res, next), a handler (req, res); a plugin takes"
        " (app), and goes to app.configure(plugin)"
        + (f"; call it to get middleware: {name_of(item)}()" if _is_factory(signature) else "")
    )


def _kind_by(signature: inspect.Signature) -> Kind | None:
    parameters = signature.parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind in _POSITIONAL]
    if needed and needed[0].name == "scope":
        return Kind.ASGI
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return Kind.MIDDLEWARE
    return _BY_COUNT.get(len(needed))


def _is_factory(signature: inspect.Signature) -> bool:
    """Tell whether it takes options alone, as the functions do that make middleware."""
    parameters = signature.parameters.values()
    return bool(parameters) and all(p.default is not p.empty for p in parameters)
