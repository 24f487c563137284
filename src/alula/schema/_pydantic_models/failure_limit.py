"""A limit for the failures of one value, before Pydantic makes them all.

Pydantic makes all failures of a value or none. For a body of 1 MB that a model such as
``list[A | B | C]`` refuses, these are millions: seconds in which nothing else runs, and hundreds of
megabytes. So large data is first tried in small parts, and refused when these have had too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pydantic import ValidationError

from alula.errors import BadRequest
from alula.schema._failures import MOST_COUNTED
from alula.types import JSONValue, is_dict, is_list

__all__ = ["FEW_ENTRIES", "check_failures"]

FEW_ENTRIES: Final = 5_000
"""How many entries data has that is not tried in parts, which takes some 80 % longer if it is
valid. It may have some 70,000 failures: 0.3 seconds."""

_ENTRIES_OF_A_PART: Final = 1_000
_CONTAINERS: Final = frozenset({dict, list})
_OF_A_PART: Final = 100
"""Failures that a part may have because it is one: it lacks entries that the whole has."""


def check_failures(validate: Callable[[Any], object], value: Any) -> None:
    """Refuse large data that has too many failures to make them all.

    Args:
        validate: Validates by the model.
        value: The data: a dict or a list, of dicts, lists and scalars.

    Raises:
        BadRequest: It has more than `MOST_COUNTED` failures.
    """
    counted = 0
    sizes: dict[int, int] = {}
    try:
        _measure(value, sizes)
    except RecursionError:
        return  # it is refused for its depth
    for part in _parts(value, sizes):
        try:
            validate(part)
        except ValidationError as error:
            counted += max(0, error.error_count() - _OF_A_PART)
            if counted > MOST_COUNTED:
                raise BadRequest(
                    "The data has too many failures to list them; send less at a time"
                ) from None
        except Exception:  # noqa: BLE001, S112  # a validator of the application needs the whole
            continue


def _measure(value: JSONValue, sizes: dict[int, int]) -> int:
    """Return how many values data consists of; ``sizes`` gets that of each container by its id."""
    if not is_dict(value) and not is_list(value):
        return 1
    items = value.values() if is_dict(value) else value
    size = 1 + len(value)
    # Most containers hold scalars alone, which need no call each.
    if not _CONTAINERS.isdisjoint(map(type, items)):
        size = 1 + sum(_measure(item, sizes) for item in items)
    sizes[id(value)] = size
    return size


def _parts(value: Any, sizes: dict[int, int]) -> Iterator[Any]:
    """Yield copies of large data that have few entries each, and together all of them."""
    make: Callable[[list[tuple[Any, Any]]], Any] = dict if is_dict(value) else _list_of
    part: list[tuple[Any, Any]] = []
    size = 0
    for key, item in value.items() if is_dict(value) else enumerate(value):
        item_size = sizes.get(id(item), 1)
        if item_size > _ENTRIES_OF_A_PART:
            for inner in _parts(item, sizes):
                yield make([(key, inner)])
            continue
        if size + item_size > _ENTRIES_OF_A_PART:
            yield make(part)
            part, size = [], 0
        part.append((key, item))
        size += item_size
    if part:
        yield make(part)


def _list_of(entries: list[tuple[Any, Any]]) -> list[Any]:
    return [item for _, item in entries]
