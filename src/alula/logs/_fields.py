"""The fields of every log record: the request id, and those that plugins add."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import filterfalse
from typing import Any, Final, TypeAlias

from alula._user_code import name_of
from alula.logs._request_ids import current_request_id

__all__ = ["RequestFields", "add_log_fields", "add_request_fields", "extra_fields"]

Fields: TypeAlias = Callable[[], Mapping[str, object]]

_providers: Final[dict[Fields, None]] = {}

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
}
"""Attributes that `logging` itself sets on records."""


def add_log_fields(fields: Fields) -> None:
    """Add fields to all log records from now on.

    ``add_log_fields(lambda: {"region": "eu-north-1"})``

    Args:
        fields: Returns the fields by name. It is called for each record that is written, in the
            context of the code that logs, so it must be quick. Adding it twice has no effect.
    """
    _providers[fields] = None


class RequestFields(logging.Filter):
    """Adds the fields to each record of a handler: ``handler.addFilter(RequestFields())``.

    For handlers of your own; `configure_logging` adds it to its handler. Do not add it to a logger,
    since the filters of a logger do not see the records of its child loggers.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields, and keep the record."""
        add_request_fields(record)
        return True


def add_request_fields(record: logging.LogRecord) -> None:
    """Add the request id and the fields of plugins to a record, once."""
    attributes = record.__dict__
    if "request_id" in attributes:
        return
    attributes["request_id"] = current_request_id()
    for provider in _providers:
        try:
            fields = provider()
        except Exception as error:  # noqa: BLE001  # code that logs must not fail because of it
            fields = {"log_fields_error": f"{type(error).__name__} in {name_of(provider)}"}
        for name, value in fields.items():
            attributes.setdefault(name, value)  # what the code itself logged takes precedence


def extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record that `logging` did not set, without those that are None."""
    attributes = record.__dict__
    # `filterfalse` looks at some thirty names without a step of Python for each.
    return {
        name: value
        for name in filterfalse(_STANDARD.__contains__, attributes)
        if (value := attributes[name]) is not None
    }
