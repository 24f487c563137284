"""Schemas as OpenAPI shows them."""

from __future__ import annotations

import pytest

from alula._service_facts import OBJECT_ID
from alula.adapters.mongodb import ObjectIdSchema
from alula.openapi._components import Components, without_defaults, without_required
from alula.schema import DATE_SCHEMA

DATE = {"type": "string", "format": "date-time"}


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "string"}, {"type": "string"}),
        (True, True),
        (dict(ObjectIdSchema), OBJECT_ID),
        (dict(ObjectIdSchema(description="who")), {**OBJECT_ID, "description": "who"}),
        ({"type": "object", "objectid": True}, OBJECT_ID),
        (DATE_SCHEMA, DATE),
        ({"$id": "x", "$schema": "y", "type": "null"}, {"type": "null"}),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        ({"anyOf": [True, True]}, {"anyOf": [True, True]}),
        (
            {"enum": [{"$id": "kept"}], "default": {"objectid": True}},
            {"enum": [{"$id": "kept"}], "default": {"objectid": True}},
        ),
        ({"objectid": False}, {"objectid": False}),
    ],
)
def test_shows(schema, shown):
    assert Components().shown(schema, "Note") == shown


def test_properties_may_have_the_names_of_keywords():
    schema = {"properties": {"$id": {"type": "string"}, "date": DATE_SCHEMA, "objectid": True}}
    shown = {"properties": {"$id": {"type": "string"}, "date": DATE, "objectid": True}}
    assert Components().shown(schema, "Note") == shown


def test_an_answer_may_lack_any_property():
    schema = {
        "required": ["a"],
        "minProperties": 1,
        "properties": {"required": {"type": "object", "required": ["b"]}},
        "anyOf": [{"required": ["c"]}, True],
        "default": {"required": ["kept"]},
        "$defs": {"Place": {"required": ["city"], "dependentRequired": {"a": ["b"]}}},
    }
    assert without_required(schema) == {
        "properties": {"required": {"type": "object"}},
        "anyOf": [{}, True],
        "default": {"required": ["kept"]},
        "$defs": {"Place": {}},
    }


def test_a_schema_is_put_in_with_its_definitions():
    components = Components()
    schema = {
        "properties": {
            "user": {"$ref": "#/$defs/User"},
            "replies": {"type": "array", "items": {"$ref": "#"}},
            "odd": {"$ref": "#/definitions/a~1b c"},
            "far": {"$ref": "https://example.com/x"},
        },
        "$defs": {"User": {"properties": {"boss": {"$ref": "#/$defs/User"}}}},
        "definitions": {"a/b c": dict(ObjectIdSchema)},
    }
    before = repr(schema)
    assert components.add("my notes", schema) == {"$ref": "#/components/schemas/my_notes"}
    assert repr(schema) == before
    user = {"$ref": "#/components/schemas/my_notes.User"}
    assert components.schemas == {
        "my_notes": {
            "properties": {
                "user": user,
                "replies": {"type": "array", "items": {"$ref": "#/components/schemas/my_notes"}},
                "odd": {"$ref": "#/components/schemas/my_notes.a_b_c"},
                "far": {"$ref": "https://example.com/x"},
            }
        },
        "my_notes.User": {"properties": {"boss": user}},
        "my_notes.a_b_c": OBJECT_ID,
    }


def test_components_have_no_titles():
    """Generators of clients would give the record and the data of a service one name."""
    components = Components()
    inner = {"title": "Inner", "properties": {"title": {"type": "string", "title": "Title"}}}
    components.add(
        "notes", {"title": "Note", "properties": {}, "$defs": {"Inner": inner, "Any": True}}
    )
    assert components.schemas == {
        "notes": {"properties": {}},
        "notes.Inner": {"properties": {"title": {"type": "string", "title": "Title"}}},
        "notes.Any": True,
    }


@pytest.mark.parametrize(
    ("all_of_them", "likes"),
    [(True, {"type": "integer"}), (False, {"type": "integer", "default": 0})],
)
def test_defaults_that_mislead(all_of_them, likes):
    text = {"type": "string"}
    schema = {
        "properties": {
            "text": {**text, "default": None},
            "likes": {"type": "integer", "default": 0},
            "place": {"properties": {"city": {**text, "default": None}}},
            "any": True,
        },
        "required": [],
    }
    assert without_defaults(schema, all_of_them=all_of_them) == {
        "properties": {
            "text": text,
            "likes": likes,
            "place": {"properties": {"city": {**text, "default": None}}},
            "any": True,
        },
        "required": [],
    }


def test_a_schema_without_properties_has_no_defaults():
    assert without_defaults({"$ref": "#"}, all_of_them=True) == {"$ref": "#"}
