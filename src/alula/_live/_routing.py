"""Which lists a change may concern.

The answer is "no" only where that is certain with every adapter: a list that is read in vain costs
a read, and one that is not read is wrong for ever.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from alula.types import is_array, is_mapping

__all__ = ["Key", "Shelves", "may_match", "shelf_of"]

Key: TypeAlias = tuple[str, object]
"""A form of a value under which another spelling of it is found."""

_ANY: Final = None
"""In place of keys: the value may be equal to any other."""

_COMPARES: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$lt": operator.lt,
    "$lte": operator.le,
    "$gt": operator.gt,
    "$gte": operator.ge,
}
_OPTIONS: Final = frozenset({"$sort", "$limit", "$skip", "$select", "$include"})


def _wanted(value: object) -> frozenset[Key] | None:
    """Return the forms of a value in a query, None if nothing is certain.

    Adapters read text by the type of the column, or of the stored value: ``"7"`` may be a number,
    and ``"False"`` a truth value.
    """
    keys = _keys(value)
    if keys is not None and isinstance(value, str):
        return keys | {("truth", True), ("truth", False)}
    return keys


def _keys(value: object) -> frozenset[Key] | None:
    """Return the forms of a stored value, None if nothing is certain."""
    if type(value) in _CACHED or (type(value) is str and len(value) <= _MAX_CACHED):
        return _cached_keys(value)
    return _keys_of(value)


_CACHED: Final = frozenset({bool, int, float})
_MAX_CACHED: Final = 100


@lru_cache(4096, typed=True)
def _cached_keys(value: bool | int | float | str) -> frozenset[Key] | None:
    return _keys_of(value)


def _keys_of(value: object) -> frozenset[Key] | None:
    """Return the forms of a value.

    A text stands under its letters and digits, since collations find others equal, and under its
    number.
    """
    if isinstance(value, bool):
        return frozenset({("truth", value), ("text", str(value).lower()), ("number", float(value))})
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            return _ANY
        text = str(value)
        truth = {("truth", bool(value))} if value in {0, 1} else set[Key]()
        return frozenset({("number", number), ("text", _folded(text)), *truth})
    if isinstance(value, str):
        keys: set[Key] = {("text", _folded(value))}
        if (found := _number_in(value)) is not None:
            keys.add(("number", found))
        return frozenset(keys)
    return _ANY


def _folded(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _number_in(value: object) -> float | None:
    """Return a number, or that in a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _may_equal(stored: object, wanted: object) -> bool:
    one, other = _keys(stored), _wanted(wanted)
    return one is None or other is None or not one.isdisjoint(other)


def _may_compare(name: str, stored: object, wanted: object) -> bool:
    if isinstance(stored, bool) or not isinstance(stored, int | float):
        return True
    number = _number_in(wanted)
    return number is None or bool(_COMPARES[name](stored, number))


def _may_fit(stored: object, condition: object) -> bool:
    """Tell whether a stored value may fulfil the condition of a property."""
    if not is_mapping(condition):
        return _may_equal(stored, condition)
    for name, wanted in condition.items():
        if name in _COMPARES and not _may_compare(name, stored, wanted):
            return False
        if name == "$in" and is_array(wanted) and not any(_may_equal(stored, w) for w in wanted):
            return False
    return True


def may_match(record: Mapping[str, Any], query: Mapping[str, Any]) -> bool:
    """Tell whether a record, as stored, may match a query behind the hooks of `find`."""
    for name, condition in query.items():
        if name in _OPTIONS:
            continue
        if name in {"$and", "$or"} and is_array(condition):
            quantifier = all if name == "$and" else any
            if not quantifier(
                not is_mapping(part) or may_match(record, part) for part in condition
            ):
                return False
        elif name in record and not _may_fit(record[name], condition):
            return False
    return True


def _equalities(query: Mapping[str, Any]) -> dict[str, Sequence[object]]:
    """Return the values that each record of a query has, by property."""
    found: dict[str, Sequence[object]] = {}
    for name, condition in query.items():
        if name == "$and" and is_array(condition):
            for part in condition:
                if is_mapping(part):
                    found.update(_equalities(part))
        elif name[:1] != "$" and "." not in name:
            values: Any = [condition]
            if is_mapping(condition):
                values = condition.get("$in") if [*condition] == ["$in"] else None
            if is_array(values) and len(values) <= _MAX_VALUES:
                found[name] = values
    return found


_MAX_VALUES: Final = 20


def shelf_of(query: Mapping[str, Any]) -> dict[str, frozenset[Key]]:
    """Return the properties by which a list can be found, each with the forms of its values."""
    shelves: dict[str, frozenset[Key]] = {}
    for name, values in _equalities(query).items():
        keys = [_wanted(value) for value in values]
        if all(each is not _ANY for each in keys):
            shelves[name] = frozenset().union(*(each for each in keys if each))
    return shelves


class Shelves:
    """Lists by a value that each of their records has, so that a change looks at few of them.

    Attributes:
        scanned: Those without such a value; each change looks at all of them.
    """

    def __init__(self) -> None:
        self.scanned: dict[Hashable, None] = {}
        self._by_value: dict[str, dict[Key, dict[Hashable, None]]] = {}
        self._all: dict[str, dict[Hashable, None]] = {}
        self._places: dict[Hashable, tuple[str, frozenset[Key]]] = {}

    def put(self, item: Hashable, query: Mapping[str, Any]) -> None:
        """Put a list where its query says, on the emptiest shelf; a second time moves it."""
        self.take(item)
        shelves = shelf_of(query)
        if not shelves:
            self.scanned[item] = None
            return

        def size(name: str) -> int:
            shelf = self._by_value.get(name, {})
            return max((len(shelf.get(key, ())) for key in shelves[name]), default=0)

        name = min(shelves, key=size)
        keys = shelves[name]
        self._places[item] = name, keys
        self._all.setdefault(name, {})[item] = None
        shelf = self._by_value.setdefault(name, {})
        for key in keys:
            shelf.setdefault(key, {})[item] = None

    def take(self, item: Hashable) -> None:
        """Take a list away; does nothing if it is not here."""
        self.scanned.pop(item, None)
        place = self._places.pop(item, None)
        if place is None:
            return
        name, keys = place
        del self._all[name][item]
        shelf = self._by_value[name]
        for key in keys:
            del shelf[key][item]
            if not shelf[key]:
                del shelf[key]
        if not self._all[name]:
            del self._by_value[name], self._all[name]

    def add_near(self, record: Mapping[str, Any], found: dict[Any, None]) -> None:
        """Add the lists that a record may enter, by the values of one property each."""
        if self.scanned:
            found.update(self.scanned)
        for name, shelf in self._by_value.items():
            keys = _keys(record[name]) if name in record else _ANY
            if keys is None:
                found.update(self._all[name])
                continue
            for key in keys:
                if near := shelf.get(key):
                    found.update(near)

    @property
    def names(self) -> list[str]:
        """The properties by which lists are found."""
        return list(self._by_value)
