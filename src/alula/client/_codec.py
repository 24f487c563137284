"""From a call to a request and from an answer to a result, without any input or output.

Both clients, the asynchronous and the synchronous one, and all ways to send use this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from alula._context import Params
from alula.errors import BadGateway, BadRequest, FrameworkError, error_for_status, from_dict
from alula.outgoing import javascript_date, json_encoder_of
from alula.query import stringify
from alula.types import ID_METHODS

__all__ = [
    "DefaultHeaders",
    "Request",
    "RequestError",
    "Response",
    "merge_headers",
    "read_response",
    "request_for",
    "with_request_error",
]

VERBS: Final = {
    "find": "GET",
    "get": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "remove": "DELETE",
}
_JSON: Final = "application/json"
_NOT_IN_HEADERS: Final = re.compile(r"[\r\n\0]|[^\x00-\xff]")
_SHOWN: Final = 200  # characters of a body that the text of a `RequestError` shows
_KEPT: Final = 65_536  # bytes of a body that a `RequestError` keeps
_PASSED_ON: Final = ("retry-after", "allow", "www-authenticate")
"""The headers of a response that an error keeps. Where it escapes from a hook, a server sends them
on, so nothing may be among them that concerns the other server alone (cookies, CORS, framing)."""
_IN_IDS: Final = "!~*'()"  # what JavaScript's clients leave as it is, too


class Request(NamedTuple):  # made for every call, and a tuple is made in a fifth of the time
    """What is sent.

    Attributes:
        method: The verb.
        url: The whole address, percent-encoded.
        headers: By name, each once.
        body: None for none.
    """

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None = None


class Response(NamedTuple):
    """What came back.

    Attributes:
        status: The HTTP status.
        headers: Found by names in lower case; a library's own mapping may know other cases too.
        body: All of it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class RequestError(Exception):
    """Why a call failed, for the caller alone: it is the ``__cause__`` of the error of a call.

    The error itself may escape from a hook of a server, which sends its ``message`` and ``data`` to
    its own client. So what concerns the other server (its address, its headers, its pages) is kept
    here. The text has no query string: texts get into logs, and query strings may hold a secret.

    Args:
        request: What was sent.
        what: What came of it, as the end of a sentence.
        response: What came back, None where nothing did.

    Attributes:
        method: The HTTP method.
        url: The whole URL.
        status: The status of the response, None where there was none.
        headers: The headers of the response, with names in lower case.
        body: Its body, of a long one the first 64 KiB.

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

    def __init__(self, request: Request, what: str, response: Response | None = None) -> None:
        self.method = request.method
        self.url = request.url
        self.status = None if response is None else response.status
        self.headers: dict[str, str] = {}
        self.body = b""
        if response is not None:
            self.headers = {name.lower(): value for name, value in response.headers.items()}
            self.body = response.body[:_KEPT]
        address, mark, _ = request.url.partition("?")
        shown = address + (mark and "?...")
        super().__init__(f"{request.method} {shown} {what.replace(request.url, shown)}")


class DefaultHeaders:
    """The headers that calls have anyway, merged once and not for each call.

    Args:
        given: Those of a connection.

    Raises:
        ValueError: A header can not be sent.
        TypeError: A value is no string.
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._reading = merge_headers({"Accept": _JSON}, given)
        self._writing = merge_headers({"Accept": _JSON, "Content-Type": _JSON}, given)

    def of(self, method: str, params: Params) -> dict[str, str]:
        """Return the headers of a call, for the caller to keep.

        Raises:
            ValueError: A header of the call can not be sent.
            TypeError: A value is no string.
        """
        standing = self._reading if VERBS.get(method) in {"GET", "DELETE"} else self._writing
        more, connection = params.get("headers"), params.get("connection")
        if method in VERBS and not more and not connection:
            return standing.copy()
        custom = None if method in VERBS else {"X-Service-Method": method}
        return merge_headers(custom, standing, more, (connection or {}).get("headers"))


