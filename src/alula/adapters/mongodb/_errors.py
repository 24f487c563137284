"""Translates errors of the database and its driver into errors that clients may see.

The driver's text stays in the log: it names hosts, indexes and the data of other records.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TypeAlias

from bson.errors import BSONError, InvalidDocument, InvalidStringData
from pymongo import AsyncMongoClient, errors
from pymongo import timeout as timeout_of_driver

from alula.adapters._errors import (
    changed_meanwhile,
    not_valid,
    timed_out,
    unavailable,
    unknown_error,
    value_taken,
)
from alula.errors import (
    BadRequest,
    Conflict,
    FrameworkError,
    GeneralError,
    Timeout,
    Unavailable,
)

__all__ = [
    "TOO_LARGE",
    "check_connection",
    "not_acknowledged",
    "of_outage",
    "translated",
    "was_refused",
]

_log = logging.getLogger("alula.mongodb")

_WTIMEOUT: Final = 64
_TIMEOUTS: Final = frozenset({24, 50, _WTIMEOUT, 262})
_UNAVAILABLE: Final = frozenset(
    {6, 7, 43, 89, 91, 133, 134, 175, 189, 237, 251, 9001, 10107, 11600, 11601, 11602}
    | {13435, 13436, 13388}
)
_NOT_VALID: Final = frozenset(
    {2, 4, 9, 10, 14, 15, 16, 22, 27, 28, 29, 34, 40, 52, 53, 54, 55, 56, 57, 66, 121, 146, 159}
    | {168, 171, 224, 241, 257, 291, 292, 2714}
)
"""Codes for input that makes no sense to the database: a wrong value, type, path or expression,
parallel arrays in one index, an operator whose index is missing."""
_FIRST_CHECK: Final = 10_000
"""From here on, each code is that of a single check of the input."""

TOO_LARGE: Final = frozenset({146, 292, 10334, 17419, 17420})
"""Codes for a document of more than 16 MB, and for an order that does not fit into memory."""

_FORBIDDEN: Final = frozenset({13, 59, 115, 303})
"""Codes for commands that the user may not run, or that the server does not have."""

_UUID: Final = "uuid.UUID"
"""Part of the driver's text for a UUID, which it encodes only if the client says how."""

_OPTIONS: Final = re.compile(r" \(configured timeouts[^)]*\)")
"""What the driver repeats in its errors for each server."""

Translation: TypeAlias = Callable[[Any], FrameworkError]


class _Translated:
    """Raises errors of `alula.errors` for those of the driver.

    Raises:
        Conflict: A unique key is taken, or another write was faster.
        BadRequest: The database refuses the query or the data, or cannot store the data.
            A `uuid.UUID` is such data if the client has no ``uuidRepresentation``.
        Timeout: The time limit was exceeded.
        Unavailable: The database cannot be reached, has no primary, or no connection was free.
        GeneralError: Anything else; the log names it.
    """

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            for types, translate in _TRANSLATIONS:
                if isinstance(error, types):
                    raise translate(error) from error
            if isinstance(error, ValueError) and _UUID in str(error):
                raise not_storable(error) from error


translated: Final = _Translated()
"""``with translated:`` has no state, so one object serves all operations."""


def was_refused(error: errors.OperationFailure) -> bool:
    """Return whether the database refused a command as such, before it wrote anything."""
    code = error.code or 0
    is_check = code > _FIRST_CHECK and code not in _BY_CODE
    return is_check or code in _NOT_VALID or code in _FORBIDDEN


def not_acknowledged(failure: Mapping[str, Any]) -> Exception:
    """Return the driver's error for a write that the database reports as not acknowledged."""
    is_timeout = failure.get("code") == _WTIMEOUT
    error_type = errors.WTimeoutError if is_timeout else errors.WriteConcernError
    return error_type(failure.get("errmsg", ""), failure.get("code"), failure)


# -- one function for each sort of error; the tables below choose it ------------------------------


