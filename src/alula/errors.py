"""One small class per HTTP status; each turns into the JSON that goes over the wire and back.

The wire form is FeathersJS 5's: ``{"name", "message", "code", "className", "data"?, "errors"?}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "BadGateway",
    "BadRequest",
    "Conflict",
    "Forbidden",
    "FrameworkError",
    "GeneralError",
    "Gone",
    "LengthRequired",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotAuthenticated",
    "NotFound",
    "NotImplementedMethod",
    "PayloadTooLarge",
    "PaymentError",
    "Timeout",
    "TooManyRequests",
    "Unavailable",
    "Unprocessable",
    "UnsupportedMediaType",
    "error_for_status",
    "from_dict",
]


_MOST_IN_TEXT: Final = 3
"""How many failures of a validation the text of an error contains."""
_LONGEST_IN_TEXT: Final = 200
"""The characters of one failure; property names come from clients and may be long."""
_SHORT_NAME: Final = re.compile(r"[\w$./\[\]-]{0,64}")


def shown_name(name: object) -> str:
    """Return the name of a property for a message, if it is a short one like an identifier.

    A message is sent and logged. A client that sends JSON as a form sends one field, whose name is
    the whole text, passwords included. Of such a name, only the length is told.

    Args:
        name: Chosen by a client.
    """
    text = str(name)
    return text if _SHORT_NAME.fullmatch(text) else f"({len(text)} characters)"


class FrameworkError(Exception):
    """An error with an HTTP status, whose message and data clients may see.

    Its text, in a log or a traceback, is the message and the first failures of a validation. On the
    wire, ``message`` is the message alone, and ``data`` has the failures.

    Args:
        message: What is wrong, or a mapping with ``message``, ``errors`` and further data, or
            another exception whose text becomes the message. None means ``"Error"``.
        data: JSON data for the client. In a mapping, ``message`` and ``errors`` become those of
            the error, and the rest stays as data.
        errors: Errors per field, as forms show them.
        name: Name on the wire (default: that of the class).
        code: HTTP status (default: that of the class).
        class_name: The name in kebab case (default: that of the class).
    """

    name: str = "GeneralError"
    code: int = 500
    class_name: str = "general-error"
    message: str
    data: Any = None
    errors: Any = None
    headers: Mapping[str, str] | None = None
    """Headers of the response (``Allow``, ``Retry-After``)."""

    def __init__(
        self,
        message: str | Mapping[str, Any] | BaseException | None = None,
        data: Any = None,
        *,
        errors: Any = None,
        name: str | None = None,
        code: int | None = None,
        class_name: str | None = None,
    ) -> None:
        if type(message) is str:  # nearly always
            text = message
        elif isinstance(message, Mapping):
            text, data = "Error", message
        elif isinstance(message, FrameworkError):
            text = message.message
        else:
            text = "Error" if message is None else str(message)
        given: Mapping[str, Any] | list[Any] | None = data
        if given is not None and isinstance(given, Mapping):
            # copy() keeps a RedactedRecord redacted; dict() would expose what it hides.
            rest = given.copy() if isinstance(given, dict) else dict(given)
            text = str(rest.pop("message", None) or text)
            taken = rest.pop("errors", None)
            errors = taken if errors is None else errors
            data = rest or None
        super().__init__(text)
        self.message = text
        # Most errors have neither, and Python sets attributes of exceptions slowly.
        if data is not None:
            self.data = data
        if errors is not None:
            self.errors = errors
        if name:
            self.name = name
        if code:
            self.code = code
        if class_name:
            self.class_name = class_name

    def __str__(self) -> str:
        text = super().__str__()
        failures: list[str] = []
        data: Mapping[str, Any] | list[Any] | None = self.data
        failure: Mapping[str, Any] | str
        # Only the wire form of failures: other data may hold what must not be in a log.
        for failure in data if isinstance(data, list) else ():
            if isinstance(failure, Mapping) and "instancePath" in failure and "message" in failure:
                params: Mapping[str, Any] | str | None = failure.get("params")
                extra = params.get("additionalProperty") if isinstance(params, Mapping) else None
                name = "" if extra is None else f": {shown_name(extra)!r}"
                path = "/".join(map(shown_name, str(failure["instancePath"]).split("/")))
                failures.append(f"{path} {failure['message']}{name}".strip())
        if not failures:
            return text
        shown: list[str] = []
        for line in failures[:_MOST_IN_TEXT]:
            # Names in it come from clients: they must not add lines to a log, nor fill it.
            is_short = len(line) <= _LONGEST_IN_TEXT
            short = line if is_short else f"{line[:_LONGEST_IN_TEXT]}..."
            shown.append("".join(c if c.isprintable() else ascii(c)[1:-1] for c in short))
        first = "; ".join(shown)
        more = len(failures) - _MOST_IN_TEXT
        return f"{text}: {first}" + (f"; and {more} more" if more > 0 else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without ``data`` and ``errors`` that are None.

        Examples:
            >>> NotFound("No record").to_dict()["code"]
            404
        """
        result: dict[str, Any] = {
            "name": self.name,
            "message": self.message,
            "code": self.code,
            "className": self.class_name,
        }
        if self.data is not None:
            result["data"] = self.data
        if self.errors is not None:
            result["errors"] = self.errors
        return result

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> FrameworkError:
        """Return the error of a JSON form, as an instance of its class.

        Args:
            value: A result of ``to_dict``. Unknown names and statuses give a `FrameworkError` that
                has them.
        """
        return from_dict(value)


