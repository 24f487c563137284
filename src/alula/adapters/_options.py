"""Options of an adapter and params of a call: read and checked once; options never change.

A call that overrides none of them uses the very object of the service; one that does gets a
changed copy from `AdapterService.options_for`, and everything in that call reads the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self, TypeAlias

from alula._context import Params
from alula.adapters._result_bounds import MAX_RESULT, ResultBound, read_max_result
from alula.errors import MethodNotAllowed, NotFound
from alula.query import Grammar, Query
from alula.query._query import query_of
from alula.types import Id

__all__ = [
    "MULTI_METHODS",
    "Options",
    "Pagination",
    "ParamsLike",
    "change_no_option",
    "not_found",
    "read_multi",
    "read_pagination",
    "read_params",
    "with_range",
]

ParamsLike: TypeAlias = Params | Mapping[str, Any] | None

MULTI_METHODS: Final = ("create", "patch", "remove")
"""The methods that can work on several records at once."""

_READ_HERE: Final = frozenset(
    {
        "id",
        "paginate",
        "multi",
        "operators",
        "filters",
        "update_operators",
        "dotted_names",
        "max_result",
    }
)


change_no_option: Final[Callable[[Mapping[str, Any]], bool]] = frozenset(
    {"adapter", "paginate"}
).isdisjoint
"""Tells of the attributes of params whether they leave all options of a call as they are."""


class Pagination(NamedTuple):
    """Page sizes of `find`.

    Attributes:
        default: How many records a page has if the query does not say.
        max: The upper bound, None for no bound.
        more: Further settings that an adapter reads; see `AdapterService.paginate_options`.
    """

    default: int
    max: int | None = None
    more: Mapping[str, Any] = MappingProxyType({})

    def limit(self, requested: int | None) -> int:
        """Return the page size for a query that requests this many records.

        Examples:
            >>> Pagination(default=10, max=50).limit(200)
            50
        """
        if requested is None:
            return self.default
        return requested if self.max is None or requested <= self.max else self.max


@dataclass(frozen=True)
class Options:
    """The options of one call.

    Attributes:
        id: Name of the property that holds the id.
        pagination: Page sizes, None if `find` returns a list.
        multi: The methods that may work on several records at once.
        grammar: Reads queries, with the operators and filters that are open.
        update_operators: Keys that begin with ``$`` that clients may send to update and patch.
        dotted_names: Whether clients may patch properties of nested objects (``address.town``).
        max_result: How much a call may return, None for no bound.
        bounds_own_calls: Whether that holds for calls of the application's own code too.
        adapter: Entries of ``params.adapter`` that an adapter of your own reads; see
            `AdapterService.call_options`.
    """

    id: str = "id"
    pagination: Pagination | None = None
    multi: frozenset[str] = frozenset()
    grammar: Grammar = field(default_factory=Grammar)
    update_operators: frozenset[str] = frozenset()
    dotted_names: bool = False
    max_result: ResultBound | None = MAX_RESULT
    bounds_own_calls: bool = False
    adapter: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def check_multi(self, method: str) -> None:
        """Refuse a method that may not work on several records.

        Raises:
            MethodNotAllowed: The option ``multi`` does not name the method.
        """
        if method not in self.multi:
            raise MethodNotAllowed(f"Can not {method} multiple entries")  # FeathersJS' text

    def changed(self, given: Mapping[str, Any], paginate_names: Collection[str]) -> Self:
        """Return these options with others in their place; None leaves an option as it is.

        A subclass with options of its own extends this.

        Args:
            given: Options as `AdapterService` and ``params.adapter`` take them.
            paginate_names: The names that ``paginate`` may have.

        Raises:
            ValueError: An option is not valid.
        """
        changes: dict[str, Any] = {}
        if "id" in given:
            name = given["id"]
            if not isinstance(name, str) or not name:
                raise ValueError(f"id is {name!r}; give the name of the property that holds the id")
            changes["id"] = name
        if (paginate := given.get("paginate")) is not None:
            changes["pagination"] = read_pagination(paginate, paginate_names)
        if (multi := given.get("multi")) is not None:
            changes["multi"] = read_multi(multi)
        operators, filters = given.get("operators"), given.get("filters")
        if operators is not None or filters is not None:
            names = None if operators is None else read_names("operators", operators)
            changes["grammar"] = self.grammar.opened(names, filters)
        if (update_operators := given.get("update_operators")) is not None:
            changes["update_operators"] = frozenset(
                read_names("update_operators", update_operators)
            )
            for name in changes["update_operators"]:
                if name[:1] != "$":
                    raise ValueError(f"update_operators lists {name!r}; their names begin with '$'")
        if given.get("dotted_names") is not None:
            changes["dotted_names"] = given["dotted_names"]
        if given.get("max_result") is not None:
            changes["max_result"] = read_max_result(given["max_result"], self.max_result)
        more = {name: given[name] for name in given if name not in _READ_HERE}
        if more:
            changes["adapter"] = MappingProxyType(more)
        return replace(self, **changes)


def read_names(option: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that an option lists.

    Args:
        option: What the option is called.
        names: Its value.

    Raises:
        ValueError: It is one string, whose characters would be taken for the names.
    """
    if isinstance(names, str):
        raise ValueError(f"{option} is one string; give a list: [{names!r}]")
    return tuple(names)


