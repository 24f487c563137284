"""Dates in JSON Schemas: text that becomes a date."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from alula.types import SchemaKeyword

__all__ = ["DATE_SCHEMA", "keyword_date"]

_MESSAGE: Final = "must be a date"


def _convert(value: Any, wanted: Any) -> Any:
    """Return the date that a text is, in UTC where it says nothing else.

    Raises:
        ValueError: It is none.
    """
    if not wanted:
        return value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.upper())  # the format allows t and z
        except ValueError:
            raise ValueError(_MESSAGE) from None
    if not isinstance(value, datetime):
        raise ValueError(_MESSAGE)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


keyword_date: Final = SchemaKeyword("date", _convert, _MESSAGE)
"""The keyword of schemas that takes a date or its ISO 8601 text, and makes a date of it."""

DATE_SCHEMA: Final = {
    "anyOf": [{"type": "string", "format": "date-time", "date": True}, {"date": True}]
}
"""The schema of a date, or of its text."""
