"""Schemas without references, and the syntax of queries in words."""

from __future__ import annotations

import json

from alula.mcp._schemas import inlined, query_words, select_words


def test_definitions_take_the_place_of_references():
    schema = {
        "$defs": {
            "Tag": {"title": "Tag", "type": "object", "properties": {"title": {"title": "T"}}},
            "Odd/name~": {"enum": ["$ref", "title"]},
        },
        "title": "Todo",
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag", "description": "One"}},
            "odd": {"$ref": "#/$defs/Odd~1name~0", "default": None},
            "id": {"objectid": True},
            "state": {"default": "open"},
            "any": True,
        },
        "required": ["tags"],
    }
    assert inlined(schema) == {
        "type": "object",
        "properties": {
            "tags": {
                "type": "array",
                "items": {"type": "object", "properties": {"title": {}}, "description": "One"},
            },
            "odd": {"enum": ["$ref", "title"]},
            "id": {"type": "string", "pattern": "^[0-9a-fA-F]{24}$"},
            "state": {"default": "open"},
            "any": True,
        },
        "required": ["tags"],
    }


def test_a_definition_within_itself_is_an_open_object():
    node = {"properties": {"children": {"items": {"$ref": "#/$defs/Node"}}}}
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": node}}
    assert inlined(schema) == {"properties": {"children": {"items": {"type": "object"}}}}
    assert inlined({"items": {"$ref": "#"}}) == {"items": {"items": {"type": "object"}}}


def test_a_reference_too_far_down_or_to_another_document_is_an_open_object():
    chain = {f"L{at}": {"not": {"$ref": f"#/$defs/L{at + 1}"}} for at in range(9)}
    shown = inlined({"$ref": "#/$defs/L0", "$defs": chain})
    assert json.dumps(shown).count("not") == 6
    assert '{"type": "object"}' in json.dumps(shown)
    assert inlined({"$ref": "other.json"}) == inlined({"$ref": "#/a/b"}) == {"type": "object"}


def test_a_query_is_explained_by_its_fields_and_operators():
    schema = {
        "$defs": {"size": {"type": "object", "properties": {"$gt": {}, "$exists": {}}}},
        "properties": {
            "state": {"oneOf": [{"enum": ["open", "done"]}, {"$ref": "#/$defs/size"}]},
            "kind": {"const": 1},
            "made": {"anyOf": [{"format": "date-time", "type": "string"}, {"type": "null"}]},
            "owner": {"objectid": True},
            "size": {"type": ["integer", "null"]},
            "free": {},
            "loop": {"$ref": "#/properties/loop"},
            "$limit": {"type": "integer"},
        },
    }
    words = query_words(schema, None)
    assert words.startswith(
        'Fields: state: "open"|"done"; kind: 1; made: date-time|null; owner: string;'
        " size: integer|null; free; loop. "
    )
    assert '{"state": {"$gt": value}} (operators: $gt, $exists;' in words


def test_without_a_schema_the_fields_are_those_of_the_records():
    record = {"properties": {"text": {"type": "string"}}}
    assert query_words({}, record).startswith('Fields: text: string. Conditions by field: {"text"')
    assert query_words({}, None).startswith('Conditions by field: {"name": value}')
    assert select_words(record).startswith('{"$select": ["text"]}')
    assert select_words(None).startswith('{"$select": ["name"]}')
