"""Parses the fields of a record from the option ``--fields``: ``text:str,read:bool,owner:id?``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Final

from alula._cli.generator.names import MAX_LENGTH, camel_case
from alula._cli.terminal import UsageError

__all__ = ["DEFAULT_FIELDS", "Field", "column_imports", "example_record", "parse_fields"]

DEFAULT_FIELDS: Final = "text:str"
"""The fields of a service without the option."""

_EXAMPLES: Final = {"str": '"Hello"', "int": "3", "float": "1.5", "bool": "True"}
_COLUMN_TYPES: Final = {"str": "Text", "int": "BigInteger", "float": "Double", "bool": "Boolean"}
_OBJECT_ID: Final = f'"{"0" * 24}"'
_TYPES: Final = (*_EXAMPLES, "id")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_RESERVED_NAMES: Final = frozenset(
    {"copy", "construct", "dict", "json", "schema", "validate"}  # methods of every model
    | {"created_at", "id", "user_id"}  # set by the generated service
)
_LINE_LENGTH: Final = 100


@dataclass(frozen=True)
class Field:
    """A field of a record.

    Attributes:
        name: Its name in Python.
        type_name: The Python type of its values; ``Reference`` for object ids.
        optional: Whether it may be missing.
    """

    name: str
    type_name: str
    optional: bool

    @property
    def wire_name(self) -> str:
        """Its name in JSON."""
        return camel_case(self.name)

    @property
    def example(self) -> str:
        """The source code of an example value, as in JSON."""
        return _EXAMPLES.get(self.type_name, _OBJECT_ID)

    @property
    def declaration(self) -> str:
        """The annotation and the default in the model: all that follows the colon."""
        annotation = f"{self.type_name} | None" if self.optional else self.type_name
        default = ["None"] if self.optional else ["False"] if self.type_name == "bool" else []
        options = [f'alias="{self.wire_name}"'] if self.wire_name != self.name else []
        if self.type_name == "str":
            # Without a limit, only the size of the request body limits a text.
            options += ["min_length=1", "max_length=2000"]
        if not options:
            return " = ".join([annotation, *default])
        arguments = ", ".join([*default, *options])
        line = f"{annotation} = Field({arguments})"
        if len(f"    {self.name}: {line}") <= _LINE_LENGTH:
            return line
        return f"{annotation} = Field(\n        {arguments}\n    )"

    @property
    def column_type(self) -> str:
        """The name of its type in a table of SQLAlchemy."""
        return _COLUMN_TYPES.get(self.type_name, "Integer")

    @property
    def column(self) -> str:
        """The source code of its column in a table of SQLAlchemy."""
        # Of these types, only this one is generic; strict checkers know its column so alone.
        type_ = "Double[float]()" if self.column_type == "Double" else self.column_type
        arguments = [f'"{self.name}"', type_]
        if self.wire_name != self.name:
            arguments.append(f'key="{self.wire_name}"')
        if not self.optional:
            arguments.append("nullable=False")
        return f"Column({', '.join(arguments)})"


def parse_fields(text: str, *, references: bool) -> tuple[Field, ...]:
    """Return the fields that a text names.

    Args:
        text: Fields separated by commas: a name, a colon and a type. A question mark after the
            type makes the field optional.
        references: Whether ids of records are object ids, as on MongoDB; in memory they are
            integers.

    Raises:
        UsageError: A field is not valid.
    """
    fields: dict[str, Field] = {}
    for part in text.split(","):
        name, _, type_name = part.strip().partition(":")
        type_name = type_name or "str"
        optional, type_name = type_name.endswith("?"), type_name.removesuffix("?")
        if not _NAME.fullmatch(name) or len(name) > MAX_LENGTH:
            raise UsageError(
                f"{name!r} cannot be the name of a field: use lower-case letters, digits and single"
                f" underscores, start with a letter, and use at most {MAX_LENGTH} characters"
            )
        if name in _RESERVED_NAMES or name.startswith("model_") or iskeyword(name):
            raise UsageError(f"{name!r} cannot be the name of a field: the name is reserved")
        if type_name not in _TYPES:
            raise UsageError(
                f"{type_name!r} of the field {name!r} is not a type; use {', '.join(_TYPES)}"
            )
        if name in fields:
            raise UsageError(f"there are two fields {name!r}")
        if type_name == "id":
            type_name = "Reference" if references else "int"
        fields[name] = Field(name, type_name, optional)
    return tuple(fields.values())


def example_record(fields: Sequence[Field]) -> str:
    """Return the source code of a record with these fields, for the data of a test."""
    items = [f'"{field.wire_name}": {field.example}' for field in fields]
    line = f"{{{', '.join(items)}}}"
    if len(f"NEW = {line}") <= _LINE_LENGTH:
        return line
    return "".join(["{\n", *(f"    {item},\n" for item in items), "}"])


def column_imports(fields: Sequence[Field], has_users: bool) -> str:
    """Return what the module with a table of these fields imports from SQLAlchemy.

    Args:
        fields: The fields.
        has_users: Whether the table refers to users.
    """
    names = {"Column", "DateTime", "Identity", "Integer", "Table"}
    names |= {field.column_type for field in fields}
    if has_users:
        names.add("ForeignKey")
    line = ", ".join(sorted(names))
    if len(f"from sqlalchemy import {line}") <= _LINE_LENGTH:
        return line
    return "".join(["(\n", *(f"    {name},\n" for name in sorted(names)), ")"])
