"""A validator as a whole: it converts, tells all at once, and never changes what it gets."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.schema.failures import report
from tests.schema.pairs import pairs

from alula.errors import BadRequest
from alula.schema import Validator, get_validator
from alula.schema._pydantic_models.model_validator import ModelValidator
from alula.schema._validators import AnyValidator
from alula.types import SchemaKeyword

QUERY = json.loads(
    (Path(__file__).parents[2] / "conformance/schemas/validatedQuery.json").read_text("utf-8")
)
VALIDATOR = Validator(QUERY, coerce=True)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 50)
    | st.sampled_from(["", "5", "true", "a", "1e1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["views", "done", "title", "$gt", "$in", "$or", "$limit", "0", "1", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def test_converts_a_query_at_every_depth():
    query = {
        "done": "true",
        "views": {"$gt": "18", "$in": {"0": "1", "1": "2"}},
        "$or": [{"views": "5"}, {"rating": {"$lt": "1.5"}}],
        "$sort": {"views": "-1"},
        "$limit": "10",
    }
    before = copy.deepcopy(query)
    assert VALIDATOR.validate(query) == {
        "done": True,
        "views": {"$gt": 18, "$in": [1, 2]},
        "$or": [{"views": 5}, {"rating": {"$lt": 1.5}}],
        "$sort": {"views": -1},
        "$limit": 10,
    }
    assert query == before


def test_tells_everything_at_once_as_an_error_that_goes_over_the_wire():
    with pytest.raises(BadRequest) as caught:
        Validator({"properties": {"a": {"type": "integer"}}, "required": ["b"]}).validate(
            {"a": "x"}
        )
    told = json.loads(json.dumps(caught.value.to_dict()))
    assert (told["name"], told["message"], told["code"]) == ("BadRequest", "validation failed", 400)
    assert [(each["instancePath"], each["message"]) for each in told["data"]] == [
        ("", "must have required property 'b'"),
        ("/a", "must be integer"),
    ]
    assert all(
        each.keys() == {"instancePath", "schemaPath", "keyword", "params", "message"}
        for each in told["data"]
    )


@given(JSON)
def test_never_changes_what_it_gets_and_is_content_with_what_it_returns(value):
    before = copy.deepcopy(value)
    if VALIDATOR.is_valid(value):
        found = VALIDATOR.validate(value)
        assert VALIDATOR.validate(found) == found
    assert value == before


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10_000))
def test_agrees_with_jsonschema_where_nothing_is_converted(seed):
    for schema, value in pairs(seed, 6):
        if r"\\w" in json.dumps(schema):
            continue  # which means other letters in Python
        checker = jsonschema.Draft202012Validator(schema)
        plain = Validator(schema, formats=False, defaults=False, strict=False)
        assert plain.is_valid(value) is checker.is_valid(value)


def test_is_valid_returns_whether_a_value_is_valid():
    assert VALIDATOR.is_valid({"views": "5"})
    assert not VALIDATOR.is_valid({"views": "x"})


class TestGetValidator:
    def test_of_a_schema(self):
        validator = get_validator({"type": "integer"}, coerce=True)
        assert isinstance(validator, Validator)
        assert validator.validate("5") == 5
        assert not get_validator({"type": "integer"}).is_valid("5")
        assert get_validator(True).validate("x") == "x"

    def test_hands_its_options_on(self):
        double = SchemaKeyword("double", lambda value, _: value * 2, "")
        schema = {"properties": {"a": {"default": 1}, "b": {"double": True}}}
        assert get_validator(schema, keywords=[double]).validate({"b": 2}) == {"a": 1, "b": 4}
        assert get_validator(schema, keywords=[double], defaults=False).validate({}) == {}

    def test_of_a_model(self):
        assert isinstance(get_validator(list[int]), ModelValidator)

    def test_of_what_is_one_is_that_itself(self):
        class Own:
            operators = filters = frozenset()

            def validate(self, value):
                return value

        for validator in (VALIDATOR, get_validator(int), Own()):
            assert isinstance(validator, AnyValidator)
            assert get_validator(validator) is validator


def test_report_passes_options_on():
    assert report({"type": "integer"}, "5", coerce=True) == []
