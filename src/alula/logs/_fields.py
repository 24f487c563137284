"""What every record of a log bears beside what was logged: the request id, and what others add."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from alula._compose import name_of
from alula._request_ids import current_request_id

__all__ = ["RequestFields", "add_log_fields", "extras_of", "stamp"]

Fields: TypeAlias = Callable[[], Mapping[str, Any]]

_more: Final[dict[Fields, None]] = {}

# What records have of their own; all else was added by somebody.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def add_log_fields(fields: Fields) -> None:
    """Add fields to all records from here on.

    Args:
        fields: Returns them, by name, for the place in the program where it is called. It is
            called for every record that is written, so it has to be quick. The same function
            counts once.
    """
    _more[fields] = None


def stamp(record: logging.LogRecord) -> None:
    """Put the fields on a record, unless it has them."""
    own = record.__dict__
    if "request_id" in own:
        return
    own["request_id"] = current_request_id()
    for fields in _more:
        try:
            found = fields()
        except Exception as error:  # noqa: BLE001  # what logs something must not fail by that
            found = {"log_fields_error": f"{type(error).__name__} in {name_of(fields)}"}
        for name, value in found.items():
            own.setdefault(name, value)


def extras_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was added to a record, without what is None."""
    return {
        name: value
        for name, value in record.__dict__.items()
        if name not in _STANDARD and value is not None
    }


class RequestFields(logging.Filter):
    """Puts the fields on every record that a handler gets: ``handler.addFilter(RequestFields())``.

    For handlers of your own; those of `configure_logging` have it. On a logger it would miss the
    records of loggers below it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Put the fields on a record, and let it pass."""
        stamp(record)
        return True
