"""HTTP <-> service methods, without any input or output: verbs, statuses, headers.

Which method a verb calls, which status and headers a result has, what ``Allow`` says. The facts
are those of the interface, and of FeathersJS 5 where the interface is silent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from alula._context import HookContext
from alula.errors import MethodNotAllowed
from alula.types import STANDARD_METHODS, UNSET

__all__ = ["METHOD_HEADER", "Answer", "allowed_verbs", "answer_for", "method_for", "not_allowed"]

METHOD_HEADER: Final = "x-service-method"
"""The header of a POST that names a custom method."""

_COLLECTION: Final[Mapping[str, str]] = {
    "GET": "find",
    "HEAD": "find",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "remove",
}
_MEMBER: Final[Mapping[str, str]] = {**_COLLECTION, "GET": "get", "HEAD": "get"}

# What encodeURI leaves alone, and "%" so that what is encoded already stays so.
_LOCATION_SAFE: Final = "%;,/?:@&=+$-_.!~*'()#[]"
_BARE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")

_WITHOUT_BODY: Final = frozenset({204, 304})

# Falsy values of these types are answered by a 204; an empty list or object is content.
_SCALARS: Final = (type(None), bool, int, float, str)


Answer: TypeAlias = tuple[int, Mapping[str, str], Any]
"""The HTTP form of a result: status, headers, and the value of the body."""


def method_for(verb: str, has_id: bool, custom: str | None) -> str | None:
    """Return the service method that a request calls, None where the verb stands for none.

    Args:
        verb: HTTP method in upper case.
        has_id: Whether the path names a record.
        custom: Value of the header ``X-Service-Method``; it counts for POST alone.
    """
    if custom and verb == "POST":
        return custom
    return (_MEMBER if has_id else _COLLECTION).get(verb)


def allowed_verbs(methods: Collection[str], has_id: bool) -> list[str]:
    """Return the verbs for the header ``Allow``, given the methods that a service offers."""
    table = _MEMBER if has_id else _COLLECTION
    verbs = [verb for verb, method in table.items() if method in methods]
    if "POST" not in verbs and any(method not in STANDARD_METHODS for method in methods):
        verbs.append("POST")
    return verbs


def not_allowed(
    method: str | None, verb: str, methods: Collection[str], has_id: bool
) -> MethodNotAllowed:
    """Return the 405 for a method that a service does not offer, with its ``Allow``."""
    error = MethodNotAllowed(
        f"Method {verb} not allowed"
        if method is None
        else f"Method `{method}` is not supported by this endpoint."
    )
    error.headers = {"Allow": ", ".join(allowed_verbs(methods, has_id))}
    return error


def answer_for(context: HookContext) -> Answer:
    """Return status, headers and body of a call that succeeded.

    ``context.http`` decides where it says something. Else: 303 with a location, 204 for a result
    that is empty (None, False, 0, ""), 201 for ``create``, 200 for everything else.
    """
    body = context.result if context.dispatch is UNSET else context.dispatch
    http = context.http
    if not http:
        if body or not isinstance(body, _SCALARS):
            return 201 if context.method == "create" else 200, {}, body
        return 204, {}, None
    headers = dict(http.get("headers") or {})
    location = http.get("location")
    if location is not None:
        headers = {name: value for name, value in headers.items() if name.lower() != "location"}
        headers["Location"] = quote(_BARE_PERCENT.sub("%25", str(location)), safe=_LOCATION_SAFE)
    status = http.get("status")
    if status is None:
        if any(name.lower() == "location" for name in headers):
            status = 303
        elif not body and isinstance(body, _SCALARS):
            status = 204
        else:
            status = 201 if context.method == "create" else 200
    return status, headers, None if status in _WITHOUT_BODY else body
