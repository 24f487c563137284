"""Turns a service call into an HTTP request, and a response into a result, without any I/O.

The asynchronous and the synchronous client and all their transports share this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from alula._context import Params
from alula.client._json import body_of
from alula.errors import BadGateway, BadRequest, FrameworkError, error_for_status, from_dict
from alula.query import stringify
from alula.types import JSONValue, is_mapping

__all__ = [
    "DefaultHeaders",
    "Request",
    "RequestError",
    "Response",
    "Sendable",
    "error_of_json",
    "fill_route",
    "merge_headers",
    "read_response",
    "request_for",
    "with_request_error",
]

HTTP_METHODS: Final = {
    "find": "GET",
    "get": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "remove": "DELETE",
}
_JSON: Final = "application/json"
# A stream sends an error after its first item only to clients that name its type.
_ACCEPTED: Final = f"{_JSON}, text/event-stream;q=0.9"
_NOT_IN_HEADERS: Final = re.compile(r"[\r\n\0]|[^\x00-\xff]")
_WITH_ID: Final = frozenset({"get", "update", "patch", "remove"})
_SHOWN_CHARACTERS: Final = 200  # of a body, in the text of a `RequestError`
_KEPT_BYTES: Final = 65_536  # of a body, in a `RequestError`
# The headers of a response that its error keeps. If the error escapes from a hook, a server sends
# them on to its own client. So none may concern the called server alone (cookies, CORS, framing).
_FORWARDED_HEADERS: Final = ("retry-after", "allow", "www-authenticate")
# `encodeURIComponent` does not escape these, so the clients of FeathersJS do not either.
_SAFE_IN_SEGMENTS: Final = "!~*'()"


class Sendable(Protocol):
    """What a transport sends: the request of a call. Errors name it by these two."""

    @property
    def method(self) -> str:
        """The method."""
        ...

    @property
    def url(self) -> str:
        """Where it is sent to."""
        ...


# A tuple, since one is made for every call, in a fifth of the time of a dataclass.
class Request(NamedTuple):
    """An HTTP request.

    Attributes:
        method: The HTTP method.
        url: The whole URL, percent-encoded.
        headers: Headers by name; every name occurs once.
        body: The body, None for none.
    """

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None = None


class Response(NamedTuple):
    """An HTTP response.

    Attributes:
        status: The HTTP status.
        headers: Headers by names in lower case; the mapping may be the library's and ignore case.
        body: The whole body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class RequestError(Exception):
    """Why a call failed, with all details: the ``__cause__`` of the error that the call raises.

    That error may escape from a hook of a server, which sends its ``message`` and ``data`` to its
    own clients. So the details that concern the called server (its URL, its headers, its pages) are
    only here. The text leaves out the query string, which may hold a secret, because texts get
    into logs.

    Args:
        request: The request.
        what: What happened, as the end of a sentence.
        response: The response, None if there was none.

    Attributes:
        method: The HTTP method; over socket.io, that of the service.
        url: The whole URL; over socket.io, that of the service.
        status: The status of the response or of its error, None if there was none.
        headers: The headers of the response, with names in lower case.
        body: Its body, at most the first 64 KiB.

    Examples:
        ```python
        from alula.client import RequestError
        from alula.errors import FrameworkError


        async def quota_left(messages):
            try:
                await messages.find()
            except FrameworkError as error:
                if isinstance(error.__cause__, RequestError):
                    return error.__cause__.headers.get("x-ratelimit-remaining")
        ```
    """

    def __init__(self, request: Sendable, what: str, response: Response | None = None) -> None:
        self.method = request.method
        self.url = request.url
        self.status = None if response is None else response.status
        self.headers: dict[str, str] = {}
        self.body = b""
        if response is not None:
            self.headers = {name.lower(): value for name, value in response.headers.items()}
            self.body = response.body[:_KEPT_BYTES]
        address, mark, _ = request.url.partition("?")
        shown = address + (mark and "?...")
        super().__init__(f"{request.method} {shown} {what.replace(request.url, shown)}")


# Headers of a request that are of its connection, its body or its response, and none of another
# call. Where a server passes a call on, the other server does not get them.
_STAYS: Final = re.compile(
    r"host|cookie|origin|referer|accept|accept-(encoding|charset)|content-.*|transfer-encoding"
    r"|te|trailer|connection|keep-alive|upgrade|expect|range|if-.*|proxy-.*|sec-.*|http2-settings"
    r"|x-service-method|x-http-method-override|forwarded|x-forwarded-.*",
    re.IGNORECASE,
)


