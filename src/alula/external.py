"""Records of which the outside may see less than the application, and where they are in results.

What may leave is bound to the record itself and not to the call that made it: wherever such a
record ends up, nested in another one, in a list, in the data of an error or of an event, it leaves
as its ``outside``. The JSON of answers is made by this rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, Self

from alula.json_forms import FORMS
from alula.types import PAGE_NAMES, STANDARD_METHODS, Page

__all__ = [
    "GuardedRecord",
    "dumped",
    "map_records",
    "mapping_of",
    "outside_of",
    "without_at_any_depth",
]

_ATOMS: Final = frozenset({str, int, float, bool, type(None)})

_ONE_RECORD: Final = frozenset({"", *STANDARD_METHODS}) - {"find"}
"""Methods that return records and lists of them; "" stands for what is in a list."""


class GuardedRecord(dict[str, Any]):
    """A record as the application sees it, with what the outside may see of it.

    It is a dict like any other. Who makes a plain one of it (``{**record}``) takes the guard away;
    ``record.copy()`` and ``record | {...}`` keep it.

    Args:
        record: All properties.
        outside: What may leave, without anything that is guarded itself.
        by: What has made it, so that the same hook can tell that it need not guard it again.

    Attributes:
        outside: As given.
        by: As given.
    """

    __slots__ = ("by", "outside")

    def __init__(self, record: Mapping[str, Any], outside: Any, by: object = None) -> None:
        super().__init__(record)
        self.outside = outside
        self.by = by

    def __repr__(self) -> str:
        # It gets into logs and messages, which leave too.
        return f"GuardedRecord({self.outside!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return GuardedRecord, (dict(self), self.outside)

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, dict):
            return NotImplemented
        seen = outside_of(other)
        outside = self.changed({**self, **seen}).outside
        hidden = other.keys() - seen.keys()
        shown = {name: outside[name] for name in outside if name not in hidden}
        return GuardedRecord({**self, **other}, shown)

    def __ror__(self, other: Any) -> Any:
        return self.changed({**other, **self}) if isinstance(other, dict) else NotImplemented

    def __ior__(self, other: Any) -> Self:  # type: ignore[override]  # pairs, too
        made = self | (other if isinstance(other, dict) else dict(other))
        self.update(made)
        self.outside = made.outside
        return self

    def copy(self) -> GuardedRecord:
        """Return a shallow copy with the same guard."""
        return GuardedRecord(self, self.outside, self.by)

    def changed(self, record: Mapping[str, Any]) -> GuardedRecord:
        """Return a record that was made of this one with the guard of this one.

        What is hidden or masked stays so; what is new, or was open and has changed, may leave.
        """
        seen = {
            name: value
            for name, value in record.items()
            if name not in self or (name in self.outside and self.outside[name] is self[name])
        }
        masked = {name: self.outside[name] for name in record if name in self.outside}
        return GuardedRecord(record, {**masked, **outside_of(seen)})


def outside_of(value: Any) -> Any:
    """Return what may leave of a value: every guarded record in it is replaced by its outside.

    Args:
        value: Anything; mappings and lists are looked through at any depth.

    Returns:
        The value itself where it holds nothing guarded, otherwise a copy.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:  # as most are; the general tests are slow
        return _shown(value, value.items(), dict)
    if kind is list:
        return _shown(value, enumerate(value), list)
    if isinstance(value, GuardedRecord):
        return value.outside
    if isinstance(value, Mapping):
        return _shown(value, value.items(), Page.copy if isinstance(value, Page) else dict)
    if isinstance(value, list | tuple):
        return _shown(value, enumerate(value), list)
    return value


def mapping_of(value: Any) -> Any:
    """Return the mapping as which an object leaves, and a value that leaves otherwise as it is.

    What hides properties looks for their names, so it needs them by the names of the wire: of a
    Pydantic model these are its aliases.

    Args:
        value: Anything.
    """
    kind = type(value)
    if kind in _ATOMS or isinstance(value, Mapping | str | int | float | list | tuple):
        return value
    for each in kind.__mro__:
        if each in FORMS:
            form = FORMS[each](value)
            return form if isinstance(form, Mapping) else value
    if isinstance(value, type):
        return value
    if hasattr(value, "model_dump"):
        return dumped(value, "python")
    if is_dataclass(value):
        names = (field.name for field in fields(value))
        return {name: getattr(value, name) for name in names if not name.startswith("_")}
    return value


