"""Schemas that are malformed are told where, and why."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from alula.schema import SchemaError, Validator
from alula.schema._json_schema import validator
from alula.schema._json_schema.validator import plain

MALFORMED = [
    (5, "schema at #: 5 is not"),
    ("x", "schema at #: 'x' is not"),
    (None, "schema at #: None is not"),
    ({"type": "text"}, "schema at #/type: 'text' is not"),
    ({"properties": {"a/b": {"minLength": "1"}}}, "at #/properties/a~1b/minLength: '1' is not of"),
    ({"properties": []}, r"schema at #/properties: \[\] is not"),
    ({"items": [True]}, "schema at #/items: .* write the list in 'prefixItems'"),
    ({"items": 5}, "schema at #/items: 5 is not of type 'object', 'boolean'"),
    ({"properties": {"items": [True]}}, r"schema at #/properties/items: \[True\] is not of type"),
    ({"required": ["a", "a"]}, "schema at #/required: .* has non-unique elements"),
    ({"anyOf": []}, r"schema at #/anyOf: \[\] should be non-empty"),
    ({"$defs": {"x": {"minimum": "1"}}}, r"schema at #/\$defs/x/minimum"),
    ({"enum": "abc"}, "schema at #/enum: 'abc' is not of type 'array'"),
    ({"multipleOf": 0}, "schema at #/multipleOf: 0 is less than or equal"),
]


@pytest.mark.parametrize(("schema", "text"), MALFORMED)
def test_the_error_of_a_malformed_schema_has_its_location(schema, text):
    with pytest.raises(SchemaError, match=text):
        Validator(schema)


def test_the_meta_schema_is_compiled_once():
    validator._meta_check.cache_clear()
    validator._meta_schemas.cache_clear()
    with pytest.raises(SchemaError, match="#/type: 'text' is not"):
        Validator({"type": "text"})
    assert validator._meta_check() is validator._meta_check()


@pytest.mark.parametrize("place", ["the top", "a property", "a branch of a definition"])
def test_the_error_shows_how_to_write_a_tuple_of_typebox(place):
    # What `Type.Tuple([Type.String(), Type.Number()])` makes in a generated FeathersJS application.
    pair = {
        "type": "array",
        "items": [{"type": "string"}, {"type": "number"}],
        "additionalItems": False,
        "minItems": 2,
        "maxItems": 2,
    }
    schema, path = {
        "the top": (pair, "#"),
        "a property": ({"type": "object", "properties": {"at": pair}}, "#/properties/at"),
        "a branch of a definition": ({"$defs": {"a": {"anyOf": [pair]}}}, "#/$defs/a/anyOf/0"),
    }[place]
    with pytest.raises(SchemaError) as caught:
        Validator(schema)
    assert str(caught.value) == (
        f"schema at {path}/items: a list of schemas in 'items' is the tuple of draft-07; write the"
        " list in 'prefixItems', and 'items': false in place of 'additionalItems': false"
    )
    pair["prefixItems"], pair["items"] = pair["items"], False
    del pair["additionalItems"]
    validator = Validator(pair)
    assert validator.is_valid(["a", 1])
    assert not validator.is_valid([1, "a"])
    assert not validator.is_valid(["a", 1, 2])


def test_a_schema_error_is_a_value_error():
    assert issubclass(SchemaError, ValueError)


class TestPlain:
    def test_copies_all(self):
        given = MappingProxyType({"enum": ({"a": 1}, [2])})
        copied = plain(given)
        assert copied == {"enum": [{"a": 1}, [2]]}
        assert type(copied) is dict

    def test_so_that_later_changes_do_not_count(self):
        schema = {"properties": {"a": {"enum": [1]}}}
        validator = Validator(schema)
        schema["properties"]["a"]["enum"].append(2)
        schema["properties"].clear()
        assert not validator.is_valid({"a": 2})
        assert validator.schema == {"properties": {"a": {"enum": [1]}}}

    def test_tells_names_that_are_no_strings(self):
        with pytest.raises(SchemaError, match="at #/properties: the name 1 "):
            Validator({"properties": {1: {}}})
        with pytest.raises(SchemaError, match="schema at #/anyOf/0: the name None"):
            Validator({"anyOf": [{None: 1}]})

    def test_tells_objects_that_go_in_a_circle(self):
        schema = {}
        schema["items"] = schema
        with pytest.raises(SchemaError, match=r"circle; use \$ref"):
            Validator(schema)
