"""HTTP <-> service methods, without I/O: which verb calls which method, statuses and headers.

The rules are those of FeathersJS 5.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote

from alula._context import HookContext
from alula.errors import MethodNotAllowed
from alula.types import STANDARD_METHODS, UNSET

__all__ = [
    "EXCHANGE_EXTENSION",
    "METHOD_HEADER",
    "METHOD_OF_VERB",
    "SCALARS",
    "ExchangeExtension",
    "Response",
    "allowed_verbs",
    "not_allowed",
    "response_for",
]

METHOD_HEADER: Final = "x-service-method"
"""The header of a POST that names a custom method."""

EXCHANGE_EXTENSION: Final = "alula.exchange"
"""The name of `ExchangeExtension` in the ``extensions`` of an ASGI scope."""

Response: TypeAlias = tuple[int, Mapping[str, str], Any]
"""Status, headers, and the value of the body."""


class ExchangeExtension(Protocol):
    """A server that takes a whole response in one call, without messages of ASGI.

    An application uses it only while its ``send`` equals the one here: what wraps ``send``, such as
    compression, has to see the response.
    """

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message: the ``send`` that the server gives to the application."""

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a response.

        Args:
            status: The status.
            headers: Names in lower case, and values, without ``content-length``.
            body: The body; the header ``content-length`` is made of it.

        Returns:
            Whether it was sent; if not, `send` has to do it.

        Raises:
            RuntimeError: A header cannot be sent.
        """
        ...


_METHODS: Final[Mapping[str, str]] = {
    "GET": "find",
    # RFC 9110, 9.3.2: HEAD runs what GET runs, so its headers are the same; no body is sent.
    "HEAD": "find",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "remove",
}
METHOD_OF_VERB: Final = (_METHODS, {**_METHODS, "GET": "get", "HEAD": "get"})
"""The service method that an HTTP method calls: for a path without the id of a record, and with."""

# The characters that JavaScript's encodeURI keeps, and "%": encoded text is not encoded again.
_LOCATION_SAFE: Final = "%;,/?:@&=+$-_.!~*'()#[]"
_BARE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")

# RFC 9110, 6.4.1: these have no content. A client that keeps the connection would take a body for
# the start of the next response.
_WITHOUT_BODY: Final = frozenset({204, 304})

_NO_HEADERS: Final[Mapping[str, str]] = {}

SCALARS: Final = (type(None), bool, int, float, str)
"""Falsy results of these types are sent as a 204; an empty list or object is content."""


def allowed_verbs(methods: Collection[str], has_id: bool) -> list[str]:
    """Return the verbs for the header ``Allow`` of a service with these methods."""
    table = METHOD_OF_VERB[has_id]
    verbs = [verb for verb, method in table.items() if method in methods]
    if "POST" not in verbs and any(method not in STANDARD_METHODS for method in methods):
        verbs.append("POST")
    return verbs


def not_allowed(
    method: str | None, verb: str, methods: Collection[str], has_id: bool
) -> MethodNotAllowed:
    """Return the 405 for a method that a service does not offer, with its header ``Allow``."""
    error = MethodNotAllowed(
        f"Method {verb} not allowed"
        if method is None
        else f"Method `{method}` is not supported by this endpoint."
    )
    # RFC 9110, 15.5.6: a 405 must name the methods that are allowed.
    error.headers = {"Allow": ", ".join(allowed_verbs(methods, has_id))}
    return error


def response_for(context: HookContext) -> Response:
    """Return status, headers and body for a method call that succeeded.

    ``context.http`` takes precedence. Without it, the status is 303 with a location, 204 for an
    empty result (None, False, 0, ""), 201 for ``create`` unless it streams, and 200 otherwise.
    """
    # Written out here, as for the status below: each call of REST comes by.
    body = context.result if context.dispatch is UNSET else context.dispatch
    http = context.http
    if not http:
        if body or not isinstance(body, SCALARS):
            # What a stream stands for is not created before its end.
            is_created = context.method == "create" and not context.streams
            return 201 if is_created else 200, _NO_HEADERS, body
        return 204, _NO_HEADERS, None
    headers = dict(http.get("headers") or {})
    location = http.get("location")
    if location is not None:
        # Names of headers have no case: a hook that set both would send two different targets.
        headers = {name: value for name, value in headers.items() if name.lower() != "location"}
        headers["Location"] = quote(_BARE_PERCENT.sub("%25", str(location)), safe=_LOCATION_SAFE)
    status = http.get("status")
    if status is None:
        if any(name.lower() == "location" for name in headers):
            status = 303
        elif not body and isinstance(body, SCALARS):
            status = 204
        else:
            status = 201 if context.method == "create" and not context.streams else 200
    return status, headers, None if status in _WITHOUT_BODY else body
