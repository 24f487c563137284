"""What an adapter was set up with, and what of it is different for one call.

Options are read and found in order once, when the service is made; a call that overrides none of
them uses the very same object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

__all__ = ["MULTI_METHODS", "Options", "Pagination", "read_multi", "read_pagination"]

MULTI_METHODS: Final = ("create", "patch", "remove")
"""The methods that can work on several records at once."""


class Pagination(NamedTuple):
    """Page sizes of `find`.

    Attributes:
        default: How many records a page has where the query does not say.
        max: The upper bound, None for none.
        more: What an adapter reads beside these, by `AdapterService.paginate_options`.
    """

    default: int
    max: int | None = None
    more: Mapping[str, Any] = MappingProxyType({})

    def limit(self, asked: int | None) -> int:
        """Return how many records a page has for a query that asks for so many."""
        if asked is None:
            return self.default
        return asked if self.max is None or asked <= self.max else self.max


class Options(NamedTuple):
    """The options that hold for a call.

    Attributes:
        pagination: Page sizes, None where `find` answers a list.
        multi: The methods that may work on several records.
        adapter: What an adapter reads of ``params.adapter`` beside the two above.
    """

    pagination: Pagination | None = None
    multi: frozenset[str] = frozenset()
    adapter: Mapping[str, Any] = MappingProxyType({})


def read_pagination(
    value: Mapping[str, Any] | bool | None, known: Collection[str]
) -> Pagination | None:
    """Return the page sizes that a ``paginate`` option names, None for no pages.

    Args:
        value: ``{"default", "max"}``; None, False and ``{}`` stand for no pages.
        known: The names that the adapter knows.

    Raises:
        ValueError: Something about it is not in order; the text says what.
    """
    if value is None or value is False or value == {}:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(
            f'paginate is {value!r}; give {{"default": 10, "max": 50}}, or False for no pages'
        )
    for name in value:
        if name not in known:
            raise ValueError(f"paginate has {name!r}; it may have {', '.join(sorted(known))}")
    default, most = value.get("default"), value.get("max")
    for name, size in (("default", default), ("max", most)):
        if size is not None and (type(size) is not int or size < 1):
            raise ValueError(f"paginate: {name!r} is {size!r}; give a whole number from 1 on")
    if default is None:
        default = most
    if default is None:
        raise ValueError("paginate has neither 'default' nor 'max'; give at least one of them")
    if most is not None and default > most:
        raise ValueError(f"paginate: 'default' ({default}) is greater than 'max' ({most})")
    more = {name: each for name, each in value.items() if name not in {"default", "max"}}
    return Pagination(default, most, MappingProxyType(more))


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