class BadRequest(FrameworkError):
    """400: the request is not valid."""

    name, code, class_name = "BadRequest", 400, "bad-request"


class NotAuthenticated(FrameworkError):
    """401: the request has no valid credentials."""

    name, code, class_name = "NotAuthenticated", 401, "not-authenticated"


class PaymentError(FrameworkError):
    """402: a payment is missing or failed."""

    name, code, class_name = "PaymentError", 402, "payment-error"


class Forbidden(FrameworkError):
    """403: signed in, but not allowed."""

    name, code, class_name = "Forbidden", 403, "forbidden"


class NotFound(FrameworkError):
    """404: there is no such record or page."""

    name, code, class_name = "NotFound", 404, "not-found"


class MethodNotAllowed(FrameworkError):
    """405: the method is not offered here."""

    name, code, class_name = "MethodNotAllowed", 405, "method-not-allowed"


class NotAcceptable(FrameworkError):
    """406: there is no representation that the client accepts."""

    name, code, class_name = "NotAcceptable", 406, "not-acceptable"


class Timeout(FrameworkError):
    """408: the operation took too long."""

    name, code, class_name = "Timeout", 408, "timeout"


class Conflict(FrameworkError):
    """409: the request conflicts with stored data, such as a second record with a unique key."""

    name, code, class_name = "Conflict", 409, "conflict"


class Gone(FrameworkError):
    """410: the resource existed and will not come back."""

    name, code, class_name = "Gone", 410, "gone"


class LengthRequired(FrameworkError):
    """411: the request needs a `Content-Length`."""

    name, code, class_name = "LengthRequired", 411, "length-required"


class PayloadTooLarge(FrameworkError):
    """413: the body is over the limit."""

    name, code, class_name = "PayloadTooLarge", 413, "payload-too-large"


class UnsupportedMediaType(FrameworkError):
    """415: no registered parser reads this body."""

    name, code, class_name = "UnsupportedMediaType", 415, "unsupported-media-type"


class Unprocessable(FrameworkError):
    """422: the request is well-formed, but cannot be carried out."""

    name, code, class_name = "Unprocessable", 422, "unprocessable"


class TooManyRequests(FrameworkError):
    """429: try again later."""

    name, code, class_name = "TooManyRequests", 429, "too-many-requests"


class GeneralError(FrameworkError):
    """500: the server failed."""

    name, code, class_name = "GeneralError", 500, "general-error"


class NotImplementedMethod(FrameworkError):
    """501: not implemented (``NotImplemented`` on the wire; Python uses that name itself)."""

    name, code, class_name = "NotImplemented", 501, "not-implemented"


class BadGateway(FrameworkError):
    """502: a server behind this one failed."""

    name, code, class_name = "BadGateway", 502, "bad-gateway"


class Unavailable(FrameworkError):
    """503: not available now, for example while the database is down."""

    name, code, class_name = "Unavailable", 503, "unavailable"


_BY_NAME: dict[str, type[FrameworkError]] = {c.name: c for c in FrameworkError.__subclasses__()}
_BY_CODE: dict[int, type[FrameworkError]] = {c.code: c for c in FrameworkError.__subclasses__()}


def error_for_status(status: int) -> type[FrameworkError]:
    """Return the error class of an HTTP status, `FrameworkError` itself for an unknown one."""
    return _BY_CODE.get(status, FrameworkError)


def from_dict(value: Mapping[str, Any]) -> FrameworkError:
    """Return the error of a JSON form (see `FrameworkError.from_dict`)."""
    name, class_name = (_text(value.get(key)) for key in ("name", "className"))
    code = value.get("code")
    code = code if type(code) is int else 0  # True is an int, but not a status
    chosen = _BY_NAME.get(name or "") or error_for_status(code)
    message, errors = _text(value.get("message")), value.get("errors")
    error = chosen(message, errors=errors, name=name, code=code, class_name=class_name)
    # Only now: the constructor would move a `message` and `errors` in the data out of it.
    error.data = value.get("data")
    return error


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
