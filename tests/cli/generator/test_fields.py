"""The fields of a record."""

from __future__ import annotations

import pytest

from alula._cli.generator.fields import (
    DEFAULT_FIELDS,
    column_imports,
    example_record,
    parse_fields,
)
from alula._cli.terminal import UsageError


@pytest.mark.parametrize(
    ("text", "declaration", "example"),
    [
        ("text", "str = Field(min_length=1, max_length=2000)", '"Hello"'),
        ("text:str", "str = Field(min_length=1, max_length=2000)", '"Hello"'),
        ("text:str?", "str | None = Field(None, min_length=1, max_length=2000)", '"Hello"'),
        ("count:int", "int", "3"),
        ("count:int?", "int | None = None", "3"),
        ("due_date:int", 'int = Field(alias="dueDate")', "3"),
        ("price:float", "float", "1.5"),
        ("read:bool", "bool = False", "True"),
        ("is_read:bool", 'bool = Field(False, alias="isRead")', "True"),
        ("read:bool?", "bool | None = None", "True"),
        ("owner:id", "Reference", f'"{"0" * 24}"'),
        (" owner_id:id? ", 'Reference | None = Field(None, alias="ownerId")', f'"{"0" * 24}"'),
    ],
)
def test_a_field(text, declaration, example):
    (field,) = parse_fields(text, references=True)
    assert (field.declaration, field.example) == (declaration, example)


def test_a_declaration_that_is_too_long_for_a_line():
    (field,) = parse_fields(f"a_{'b' * 22}:str?", references=False)
    lines = f"    {field.name}: {field.declaration}".splitlines()
    assert lines[1].startswith('        None, alias="a')
    assert lines[0].endswith("= Field(")
    assert max(map(len, lines)) <= 100


def test_several():
    found = parse_fields("text:str, read:bool,due_date:int?", references=False)
    assert [(each.name, each.wire_name, each.optional) for each in found] == [
        ("text", "text", False),
        ("read", "read", False),
        ("due_date", "dueDate", True),
    ]
    assert [each.name for each in parse_fields(DEFAULT_FIELDS, references=False)] == ["text"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' cannot be the name of a field"),
        ("a,,b", "'' cannot be the name of a field"),
        ("Text:str", "'Text' cannot be the name"),
        ("_id:str", "'_id' cannot be the name"),
        ("a" * 25, "cannot be the name"),
        ("class:str", "'class' cannot be the name of a field: the name is reserved"),
        ("schema:str", "'schema' cannot be the name .* reserved"),
        ("model_x:str", "'model_x' cannot be the name .* reserved"),
        ("created_at:int", "'created_at' cannot be the name .* reserved"),
        ("a:text", "'text' of the field 'a' is not a type; use str, int, float, bool, id$"),
        ("a:str,b:int,a:int", "there are two fields 'a'"),
    ],
)
def test_invalid_fields(text, reason):
    with pytest.raises(UsageError, match=reason):
        parse_fields(text, references=False)


@pytest.mark.parametrize(
    ("text", "declaration"), [("owner:id", "int"), ("owner:id?", "int | None = None")]
)
def test_in_memory_the_id_of_another_record_is_a_whole_number(text, declaration):
    (field,) = parse_fields(text, references=False)
    assert (field.declaration, field.example) == (declaration, "3")


def test_an_example_record_a_record():
    assert example_record(parse_fields("text,count:int", references=False)) == (
        '{"text": "Hello", "count": 3}'
    )
    long = ",".join(f"{letter * 20}:str" for letter in "abcd")
    lines = example_record(parse_fields(long, references=False)).splitlines()
    assert (lines[0], lines[-1]) == ("{", "}")
    assert lines[1] == f'    "{"a" * 20}": "Hello",'


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("text:str", 'Column("text", Text, nullable=False)'),
        ("count:int?", 'Column("count", BigInteger)'),
        (
            "due_date:float",
            'Column("due_date", Double[float](), key="dueDate", nullable=False)',
        ),
        ("done:bool", 'Column("done", Boolean, nullable=False)'),
    ],
)
def test_the_column_of_a_table(text, column):
    (field,) = parse_fields(text, references=False)
    assert field.column == column


def test_long_imports_are_one_on_each_line():
    fields = parse_fields("a:str,b:int,c:float,d:bool", references=False)
    assert column_imports(fields[:1], False) == "Column, DateTime, Identity, Integer, Table, Text"
    assert "\n    ForeignKey,\n" in column_imports(fields, True)
