"""A limit for data of models that contain a choice of themselves, such as ``child: A | B``.

Pydantic tries every choice of a union without a discriminator, and each choice tries all of them
again one level below: 20 levels of two choices are a million validations, some seconds in which
nothing else runs. The limit counts these tries before Pydantic begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from alula.errors import BadRequest
from alula.types import JSONValue, is_mapping

__all__ = ["UnionLimit"]

Node: TypeAlias = Mapping[str, Any]
"""A part of a core schema, with its ``type``."""

MOST_TRIES: Final = 100_000
"""Some 0.2 seconds."""

_NO_NODES: Final = frozenset({"config", "default", "expected", "metadata", "serialization"})
_OF_LISTS: Final = frozenset({"deque", "frozenset", "generator", "list", "set", "tuple"})


class UnionLimit:
    """Refuses data that takes too many tries.

    Args:
        core_schema: That of the model.

    Attributes:
        tries: How many choices that contain their union again may take a ``dict`` or a ``list``.
            Unions with a discriminator count as none, since they try one choice.
    """

    def __init__(self, core_schema: Node) -> None:
        nodes = list(_nodes_below(core_schema, {}))
        self._by_ref = {node["ref"]: node for node in nodes if "ref" in node}
        self.tries = {dict: 1, list: 1}
        # A schema that contains itself refers to a definition.
        if any(node["type"] == "definition-ref" for node in nodes):
            for union in nodes:
                if union["type"] == "union":
                    counted = self._choices(union, union)
                    for kind in self.tries:
                        self.tries[kind] = max(self.tries[kind], counted[kind])
        self._never_limits = max(self.tries.values()) == 1  # most models

    def check(self, value: JSONValue) -> None:
        """Refuse a value whose validation takes over `MOST_TRIES`.

        Raises:
            BadRequest: It is nested too deeply.
        """
        if self._never_limits:
            return
        spent, waiting = 0, [(value, 1)]
        container: JSONValue
        while waiting:
            container, times = waiting.pop()
            if isinstance(container, dict):
                times *= self.tries[dict]
                waiting += [(item, times) for item in container.values()]
            elif isinstance(container, list):
                times *= self.tries[list]
                waiting += [(item, times) for item in container]
            else:
                continue
            spent += times
            if spent > MOST_TRIES:
                raise BadRequest(
                    "The data is nested too deeply: too many combinations of models to try"
                )

    def _choices(self, node: Node, union: Node) -> Counter[type]:
        """Count the choices of a part of a union that contain the union again."""
        if node["type"] == "union":
            counted: Counter[type] = Counter()
            for choice in _nodes_in(node["choices"]):
                counted += self._choices(choice, union)
            return counted
        if node["type"] == "definition-ref":
            return self._choices(self._by_ref[node["schema_ref"]], union)
        # Wrappers, such as validators; a model has its fields in `schema`, too.
        inner = node.get("schema") or node.get("lax_schema") or node.get("python_schema")
        has_fields = node["type"] in {"dataclass", "model"} and not node.get("root_model")
        if is_mapping(inner) and not has_fields:
            return self._choices(inner, union)
        if all(below is not union for below in _nodes_below(node, self._by_ref)):
            return Counter()
        return Counter([list if node["type"] in _OF_LISTS else dict])


def _nodes_below(node: Node, by_ref: Mapping[object, Node]) -> Iterator[Node]:
    """Yield a part of a core schema and all parts that it contains or refers to, each once."""
    waiting = [node]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        referred = by_ref.get(node.get("schema_ref"))
        if referred is not None:
            waiting.append(referred)
        for name, value in node.items():
            if name not in _NO_NODES:
                waiting += _nodes_in(value)


def _nodes_in(value: JSONValue) -> Iterator[Node]:
    """Yield the parts of a core schema in a value: itself, or those in a list or by field name."""
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), str):
            yield value
        else:  # fields by name, one of which may be called `type`
            for item in value.values():
                yield from _nodes_in(item)
    elif isinstance(value, list | tuple):  # a choice may be a tuple of its schema and a label
        for item in value:
            yield from _nodes_in(item)
