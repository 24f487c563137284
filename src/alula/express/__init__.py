"""Alula as a web application: ASGI, middleware as in Express, the REST transport.

Needs the extra ``server``.
"""

from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING

# Look them up without loading them: only a server needs uvicorn, and few programs Starlette.
if _missing := [name for name in ("orjson", "starlette", "uvicorn") if _find_spec(name) is None]:
    raise ImportError(
        f"alula.express needs {_missing[0]}, which is not installed;"
        " install it with: pip install 'alula[server]'",
        name=_missing[0],
    )

from alula._late_imports import late_names
from alula.express._api import api
from alula.express._application import ExpressApplication, express
from alula.express._body_parsing import json, urlencoded
from alula.express._chain import NextFunction
from alula.express._middleware.authenticate import authenticate, parse_authentication
from alula.express._middleware.error_handler import error_handler
from alula.express._middleware.not_found import not_found
from alula.express._request import Request
from alula.express._response import Response
from alula.express._rest import rest
from alula.express._routing import Router
from alula.express._server import Server
from alula.express._web_application import WebApplication

if TYPE_CHECKING:
    from alula.express._http1 import HTTPProtocol
    from alula.express._middleware.access_log import access_log
    from alula.express._middleware.compression import compression
    from alula.express._middleware.cors import cors
    from alula.express._middleware.health import health
    from alula.express._middleware.request_id import request_id
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
    "api",
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

if not TYPE_CHECKING:  # otherwise, checkers would accept every name
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "HTTPProtocol": "_http1",
            "access_log": "_middleware.access_log",
            "compression": "_middleware.compression",
            "cors": "_middleware.cors",
            "health": "_middleware.health",
            "request_id": "_middleware.request_id",
            "serve_static": "_middleware.serve_static",
        },
    )
