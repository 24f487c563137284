"""JSON Schemas as types of TypeScript."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import pytest

from alula.openapi._typescript_types import (
    TypeDeclarations,
    comment,
    key_of,
    literal,
    type_name,
)

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


class Colour(StrEnum):
    RED = "red"


def type_of(schema, *, in_record=False, **schemas):
    return TypeDeclarations(schemas, ()).type_of(schema, in_record=in_record)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (TEXT, "string"),
        (NUMBER, "number"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({"type": "file"}, "unknown"),
        ({"type": "string", "format": "date-time"}, "string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": ["number", "integer"]}, "number"),
        ({}, "unknown"),
        (True, "unknown"),
        (False, "never"),
        (None, "unknown"),
        ({"description": "anything"}, "unknown"),
    ],
)
def test_simple_types(schema, expected):
    assert type_of(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"enum": ["a", 1, -1.5, True, None]}, '"a" | 1 | -1.5 | true | null'),
        ({"const": "a"}, '"a"'),
        ({"const": None}, "null"),
        ({"const": Colour.RED}, '"red"'),
        ({"enum": []}, "unknown"),
        ({"enum": ["a", {"b": 1}]}, "unknown"),
        ({"enum": [["a"]]}, "unknown"),
        ({"const": object()}, "unknown"),
        ({"const": float("inf")}, "number"),
    ],
)
def test_literals(schema, expected):
    assert type_of(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"anyOf": [TEXT, {"type": "null"}]}, "string | null"),
        ({"oneOf": [TEXT, NUMBER, TEXT]}, "string | number"),
        ({"anyOf": [TEXT, {}]}, "unknown"),
        ({"allOf": [TEXT, {"minLength": 1}]}, "string"),
        ({"allOf": [{"type": ["string", "null"]}, TEXT]}, "(string | null) & string"),
        ({"type": "string", "anyOf": [{"const": "a"}, {"const": "b"}]}, 'string & ("a" | "b")'),
        ({"type": "object", "anyOf": [{"properties": {"a": TEXT}}]}, "{ a?: string }"),
        (
            {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}, {}]},
            "{ a?: string }",
        ),
        (
            {"properties": {"a": TEXT}, "allOf": [{"properties": {"b": TEXT}}]},
            "{ a?: string } & { b?: string }",
        ),
    ],
)
def test_combinations(schema, expected):
    assert type_of(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array"}, "unknown[]"),
        ({"items": TEXT}, "string[]"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "Array<string | null>"),
        ({"type": "array", "items": {"type": "array", "items": TEXT}}, "string[][]"),
        ({"type": "array", "items": {"const": "a b"}}, '"a b"[]'),
        ({"type": "array", "items": {"const": -1}}, "Array<-1>"),
        ({"prefixItems": [TEXT, NUMBER], "minItems": 2, "maxItems": 2}, "[string, number]"),
        ({"prefixItems": [TEXT, NUMBER], "minItems": 1, "items": False}, "[string, (number)?]"),
        ({"prefixItems": [TEXT], "minItems": 1}, "[string, ...unknown[]]"),
        ({"prefixItems": [TEXT], "items": NUMBER, "maxItems": 3}, "[(string)?, ...number[]]"),
    ],
)
def test_lists(schema, expected):
    assert type_of(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, "{ [name: string]: unknown }"),
        ({"type": "object", "additionalProperties": False}, "{ [name: string]: never }"),
        ({"additionalProperties": NUMBER}, "{ [name: string]: number }"),
        ({"patternProperties": {"^a": NUMBER}}, "{ [name: string]: unknown }"),
        ({"properties": {"a": TEXT, "b": True}, "required": ["a"]}, "{ a: string; b?: unknown }"),
        (
            {"properties": {"a": TEXT}, "additionalProperties": NUMBER},
            "{ a?: string; [name: string]: unknown }",
        ),
        ({"properties": {"[name: string]": TEXT}}, '{ "[name: string]"?: string }'),
        (
            {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": TEXT},
            '{ [name in "a" | "b"]?: string }',
        ),
        (
            {"type": "object", "propertyNames": {"maxLength": 3}, "additionalProperties": TEXT},
            "{ [name: string]: string }",
        ),
        ({"type": "object", "propertyNames": True}, "{ [name: string]: unknown }"),
    ],
)
def test_objects(schema, expected):
    assert type_of(schema) == expected


class TestRecordsAndData:
    SCHEMA: ClassVar = {
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "text": {"type": "string", "default": ""},
            "password": {"type": "string", "writeOnly": True},
            "place": {"properties": {"city": {"default": ""}, "key": {"writeOnly": True}}},
        },
        "required": ["id", "password"],
    }

    def test_a_record_has_defaults_and_no_secrets_at_any_depth(self):
        expected = "{ id: number; text: string; place?: { city: unknown } }"
        assert type_of(self.SCHEMA, in_record=True) == expected

    def test_data_needs_no_defaults_and_has_secrets(self):
        expected = "{ text?: string; password: string; place?: { city?: unknown; key?: unknown } }"
        assert type_of(self.SCHEMA) == expected

    def test_definitions_belong_to_their_schema(self):
        inner = {"properties": {"a": {"default": 1}, "b": {"writeOnly": True}}}
        schemas = {
            "Note": {"properties": {"in": {"$ref": "#/components/schemas/Note.In"}}},
            "Note.In": inner,
            "NoteData": {"properties": {"in": {"$ref": "#/components/schemas/NoteData.In"}}},
            "NoteData.In": inner,
        }
        types = TypeDeclarations(schemas, {"Note"})
        assert [types.named("Note"), types.named("NoteData")] == ["Note", "NoteData"]
        assert types.code == [
            "export interface Note {\n  in?: NoteIn\n}\n",
            "export interface NoteIn {\n  a: unknown\n}\n",
            "export interface NoteData {\n  in?: NoteDataIn\n}\n",
            "export interface NoteDataIn {\n  a?: unknown\n  b?: unknown\n}\n",
        ]


class TestQueries:
    @staticmethod
    def operators(value, **more):
        names = ("$gt", "$gte", "$lt", "$lte", "$ne")
        some = {"type": "array", "items": value}
        properties = {**dict.fromkeys(names, value), "$in": some, "$nin": some, **more}
        return {"type": "object", "properties": properties, "additionalProperties": False}

    def test_the_common_operators_have_a_type_of_their_own(self):
        assert type_of(self.operators(TEXT)) == "QueryOperators<string>"
        union = {"anyOf": [TEXT, {"type": "null"}]}
        assert type_of(self.operators(union)) == "QueryOperators<string | null>"

    def test_a_read_only_property_may_be_queried(self):
        assert type_of(self.operators({**TEXT, "readOnly": True})) == "QueryOperators<string>"

    def test_with_others_beside(self):
        more = type_of(self.operators(TEXT, **{"$regex": TEXT, "$size": NUMBER}))
        assert more == "QueryOperators<string> & { $regex?: string; $size?: number }"

    def test_not_all_of_them(self):
        assert type_of({"properties": {"$gt": TEXT}}) == "{ $gt?: string }"
        assert "QueryOperators" not in type_of(self.operators(TEXT, **{"$in": TEXT}))

    def test_they_are_written_where_they_are_used(self):
        schema = {"$ref": "#/components/schemas/Query.text_operators"}
        types = type_of(schema, **{"Query.text_operators": self.operators(TEXT)})
        assert types == "QueryOperators<string>"

    def test_a_query_extends_its_conditions(self):
        branches = {"items": {"$ref": "#/components/schemas/Query.QueryCriteria"}}
        criteria = {"text": TEXT, "$or": branches}
        schemas = {
            "Query": {"properties": {"$limit": NUMBER, **criteria}},
            "Query.QueryCriteria": {"properties": criteria},
        }
        types = TypeDeclarations(schemas, ())
        types.named("Query")
        assert types.code == [
            "export interface Query extends QueryCriteria {\n  $limit?: number\n}\n",
            "export interface QueryCriteria {\n  text?: string\n  $or?: QueryCriteria[]\n}\n",
        ]

    def test_unless_they_differ(self):
        schemas = {
            "Query": {"properties": {"text": TEXT}},
            "Query.QueryCriteria": {"properties": {"text": NUMBER}},
        }
        types = TypeDeclarations(schemas, ())
        types.named("Query")
        assert types.code == ["export interface Query {\n  text?: string\n}\n"]


class TestReferences:
    def test_a_type_may_contain_itself(self):
        node = {"properties": {"below": {"items": {"$ref": "#/components/schemas/Node"}}}}
        types = TypeDeclarations({"Node": node}, ())
        assert types.named("Node") == types.named("Node") == "Node"
        assert types.code == ["export interface Node {\n  below?: Node[]\n}\n"]

    def test_to_nothing(self):
        assert type_of({"$ref": "https://example.com/schema"}) == "unknown"
        assert type_of({"$ref": 5}) == "unknown"

    @pytest.mark.parametrize(
        ("schema", "code"),
        [
            ({"enum": ["a"]}, 'export type Note = "a"\n'),
            (True, "export type Note = unknown\n"),
            ({"type": "object"}, "export type Note = { [name: string]: unknown }\n"),
            (
                {"properties": {"a": TEXT}, "anyOf": [{"properties": {"b": TEXT}}]},
                "export type Note = { a?: string } & { b?: string }\n",
            ),
            ({"type": "string", "description": "A note."}, "/** A note. */\nexport type Note = "),
        ],
    )
    def test_not_to_an_interface(self, schema, code):
        types = TypeDeclarations({"Note": schema}, ())
        types.named("Note")
        assert types.code[0].startswith(code)


class TestNames:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("message", "Message"),
            ("teams/:team/tasks", "TeamsTeamTasks"),
            ("chat_messages", "ChatMessages"),
            ("Page[Message]", "PageMessage"),
            ("2fa", "Service2fa"),
            ("", "Service"),
            ("новости", "Service"),
            ("a{}; evil()", "AEvil"),
        ],
    )
    def test_of_types(self, text, name):
        assert type_name(text) == name

    def test_are_unique_with_their_suffixes(self):
        types = TypeDeclarations({}, ())
        suffixes = ("", "Data")
        assert types.reserve("Note", suffixes=suffixes) == "Note"
        assert types.reserve("Note", "Notes", suffixes=suffixes) == "Notes"
        assert types.reserve("Note", "Notes", suffixes=suffixes) == "Notes_"
        assert types.reserve("NoteData") == "NoteData_"
        assert types.reserve("Note_Data", suffixes=suffixes) == "Note_Data"

    @pytest.mark.parametrize("name", ["Promise", "Array", "ServiceTypes", "Feathers"])
    def test_do_not_hide_what_the_module_uses(self, name):
        assert TypeDeclarations({}, ()).reserve(name) == f"{name}_"

    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("text", "text"),
            ("$limit", "$limit"),
            ("class", "class"),
            ("new", '"new"'),
            ("a-b", '"a-b"'),
            ("é", '"\\u00e9"'),
            ("", '""'),
            ('"; evil() //', '"\\"; evil() //"'),
            ("a\n", '"a\\n"'),
        ],
    )
    def test_of_members(self, name, key):
        assert key_of(name) == key


class TestTextStaysText:
    def test_in_literals(self):
        assert literal('"\\\n\u2028\ud800') == '"\\"\\\\\\n\\u2028\\ud800"'

    @pytest.mark.parametrize(
        ("text", "written"),
        [
            ("One.", "/** One. */\n"),
            (" One.\n\nTwo. ", "/**\n * One.\n *\n * Two.\n */\n"),
            ("*/ evil() /*", "/** *\\/ evil() /* */\n"),
            ("**//evil()", "/** **\\//evil() */\n"),
            ("*\n/evil()", "/**\n * *\n * /evil()\n */\n"),
            ("*\r/ evil()", "/**\n * *\n * / evil()\n */\n"),
            ("a\u2028b", "/**\n * a\n * b\n */\n"),
            ("half \ud800", "/** half ? */\n"),
            ("  ", ""),
            (None, ""),
            (5, ""),
        ],
    )
    def test_in_comments(self, text, written):
        assert comment(text) == written
        assert comment(text).count("*/") == bool(written)

    def test_of_members(self):
        described = {"type": "string", "description": "*/ evil()"}
        types = TypeDeclarations({"Note": {"properties": {"a": described}}}, ())
        types.named("Note")
        written = "export interface Note {\n  /** *\\/ evil() */\n  a?: string\n}\n"
        assert types.code == [written]
