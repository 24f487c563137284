"""Service paths to services: a table for plain paths, a tree for paths with placeholders.

A plain path costs one or two look-ups in a dict, however many services there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

__all__ = ["Found", "Match", "RouteTable", "decode_segment", "strip_slashes"]

T = TypeVar("T")


Found: TypeAlias = tuple[T, str | None, dict[str, str]]
"""The parts of a `Match` as a plain tuple, since one is made for every request."""


class Match(NamedTuple, Generic[T]):
    """Where a request path leads.

    Attributes:
        value: What was registered there.
        id: The last segment, decoded, where it is a record's; None for the collection.
        route: The placeholders' values, decoded; a dict of this match alone.
    """

    value: T
    id: str | None
    route: dict[str, str]


@dataclass
class _Node(Generic[T]):
    children: dict[str, _Node[T]] = field(default_factory=dict)
    placeholder: _Node[T] | None = None
    names: tuple[str, ...] = ()
    value: T | None = None


def strip_slashes(path: str) -> str:
    """Return a path without the slashes at its ends."""
    return path.strip("/")


def decode_segment(segment: str) -> str:
    """Percent-decode one path segment; one that is not UTF-8 stays as it was sent."""
    if "%" not in segment:
        return segment
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeError:
        return segment


def _placeholders(path: str) -> tuple[str, ...]:
    names = tuple(segment[1:] for segment in path.split("/") if segment.startswith(":"))
    if "" in names:
        raise ValueError(f"the path {path!r} has a placeholder without a name")
    if "{" in path:
        raise ValueError(f"the path {path!r} has braces; a placeholder is written :name here")
    if len(set(names)) < len(names):
        raise ValueError(f"the path {path!r} has two placeholders of one name")
    return names


class RouteTable(Generic[T]):
    """Registered paths and what stands there. Case matters; slashes at the ends do not."""

    def __init__(self) -> None:
        self._plain: dict[str, T] = {}
        self._tree: _Node[T] = _Node()
        self._has_placeholders = False

    def add(self, path: str, value: T) -> None:
        """Register a path; a segment ``:name`` stands for any value.

        Raises:
            ValueError: A path with the same shape is there already, or a placeholder has no name
                or that of another one.
        """
        node, names = self._node(strip_slashes(path))
        if node.value is not None:
            raise ValueError(f"there is something at the path {path!r} already")
        node.value, node.names = value, names
        if names:
            self._has_placeholders = True
        else:
            self._plain[strip_slashes(path)] = value

    def remove(self, path: str) -> None:
        """Forget a path that was registered."""
        path = strip_slashes(path)
        self._plain.pop(path, None)
        self._prune(self._tree, path.split("/") if path else [], 0)

    def find(self, path: str) -> Found[T] | None:
        """Return where a request path leads, None for nowhere.

        Args:
            path: As it was sent, percent-encoded, so that ``%2F`` stays within its segment.
        """
        path = path.strip("/")
        value = self._plain.get(path)
        if value is not None:
            return value, None, {}
        head, _, last = path.rpartition("/")
        value = self._plain.get(head)
        if value is not None:
            return value, last if "%" not in last else decode_segment(last), {}
        if self._has_placeholders or "%" in path:
            return self._search([decode_segment(segment) for segment in path.split("/")])
        return None

    def _node(self, path: str) -> tuple[_Node[T], tuple[str, ...]]:
        node, names = self._tree, _placeholders(path)
        for segment in path.split("/") if path else ():
            if segment.startswith(":"):
                node.placeholder = node.placeholder or _Node()
                node = node.placeholder
            else:
                node = node.children.setdefault(segment, _Node())
        return node, names

    def _prune(self, node: _Node[T], segments: list[str], at: int) -> bool:
        """Take away the value at a path and the nodes that lead nowhere then; tell if this does."""
        if at == len(segments):
            node.value = None
        elif segments[at].startswith(":"):
            if node.placeholder and self._prune(node.placeholder, segments, at + 1):
                node.placeholder = None
        else:
            child = node.children.get(segments[at])
            if child and self._prune(child, segments, at + 1):
                del node.children[segments[at]]
        return node.value is None and node.placeholder is None and not node.children

    def _search(self, segments: list[str]) -> Found[T] | None:
        whole = self._walk(self._tree, segments, 0, [])
        if whole is not None:
            return whole[0], None, whole[1]
        one = self._walk(self._tree, segments[:-1], 0, [])
        if one is not None:
            return one[0], segments[-1], one[1]
        return None

    def _walk(
        self, node: _Node[T], segments: list[str], at: int, values: list[str]
    ) -> tuple[T, dict[str, str]] | None:
        if at == len(segments):
            if node.value is None:
                return None
            return node.value, dict(zip(node.names, values, strict=True))
        segment = segments[at]
        child = node.children.get(segment)
        if child is not None:
            found = self._walk(child, segments, at + 1, values)
            if found is not None:
                return found
        if node.placeholder is None or not segment:
            return None
        return self._walk(node.placeholder, segments, at + 1, [*values, segment])
