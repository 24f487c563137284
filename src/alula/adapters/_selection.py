"""``$select`` on records in Python, with the meaning that MongoDB's projection gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from alula.types import UNSET, Record

__all__ = ["selector"]

_Tree: TypeAlias = dict[str, "_Tree"]
"""Names by level; one with nothing below stands for the whole value."""


def selector(names: Iterable[str], id: str) -> Callable[[Mapping[str, Any]], Record]:
    """Return a function that reduces a record to the fields named.

    A dotted name leads into objects and keeps their structure; in a list it is looked for in
    every object, and what is no object is left out. A name that a record lacks is left out. The
    work does not grow with the product of names and elements: each object costs as much as it has
    entries, or as there are names, whichever is less.

    Args:
        names: Names of fields, as `Query.select` has them.
        id: Name of the id property, which is kept in any case.
    """
    whole = tuple(dict.fromkeys((*names, id)))

    wanted = frozenset(whole)

    def fields(record: Mapping[str, Any]) -> Record:
        if len(record) < len(whole):
            return {name: record[name] for name in record if name in wanted}
        return {name: record[name] for name in whole if name in record}

    dotted = [name for name in whole if "." in name]
    if not dotted:
        return fields
    tree = _tree(dotted)

    def fields_and_parts(record: Mapping[str, Any]) -> Record:
        chosen = fields(record)  # dotted names, too: a key may be spelled with a dot
        for name in record if len(record) < len(tree) else tree:
            if name in record and name in tree and name not in chosen:
                part = _pick(record[name], tree[name])
                if part is not UNSET:
                    chosen[name] = part
        return chosen

    return fields_and_parts


def _tree(names: Iterable[str]) -> _Tree:
    root: _Tree = {}
    # Short names first, so that one which stands for a whole value is known before those below.
    for name in sorted(names, key=len):
        *path, last = name.split(".")
        level = root
        for part in path:
            if level.get(part) == {}:
                break
            level = level.setdefault(part, {})
        else:
            level.setdefault(last, {})
    return root


def _pick(value: Any, tree: _Tree) -> Any:
    """Return the parts of a value that a tree names, UNSET where it can have none."""
    if not tree:
        return value
    if isinstance(value, Mapping):
        fewer, other = (value, tree) if len(value) < len(tree) else (tree, value)
        parts = {name: _pick(value[name], tree[name]) for name in fewer if name in other}
        return {name: part for name, part in parts.items() if part is not UNSET}
    if isinstance(value, list | tuple):
        items = (_pick(item, tree) for item in value)
        return [item for item in items if item is not UNSET]
    return UNSET
