"""JSON Schemas as types of TypeScript.

All text of a schema becomes a literal in quotes, part of a comment that it cannot end, or a name of
letters and digits: no schema can put code into a front end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Set
from math import isfinite
from typing import Final

from alula._json_schema import Schema
from alula.types import is_mapping

__all__ = [
    "TypeDeclarations",
    "array_of",
    "comment",
    "key_of",
    "literal",
    "member",
    "type_name",
    "union_of",
]

_OPERATORS: Final = "QueryOperators"
"""The generic type of the common operators of one property, which the module declares."""
_COMPARING: Final = ("$gt", "$gte", "$lt", "$lte", "$ne")
_LISTING: Final = ("$in", "$nin")
_BRANCHES: Final = ".QueryCriteria"
"""What the component for the branches of `$or` adds to the name of a query."""
_REFERENCE: Final = "#/components/schemas/"
_SIMPLE: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
_OBJECT_KEYWORDS: Final = frozenset({"properties", "additionalProperties", "patternProperties"})
_CHOOSING: Final = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf"})
_DEFINITION: Final = re.compile(rf'"{_REFERENCE}\.([\w.-]+)"')
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_ATOM: Final = re.compile(r"[\w.]+(\[\])*|\"[^\"\\]*\"", re.ASCII)
# A type of this name would hide the one that the module itself uses.
_RESERVED: Final = frozenset(
    {"Array", "Feathers", "Partial", "Promise", "Record", "AuthenticationClientOptions"}
    | {"ClientApplication", "Configuration", "OpenQuery", "ServiceEvents", "ServiceTypes"}
    | {_OPERATORS}
)


class TypeDeclarations:
    """The types of a module, each declared once under a name of its own.

    Args:
        schemas: The schemas by name, as components of an OpenAPI description. More may come later.
        records: The names of those that describe records. Clients get all properties that have a
            default, and none that are write-only.

    Attributes:
        code: The declarations so far.
    """

    def __init__(self, schemas: Mapping[str, Schema], records: Set[str]) -> None:
        self.code: list[str] = []
        self._schemas = schemas
        self._records = records
        self._names: dict[str, str] = {}
        self._classes: dict[str, str] = {}
        self._taken = set(_RESERVED)

    def reserve(self, *choices: str, suffixes: Iterable[str] = ("",)) -> str:
        """Return the first name that is free with all suffixes, and reserve it with these.

        Args:
            choices: Names in the order of preference; to the last one underscores are added.
            suffixes: Endings for the names of further types.
        """
        names = iter(choices)
        name = next(names)
        while not self._taken.isdisjoint(name + suffix for suffix in suffixes):
            name = next(names, f"{name}_")
        self._taken.update(name + suffix for suffix in suffixes)
        return name

    def add_class(self, component: str, name: str) -> None:
        """Name the types of a component, and of its definitions, by classes.

        Two classes of one name have one type if they are equal.

        Args:
            component: The name of the component; it has to be one of the records.
            name: The name of its class. Those of its definitions are the names of these.
        """
        self._classes[component] = name

    def named(self, component: str) -> str:
        """Return the name of the type of a component; declare it at its first use.

        Args:
            component: The name of the component: a reserved name, or the name of a definition in
                such a schema, as "Message.Place". One that is the record of a service has its name.
        """
        if component in self._names:
            return self._names[component]
        owner, dot, inner = component.partition(".")
        name = component
        if dot or owner in self._classes:
            others = (self._records - self._classes.keys()) | self._names.keys()
            same = next((each for each in others if self._is_record(component, each)), None)
            if same is not None:
                self._names[component] = self.named(same)
                return self._names[component]
            wanted = component.replace(_BRANCHES, ".Criteria")
            if owner in self._classes:
                wanted = inner if dot else self._classes[owner]
            name = self.reserve(type_name(wanted))
        self._names[component] = name  # before its properties, which may refer to it
        schema = self._schemas[component]
        about: Schema = schema if is_mapping(schema) else {}
        place = len(self.code)
        declaration = self._declaration(component, name, about, owner in self._records)
        self.code.insert(place, comment(about.get("description")) + declaration)
        return name

    def type_of(self, schema: object, *, in_record: bool = False) -> str:
        """Return the type of the values that a schema allows, ``unknown`` if it does not say.

        Args:
            schema: The schema, as `Components` shows it.
            in_record: Whether a record has it.
        """
        if not is_mapping(schema):
            return "never" if schema is False else "unknown"
        if "$ref" in schema:
            component = str(schema["$ref"]).removeprefix(_REFERENCE)
            target = self._schemas.get(component)
            if target is None:
                return "unknown"
            # The operators of a property are no subject of their own.
            is_named = not is_mapping(target) or "$gt" not in target.get("properties", {})
            return self.named(component) if is_named else self.type_of(target, in_record=in_record)
        if "const" in schema or "enum" in schema:
            return union_of(map(literal, schema.get("enum", [schema.get("const")])))
        parts: list[str] = []
        json_types = schema.get("type", ())
        names = [json_types] if isinstance(json_types, str) else list(json_types)
        choices = schema.get("anyOf") or schema.get("oneOf") or ()
        inner = [*choices, *schema.get("allOf", ())]
        if not names and not _OBJECT_KEYWORDS.isdisjoint(schema):
            names = ["object"]
        elif not names and not inner and ("items" in schema or "prefixItems" in schema):
            names = ["array"]
        # Beside alternatives, the plain type says nothing, and would allow every property.
        if names and (not inner or names != ["object"] or not _OBJECT_KEYWORDS.isdisjoint(schema)):
            parts.append(union_of(self._of_json_type(name, schema, in_record) for name in names))
        if choices:
            parts.append(union_of(self.type_of(each, in_record=in_record) for each in choices))
        parts += [self.type_of(each, in_record=in_record) for each in schema.get("allOf", ())]
        parts = list(dict.fromkeys(part for part in parts if part != "unknown"))
        if len(parts) > 1:
            return " & ".join(f"({part})" if " | " in part else part for part in parts)
        return parts[0] if parts else "unknown"

    def _is_record(self, component: str, record: str) -> bool:
        """Return whether a definition is the same type as the records of a service.

        That is so if the definition is a record, too, and clients get the same properties of both,
        with all that these refer to: to TypeScript, the two types are then one.
        """
        owner, other = component.partition(".")[0], record.partition(".")[0]
        if owner not in self._records or other not in self._records:
            return False
        pairs, known = [(component, record)], set[str]()
        while pairs:
            one, another = pairs.pop()
            text = self._seen_by_clients(one, owner)
            if text != self._seen_by_clients(another, other):
                return False
            inner = set(_DEFINITION.findall(text)) - known
            known |= inner
            pairs += [(f"{owner}.{name}", f"{other}.{name}") for name in inner]
        return True

    def _seen_by_clients(self, component: str, owner: str) -> str:
        """Return the schema of a record as text, with what it refers to under common names."""
        schema = dict(self._schemas[component])
        shown = {
            name: field
            for name, field in schema.get("properties", {}).items()
            if not _is_marked(field, "writeOnly")
        }
        schema["properties"] = shown
        schema["required"] = sorted(shown.keys() & schema.get("required", ()))
        text = json.dumps(schema, sort_keys=True, default=str)
        return text.replace(f'"{_REFERENCE}{owner}.', f'"{_REFERENCE}.')

    def _declaration(self, component: str, name: str, schema: Schema, in_record: bool) -> str:
        """Return the declaration of a type: an interface if the schema has properties alone."""
        if not schema.get("properties") or not _CHOOSING.isdisjoint(schema):
            return f"export type {name} = {self.type_of(schema, in_record=in_record)}\n"
        members = self._members(schema, in_record)
        parent = ""
        # A query has the conditions of the branches of `$or`, and paging besides.
        branches = component + _BRANCHES
        conditions = self._members(self._schemas.get(branches, {}), in_record)
        if conditions and conditions.items() <= members.items():
            parent = f" extends {self.named(branches)}"
            members = {key: of for key, of in members.items() if key not in conditions}
        lines = "".join(
            comment(description, "  ") + f"  {text}\n" for text, description in members.values()
        )
        return f"export interface {name}{parent} {{\n{lines}}}\n"

    def _members(self, schema: Schema, in_record: bool) -> dict[str, tuple[str, object]]:
        """Return the members of an object type, and their descriptions, by their names in code."""
        required = set(schema.get("required", ()))
        members: dict[str, tuple[str, object]] = {}
        for name, field in schema.get("properties", {}).items():
            has: Schema = field if is_mapping(field) else {}
            # An operator has the schema of its property, which may be read-only and queried.
            if _is_marked(field, "writeOnly" if in_record else "readOnly") and name[:1] != "$":
                continue
            is_sure = name in required or (in_record and "default" in has)
            type_ = self.type_of(field, in_record=in_record)
            members[key_of(name)] = (member(name, type_, is_sure), has.get("description"))
        more = schema.get("additionalProperties")
        if more not in (None, False) or "patternProperties" in schema:
            # Beside named properties, TypeScript has no type for the others alone.
            others = "unknown" if members else self.type_of(more, in_record=in_record)
            members["[name: string]"] = (f"[name: string]: {others}", None)
        return members

    def _of_json_type(self, name: str, schema: Schema, in_record: bool) -> str:
        if name == "array":
            others = self.type_of(schema.get("items"), in_record=in_record)
            first = [
                self.type_of(each, in_record=in_record) for each in schema.get("prefixItems", ())
            ]
            if not first:
                return array_of(others)
            least, most = schema.get("minItems", 0), schema.get("maxItems")
            items = [text if at < least else f"({text})?" for at, text in enumerate(first)]
            if others != "never" and (most is None or most > len(first)):
                items.append(f"...{array_of(others)}")
            return f"[{', '.join(items)}]"
        if name != "object":
            return _SIMPLE.get(name, "unknown")
        properties: Schema = schema.get("properties") or {}
        names = schema.get("propertyNames")
        if not properties and is_mapping(names) and "enum" in names:
            value = self.type_of(schema.get("additionalProperties"), in_record=in_record)
            return f"{{ [name in {union_of(map(literal, names['enum']))}]?: {value} }}"
        members = {key: text for key, (text, _) in self._members(schema, in_record).items()}
        if not members:
            closed = schema.get("additionalProperties") is False
            return f"{{ [name: string]: {'never' if closed else 'unknown'} }}"
        compared = self.type_of(properties.get("$gt"), in_record=in_record)
        common = {
            **{key: member(key, compared) for key in _COMPARING},
            **{key: member(key, array_of(compared)) for key in _LISTING},
        }
        if common.items() <= members.items():
            rest = [text for key, text in members.items() if key not in common]
            more = f" & {{ {'; '.join(rest)} }}" if rest else ""
            return f"{_OPERATORS}<{compared}>{more}"
        return f"{{ {'; '.join(members.values())} }}"


def _is_marked(field: object, keyword: str) -> bool:
    """Return whether a property, or one of its alternatives, is read-only or write-only."""
    if not is_mapping(field):
        return False
    return field.get(keyword) is True or any(
        _is_marked(choice, keyword) for choice in field.get("anyOf", ())
    )


def type_name(text: str) -> str:
    """Return the name of a type for a path or a title, ``TeamsTasks`` for ``teams/:id/tasks``."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"Service{name}"


