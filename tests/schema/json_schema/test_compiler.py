"""Types, references, keywords of one's own, and the order in which checks run."""

from __future__ import annotations

import json

import pytest
from jsonschema_specifications import REGISTRY
from tests.schema.failures import brief, report

from alula.errors import BadRequest
from alula.schema import SchemaError, Validator
from alula.schema._json_schema.compiler import DRAFT, KEYWORDS
from alula.schema._json_schema.validator import MAKERS
from alula.types import SchemaKeyword

HEX = SchemaKeyword("hex", int, "must be hexadecimal")


class TestTypes:
    def test_are_reported_with_their_names(self):
        (one,) = report({"type": "integer"}, "x")
        assert (one["params"], one["message"]) == ({"type": "integer"}, "must be integer")
        (several,) = report({"type": ["integer", "null"]}, "x")
        assert several["params"] == {"type": ["integer", "null"]}
        assert several["message"] == "must be integer,null"

    def test_do_not_end_the_other_checks(self):
        found = report({"type": "string", "enum": ["a"], "minimum": 5}, 3)
        assert [each["keyword"] for each in found] == ["type", "enum", "minimum"]

    def test_are_made_by_coercion_before_the_other_checks(self):
        schema = {"type": "integer", "minimum": 5, "enum": [3, 7]}
        assert Validator(schema, coerce=True).validate("7") == 7
        assert [each["keyword"] for each in report(schema, "3", coerce=True)] == ["minimum"]
        assert [each["keyword"] for each in report(schema, "x", coerce=True)] == [
            "type",
            "enum",
        ]

    def test_are_only_made_by_coercion(self):
        assert [each["keyword"] for each in report({"type": "integer"}, "7")] == ["type"]


class TestTrueAndFalse:
    def test_true_fits_all(self):
        assert Validator(True).validate({"a": 1}) == {"a": 1}

    def test_false_fits_nothing(self):
        (failure,) = report(False, None)
        assert failure["schemaPath"] == "#/false schema"
        assert failure["keyword"] == "false schema"
        assert failure["message"] == "boolean schema is false"
        assert brief(report({"properties": {"a": False}}, {"a": 1})) == [
            ("/a", "#/properties/a/false schema", "false schema")
        ]

    def test_no_keyword_fits_all(self):
        value = {"a": [1]}
        assert Validator({}).validate(value) is value


HEX_SCHEMA = {"properties": {"a": {"type": "string", "hex": 16}}}


class TestOwnKeywords:
    def test_convert_with_what_the_schema_has(self):
        value = {"a": "ff"}
        assert Validator(HEX_SCHEMA, keywords=[HEX]).validate(value) == {"a": 255}
        assert value == {"a": "ff"}

    def test_say_what_is_wrong(self):
        assert report(HEX_SCHEMA, {"a": "x"}, keywords=[HEX]) == [
            {
                "instancePath": "/a",
                "schemaPath": "#/properties/a/hex",
                "keyword": "hex",
                "params": {"keyword": "hex"},
                "message": "must be hexadecimal",
            }
        ]

    def test_see_what_coercion_and_the_other_checks_left(self):
        assert Validator(HEX_SCHEMA, keywords=[HEX], coerce=True).validate({"a": 10}) == {"a": 16}

    def test_get_no_value_of_a_wrong_type(self):
        assert [e["keyword"] for e in report(HEX_SCHEMA, {"a": 5}, keywords=[HEX])] == ["type"]

    def test_may_stand_without_a_type(self):
        assert Validator({"hex": 2}, keywords=[HEX]).validate("11") == 3
        assert [e["keyword"] for e in report({"hex": 2}, None, keywords=[HEX])] == ["hex"]

    def test_run_one_after_the_other(self):
        twice = SchemaKeyword("times", lambda value, factor: value * factor, "must be a number")
        schema = {"hex": 10, "times": 2}
        assert Validator(schema, keywords=[HEX, twice]).validate("21") == 42

    @pytest.mark.parametrize("name", ["type", "format", ""])
    def test_take_no_name_that_has_a_meaning(self, name):
        with pytest.raises(SchemaError, match=f"keywords: {name!r} has a meaning"):
            Validator({}, keywords=[SchemaKeyword(name, lambda value, _: value, "")])

    def test_let_other_errors_of_theirs_through(self):
        broken = SchemaKeyword("hex", lambda value, _: value.missing, "")
        with pytest.raises(AttributeError):
            Validator({"hex": 1}, keywords=[broken]).validate(1)