def read_pagination(
    value: Mapping[str, Any] | bool | None, names: Collection[str]
) -> Pagination | None:
    """Return the page sizes that a ``paginate`` option sets, None if it turns pages off.

    Args:
        value: ``{"default": 10, "max": 50}``, or None, False or ``{}`` for no pages.
        names: The names that the adapter reads.

    Raises:
        ValueError: The option is not valid; the message says why.
    """
    if value is None or value is False or value == {}:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(
            f'paginate is {value!r}; give {{"default": 10, "max": 50}}, or False for no pages'
        )
    for name in value:
        if name not in names:
            raise ValueError(f"paginate has {name!r}; it may have {', '.join(sorted(names))}")
    default, max_size = value.get("default"), value.get("max")
    for name, size in (("default", default), ("max", max_size)):
        if size is not None and (type(size) is not int or size < 1):
            raise ValueError(f"paginate: {name!r} is {size!r}; give a whole number from 1 on")
    if default is None:
        default = max_size
    if default is None:
        raise ValueError("paginate has neither 'default' nor 'max'; give at least one of them")
    if max_size is not None and default > max_size:
        raise ValueError(f"paginate: 'default' ({default}) is greater than 'max' ({max_size})")
    more = {name: value[name] for name in value if name not in {"default", "max"}}
    return Pagination(default, max_size, MappingProxyType(more))


def read_multi(value: bool | Iterable[str] | None) -> frozenset[str]:
    """Return the methods that a ``multi`` option allows to work on several records.

    Args:
        value: True for all, False or None for none, or names of methods.

    Raises:
        ValueError: It is something else, or names a method that has no such form.
    """
    if value is None or isinstance(value, bool):
        return frozenset(MULTI_METHODS if value else ())
    methods = ", ".join(MULTI_METHODS)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"multi is {value!r}; give True, False or a list of {methods}")
    names = tuple(value)
    for name in names:
        if name not in MULTI_METHODS:
            raise ValueError(f"multi lists {name!r}; it may list {methods}")
    return frozenset(names)


def read_params(params: ParamsLike, values: Mapping[str, Any] | None = None) -> Params:
    """Return the params of a call that goes to the adapter itself, not through a handle.

    Raises:
        TypeError: They are neither `Params` nor a mapping, or have names that were not declared.
    """
    if isinstance(params, Params) and not values:
        params.check_names("the adapter")
        return params
    read = Params(params, **(values or {}))
    read.check_names("the adapter")
    return read


def with_range(query: Query, limit: int | None, skip: int) -> Query:
    """Return a query with another limit and skip."""
    # _replace() takes three times as long, in every find with pages.
    criteria, _, _, sort, select, filters, budget = query
    return query_of((criteria, limit, skip, sort, select, filters, budget))


def not_found(id: Id) -> NotFound:
    """Return the error for an id that no record has."""
    message = f"No record found for id '{id}'"
    # Only Python code can pass these: a client's id is text.
    if type(id) is not str and isinstance(id, Mapping | list):
        message += "; an id is a single value, and what selects records is query={...}"
    return NotFound(message)
