"""What somebody hands to ``use``: middleware, an ASGI application, or a service."""

from __future__ import annotations

import enum
import inspect
from typing import Any

from alula.compose import name_of

__all__ = ["Kind", "kind_of"]


class Kind(enum.Enum):
    """What an argument of ``use`` is."""

    MIDDLEWARE = "middleware"
    ERROR_MIDDLEWARE = "error middleware"
    HANDLER = "handler"
    ASGI = "ASGI application"
    SERVICE = "service"


_BY_COUNT = {2: Kind.HANDLER, 3: Kind.MIDDLEWARE, 4: Kind.ERROR_MIDDLEWARE}


def kind_of(item: Any) -> Kind:
    """Return what an argument of ``use`` is, by its signature.

    ``(scope, receive, send)`` is an ASGI application, ``(req, res)`` a handler, ``(req, res,
    next)`` middleware, ``(error, req, res, next)`` error middleware; what can not be called is
    taken for a service.

    Raises:
        TypeError: It can be called, but its arguments fit none of these; or it is a class.
    """
    if isinstance(item, type):
        raise TypeError(f"{name_of(item)} is a class; use an instance: {item.__name__}()")
    if not callable(item):
        return Kind.SERVICE
    parameters = inspect.signature(item).parameters.values()
    positional = [
        p
        for p in parameters
        if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD} and p.default is p.empty
    ]
    if positional and positional[0].name == "scope":
        return Kind.ASGI
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return Kind.MIDDLEWARE
    kind = _BY_COUNT.get(len(positional))
    if kind is None:
        raise TypeError(
            f"{name_of(item)}{inspect.signature(item)} fits nothing that can be used: middleware"
            " takes (req, res, next), error middleware (error, req, res, next), a handler"
            " (req, res)"
        )
    return kind
