"""Values that only one record may have, for records in the memory of the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from alula.adapters._errors import value_taken
from alula.types import Record

__all__ = ["UniqueValues"]


class UniqueValues:
    """Which record has which value of the properties that are unique.

    Records without a value, or with None, do not count. Records are given by their keys.

    Args:
        names: The names of the properties.

    Attributes:
        names: As given.

    Examples:
        >>> unique = UniqueValues(["email"])
        >>> unique.own({"1": {"email": "ada@example.com"}})
        >>> unique.refuse_taken({"2": {"email": "bob@example.com"}})
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._owners: dict[str, dict[Any, str]] = {name: {} for name in self.names}

    def refuse_taken(self, records: Mapping[str, Record]) -> None:
        """Refuse records whose unique values other records have, or several of them.

        Raises:
            Conflict: A value is taken.
        """
        for name, owners in self._owners.items():
            wanted: dict[Any, str] = {}
            for key, value in _values(name, records):
                if wanted.setdefault(value, owners.get(value, key)) != key:
                    raise value_taken([name])

    def own(self, records: Mapping[str, Record]) -> None:
        """Note the values of records that are stored."""
        for name, owners in self._owners.items():
            owners.update((value, key) for key, value in _values(name, records))

    def disown(self, record: Record) -> None:
        """Forget the values of a record that is removed or replaced."""
        for name, owners in self._owners.items():
            for _, value in _values(name, {"": record}):
                owners.pop(value, None)


def _values(name: str, records: Mapping[str, Record]) -> Iterable[tuple[str, Any]]:
    """Yield the key of each record and the value of a property, in a form that is hashable."""
    for key, record in records.items():
        value = record.get(name)
        if value is not None:
            # 1 == True, and lists are not hashable.
            plain = isinstance(value, str | int | float) and not isinstance(value, bool)
            yield key, value if plain else (type(value).__name__, repr(value))
