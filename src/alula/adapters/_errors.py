"""The errors of a store as clients see them, with one text for all stores.

The text of a database or a driver never reaches a client: it has statements, names of hosts and the
values of other records. The log gets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from logging import Logger

from alula.errors import BadRequest, Conflict, GeneralError, Timeout, Unavailable

__all__ = [
    "changed_meanwhile",
    "missing_reference",
    "not_valid",
    "timed_out",
    "unavailable",
    "unknown_error",
    "value_taken",
]

_LONGEST_NOTE = 1_000


def value_taken(fields: Iterable[str]) -> Conflict:
    """Return the error for a record whose unique values another record has.

    Args:
        fields: The fields that are unique together; none if that is not known.

    Examples:
        >>> value_taken(["email"])
        Conflict('There is a record with this email already')
    """
    names = [*fields]
    return Conflict(
        f"There is a record with this {' and '.join(names) or 'unique key'} already",
        errors=dict.fromkeys(names, "is taken") or None,
    )


def missing_reference(fields: Iterable[str]) -> BadRequest:
    """Return the error for a record that refers to one that does not exist.

    Args:
        fields: The fields that refer to it; none if that is not known.
    """
    names = [*fields]
    return BadRequest(
        f"There is no record that {' and '.join(names) or 'this record'} refers to",
        errors=dict.fromkeys(names, "is not there") or None,
    )


def changed_meanwhile() -> Conflict:
    """Return the error for a write that another write of the same record came before."""
    return Conflict("Another write changed the same record at the same time; try again")


def not_valid(
    log: Logger,
    text: str,
    fields: Iterable[str] = (),
    reason: str = "a value in it is not valid",
) -> BadRequest:
    """Return the error for a value that a database refuses, such as one out of its range.

    Args:
        log: Gets the text of the database, as a warning: the developer of a wrong column or
            condition needs it.
        text: The text of the database.
        fields: The fields that have such a value; none if that is not known.
        reason: What clients read about it.
    """
    log.warning("the database refused a value: %.1000r", text)
    return BadRequest(
        f"The database refuses this query or this data: {reason}",
        errors=dict.fromkeys(fields, "is not valid") or None,
    )


def timed_out(log: Logger) -> Timeout:
    """Return the error for an operation that took longer than its time limit."""
    log.warning("an operation took longer than its time limit (max_time_ms) allows")
    return Timeout("The database took too long")


def unavailable(reason: str | None) -> Unavailable:
    """Return the error for a database that cannot be reached.

    Args:
        reason: The text of the driver. It becomes a note, which clients never see: it is part of
            the one line that a failed call logs.
    """
    error = Unavailable("The database cannot be reached; try again later")
    if reason is not None:
        error.add_note(reason[:_LONGEST_NOTE])
    return error


def unknown_error() -> GeneralError:
    """Return the error for anything that only the log names."""
    return GeneralError("The database reported an error; the log has the details")
