"""Types and constants of all modules: ids, records, pages, methods, `UNSET`, tests of values."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypedDict,
    overload,
)

__all__ = [
    "COLLECTION_TYPES",
    "EVENT_OF_METHOD",
    "ID_METHODS",
    "METHODS_WITHOUT_DATA",
    "PAGE_NAMES",
    "SCALAR_TYPES",
    "STANDARD_METHODS",
    "UNSET",
    "CheckedText",
    "Id",
    "Page",
    "Paginate",
    "Record",
    "ScalarId",
    "SchemaKeyword",
    "Unset",
]

if TYPE_CHECKING:
    from datetime import date
    from decimal import Decimal

    # Checkers bring this module themselves, and defaults are for them alone: without type
    # arguments, everything is `Any` as before.
    from typing_extensions import TypeIs, TypeVar

    # Covariant: a hook for `Mapping[str, Any]` fits every service. Python has no way to say that
    # it writes only what it was given, so a checker cannot refuse that it writes something wider.
    Result_co = TypeVar("Result_co", covariant=True, default=Any)
    Data_co = TypeVar("Data_co", covariant=True, default=Any)
    User_co = TypeVar("User_co", covariant=True, default=Any)
    App_co = TypeVar("App_co", covariant=True, default=Any)
    Service_co = TypeVar("Service_co", covariant=True, default=Any)
    Item = TypeVar("Item", default=Any)
    RecordType = TypeVar("RecordType", bound=Mapping[str, Any], default=Any)
    NewRecord = TypeVar("NewRecord", default=Mapping[str, Any])
    Changes = TypeVar("Changes", default=Mapping[str, Any])
    Found = TypeVar("Found", default="Page[RecordType] | list[RecordType]")
    Paths = TypeVar("Paths", bound=str, default=Any)
else:
    from typing import TypeVar

    Result_co, Data_co = TypeVar("Result_co"), TypeVar("Data_co")
    User_co, App_co, Service_co = TypeVar("User_co"), TypeVar("App_co"), TypeVar("Service_co")
    RecordType, NewRecord = TypeVar("RecordType"), TypeVar("NewRecord")
    Changes, Found = TypeVar("Changes"), TypeVar("Found")
    Item, Paths = TypeVar("Item"), TypeVar("Paths")

Id: TypeAlias = Any
"""The id of a record: an int, a str, or a type of the database (an ObjectId, a UUID)."""

Record: TypeAlias = dict[str, Any]
"""One stored record, its id included."""


JSONValue: TypeAlias = (
    "Mapping[str, Any] | list[Any] | tuple[Any, ...] | str | float | bytes | date | Decimal | None"
)
"""A value in a record or a query, for type checkers. After `isinstance`, they know what a container
holds, at no cost; of `object` and `Any` they do not. Databases have further scalars."""


class ScalarId(Hashable, Protocol):
    """For type checkers, the id of one record: a number, a text, a UUID, an ObjectId.

    All ids have an order. None, which means several records, has none, and neither have records.
    """

    def __lt__(self, other: Any, /) -> Any:
        """Compare with another id."""
        ...


class CheckedText(str):
    """A text that the application has checked and changed itself, such as a hash of a password.

    A schema says what may be sent. So schemas leave such a text of own code as it is, with its
    class.
    """

    __slots__ = ()


PAGE_NAMES: Final = frozenset({"total", "limit", "skip", "data"})
"""The names that every page has."""


class Page(dict[str, Any], Generic[Item]):
    """One page of records, the result of a paginated ``find``: a dict.

    For type checkers, ``Page[Message]`` has ``list[Message]`` under ``data``.

    Its type distinguishes it from a record with the same names, so return this class from your own
    services. ``page.copy()`` and ``page | {...}`` are pages as well; ``{**page}`` is a plain dict.

    Args:
        total: The number of records that the query selects, on all pages.
        limit: The largest number of records on a page.
        skip: The number of records before this page.
        data: The records of this page.
        more: Further entries, such as a cursor; they are sent unchanged.

    Examples:
        >>> Page(total=41, limit=2, skip=0, data=[{"id": 1}, {"id": 2}])["total"]
        41
    """

    __slots__ = ()

    def __init__(self, *, total: int, limit: int, skip: int, data: list[Any], **more: Any) -> None:
        # One by one: passing keywords on to dict takes twice as long, for each response of `find`.
        self["total"], self["limit"], self["skip"], self["data"] = total, limit, skip, data
        if more:
            self.update(more)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # a page has these names, and a typo is an error
        def __getitem__(self, name: Literal["total", "limit", "skip"], /) -> int: ...
        @overload
        def __getitem__(self, name: Literal["data"], /) -> list[Item]: ...
        def __getitem__(self, name: str, /) -> Any: ...

    def __or__(self, other: object) -> Any:
        return self._with(self, other) if is_mapping(other) else NotImplemented

    def __ror__(self, other: object) -> Any:
        return self._with(other, self) if is_mapping(other) else NotImplemented

    def copy(self) -> Page[Item]:
        """Return a shallow copy, a page as well."""
        return self._with(self)

    @staticmethod
    def _with(*parts: Mapping[str, Any]) -> Page:
        page = Page.__new__(Page)  # without __init__: a hook may have removed one of the names
        for part in parts:
            page.update(part)
        return page


class Paginate(TypedDict, total=False):
    """Page sizes: ``default`` without ``$limit``, and ``max`` as the upper limit."""

    default: int
    max: int


@dataclass(frozen=True)
class SchemaKeyword:
    """A custom keyword of JSON Schemas, which may convert the value that it applies to.

    Attributes:
        name: The keyword.
        convert: Called with the value, and the value of the keyword in the schema; returns the
            converted value. It raises a `ValueError` for a value that is not valid.
        message: The message for clients if ``convert`` raises.
    """

    name: str
    convert: Callable[[Any, Any], Any]
    message: str


class Unset(enum.Enum):
    """The type of `UNSET`, which distinguishes "not set" from None."""

    UNSET = "UNSET"

    # So `context.result or []` works in a hook that runs before the method.
    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""``context.result`` and ``context.dispatch`` before they are set; None is a result."""