def dumped(model: Any, mode: str) -> Any:
    """Return an object with ``model_dump`` as a mapping, under the aliases of its fields.

    Args:
        model: A Pydantic model, or what does as these.
        mode: ``"python"`` or ``"json"``.
    """
    by_alias = {"by_alias": True} if hasattr(type(model), "model_fields") else {}
    return model.model_dump(mode=mode, **by_alias)


def without_at_any_depth(value: Any, names: Collection[str]) -> Any:
    """Return a value, in which nothing is guarded, without properties of these names.

    Nobody but its author knows where a custom method has records in its result.

    Args:
        value: Anything; mappings, objects that leave as these, and lists are looked through.
        names: The names of properties that are left out.
    """
    value = mapping_of(value)
    if isinstance(value, Mapping):
        return {
            name: inner if type(inner) in _ATOMS else without_at_any_depth(inner, names)
            for name, inner in value.items()
            if name not in names
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [without_at_any_depth(inner, names) for inner in value]
    return value


def map_records(
    result: Any,
    method: str,
    change: Callable[[Any], Any],
    change_rest: Callable[[dict[str, Any]], Any],
    *,
    whole: bool = False,
) -> Any:
    """Return the result of a call with other records in it.

    A mapping is a record, unless it is a `Page`: that it looks like a page says nothing, since
    clients decide what the properties of a record are. Only two methods can return pages that
    somebody put together anew (``{**page, "data": [...]}``). ``find`` never returns one record by
    its contract, so that a mapping with a list ``data`` counts as a page there. And a custom
    method may return what another ``find`` returned; nobody can tell such a copy from a record, so
    it counts as both. An object that leaves as a mapping, such as a Pydantic model, is a record
    as that mapping.

    Args:
        result: What a method returned, or what of it may leave. It is not changed.
        method: The method that was called.
        change: Called with each record, in order; returns what takes its place. Also called with
            what is neither a mapping nor a list.
        change_rest: Called with those properties of a page that are not a page's own, which may be
            none; returns a mapping of those that stay.
        whole: Whether what ``change_rest`` takes away or changes stays in the result, which is
            then bound to what may leave of it.

    Returns:
        A result of the same form.
    """
    if isinstance(result, list | tuple | set | frozenset):  # no method returned what is in it
        return [
            change(each)
            if type(each) is dict
            else map_records(each, "", change, change_rest, whole=whole)
            for each in result
        ]
    if not _has_records(result, method):
        return change(mapping_of(result))
    if isinstance(result, GuardedRecord):
        result = result.outside  # records in it cannot be exchanged behind its guard
    is_page = isinstance(result, Page)
    made = result.copy() if is_page else dict(result)
    if "data" in made:
        made["data"] = map_records(made["data"], "", change, change_rest, whole=whole)
    own = PAGE_NAMES if is_page or (method == "find" and made.keys() >= PAGE_NAMES) else ()
    rest = {name: value for name, value in made.items() if name not in own}
    if not rest:
        return made
    kept = change_rest(rest)
    gone = rest.keys() - kept.keys()
    if whole:
        if not gone and all(kept[name] == rest[name] for name in rest if name != "data"):
            return made
        shown = {name: value for name, value in made.items() if name not in gone} | kept
        return GuardedRecord(made, outside_of(shown))
    for name in gone:
        del made[name]
    made.update(kept)
    return made


def _has_records(result: Any, method: str) -> bool:
    """Tell whether there are records in ``data`` of what a method returned."""
    if isinstance(result, Page):
        return True
    if method in _ONE_RECORD or not isinstance(result, Mapping):
        return False
    return isinstance(result.get("data"), list | tuple) and (
        method == "find" or result.keys() >= PAGE_NAMES
    )


def _shown(value: Any, items: Iterable[tuple[Any, Any]], copy: Callable[[Any], Any]) -> Any:
    shown = value
    for key, inner in items:
        if type(inner) not in _ATOMS:
            outside = outside_of(inner)
            if outside is not inner:
                if shown is value:
                    shown = copy(value)
                shown[key] = outside
    return shown
