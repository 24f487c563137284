"""One small class per HTTP status; each turns into the JSON that goes over the wire and back.

The wire form is FeathersJS 5's: ``{"name", "message", "code", "className", "data"?, "errors"?}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
"""How many failures the text of an error names."""
_LONGEST_IN_TEXT: Final = 200
"""Characters of one of them; names of properties come from clients."""


class FrameworkError(Exception):
    """An error that has a status, and that a client may see as it is.

    Its text, as it is in a log, a traceback or a shell, is the message with the first failures of a
    validation. On the wire the message is alone, and ``data`` has the failures.

    Args:
        message: What was wrong, or a mapping with ``message``, ``errors`` and further data, or
            another exception whose text is taken over. ``"Error"`` where it is None.
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
    headers: Mapping[str, str] | None = None
    """Headers that the answer carries beside the body (``Allow``, ``Retry-After``)."""

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
        text = "Error" if message is None else str(message)
        if isinstance(message, FrameworkError):
            text = message.message
        if isinstance(message, Mapping):
            text, data = "Error", message
        if isinstance(data, Mapping):
            # The copy of a record that is guarded is guarded, too; a dict made of it is not.
            rest = data.copy() if isinstance(data, dict) else dict(data)
            text = str(rest.pop("message", None) or text)
            taken = rest.pop("errors", None)
            errors = taken if errors is None else errors
            data = rest or None
        super().__init__(text)
        self.message = text
        self.data = data
        self.errors = errors
        self.name = name or self.name
        self.code = code or self.code
        self.class_name = class_name or self.class_name

    def __str__(self) -> str:
        text = super().__str__()
        failures = list(_failures_in(self.data))
        if not failures:
            return text
        told = "; ".join(_printable(each) for each in failures[:_MOST_IN_TEXT])
        more = len(failures) - _MOST_IN_TEXT
        return f"{text}: {told}" + (f"; and {more} more" if more > 0 else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; ``data`` and ``errors`` are left out where there are none."""
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
        """Return the error that a JSON form describes, as an instance of the right class.

        Args:
            value: What ``to_dict`` makes. Unknown names and statuses give a `FrameworkError`
                that carries them.
        """
        return from_dict(value)


class BadRequest(FrameworkError):
    """400: the request can not be understood."""

    name, code, class_name = "BadRequest", 400, "bad-request"


class NotAuthenticated(FrameworkError):
    """401: nobody is signed in, or the proof is not valid."""

    name, code, class_name = "NotAuthenticated", 401, "not-authenticated"


class PaymentError(FrameworkError):
    """402: a payment is missing or failed."""

    name, code, class_name = "PaymentError", 402, "payment-error"


class Forbidden(FrameworkError):
    """403: signed in, but not allowed."""

    name, code, class_name = "Forbidden", 403, "forbidden"


class NotFound(FrameworkError):
    """404: no such record or page."""

    name, code, class_name = "NotFound", 404, "not-found"


class MethodNotAllowed(FrameworkError):
    """405: the method is not offered here."""

    name, code, class_name = "MethodNotAllowed", 405, "method-not-allowed"


class NotAcceptable(FrameworkError):
    """406: no representation that the client accepts."""

    name, code, class_name = "NotAcceptable", 406, "not-acceptable"


class Timeout(FrameworkError):
    """408: it took too long."""

    name, code, class_name = "Timeout", 408, "timeout"


class Conflict(FrameworkError):
    """409: it contradicts what is stored, such as a second record with a unique key."""

    name, code, class_name = "Conflict", 409, "conflict"


class Gone(FrameworkError):
    """410: it was here and will not come back."""

    name, code, class_name = "Gone", 410, "gone"


class LengthRequired(FrameworkError):
    """411: a length must be given."""

    name, code, class_name = "LengthRequired", 411, "length-required"


class PayloadTooLarge(FrameworkError):
    """413: the body is over the limit."""

    name, code, class_name = "PayloadTooLarge", 413, "payload-too-large"


class UnsupportedMediaType(FrameworkError):
    """415: no registered parser takes this body."""

    name, code, class_name = "UnsupportedMediaType", 415, "unsupported-media-type"


class Unprocessable(FrameworkError):
    """422: understood, but it can not be done."""

    name, code, class_name = "Unprocessable", 422, "unprocessable"


class TooManyRequests(FrameworkError):
    """429: try again later."""

    name, code, class_name = "TooManyRequests", 429, "too-many-requests"


class GeneralError(FrameworkError):
    """500: the server failed."""

    name, code, class_name = "GeneralError", 500, "general-error"


class NotImplementedMethod(FrameworkError):
    """501: not there yet (``NotImplemented`` on the wire; Python uses that name itself)."""

    name, code, class_name = "NotImplemented", 501, "not-implemented"


class BadGateway(FrameworkError):
    """502: a server behind this one failed."""

    name, code, class_name = "BadGateway", 502, "bad-gateway"


class Unavailable(FrameworkError):
    """503: not now, for example while the database is away."""

    name, code, class_name = "Unavailable", 503, "unavailable"


_BY_NAME: dict[str, type[FrameworkError]] = {c.name: c for c in FrameworkError.__subclasses__()}
_BY_CODE: dict[int, type[FrameworkError]] = {c.code: c for c in FrameworkError.__subclasses__()}


def error_for_status(status: int) -> type[FrameworkError]:
    """Return the class for an HTTP status, `FrameworkError` itself where there is none."""
    return _BY_CODE.get(status, FrameworkError)


def from_dict(value: Mapping[str, Any]) -> FrameworkError:
    """Return the error that a JSON form describes (see `FrameworkError.from_dict`)."""
    name, class_name = (_text(value.get(key)) for key in ("name", "className"))
    code = value.get("code")
    code = code if type(code) is int else 0
    chosen = _BY_NAME.get(name or "") or error_for_status(code)
    message, errors = _text(value.get("message")), value.get("errors")
    error = chosen(message, errors=errors, name=name, code=code, class_name=class_name)
    error.data = value.get("data")
    return error


def _failures_in(data: Any) -> Iterator[str]:
    """Yield the failures of a validation, as they are on the wire."""
    for each in data if isinstance(data, list) else ():
        if isinstance(each, Mapping) and "instancePath" in each and "message" in each:
            params = each.get("params")
            extra = params.get("additionalProperty") if isinstance(params, Mapping) else None
            named = "" if extra is None else f": {extra!r}"
            yield f"{each['instancePath']} {each['message']}{named}".strip()


def _printable(text: str) -> str:
    """Return a text on one line, and not too long a one."""
    short = text if len(text) <= _LONGEST_IN_TEXT else text[:_LONGEST_IN_TEXT] + "..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in short)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
