"""Alula as a web application: ASGI, middleware in the manner of Express, the REST transport.

Needs the extra ``server``.
"""

try:  # only whether they are there: the modules below import them by themselves
    import orjson as _orjson  # noqa: F401  # to see whether it is there
    import starlette as _starlette  # noqa: F401  # to see whether it is there
    import uvicorn as _uvicorn  # noqa: F401  # to see whether it is there
except ImportError as error:
    raise ImportError(
        f"alula.express needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[server]'"
    ) from error

from alula.express.application import ExpressApplication, express
from alula.express.middleware.access_lines import access_log
from alula.express.middleware.caller import authenticate, parse_authentication
from alula.express.middleware.compress import compression
from alula.express.middleware.cross_origin import cors
from alula.express.middleware.error_pages import error_handler
from alula.express.middleware.json_body import json
from alula.express.middleware.missing_page import not_found
from alula.express.middleware.probes import health
from alula.express.middleware.request_ids import request_id
from alula.express.middleware.static_files import serve_static
from alula.express.middleware.urlencoded_body import urlencoded
from alula.express.request import Request
from alula.express.response import Response
from alula.express.rest_transport import rest
from alula.express.routing import Router
from alula.express.server import Server
from alula.express.uvicorn_protocol import HTTPProtocol
from alula.express.web import WebApplication

__all__ = [
    "ExpressApplication",
    "HTTPProtocol",
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
