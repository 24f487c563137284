"""The schemas of a tool's arguments, in the form that language models and their providers accept.

Definitions replace references, because providers refuse these. Words describe the syntax of
queries: a schema of it is many times as long, and is sent to the model with each request.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

from alula._json_schema import Schema, choices_of, definition_of, resolved
from alula._service_facts import SENT_FORMS
from alula.types import is_list, is_mapping

__all__ = ["inlined", "query_words", "select_words"]

_MAX_LEVELS: Final = 6
_OPEN: Final[Schema] = {"type": "object"}
# Titles repeat the names of the properties.
_DROPPED: Final = frozenset({"$schema", "$id", "$defs", "definitions", "title", "discriminator"})
_AS_DATA: Final = frozenset({"default", "const", "enum", "examples", "example"})
_BY_NAME: Final = frozenset({"properties", "patternProperties"})
_SIZES: Final = '"$limit": 20, "$skip": 0'
_OPERATORS: Final = ("$gt", "$gte", "$lt", "$lte", "$ne", "$in", "$nin")


def inlined(schema: Schema) -> dict[str, Any]:
    """Return a schema in which definitions replace the references to them.

    A definition within itself, and one that is too many levels down, becomes an open object.
    """
    inlined_schema: dict[str, Any] = _Inliner(schema).inlined(schema, ())
    return inlined_schema


class _Inliner:
    """Writes out the references of one schema.

    Args:
        root: The schema that has the definitions.
    """

    def __init__(self, root: Schema) -> None:
        self._root = root

    def inlined(self, part: Any, within: tuple[str, ...]) -> Any:
        """Return a part of the schema without references.

        Args:
            part: The part.
            within: The references that have led to it.
        """
        if is_list(part):
            return [self.inlined(item, within) for item in part]
        if not is_mapping(part):
            return part
        for keyword, sent in SENT_FORMS.items():
            if part.get(keyword) is True:
                part = {**{name: each for name, each in part.items() if name != keyword}, **sent}
        kept = {
            name: self._member(name, each, within)
            for name, each in part.items()
            if name not in _DROPPED
        }
        reference = kept.pop("$ref", None)
        if kept.get("default", 0) is None:  # says nothing else than that it is optional
            del kept["default"]
        return kept if reference is None else {**self._target(reference, within), **kept}

    def _member(self, name: str, value: Any, within: tuple[str, ...]) -> Any:
        if name in _AS_DATA:
            return value
        if name in _BY_NAME and is_mapping(value):  # any of them may have the name of a keyword
            return {key: self.inlined(each, within) for key, each in value.items()}
        return self.inlined(value, within)

    def _target(self, reference: str, within: tuple[str, ...]) -> Schema:
        target = definition_of(reference, self._root)
        if target is None or reference in within or len(within) == _MAX_LEVELS:
            return _OPEN
        shown: Schema = self.inlined(target, (*within, reference))
        return shown


# -- queries in words ------------------------------------------------------------------------------


def query_words(
    schema: Schema, record: Schema | None, hidden: Collection[str] = frozenset()
) -> str:
    """Return how to write a query for `find`.

    Args:
        schema: The schema of queries, ``{}`` if it is not known.
        record: That of the records, None if it is not known.
        hidden: The properties that queries of clients must not name.
    """
    fields, operators = _fields_and_operators(schema)
    fields = {name: text for name, text in fields.items() if name not in hidden}
    fields = fields or {
        name: _type_of(each, record or {})
        for name, each in (record or {}).get("properties", {}).items()
    }
    shown = "; ".join(f"{name}: {text}" if text else name for name, text in fields.items())
    first = next(iter(fields), "name")
    operators = operators or list(_OPERATORS)
    listed = ", ".join(operators)
    parts = [
        f"Fields: {shown}." if shown else "",
        f'Conditions by field: {{"{first}": value}} or {{"{first}": {{"{operators[0]}": value}}}}'
        f" (operators: {listed}; $in and $nin take lists). $or and $and take lists of conditions.",
        f'In the same object: {_SIZES}, "$sort": {{"{first}": 1}} (-1 for descending),'
        f' "$select": ["{first}"].',
    ]
    return " ".join(filter(None, parts))


def select_words(record: Schema | None) -> str:
    """Return how to select properties of one record."""
    first = next(iter((record or {}).get("properties", {})), "name")
    return f'{{"$select": ["{first}"]}} returns these properties only.'


def _fields_and_operators(schema: Schema) -> tuple[dict[str, str], list[str]]:
    """Return the types of the fields that a query may name, and all operators for them."""
    fields: dict[str, str] = {}
    operators: dict[str, None] = {}
    for name, field in resolved(schema, schema).get("properties", {}).items():
        if name.startswith("$"):
            continue
        values: dict[str, None] = {}
        for choice in choices_of(field, schema):
            named = [key for key in choice.get("properties", {}) if key.startswith("$")]
            operators |= dict.fromkeys(named)
            if not named:
                values[_type_of(choice, schema)] = None
        fields[name] = "|".join(filter(None, values))
    return fields, list(operators)


def _type_of(schema: Any, whole: Schema) -> str:
    """Return the type of a value in a word, empty if it may be anything."""
    names: dict[str, None] = {}
    for choice in choices_of(schema, whole):
        if "enum" in choice or "const" in choice:
            values = choice.get("enum") or [choice["const"]]
            names |= dict.fromkeys(json.dumps(value, ensure_ascii=False) for value in values)
        else:
            sent = next((form for key, form in SENT_FORMS.items() if choice.get(key)), choice)
            named = sent.get("format") or sent.get("type") or ""
            names |= dict.fromkeys([named] if isinstance(named, str) else named)
    return "|".join(filter(None, names))
