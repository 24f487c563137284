"""The words that every floor shares: ids, records, pages, "not set", and what a service is."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypedDict

__all__ = [
    "EVENT_OF_METHOD",
    "ID_METHODS",
    "STANDARD_METHODS",
    "UNSET",
    "Id",
    "Page",
    "Paginate",
    "Record",
    "SchemaKeyword",
    "Unset",
]

Id: TypeAlias = Any
"""A scalar that names a record: int, str, or what the database uses (an ObjectId, a UUID)."""

Record: TypeAlias = dict[str, Any]
"""One stored record, its id included."""


class Page(TypedDict):
    """What a paginated ``find`` answers."""

    total: int
    limit: int
    skip: int
    data: list[Any]


class Paginate(TypedDict, total=False):
    """Page sizes: ``default`` where a query names none, ``max`` as the upper bound."""

    default: int
    max: int


@dataclass(frozen=True)
class SchemaKeyword:
    """A keyword of one's own for JSON Schemas, which may convert the value that it stands at.

    Attributes:
        name: The keyword.
        convert: Called with the value and with what the schema has at the keyword; returns the
            value to go on with. A `ValueError` of it says what is wrong with the value.
        message: What a front end is shown where ``convert`` refuses.
    """

    name: str
    convert: Callable[[Any, Any], Any]
    message: str


class Unset(enum.Enum):
    """The type of `UNSET`, the one value that tells "not set" from None."""

    UNSET = "UNSET"

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""``context.result`` and ``context.dispatch`` before anything was set; None is a result."""

STANDARD_METHODS: Final = ("find", "get", "create", "update", "patch", "remove")
"""The six methods of the interface, in the order of its tables."""

ID_METHODS: Final = frozenset({"get", "update", "patch", "remove"})
"""Standard methods whose first argument is an id."""

EVENT_OF_METHOD: Final[Mapping[str, str]] = {
    "create": "created",
    "update": "updated",
    "patch": "patched",
    "remove": "removed",
}
"""The event that each writing method emits once it succeeded."""