def merge_headers(*levels: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers of several origins in one; later ones win, whatever the case of their names.

    Raises:
        ValueError: A name or a value has a line break, or characters beyond Latin-1.
        TypeError: A value is no string.
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
    id: Any,
    data: Any,
    params: Params,
    headers: DefaultHeaders = _NO_HEADERS,
) -> Request:
    """Return the request that a call stands for.

    Args:
        base: Address of the service; segments ``:name`` take their values from ``params.route``.
        method: A standard method, or the name of a custom one.
        id: The id of get, update, patch and remove.
        data: What goes into the body; None for nothing.
        params: ``query``, ``route``, ``headers`` and ``connection["headers"]`` are read; nothing
            of it but the query reaches the service.
        headers: Those that every call carries.

    Raises:
        BadRequest: An id is missing, or can not be one; a placeholder has no value; of a query that
            selects what is changed, a part can not be sent.
        TypeError: Data or query hold what has no form in JSON or in a query string.
        ValueError: A header can not be sent, or data contain themselves.
    """
    url = with_route(base, params.get("route", {})) if "/:" in base else base
    if method in ID_METHODS:
        url += _id_segment(method, id)
    query = params.query
    if query != {}:
        text = stringify(query)
        if id is None and method in ID_METHODS:
            _check_selection(method, query)
        url = f"{url}?{text}" if text else url
    sent = headers.of(method, params)
    body = None if data is None else body_of(data)
    return Request(VERBS.get(method, "POST"), url, sent, body)


def _check_selection(method: str, query: Any) -> None:
    """Refuse what a query string leaves out: ``{"id": {"$in": []}}`` would change every record."""
    for name in _empty_parts(query, ""):
        what = f"the query of .{method}(None) has nothing in {name}"
        raise BadRequest(f"{what}, and no query string can say so: it would change other records")


def _empty_parts(value: Any, name: str) -> Iterator[str]:
    if not isinstance(value, Mapping | list | tuple):
        return
    if not value:
        yield name
    named = value if isinstance(value, Mapping) else dict(enumerate(value))
    for key, part in named.items():
        yield from _empty_parts(part, f"{name}[{key}]" if name else str(key))


def with_route(base: str, route: Mapping[str, Any]) -> str:
    """Return an address with the values of its placeholders.

    Raises:
        BadRequest: One has no value.
    """
    return re.sub(r"(?<=/):([^/]+)", lambda found: _route_value(found[1], route), base)


def _route_value(name: str, route: Mapping[str, Any]) -> str:
    value = route.get(name)
    if value is None or value == "":
        raise BadRequest(f"the path has the placeholder :{name}; give route={{{name!r}: ...}}")
    return _segment(name, value)


def _id_segment(method: str, id: Any) -> str:
    if id == "" or (id is None and method == "get"):
        raise BadRequest(f"id for .{method} is required")
    return "" if id is None else f"/{_segment('id', id)}"


def _segment(name: str, value: Any) -> str:
    if type(value) is int or (type(value) is str and value.isascii() and value.isalnum()):
        return str(value)  # as most ids are: nothing to escape
    if isinstance(value, Mapping | list | tuple | set | bytes):
        raise BadRequest(f"{name} is {value!r}; it has to be a single value, such as a string")
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if text not in {".", ".."}:  # every library takes these for steps up and down
        with suppress(UnicodeEncodeError):  # half of a character that UTF-16 splits
            return quote(text, safe=_IN_IDS)
    raise BadRequest(f"{name} is {text!r}, which no address can carry")