def of_operation(error: errors.OperationFailure) -> FrameworkError:
    details: Mapping[str, Any] = error.details or {}
    failures = details.get("writeErrors") or details.get("writeConcernErrors")
    if failures:
        details = failures[0]
    code = details.get("code", error.code) or 0
    translate = _BY_CODE.get(code)
    if translate is not None:
        return translate(details)
    if code in _NOT_VALID or code > _FIRST_CHECK:
        reason = "an operator, a value or a path in it is not valid"
        return not_valid(_log, f"{error} (code {code})", reason=reason)
    return unknown(error)


def taken(details: Mapping[str, Any]) -> Conflict:
    return value_taken(details.get("keyPattern") or ())


def timeout(_: object) -> Timeout:
    return timed_out(_log)


def timeout_or_outage(error: errors.PyMongoError) -> FrameworkError:
    """Return the error for a time limit, or for an outage that lasted until the time was over.

    The driver's `with_transaction` retries until the limit, and then raises a timeout whose cause
    is the error of the last attempt.
    """
    cause = error.__cause__
    if isinstance(cause, errors.ConnectionFailure):
        is_outage = not isinstance(cause, errors.NetworkTimeout)
    else:
        is_outage = isinstance(cause, errors.OperationFailure) and cause.code in _UNAVAILABLE
    return of_outage(error) if is_outage else timeout(error)


def of_outage(error: object) -> Unavailable:
    """Return the error for a database that cannot be reached; its note has the driver's reason."""
    if not isinstance(error, errors.PyMongoError):
        return unavailable(None)
    # The driver appends all that it knows about the servers.
    reason = _OPTIONS.sub("", str(error).partition(", Timeout: ")[0])
    return unavailable(f"MongoDB: {reason}")


async def check_connection(
    client: AsyncMongoClient[Any], *, setting: str | None = None, seconds: float = 5
) -> None:
    """Check that a MongoDB can be reached, for an error of one line when an application starts.

    The driver itself connects with the first operation, and waits 30 seconds for a server.

    Args:
        client: The client.
        setting: Where its URL comes from, such as ``"CHAT_MONGODB_URL"``; the error names it.
        seconds: How long to wait.

    Raises:
        Unavailable: It cannot be reached. A note of the error says which host and why.
    """
    try:
        with translated, timeout_of_driver(seconds):
            await client.admin.command("ping")
    except Unavailable as error:
        if setting is not None:
            error.add_note(f"the URL comes from {setting}")
        raise


def too_large(_: object) -> BadRequest:
    return BadRequest("A value or a record is too large for the database")


def not_storable(error: object) -> BadRequest:
    _log.warning("the driver cannot send this: %.1000r", str(error))
    return BadRequest("There is a value or a name that the database cannot store")


def unreadable(error: object) -> GeneralError:
    _log.error("the driver cannot read a response of the database: %.1000r", str(error))
    return GeneralError(
        "A record has a value that cannot be read, such as a date beyond the year 9999; the log"
        " has the details"
    )


def unknown(_: object) -> GeneralError:
    return unknown_error()


_BY_CODE: Final[Mapping[int, Callable[[Mapping[str, Any]], FrameworkError]]] = {
    112: lambda _: changed_meanwhile(),
    5626500: lambda _: BadRequest(
        "$near and $nearSphere sort by distance, which is not possible in this call;"
        " $geoWithin finds records in an area"
    ),
    10334: too_large,
    17419: too_large,
    **dict.fromkeys((11000, 11001, 12582), taken),
    **dict.fromkeys(_TIMEOUTS, timeout),
    **dict.fromkeys(_UNAVAILABLE, of_outage),
}

_TRANSLATIONS: Final[
    tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Translation], ...]
] = (
    ((errors.ExecutionTimeout, errors.NetworkTimeout, errors.WTimeoutError), timeout_or_outage),
    (errors.ConnectionFailure, of_outage),
    (errors.OperationFailure, of_operation),
    ((errors.DocumentTooLarge, OverflowError), too_large),
    (
        UnicodeEncodeError,
        lambda _: BadRequest("A text is not valid Unicode: it holds half of a surrogate pair"),
    ),
    ((InvalidDocument, InvalidStringData, errors.InvalidName), not_storable),
    (BSONError, unreadable),
    (errors.PyMongoError, unknown),
)
"""The first that fits counts."""