class DefaultHeaders:
    """The headers of every request of a connection, merged once instead of once per request.

    Args:
        headers: The option ``headers`` of the connection.

    Raises:
        ValueError: A header cannot be sent.
        TypeError: A value is not a string.
    """

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._without_body = merge_headers({"Accept": _ACCEPTED}, headers)
        self._with_body = merge_headers({"Accept": _ACCEPTED, "Content-Type": _JSON}, headers)

    def for_call(self, method: str, params: Params) -> dict[str, str]:
        """Return the headers of one call, as a new dict.

        Raises:
            ValueError: A header of the call cannot be sent.
            TypeError: A value is not a string.
        """
        has_body = HTTP_METHODS.get(method) not in {"GET", "DELETE"}
        defaults = self._with_body if has_body else self._without_body
        headers, connection = params.get("headers"), params.get("connection")
        if method in HTTP_METHODS and not headers and not connection:
            return defaults.copy()
        custom = None if method in HTTP_METHODS else {"X-Service-Method": method}
        # Where a server passes a call on, it is the connection that the call came by.
        options: Mapping[str, Any] = connection if is_mapping(connection) else {}
        if headers and params.get("provider") is not None:
            headers = {n: v for n, v in headers.items() if not _STAYS.fullmatch(n)}
        # Last: no header of a caller chooses another method.
        return merge_headers(defaults, headers, options.get("headers"), custom)


def merge_headers(*levels: Mapping[str, str] | None) -> dict[str, str]:
    """Merge headers, ignoring the case of their names; later ones win.

    Raises:
        ValueError: A name or a value has a line break, or characters beyond Latin-1.
        TypeError: A value is not a string.
    """
    merged: dict[str, tuple[str, str]] = {}
    for level in levels:
        for name, value in (level or {}).items():
            if not isinstance(value, str):
                raise TypeError(f"the header {name} is {value!r}; give a string")
            if _NOT_IN_HEADERS.search(name) or _NOT_IN_HEADERS.search(value):
                raise ValueError(
                    f"the header {name!r} has a line break or a character that no header can have"
                )
            merged[name.lower()] = (name, value)
    return dict(merged.values())


_NO_HEADERS: Final = DefaultHeaders()


def request_for(
    base: str,
    method: str,
    id: object,
    data: object,
    params: Params,
    headers: DefaultHeaders = _NO_HEADERS,
) -> Request:
    """Return the HTTP request of a service call.

    Args:
        base: URL of the service; segments ``:name`` take their values from ``params.route``.
        method: A standard method, or the name of a custom one.
        id: The id of get, update, patch and remove.
        data: The body; None for none.
        params: ``query``, ``route``, ``headers`` and ``connection["headers"]`` are read; only the
            query reaches the service.
        headers: The default headers of the connection.

    Raises:
        BadRequest: An id is missing or not valid, or a placeholder has no value. Or a part of the
            query cannot be sent, and the call would change other records without it.
        TypeError: Data or query hold a value that cannot be encoded.
        ValueError: A header cannot be sent, or data contain themselves.
    """
    url = fill_route(base, params.get("route", {})) if "/:" in base else base
    if method in _WITH_ID:
        if id == "" or (id is None and method == "get"):
            raise BadRequest(f"id for .{method} is required")
        if id is not None:
            url += f"/{_segment('id', id)}"
    query = params.query
    if query != {}:
        text = stringify(query)
        if id is None and method in _WITH_ID:
            # A query string leaves out empty parts: {"id": {"$in": []}} would change every record.
            for name in _empty_parts(query, ""):
                raise BadRequest(
                    f"the query of .{method}(None) has nothing in {name}, and no query string can"
                    " say so: it would change other records"
                )
        url = f"{url}?{text}" if text else url
    body = None if data is None else body_of(data)
    return Request(HTTP_METHODS.get(method, "POST"), url, headers.for_call(method, params), body)


def _empty_parts(value: JSONValue, name: str) -> Iterator[str]:
    if not isinstance(value, Mapping | list | tuple):
        return
    if not value:
        yield name
    named: Mapping[Any, Any] = value if isinstance(value, Mapping) else dict(enumerate(value))
    for key, part in named.items():
        yield from _empty_parts(part, f"{name}[{key}]" if name else str(key))


def _segment(name: str, value: object) -> str:
    # Most ids are such, and there is nothing to escape in them.
    if type(value) is int or (type(value) is str and value.isascii() and value.isalnum()):
        return str(value)
    if isinstance(value, Mapping | list | tuple | set | bytes):
        raise BadRequest(f"{name} is {value!r}; it has to be a single value, such as a string")
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    # HTTP libraries resolve `.` and `..` even if they are percent-encoded, and would call another
    # service.
    if text not in {".", ".."}:
        with suppress(UnicodeEncodeError):  # a lone surrogate, half of a character in UTF-16
            return quote(text, safe=_SAFE_IN_SEGMENTS)
    raise BadRequest(f"{name} is {text!r}, which no address can carry")


