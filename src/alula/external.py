"""Records of which the outside may see less than the application.

What may leave is bound to the record itself and not to the call that made it: wherever such a
record ends up, nested in another one, in a list, in the data of an error or of an event, it leaves
as its ``outside``. The JSON of answers is made by this rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self

__all__ = ["GuardedRecord", "outside_of"]

_ATOMS: Final = frozenset({str, int, float, bool, type(None)})


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
    if type(value) in _ATOMS:
        return value
    if isinstance(value, GuardedRecord):
        return value.outside
    if isinstance(value, Mapping):
        return _shown(value, value.items(), dict)
    if isinstance(value, list | tuple):
        return _shown(value, enumerate(value), list)
    return value


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
