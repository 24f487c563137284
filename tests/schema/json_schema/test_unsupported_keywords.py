"""Keywords that are not supported are refused when the validator is made, never ignored."""

from __future__ import annotations

import pytest

from alula.adapters.memory import MemoryService
from alula.schema import SchemaError, Validator, validate_data, with_schema
from alula.schema._json_schema.compiler import KEYWORDS
from alula.types import SchemaKeyword

UNSUPPORTED = {
    "unevaluatedProperties": (False, "'additionalProperties'"),
    "unevaluatedItems": (False, "'prefixItems' and 'items'"),
    "$dynamicRef": ("#node", "'$ref'"),
    "$dynamicAnchor": ("node", "'$anchor'"),
    "$recursiveRef": ("#", "'$ref'"),
    "$recursiveAnchor": ("node", "'$anchor'"),
    "$vocabulary": ({}, "all keywords"),
    "additionalItems": (False, "'prefixItems' and 'items'"),
    "dependencies": ({"a": ["b"]}, "'dependentRequired' and 'dependentSchemas'"),
}

PLACES = {
    "the top": (lambda schema: schema, "#"),
    "a property": (lambda schema: {"properties": {"a": schema}}, "#/properties/a"),
    "a branch": (lambda schema: {"anyOf": [True, schema]}, "#/anyOf/1"),
    "a definition": (
        lambda schema: {"$defs": {"a": schema}, "items": {"$ref": "#/$defs/a"}},
        "#/$defs/a",
    ),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("keyword", UNSUPPORTED)
def test_are_refused_with_what_to_write_instead(keyword, place, strict):
    value, instead = UNSUPPORTED[keyword]
    build, path = PLACES[place]
    with pytest.raises(SchemaError) as caught:
        Validator(build({keyword: value}), strict=strict)
    assert f"schema at {path}: {keyword!r} is not supported" in str(caught.value)
    assert instead in str(caught.value)


def test_are_refused_in_further_schemas():
    uri = "https://x.example/tree"
    with pytest.raises(SchemaError, match="'unevaluatedProperties' is not supported"):
        Validator({"$ref": uri}, schemas={uri: {"unevaluatedProperties": False}}, strict=False)


def test_are_refused_where_a_service_or_a_hook_is_made():
    schema = {"properties": {"a": {"type": "string"}}, "unevaluatedProperties": False}
    with pytest.raises(SchemaError, match="'unevaluatedProperties' is not supported"):
        validate_data(schema)
    with pytest.raises(SchemaError, match="'unevaluatedProperties' is not supported"):
        with_schema(MemoryService(), schema)


def test_may_be_the_names_of_properties_and_of_keywords_of_your_own():
    assert not Validator({"properties": {"dependencies": {"type": "array"}}}).is_valid(
        {"dependencies": 5}
    )
    nothing = SchemaKeyword("dependencies", lambda value, _: value, "")
    assert Validator({"dependencies": {}}, keywords=[nothing]).is_valid(5)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "dialect",
    [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://x.example/dialect",
    ],
)
def test_other_dialects_are_refused(dialect, strict):
    with pytest.raises(SchemaError) as caught:
        Validator({"$schema": dialect}, schemas={dialect: {}}, strict=strict)
    assert dialect in str(caught.value)
    assert "use https://json-schema.org/draft/2020-12/schema" in str(caught.value)


@pytest.mark.parametrize("end", ["", "#"])
def test_the_draft_itself_is_known(end):
    uri = f"https://json-schema.org/draft/2020-12/schema{end}"
    assert not Validator({"$schema": uri, "minimum": 5}).is_valid(1)


def test_the_schema_for_schemas_may_be_referred_to():
    uri = "https://json-schema.org/draft/2020-12/schema"
    validator = Validator({"properties": {"schema": {"$ref": uri}}})
    assert validator.is_valid({"schema": {"properties": {"a": {"minLength": 1}}}})
    assert not validator.is_valid({"schema": {"properties": {"a": {"minLength": "1"}}}})


def test_are_not_among_the_known_ones():
    assert {"prefixItems", "$anchor", "format", "definitions"} <= KEYWORDS
    assert not UNSUPPORTED.keys() & KEYWORDS