class TestReferences:
    def test_are_reported_by_their_target(self):
        schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
        assert brief(report(schema, {"a": "x"})) == [("/a", "#/$defs/n/type", "type")]

    def test_may_stand_beside_other_keywords(self):
        schema = {"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n", "minimum": 5}
        assert Validator(schema, coerce=True).validate("7") == 7
        assert [each["keyword"] for each in report(schema, 3)] == ["minimum"]

    def test_may_lead_back(self):
        schema = {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "next": {"$ref": "#"}},
            "additionalProperties": False,
        }
        validator = Validator(schema, coerce=True)
        value = {"n": "1", "next": {"n": "2", "next": {"n": "3"}}}
        assert validator.validate(value) == {"n": 1, "next": {"n": 2, "next": {"n": 3}}}
        assert brief(report(schema, {"next": {"next": {"x": 1}}})) == [
            ("/next/next", "#/additionalProperties", "additionalProperties")
        ]

    def test_lead_to_other_schemas(self):
        schemas = {"https://x.example/n": {"type": "integer", "$defs": {"s": {"type": "string"}}}}
        validator = Validator({"$ref": "https://x.example/n"}, schemas=schemas)
        assert validator.is_valid(5)
        assert not validator.is_valid("5")
        assert Validator({"$ref": "https://x.example/n#/$defs/s"}, schemas=schemas).is_valid("5")

    def test_mean_what_the_nearest_id_says(self):
        schema = {
            "$id": "https://x.example/root",
            "properties": {"a": {"$id": "inner/", "$ref": "n"}},
            "$defs": {"n": {"$id": "inner/n", "type": "integer"}},
        }
        assert brief(report(schema, {"a": "x"})) == [("/a", "n/type", "type")]

    @pytest.mark.parametrize("ref", ["#/$defs/x", "#x", "other", "https://x.example/y"])
    def test_without_a_target_are_refused(self, ref):
        with pytest.raises(SchemaError, match=r"schema at #/items/\$ref: .* leads nowhere"):
            Validator({"items": {"$ref": ref}})

    @pytest.mark.parametrize(
        "schema",
        [
            {"$ref": "#"},
            {"anyOf": [{"$ref": "#"}, True]},
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}},
        ],
    )
    def test_that_lead_to_themselves_are_refused(self, schema):
        with pytest.raises(SchemaError, match="leads back to itself without end"):
            Validator(schema)

    def test_ask_for_no_more_levels_than_there_can_be(self):
        validator = Validator({"items": {"$ref": "#"}})
        deep = json.loads("[" * 900 + "]" * 900)
        with pytest.raises(BadRequest, match="nested too deeply"):
            validator.validate([deep])


class TestUnknownKeywords:
    def test_are_refused_with_a_suggestion(self):
        with pytest.raises(SchemaError, match=r"at #/properties/a: unknown keyword 'minimun'; did"):
            Validator({"properties": {"a": {"minimun": 1}}})
        with pytest.raises(SchemaError, match="unknown keyword 'qqq'"):
            Validator({"items": {"qqq": 1}})

    def test_are_refused_in_unused_definitions(self):
        with pytest.raises(SchemaError, match=r"schema at #/\$defs/a: unknown keyword"):
            Validator({"$defs": {"a": {"typ": "string"}}})

    def test_may_be_allowed(self):
        assert Validator({"typ": "string"}, strict=False).is_valid(5)

    @pytest.mark.parametrize("name", ["x-order", "example", "title", "$comment", "readOnly"])
    def test_are_not_remarks(self, name):
        assert Validator({name: "x" if name != "readOnly" else True}).is_valid(5)


def test_every_keyword_that_asserts_has_its_check():
    made = {name for names, _ in MAKERS for name in names} | {"$ref", "type"}
    beside = {"then", "else", "minContains", "maxContains"}
    remarks = {
        "$id",
        "$schema",
        "$anchor",
        "$defs",
        "definitions",
        "$comment",
        "title",
        "description",
        "default",
        "deprecated",
        "readOnly",
        "writeOnly",
        "examples",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    }
    assert made | beside | remarks == KEYWORDS


def test_the_keywords_are_those_of_the_draft():
    vocabularies = ("core", "applicator", "validation", "meta-data", "content")
    of_draft = {
        name
        for vocabulary in vocabularies
        for name in REGISTRY.contents(f"{DRAFT}meta/{vocabulary}")["properties"]
    }
    refused = {"$dynamicAnchor", "$dynamicRef", "$vocabulary"}
    assert of_draft - refused | {"definitions", "format"} == KEYWORDS