def body_of(data: Any) -> bytes:
    """Return data as JSON.

    Raises:
        TypeError: Something in it has no form in JSON.
        ValueError: A number is not finite, or data contain themselves.
    """
    try:
        return _to_json(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a character that UTF-16 splits; JSON has an escape for it
        return _to_json(data, ensure_ascii=True).encode()


def _to_json(data: Any, *, ensure_ascii: bool) -> str:
    return json.dumps(
        data,
        ensure_ascii=ensure_ascii,
        separators=(",", ":"),
        allow_nan=False,
        default=_json_form,
    )


def _json_form(value: Any) -> Any:
    if isinstance(value, datetime):
        return javascript_date(value)
    if (encoder := json_encoder_of(type(value))) is not None:
        return encoder(value)
    raise TypeError(
        f"{value!r} is of type {type(value).__name__}, which has no form in JSON; use strings,"
        " numbers, booleans, None, datetimes, and lists and dicts of these"
    )


# -- answers --------------------------------------------------------------------------------------


def read_response(request: Request, response: Response) -> Any:
    """Return the result of a response, None for an empty one.

    Raises:
        FrameworkError: The error that it carries, as an instance of the right class with its data
            and errors; or one that says what came instead. Its ``headers`` are those that may go
            on to others; its ``__cause__`` is a `RequestError` with all.
    """
    body = response.body
    if 200 <= response.status < 300:
        if response.status == 204 or not body:
            return None
        try:
            return json.loads(body.decode())
        except (ValueError, RecursionError):
            error = _without_json(request, response, BadGateway)
    else:
        error = _error_of(request, response)
    raise error


_FIRST_ERROR: Final = 400
_BEHIND_ERRORS: Final = 600


def _error_of(request: Request, response: Response) -> FrameworkError:
    status = response.status
    if 300 <= status < 400:
        location = response.headers.get("location", "nowhere").partition("?")[0]
        sent_on = (
            f"was answered {status} and sent to {location}; redirects are not followed, so give the"
            " base URL that they lead to"
        )
        error: FrameworkError = BadGateway("the called server answered with a redirect")
        return with_request_error(error, request, sent_on, response)
    try:
        value = json.loads(response.body.decode())
    except (ValueError, RecursionError):
        return _without_json(request, response, error_for_status(status), code=status)
    if isinstance(value, Mapping) and ("name" in value or "className" in value or "code" in value):
        code = value.get("code", status)
        if isinstance(code, int) and not _FIRST_ERROR <= code < _BEHIND_ERRORS:
            code = status  # else another server could have this one answer 304, or a redirect
        error = from_dict({**value, "code": code})
    else:  # JSON that was not meant for such clients, so nobody says that all of it may go on
        text = value.get("message") if isinstance(value, Mapping) else None
        known = isinstance(text, str) and text
        error = error_for_status(status)(known or f"the server answered {status}", code=status)
    error.headers = _passed_on(response)
    error.__cause__ = RequestError(request, f"was answered {status}", response)
    return error


def _without_json(
    request: Request, response: Response, kind: type[FrameworkError], code: int | None = None
) -> FrameworkError:
    """Return an error for a response that is not JSON, such as the page of a proxy."""
    content_type = response.headers.get("content-type", "no content type")
    text = response.body.decode("utf-8", "replace")
    shown = " ".join(re.sub(r"<[^>]*>", " ", text).split())[:_SHOWN]
    what = (
        f"was answered {response.status} with {content_type} in the place of JSON:"
        f" {shown or 'nothing'}"
    )
    error = kind(f"the called server answered {response.status} without JSON", code=code)
    error.headers = _passed_on(response)
    return with_request_error(error, request, what, response)


def with_request_error(
    error: FrameworkError,
    request: Request,
    what: str,
    response: Response | None = None,
    *,
    reason: BaseException | None = None,
) -> FrameworkError:
    """Return an error whose text and cause say all, and whose message may be read by anybody.

    Args:
        error: It has the message and the data.
        request: What was sent.
        what: What came of it, as the end of a sentence.
        response: What came back, None where nothing did.
        reason: What the library raised.
    """
    cause = RequestError(request, what, response)
    cause.__cause__ = reason
    error.args = (str(cause),)
    error.__cause__ = cause
    return error


def _passed_on(response: Response) -> dict[str, str] | None:
    headers = response.headers
    return {name: headers[name] for name in _PASSED_ON if name in headers} or None