def literal(value: object) -> str:
    """Return a value of JSON as a literal type; lists and objects have none."""
    if isinstance(value, float) and not isfinite(value):
        return "number"
    known = value is None or isinstance(value, str | int | float)
    return json.dumps(value) if known else "unknown"


def member(name: str, type_: str, is_sure: bool = False) -> str:
    """Return a member of an object type, which is optional unless it is sure to be there."""
    return f"{key_of(name)}{'' if is_sure else '?'}: {type_}"


def key_of(name: str) -> str:
    """Return the name of a member in code: in quotes, unless it is an identifier."""
    # Without quotes, a method `new` would be a constructor.
    return name if _IDENTIFIER.fullmatch(name) and name != "new" else json.dumps(name)


def array_of(type_: str) -> str:
    """Return the type of a list."""
    return f"{type_}[]" if _ATOM.fullmatch(type_) else f"Array<{type_}>"


def union_of(types: Iterable[str]) -> str:
    """Return the type of values of any of these types."""
    different = list(dict.fromkeys(types))
    return "unknown" if "unknown" in different or not different else " | ".join(different)


def comment(text: object, indent: str = "") -> str:
    """Return the comment that editors show for what follows, empty without a text."""
    if not isinstance(text, str) or not text.strip():
        return ""
    # Half of a character pair, which JSON allows, cannot be written to a file.
    safe = text.encode("utf-8", "replace").decode().replace("*/", "*\\/")
    lines = safe.strip().splitlines()
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"
