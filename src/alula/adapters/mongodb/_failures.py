"""What the database or its driver raises -> errors that a client may see.

The driver's text stays in the log: it names hosts, indexes and the data of other records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TypeAlias

from bson.errors import BSONError, InvalidDocument, InvalidStringData
from pymongo import errors

from alula.errors import (
    BadRequest,
    Conflict,
    FrameworkError,
    GeneralError,
    Timeout,
    Unavailable,
)

__all__ = ["did_nothing", "not_acknowledged", "translated"]

_log = logging.getLogger("alula.mongodb")

_WTIMEOUT: Final = 64
_TOO_LATE: Final = frozenset({24, 50, _WTIMEOUT, 262})
_UNAVAILABLE: Final = frozenset(
    {6, 7, 43, 89, 91, 133, 134, 175, 189, 237, 251, 9001, 10107, 11600, 11601, 11602}
    | {13435, 13436, 13388}
)
_REFUSED: Final = frozenset(
    {2, 4, 9, 10, 14, 15, 16, 22, 27, 28, 29, 34, 40, 52, 53, 54, 55, 56, 57, 66, 121, 146, 159}
    | {168, 171, 224, 241, 257, 291, 292, 2714}
)
"""Codes for what makes no sense to the database: a wrong value, type, path or expression, lists
side by side in one index, an operator whose index is missing."""
_FIRST_OF_THE_NUMBERED: Final = 10_000
"""From here on, codes number single checks of what was sent."""

_FORBIDDEN: Final = frozenset({13, 59, 115, 303})
"""Codes for commands that somebody may not give, or that the server does not know."""

_NO_UUID: Final = "uuid.UUID"
"""What the driver's text has where the client knows no form for UUIDs."""

_SLOW: Final = "The database took too long"
_AWAY: Final = "The database can not be reached; try again later"


def did_nothing(error: errors.OperationFailure) -> bool:
    """Tell whether the database has refused a command as such, before it began with it."""
    code = error.code or 0
    numbered = code > _FIRST_OF_THE_NUMBERED and code not in _BY_CODE
    return numbered or code in _REFUSED or code in _FORBIDDEN


def not_acknowledged(failed: Mapping[str, Any]) -> Exception:
    """Return the driver's error for a write that the database reports as not acknowledged."""
    kind = errors.WTimeoutError if failed.get("code") == _WTIMEOUT else errors.WriteConcernError
    return kind(failed.get("errmsg", ""), failed.get("code"), failed)


class _Translated:
    """Turns what the driver raises inside into errors of `alula.errors`.

    Raises:
        Conflict: A unique key is taken, or another write was faster.
        BadRequest: The database refuses the query or the data, or can not store the data.
            A `uuid.UUID` is such data where the client is not told how to write it.
        Timeout: It took longer than allowed.
        Unavailable: The database cannot be reached, or has no primary, or no connection was free.
        GeneralError: It failed for another reason, which the log names.
    """

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            for known, translate in _TRANSLATIONS:
                if isinstance(error, known):
                    raise translate(error) from error
            if isinstance(error, ValueError) and _NO_UUID in str(error):
                raise _not_storable(error) from error


translated: Final = _Translated()
"""``with translated:`` has no state, so that one object serves all."""


def _of_operation(error: errors.OperationFailure) -> FrameworkError:
    details: Mapping[str, Any] = error.details or {}
    several = details.get("writeErrors") or details.get("writeConcernErrors")
    if several:
        details = several[0]
    code = details.get("code", error.code) or 0
    make = _BY_CODE.get(code)
    if make is not None:
        return make(details)
    if code in _REFUSED or code > _FIRST_OF_THE_NUMBERED:
        # Nobody else may see the text, and the developer who sent a wrong stage needs it.
        _log.warning("the database refused what was sent (code %s): %.1000r", code, str(error))
        return BadRequest(
            "The database refuses this query or this data: an operator, a value or a path in it is"
            " not valid"
        )
    return _unknown(error)


def _taken(details: Mapping[str, Any]) -> Conflict:
    fields = list(details.get("keyPattern") or ())
    named = " and ".join(fields) or "unique key"
    return Conflict(
        f"There is a record with this {named} already",
        errors=dict.fromkeys(fields, "is taken") or None,
    )


def _overtaken(_: Any) -> Conflict:
    return Conflict("Another write changed the same record at the same time; try again")


def _late(_: Any) -> Timeout:
    _log.warning("an operation took longer than its time limit (max_time_ms) allows")
    return Timeout(_SLOW)


def _of_timeout(error: errors.PyMongoError) -> FrameworkError:
    """Return the error for a time limit, or for an outage that lasted until it was over.

    The driver's `with_transaction` retries until the limit, and then raises a timeout whose cause
    is the error of the last attempt.
    """
    cause = error.__cause__
    if isinstance(cause, errors.ConnectionFailure):
        unreachable = not isinstance(cause, errors.NetworkTimeout)
    else:
        unreachable = isinstance(cause, errors.OperationFailure) and cause.code in _UNAVAILABLE
    return _away(error) if unreachable else _late(error)


def _away(_: Any) -> Unavailable:
    return Unavailable(_AWAY)


def _too_large(_: Any) -> BadRequest:
    return BadRequest("A value or a record is too large for the database")


def _sorting(_: Any) -> BadRequest:
    return BadRequest(
        "$near and $nearSphere sort by distance, which is not possible in this call;"
        " $geoWithin finds records in an area"
    )


def _no_text(_: Any) -> BadRequest:
    return BadRequest("A text is not valid Unicode: it holds half of a surrogate pair")


def _not_storable(error: Any) -> BadRequest:
    _log.warning("the driver can not send this: %.1000r", str(error))
    return BadRequest("There is a value or a name that the database can not store")


def _unreadable(error: Any) -> GeneralError:
    _log.error("the driver can not read an answer of the database: %.1000r", str(error))
    return GeneralError(
        "A record has a value that can not be read, such as a date beyond the year 9999; the log"
        " has the details"
    )


def _unknown(_: Any) -> GeneralError:
    return GeneralError("The database reported an error; the log has the details")


_BY_CODE: Final[Mapping[int, Callable[[Mapping[str, Any]], FrameworkError]]] = {
    112: _overtaken,
    5626500: _sorting,
    10334: _too_large,
    17419: _too_large,
    **dict.fromkeys((11000, 11001, 12582), _taken),
    **dict.fromkeys(_TOO_LATE, _late),
    **dict.fromkeys(_UNAVAILABLE, _away),
}

_Kinds: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]
_TRANSLATIONS: Final[tuple[tuple[_Kinds, Callable[[Any], FrameworkError]], ...]] = (
    ((errors.ExecutionTimeout, errors.NetworkTimeout, errors.WTimeoutError), _of_timeout),
    (errors.ConnectionFailure, _away),
    (errors.OperationFailure, _of_operation),
    ((errors.DocumentTooLarge, OverflowError), _too_large),
    (UnicodeEncodeError, _no_text),
    ((InvalidDocument, InvalidStringData, errors.InvalidName), _not_storable),
    (BSONError, _unreadable),
    (errors.PyMongoError, _unknown),
)
"""The first that fits counts."""