def fill_route(
    path: str, route: Mapping[str, Any], segment: Callable[[str, object], str] = _segment
) -> str:
    """Replace the placeholders of a path or URL by values of ``params.route``.

    Args:
        path: The path.
        route: Values by name.
        segment: Called with a name and its value; returns the segment, by default percent-encoded.

    Raises:
        BadRequest: A placeholder has no value.
    """

    def fill(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        value = route.get(name)
        if value is None or value == "":
            raise BadRequest(f"the path has the placeholder :{name}; give route={{{name!r}: ...}}")
        return segment(name, value)

    return re.sub(r"(?<![^/]):([^/]+)", fill, path)


# -- responses ------------------------------------------------------------------------------------


def read_response(request: Request, response: Response) -> object:
    """Return the result in a response, None for an empty one.

    Raises:
        FrameworkError: The error in the response, of its class, with its data and errors; or one
            that says what came instead. Its ``headers`` are those that a server may forward; its
            ``__cause__`` is a `RequestError` with all details.
    """
    body = response.body
    if 200 <= response.status < 300:
        if response.status == 204 or not body:
            return None
        try:
            result: object = json.loads(body.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            error = _without_json(request, response, BadGateway)
        else:
            return result
    else:
        error = _error_of(request, response)
    raise error


_ERROR_STATUSES: Final = range(400, 600)


def _error_of(request: Request, response: Response) -> FrameworkError:
    status = response.status
    if 300 <= status < 400:
        location = response.headers.get("location", "nowhere").partition("?")[0]
        what = (
            f"got status {status} with the location {location}; redirects are not followed, so give"
            " the base URL that they lead to"
        )
        error: FrameworkError = BadGateway("the called server responded with a redirect")
        return with_request_error(error, request, what, response)
    try:
        value = json.loads(response.body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return _without_json(request, response, error_for_status(status), code=status)
    return error_of_json(request, value, response)


def error_of_json(request: Sendable, value: JSONValue, response: Response) -> FrameworkError:
    """Return the error that a server has sent as JSON.

    Args:
        request: The request.
        value: The JSON value.
        response: The response that it came in.
    """
    status = response.status
    if isinstance(value, Mapping) and ("name" in value or "className" in value or "code" in value):
        code = value.get("code", status)
        # Otherwise the called server could make this server send a 304, or a redirect.
        if isinstance(code, int) and code not in _ERROR_STATUSES:
            code = status
        error = from_dict({**value, "code": code})
    else:
        # JSON that is not an error of this protocol may be private: only its message is passed on.
        text = value.get("message") if isinstance(value, Mapping) else None
        message = text if isinstance(text, str) and text else f"the server responded with {status}"
        error = error_for_status(status)(message, code=status)
    # A server that passes the error on tells its clients to come back later, too.
    error.headers = _forwarded_headers(response)
    error.__cause__ = RequestError(request, f"got status {status}", response)
    return error


def _without_json(
    request: Request,
    response: Response,
    error_class: type[FrameworkError],
    code: int | None = None,
) -> FrameworkError:
    """Return an error for a response that is not JSON, such as the page of a proxy."""
    content_type = response.headers.get("content-type", "no content type")
    text = response.body.decode("utf-8-sig", "replace")
    shown = " ".join(re.sub(r"<[^>]*>", " ", text).split())[:_SHOWN_CHARACTERS]
    what = f"got status {response.status} with {content_type} instead of JSON: {shown or 'nothing'}"
    error = error_class(f"the called server responded with {response.status}, not JSON", code=code)
    error.headers = _forwarded_headers(response)
    return with_request_error(error, request, what, response)


def with_request_error(
    error: FrameworkError,
    request: Sendable,
    what: str,
    response: Response | None = None,
    *,
    reason: BaseException | None = None,
) -> FrameworkError:
    """Give an error a `RequestError` as its cause and text; its message stays without details.

    Args:
        error: Has the message and the data, which a server may send to its clients.
        request: The request.
        what: What happened, as the end of a sentence.
        response: The response, None if there was none.
        reason: The exception of the library.
    """
    cause = RequestError(request, what, response)
    cause.__cause__ = reason
    error.args = (str(cause),)
    error.__cause__ = cause
    return error


def _forwarded_headers(response: Response) -> dict[str, str] | None:
    headers = response.headers
    return {name: headers[name] for name in _FORWARDED_HEADERS if name in headers} or None
