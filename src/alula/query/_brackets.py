"""Keys in brackets to lists and mappings: what `parse` does once the text is read.

Most query strings use brackets in order and do not contradict themselves: `_read_agreeing` puts
their values straight into place. All others go through `_read_any`, which is right for every
string: it makes of each key what that key alone means, and merges one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alula.errors import BadRequest

__all__ = ["by_index", "read_keys"]

# JavaScript objects list names that are numbers below this one before all others.
_NUMBERS_FIRST = 2**32 - 1
_LONGEST_KEY_SHOWN = 60


def by_index(items: list[str]) -> dict[str, Any]:
    """Return a list as the mapping of its indexes to its items."""
    return {str(index): item for index, item in enumerate(items)}


def read_keys(values: dict[str, Any], limit: int, depth: int) -> dict[str, Any]:
    """Return the lists and mappings that keys in brackets stand for.

    Args:
        values: What each key holds: a string, or a list if there are several. A mapping with
            index keys instead of a list that is over the limit.
        limit: How many items a list may have.
        depth: How many pairs of brackets a key may have.

    Raises:
        BadRequest: A key has more brackets than ``depth``.
    """
    result = _read_agreeing(values, limit, depth) if limit > 0 else None
    return _read_any(values, limit, depth) if result is None else result


def _read_agreeing(values: dict[str, Any], limit: int, depth: int) -> dict[str, Any] | None:
    """Return the result where brackets are in order and no two keys contradict, otherwise None."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        # Values go into the result, and must still be as they were if this attempt fails.
        own = value if isinstance(value, str) else value.copy()
        name, bracket, rest = key.partition("[")
        if not bracket:
            if key in result:
                return None
            result[key] = own
            continue
        groups = _groups_in_order(rest)
        if not name or groups is None or len(groups) > depth:
            return None
        if not groups[-1]:
            groups.pop()
            own = [own] if isinstance(own, str) else own
        if not _place(result, name, groups, own, limit):
            return None
    return result


def _groups_in_order(text: str) -> list[str] | None:
    """Return what is in each pair of brackets of ``b][c]``, None where they are not in order."""
    groups = text[:-1].split("][")
    pairs = len(groups)
    in_order = text[-1:] == "]" and text.count("]") == pairs and text.count("[") == pairs - 1
    return groups if in_order else None


def _place(result: dict[str, Any], name: str, groups: list[str], value: Any, limit: int) -> bool:
    """Put value where its key says; return False if the place is taken or nothing leads there."""
    node: Any = result
    slot: Any = name
    for group in groups:
        kind: type[Any] = dict
        inner: Any = group
        if group[:1] in "0123456789":
            kind, inner = list, _index(group)
            if inner is None or inner >= limit:
                return False
        if type(node) is dict:
            below = node.setdefault(slot, kind())
        elif slot <= len(node):
            if slot == len(node):
                node.append(kind())
            below = node[slot]
        else:
            return False
        if type(below) is not kind:
            return False
        node, slot = below, inner
    if type(node) is dict:
        if slot in node:
            return False
        node[slot] = value
        return True
    if slot != len(node):
        return False
    node.append(value)
    return True


class _Numbered:
    """What stands at a name while keys are merged, if some of its keys may be indexes.

    It is a list as long as nothing speaks against that, and a mapping once it has names as keys or
    more items than a list may have. Items have strings as keys in either case: so gaps in a list
    take no room, and what becomes a mapping need not be copied.
    """

    __slots__ = ("is_list", "items", "next", "stays")

    def __init__(self, items: dict[str, Any], next_index: int, limit: int) -> None:
        self.items = items
        # Where a value goes that comes without a key.
        self.next = next_index
        self.is_list = next_index <= limit
        # Whether it still takes values without a key once names have made a mapping of it.
        self.stays = False

    def put(self, key: str, value: Any) -> None:
        """Add an item under a new key."""
        self.items[key] = value
        index = _index(key)
        if index is not None and index >= self.next:
            self.next = index + 1

    def append(self, value: Any) -> None:
        """Add an item that comes without a key."""
        self.items[str(self.next)] = value
        self.next += 1

    def check(self, limit: int) -> None:
        """Become a mapping where a list has grown too long."""
        self.is_list = self.is_list and len(self.items) <= limit

    def finished(self) -> list[Any] | dict[str, Any]:
        """Return the items as a plain list or dict."""
        if self.is_list:
            return [self.items[key] for key in sorted(self.items, key=int)]
        return self.items


_Container = dict[str, Any] | _Numbered


def _items_of(container: _Container) -> dict[str, Any]:
    return container.items if isinstance(container, _Numbered) else container


def _read_any(values: dict[str, Any], limit: int, depth: int) -> dict[str, Any]:
    """Return the result for keys of any shape."""
    root: dict[str, Any] = {}
    for key in _in_order(values):
        _merge(root, _container_of(key, values[key], limit, depth), limit)
    containers: list[Any] = [root]
    for container in containers:
        entries: Any = container.items() if isinstance(container, dict) else enumerate(container)
        for key, item in entries:
            if isinstance(item, _Numbered):
                container[key] = item.finished()
            if not isinstance(item, str):
                containers.append(container[key])
    return root


