"""What changes one page of records into another one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Change", "differences"]


class Change(NamedTuple):
    """One step from a page to the next one.

    Attributes:
        kind: ``"entered"``, ``"changed"`` or ``"left"``.
        key: Of the record.
        at: Where the record is then, as an index; -1 for one that has left.
    """

    kind: str
    key: Hashable
    at: int


def differences(
    before: Mapping[Hashable, object], after: Mapping[Hashable, object]
) -> Iterator[Change]:
    """Yield the steps from one page to another, in the order in which they are to be made.

    A record that has changed or moved is taken out and put in at its index. As few as possible
    move: those outside the longest run that has kept its order.

    Args:
        before: The digests of the records on the page, by their keys, in order.
        after: The same of the page that follows.
    """
    page = [key for key in before if key in after]
    yield from (Change("left", key, -1) for key in before if key not in after)
    places = {key: place for place, key in enumerate(page)}
    stays = _longest_run([places[key] for key in after if key in places])
    previous: Hashable | None = None
    for key, digest in after.items():
        if key not in places:
            at = _place_behind(page, previous)
            page.insert(at, key)
            yield Change("entered", key, at)
        elif places[key] not in stays:
            page.remove(key)
            at = _place_behind(page, previous)
            page.insert(at, key)
            yield Change("changed", key, at)
        elif before[key] != digest:
            yield Change("changed", key, page.index(key))
        previous = key


def _place_behind(page: Sequence[Hashable], key: Hashable | None) -> int:
    return 0 if key is None else page.index(key) + 1


def _longest_run(places: Sequence[int]) -> set[int]:
    """Return the longest rising subsequence."""
    ends: list[int] = []  # the smallest end of a run of each length
    at: list[int] = []  # the index of that end
    previous: list[int] = []
    for index, place in enumerate(places):
        length = bisect_left(ends, place)
        previous.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        at[length : length + 1] = [index]
    run: set[int] = set()
    index = at[-1] if at else -1
    while index >= 0:
        run.add(places[index])
        index = previous[index]
    return run