STANDARD_METHODS: Final = ("find", "get", "create", "update", "patch", "remove")
"""The six methods of the interface, in the order of its tables."""

ID_METHODS: Final = frozenset({"get", "update", "patch", "remove"})
"""Standard methods whose first argument is an id."""

METHODS_WITHOUT_DATA: Final = frozenset({"find", "get", "remove"})
"""Standard methods that take no data; custom methods always take it."""

COLLECTION_TYPES: Final[tuple[type[Any], ...]] = (list, tuple, set, frozenset)
"""The types that are sent as lists. To type checkers, a value stays `Any` behind a test for these;
behind `isinstance(value, list | tuple)`, its items would be unknown."""

SCALAR_TYPES: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None)})
"""The types of JSON values that hold no others. `type(value) in SCALAR_TYPES` is the quick test
before a slower one: subclasses, such as an enum that is a ``str``, are not among them."""

EVENT_OF_METHOD: Final[Mapping[str, str]] = {
    "create": "created",
    "update": "updated",
    "patch": "patched",
    "remove": "removed",
}
"""The event of each writing method, emitted when it succeeded."""

_ARRAYS: Final = (list, tuple)


# `isinstance` tells a type checker of `object` and `Any` only that keys and values are unknown;
# these tell what they are. Each is a call: on the way of every request, see `JSONValue`.


def is_mapping(value: object) -> TypeIs[Mapping[str, Any]]:
    """Tell whether a value is an object of JSON: any mapping."""
    # A plain dict in nearly all cases: the test with the ABC takes five times as long.
    return type(value) is dict or isinstance(value, Mapping)


def is_dict(value: object) -> TypeIs[dict[str, Any]]:
    """Tell whether a value is a dict, which can be changed."""
    return isinstance(value, dict)


def is_page(value: object) -> TypeIs[Page[Any]]:
    """Tell whether a value is a page of records."""
    return isinstance(value, Page)


def is_list(value: object) -> TypeIs[list[Any]]:
    """Tell whether a value is a list, which can be changed."""
    return isinstance(value, list)


def is_array(value: object) -> TypeIs[list[Any] | tuple[Any, ...]]:
    """Tell whether a value is an array of JSON: a list or a tuple."""
    return isinstance(value, _ARRAYS)
