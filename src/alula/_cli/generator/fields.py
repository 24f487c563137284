"""The fields of a record, as ``--fields`` names them: ``text:str,read:bool,owner:id?``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Final

from alula._cli.generator.names import LONGEST, camel_case
from alula._cli.terminal import UsageError

__all__ = ["DEFAULT_FIELDS", "Field", "example_of", "fields_of"]

DEFAULT_FIELDS: Final = "text:str"
"""Those of a service for which nobody names any."""

_EXAMPLES: Final = {"str": '"Hello"', "int": "3", "float": "1.5", "bool": "True"}
_OBJECT_ID: Final = f'"{"0" * 24}"'
_TYPES: Final = (*_EXAMPLES, "id")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_TAKEN: Final = frozenset(
    {"copy", "construct", "dict", "json", "schema", "validate"}  # methods of every model
    | {"created_at", "id", "user_id"}
)
_WIDTH: Final = 100


@dataclass(frozen=True)
class Field:
    """A field of a record.

    Attributes:
        name: In Python.
        kind: The type of its values in Python: ``Reference`` for object ids.
        optional: Whether it may be absent.
    """

    name: str
    kind: str
    optional: bool

    @property
    def wire_name(self) -> str:
        """Its name in JSON."""
        return camel_case(self.name)

    @property
    def example(self) -> str:
        """The source of a value that it can have, as JSON has it."""
        return _EXAMPLES.get(self.kind, _OBJECT_ID)

    @property
    def declaration(self) -> str:
        """What stands behind the colon in the model."""
        kind = f"{self.kind} | None" if self.optional else self.kind
        options = list(self._options())
        if not options:
            return kind
        if len(options) == 1 and not options[0].startswith(("alias", "m")):
            return f"{kind} = {options[0]}"
        line = f"{kind} = Field({', '.join(options)})"
        if len(f"    {self.name}: {line}") <= _WIDTH:
            return line
        return f"{kind} = Field(\n        {', '.join(options)}\n    )"

    def _options(self) -> Iterator[str]:
        if self.optional:
            yield "None"
        elif self.kind == "bool":
            yield "False"
        if self.wire_name != self.name:
            yield f'alias="{self.wire_name}"'
        if self.kind == "str":
            yield from ("min_length=1", "max_length=2000")


def fields_of(text: str, *, references: bool) -> tuple[Field, ...]:
    """Return the fields that a text names.

    Args:
        text: Fields with commas between them, each a name, a colon and a type; with a question
            mark, it may be absent.
        references: Whether the ids of records are object ids, as on MongoDB; in memory they are
            whole numbers.

    Raises:
        UsageError: One of them cannot be a field.
    """
    found = tuple(_field(each.strip(), references) for each in text.split(","))
    names = [field.name for field in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"there are two fields {name!r}")
    return found


def example_of(fields: Sequence[Field]) -> str:
    """Return the source of a record with these fields, as the data of a test."""
    items = [f'"{field.wire_name}": {field.example}' for field in fields]
    line = f"{{{', '.join(items)}}}"
    if len(f"NEW = {line}") <= _WIDTH:
        return line
    return "".join(["{\n", *(f"    {item},\n" for item in items), "}"])


def _field(text: str, references: bool) -> Field:
    name, _, kind = text.partition(":")
    kind = kind or "str"
    optional, kind = kind.endswith("?"), kind.removesuffix("?")
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise UsageError(
            f"{name!r} can not be the name of a field: begin with a small letter, and go on with"
            f" small letters, digits and single underscores, {LONGEST} characters at most"
        )
    if name in _TAKEN or name.startswith("model_") or iskeyword(name):
        raise UsageError(f"a field can not be called {name!r}, which means something already")
    if kind not in _TYPES:
        raise UsageError(f"{kind!r} of the field {name!r} is not a type; use {', '.join(_TYPES)}")
    if kind == "id":
        kind = "Reference" if references else "int"
    return Field(name, kind, optional)
