"""Queries as parameters."""

from __future__ import annotations

from alula.openapi._components import Components
from alula.openapi._query_parameters import open_parameters, query_parameters
from alula.schema import query_syntax

PROPERTIES = {
    "name": {"type": "string"},
    "age": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "tags": {"type": "array", "items": {"type": "string"}},
    "place": {"type": "object", "properties": {"city": {"type": "string"}}},
    "either": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
}
SCHEMA = query_syntax(
    PROPERTIES, {"name": {"$regex": {"type": "string"}}, "$text": {"type": "string"}}
)


def by_name(schema=SCHEMA, **options):
    return {
        each["name"]: each for each in query_parameters(schema, "Query", Components(), **options)
    }


def test_every_question_is_a_parameter():
    found = by_name()
    assert {"$limit", "$skip", "$select[]", "$text", "$sort[name]", "$sort[place.city]"} <= set(
        found
    )
    assert {"name", "name[$gt]", "name[$in][]", "name[$regex]", "place.city", "tags"} <= set(found)
    assert not {"$or", "$and", "$sort", "place"} & set(found)
    assert all(each["in"] == "query" for each in found.values())
    assert found["age[$gt]"]["schema"]["anyOf"][0] == {"type": "integer"}


def test_values_have_their_types():
    found = by_name()
    assert found["name"]["schema"] == {"type": "string"}
    assert found["age"]["schema"] == {"type": "integer"}  # a URL has no null
    assert found["tags"]["schema"] == {"type": "string"}
    assert found["either"]["schema"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert found["$limit"]["schema"] == {"type": "integer", "minimum": 0}
    assert "How many" in found["$limit"]["description"]
    assert found["name[$in][]"]["explode"] is True
    assert found["name[$in][]"]["schema"]["minItems"] == 1  # a URL has no empty list


def test_types_may_be_lists():
    properties = {
        "age": {"type": ["integer", "null"]},
        "tags": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
        "place": {"type": ["object", "null"], "properties": {"zip": {"type": "integer"}}},
    }
    found = by_name(query_syntax(properties))
    assert found["age"]["schema"] == {"type": ["integer", "null"]}
    assert {"age[$gt]", "age[$in][]", "tags", "tags[$in][]", "place.zip"} <= set(found)
    assert "place" not in found


def test_the_value_comes_before_its_operators():
    names = [each["name"] for each in query_parameters(SCHEMA, "Query", Components())]
    assert names.index("name") < names.index("name[$gt]") < names.index("age")


def test_objects_fit_no_url():
    found = by_name()
    assert {"tags[$gt]", "tags[$in][]"} <= set(found)
    assert not [name for name in found if name.startswith("place[")]


def test_the_fields_to_sort_by_may_be_listed_as_names():
    sort = {"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"enum": [1, -1]}}
    found = by_name({"properties": {"$sort": sort}})
    assert list(found) == ["$sort[a]", "$sort[b]"]
    assert found["$sort[a]"]["schema"] == {"enum": [1, -1]}
    assert by_name({"properties": {"$sort": {"type": "object"}}}) == {}


def test_only_what_is_wanted():
    assert list(by_name(only=("$select",))) == ["$select[]"]


def test_references_are_followed_and_never_in_circles():
    schema = {
        "properties": {
            "a": {"$ref": "#/$defs/A"},
            "loop": {"$ref": "#/$defs/Loop"},
            "lost": {"$ref": "#/$defs/Lost"},
            "slashed": {"$ref": "#/$defs/a~1b"},
            "far": {"$ref": "https://example.com"},
        },
        "$defs": {
            "A": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Operators"}]},
            "Operators": {"type": "object", "properties": {"$gt": {"type": "integer"}}},
            "Loop": {"$ref": "#/$defs/Loop"},
            "a/b": {"type": "boolean"},
        },
    }
    found = by_name(schema)
    assert list(found) == ["a", "a[$gt]", "loop", "lost", "slashed", "far"]
    assert found["slashed"]["schema"] == {"type": "boolean"}
    assert found["loop"]["schema"] == {}
    assert by_name({}) == {}


def names_of(parameters):
    return [each["name"] for each in parameters]


def test_of_an_open_query_the_adapter_decides():
    assert names_of(open_parameters(paging=True, find=True)) == [
        "$limit",
        "$skip",
        "$select[]",
        "$sort",
        "query",
    ]
    assert names_of(open_parameters(paging=True, find=False)) == ["$select[]"]
    assert names_of(open_parameters(paging=False, find=True)) == ["query"]
    assert names_of(open_parameters(paging=False, find=False)) == ["query"]