def _in_order(values: dict[str, Any]) -> Iterable[str]:
    """Return the keys in the order in which they are merged: that of their appearance.

    Only where a number as a name comes with brackets and without (``0[]=x&0=y``), numbers go
    first: that is how JavaScript objects list them, and it decides the order of the list.
    """
    numbers = [key for key in values if _index(key) is not None and int(key) < _NUMBERS_FIRST]
    if not numbers:
        return values
    bracketed = {key.partition("[")[0] for key in values if "[" in key}
    return values if bracketed.isdisjoint(["", *numbers]) else dict.fromkeys([*numbers, *values])


def _index(name: str) -> int | None:
    """Return the list index that a name in brackets stands for, None where it is just a name."""
    if name.isdigit() and name.isascii() and len(name) < 16 and (name[0] != "0" or name == "0"):
        return int(name)
    return None


def _container_of(key: str, value: Any, limit: int, depth: int) -> _Container:
    """Return what one key and its value alone give."""
    name, groups = _split(key, depth)
    node: str | _Container = value
    if not isinstance(value, str):
        items = value if isinstance(value, dict) else by_index(value)
        node = _Numbered(items, len(items), limit)
    for group in reversed(groups):
        index = _index(group)
        if index is not None:
            node = _Numbered({group: node}, index + 1, limit)
        elif group:
            node = {group: node}
        elif not isinstance(node, _Numbered):
            node = _Numbered({"0": node}, 1, limit)
        # Otherwise these are empty brackets around a list: ``a[][]`` is no deeper than ``a[]``.
    return {name: node} if name or isinstance(node, str) else node


def _split(key: str, depth: int) -> tuple[str, list[str]]:
    """Return the name before the brackets, and what stands in each pair of them.

    Text between two pairs is dropped, and a pair within a pair is part of the name there. A
    bracket that is never closed begins a name that it is part of.
    """
    name, bracket, rest = key.partition("[")
    if not bracket:
        return name, []
    in_order = _groups_in_order(rest)
    if in_order is not None and len(in_order) <= depth:
        return name, in_order
    groups: list[str] = []
    start, level = len(name), 0
    for position, character in enumerate(key):
        if character == "[":
            if not level:
                if len(groups) >= depth:
                    raise _too_deep(key, depth)
                start = position
            level += 1
        elif character == "]" and level:
            level -= 1
            if not level:
                groups.append(key[start + 1 : position])
    if level:
        groups.append(key[start:])
    return name, groups


def _too_deep(key: str, depth: int) -> BadRequest:
    shown = key if len(key) <= _LONGEST_KEY_SHOWN else f"{key[:_LONGEST_KEY_SHOWN]}…"
    return BadRequest(
        f"The key '{shown}' of the query string has more than {depth} pairs of brackets. "
        "Nest less deeply, or raise depth in the server's query parser."
    )


def _merge(root: dict[str, Any], source: _Container, limit: int) -> None:
    """Put what source holds into root."""
    todo: list[tuple[_Container, _Container]] = [(root, source)]
    for target, new in todo:
        numbered = target if isinstance(target, _Numbered) else None
        items = _items_of(target)
        for key, value in _items_of(new).items():
            held = items.get(key)
            if held is None:
                if numbered:
                    numbered.put(key, value)
                else:
                    items[key] = value
            elif not isinstance(held, str) and not isinstance(value, str):
                items[key] = held = _fitting(held, value)
                todo.append((held, value))
            elif numbered and numbered.is_list:
                numbered.append(value)
            elif value:  # "" adds nothing to what a name holds, but it is an item of a list.
                items[key] = _joined(held, value, limit)
        if numbered:
            numbered.check(limit)


def _fitting(held: _Container, new: _Container) -> _Container:
    """Return held in the shape that it must have for new to be merged into it."""
    if isinstance(new, _Numbered) and new.is_list:
        return held
    if isinstance(held, _Numbered):
        if not held.is_list or held.stays:
            held.is_list = False
            return held
        held = held.items
    if isinstance(new, _Numbered):
        numbers = [index for name in held if (index := _index(name)) is not None]
        return _Numbered(held, max(numbers, default=-1) + 1, -1)
    return held


def _joined(held: Any, value: Any, limit: int) -> _Numbered:
    """Return what a name holds that is given twice, at least once as a string."""
    if isinstance(held, _Numbered):
        held.append(value)
        held.check(limit)
        return held
    if isinstance(value, _Numbered):
        later = {str(int(key) + 1): item for key, item in value.items.items()}
        return _Numbered({"0": held, **later}, value.next + 1, limit)
    pair = _Numbered({"0": held, "1": value}, 2, limit)
    pair.stays = not isinstance(held, str)
    return pair
