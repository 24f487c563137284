"""The bound of what one call returns: so many records, so many bytes.

Without it one small request could make the process build a response of gigabytes: a patch of a
megabyte over thousands of records, or a list without pages. The size is measured before the records
are read or changed, so a call that is refused has had no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from alula.errors import BadRequest
from alula.types import JSONValue, Record, is_mapping

__all__ = [
    "MAX_RESULT",
    "SMALL_PAGE",
    "MaxResult",
    "ResultBound",
    "measured",
    "read_max_result",
    "refuse_large",
    "size_of",
    "size_of_changes",
]

MaxResult: TypeAlias = Mapping[str, int] | Literal[False] | None
"""``{"records": 1000, "bytes": 1_000_000}``, False for no bound, None if it is not given."""

SMALL_PAGE: Final = 100
"""Pages of at most so many records are not measured."""

_OF_A_VALUE: Final = 8
"""The bytes that stand for a number, a date and the like."""


class ResultBound(NamedTuple):
    """How much one call may return.

    Attributes:
        records: The number of records.
        bytes: Their size, as the store measures it: that of their texts, and some bytes for other
            values.
    """

    records: int = 50_000
    bytes: int = 64_000_000


MAX_RESULT: Final = ResultBound()


def read_max_result(value: object, bound: ResultBound | None) -> ResultBound | None:
    """Return the bound that an option sets, None for no bound.

    Args:
        value: As of `MaxResult`, but not None.
        bound: What counts for a name that the value leaves out; None stands for the default.

    Raises:
        ValueError: The option is not valid.
    """
    if value is False:
        return None
    example = '{"records": 1000, "bytes": 1_000_000}'
    if not is_mapping(value):
        raise ValueError(f"max_result is {value!r}; give {example}, or False for no bound")
    names: Mapping[Any, Any] = value
    for name, number in names.items():
        if name not in ResultBound._fields or type(number) is not int or number < 1:
            raise ValueError(
                f"max_result has {name!r}: {number!r}; give whole numbers from 1 on: {example}"
            )
    return (bound or MAX_RESULT)._replace(**names)


def size_of(value: JSONValue) -> int:
    """Return about how many bytes a value has in JSON.

    Examples:
        >>> size_of({"text": "12345", "n": 1, "tags": ["ab"]})
        24
    """
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(name)) + size_of(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(size_of, value))
    return _OF_A_VALUE


def size_of_changes(changes: Record, select: Iterable[str] | None) -> int:
    """Return how many bytes a patch adds to each record, at most.

    Args:
        changes: The data of the patch.
        select: The fields that are returned, None for all.
    """
    if select is None:
        return size_of(changes)
    selected = {name.partition(".")[0] for name in select}
    return sum(
        size_of(value)
        for name, value in changes.items()
        if name[:1] == "$" or name.partition(".")[0] in selected
    )


def measured(records: Iterable[Mapping[str, Any]], bound: ResultBound) -> tuple[int, int]:
    """Return the number of records and their size; what is beyond a bound is not looked at."""
    number = size = 0
    for record in records:
        number += 1
        size += size_of(record)
        if size > bound.bytes:
            break
    return number, size


def refuse_large(records: int, size: int, bound: ResultBound) -> None:
    """Refuse a result beyond the bound.

    Raises:
        BadRequest: It has too many records or bytes.
    """
    if records > bound.records:
        raise BadRequest(
            f"This call would return more than {bound.records} records; narrow the query, or read"
            " them in pages with $limit and $skip"
        )
    if size > bound.bytes:
        raise BadRequest(
            f"This call would return more than {bound.bytes} bytes; narrow the query, or return"
            " fewer fields with $select"
        )
