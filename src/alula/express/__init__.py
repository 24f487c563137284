"""Alula as a web application: ASGI, middleware as in Express, the REST transport.

Needs the extra ``server``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

try:
    # For the message below; the modules import them themselves.
    import orjson as _orjson  # noqa: F401  # to see whether it is there
    import starlette as _starlette  # noqa: F401  # to see whether it is there
    import uvicorn as _uvicorn  # noqa: F401  # to see whether it is there
except ImportError as error:
    raise ImportError(
        f"alula.express needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[server]'"
    ) from error

from alula.express._application import ExpressApplication, express
from alula.express._body_parsing import json, urlencoded
from alula.express._chain import NextFunction
from alula.express._middleware.access_log import access_log
from alula.express._middleware.authenticate import authenticate, parse_authentication
from alula.express._middleware.error_handler import error_handler
from alula.express._middleware.health import health
from alula.express._middleware.not_found import not_found
from alula.express._middleware.request_id import request_id
from alula.express._request import Request
from alula.express._response import Response
from alula.express._rest import rest
from alula.express._routing import Router
from alula.express._server import Server
from alula.express._uvicorn import HTTPProtocol
from alula.express._web_application import WebApplication

if TYPE_CHECKING:
    from alula.express._middleware.compression import compression
    from alula.express._middleware.cors import cors
    from alula.express._middleware.serve_static import serve_static

__all__ = [
    "ExpressApplication",
    "HTTPProtocol",
    "NextFunction",
    "Request",
    "Response",
    "Router",
    "Server",
    "WebApplication",
    "access_log",
    "authenticate",
    "compression",
    "cors",
    "error_handler",
    "express",
    "health",
    "json",
    "not_found",
    "parse_authentication",
    "request_id",
    "rest",
    "serve_static",
    "urlencoded",
]

_WITH_STARLETTE: Final = frozenset({"compression", "cors", "serve_static"})
"""Names that are loaded when somebody imports them: with parts of Starlette that take 3 % of the
start."""

if not TYPE_CHECKING:  # otherwise, checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name not in _WITH_STARLETTE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}._middleware.{name}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_WITH_STARLETTE})
