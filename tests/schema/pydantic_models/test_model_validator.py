"""Models of Pydantic as validators, and their errors in the shape of those of JSON Schemas."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import (
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    computed_field,
    create_model,
    field_validator,
)
from typing_extensions import TypedDict

from alula.errors import BadRequest
from alula.schema import SchemaError, get_validator
from alula.schema._pydantic_models.model_validator import ModelValidator


class Kind(Enum):
    A = "a"


class Place(BaseModel):
    model_config = ConfigDict(extra="forbid")
    city: str
    zip: int = 0


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    text: str
    sent_at: datetime | None = Field(None, alias="sentAt")
    places: list[Place] = []

    @field_validator("text")
    @classmethod
    def _no_shouting(cls, text):
        if text.isupper():
            raise ValueError("must not shout")
        if text == "bad":
            raise AssertionError("must not be bad")
        return text


def told(model, value):
    with pytest.raises(BadRequest) as caught:
        get_validator(model).validate(value)
    assert caught.value.message == "validation failed"
    return caught.value.data


class Task(BaseModel):
    number: UUID
    price: Decimal | None = None
    places: list[Place] = []

    @computed_field
    @property
    def half(self) -> Decimal:
        return self.price / 2


def test_data_can_be_stored_and_has_no_computed_fields():
    found = get_validator(Task).validate({"number": str(UUID(int=5)), "price": "1.50"})
    assert found == {"number": str(UUID(int=5)), "price": Decimal("1.50"), "places": []}


def nested(levels):
    value = "a"
    for _ in range(levels):
        value = {"a": [value]}
    return value


def test_data_of_any_depth_is_no_failure_of_the_server():
    validator = get_validator(TypeAdapter(dict[str, Any]))
    assert validator.validate({"b": nested(30)}) == {"b": nested(30)}
    with pytest.raises(BadRequest, match="The data is nested too deeply"):
        validator.validate({"b": nested(20_000)})


def test_returns_plain_data_under_the_names_of_the_wire():
    data = {"text": "hi", "sentAt": "2024-01-01T00:00:00Z", "places": [{"city": "x", "zip": "5"}]}
    before = str(data)
    found = get_validator(Message).validate(data)
    assert found["sentAt"] == datetime.fromisoformat("2024-01-01T00:00:00Z")
    assert found["places"] == [{"city": "x", "zip": 5}]
    assert type(found) is dict
    assert str(data) == before


def test_fills_defaults_unless_disabled():
    assert get_validator(Message).validate({"text": "a"}) == {
        "text": "a",
        "sentAt": None,
        "places": [],
    }
    assert get_validator(Message, defaults=False).validate({"text": "a"}) == {"text": "a"}


def test_takes_what_pydantic_takes():
    @dataclass
    class Point:
        x: int

    class Size(TypedDict):
        width: int

    assert get_validator(Point).validate({"x": "1"}) == {"x": 1}
    assert get_validator(Size).validate({"width": "1"}) == {"width": 1}
    assert get_validator(TypeAdapter(list[int])).validate(["1"]) == [1]
    assert get_validator(Annotated[int, Field(gt=1)]).validate("2") == 2


def test_opens_nothing():
    validator = ModelValidator(Message)
    assert (validator.operators, validator.filters) == (frozenset(), frozenset())


@pytest.mark.parametrize("model", [object(), 5, "Unknown", type("Own", (), {})])
def test_tells_what_is_no_model(model):
    with pytest.raises(SchemaError, match="neither a JSON Schema nor a model"):
        get_validator(model)


def test_tells_a_model_that_cannot_be_described():
    class Own:
        pass

    with pytest.raises(SchemaError, match=r"Pydantic: Unable to .*; an annotation"):
        get_validator(list[Own])


@pytest.mark.parametrize("kind", [Annotated[str, Field(pattern="(")], "list[Missing]"])
def test_tells_what_only_shows_when_it_is_built(kind):
    with pytest.raises(SchemaError, match="nor a model of Pydantic: "):
        get_validator(kind)


def test_tells_all_errors_at_once_with_their_places():
    value = {"places": [{"zip": "x", "more": 1}, 5], "sentAt": "x"}
    assert [(f["instancePath"], f["keyword"], f["message"]) for f in told(Message, value)] == [
        ("", "required", "must have required property 'text'"),
        ("/sentAt", "format", 'must match format "date-time"'),
        ("/places/0", "required", "must have required property 'city'"),
        ("/places/0/zip", "type", "must be integer"),
        ("/places/0", "additionalProperties", "must NOT have additional properties"),
        ("/places/1", "type", "must be object"),
    ]


def test_the_shape_is_that_of_all_failures():
    (failure,) = told(Place, {"city": "a", "x/y": 1})
    assert failure == {
        "instancePath": "",
        "schemaPath": "#/additionalProperties",
        "keyword": "additionalProperties",
        "params": {"additionalProperty": "x/y"},
        "message": "must NOT have additional properties",
    }


TABLE = [
    (str, 5, "type", {"type": "string"}, "must be string"),
    (int, "x", "type", {"type": "integer"}, "must be integer"),
    (int, 1.5, "type", {"type": "integer"}, "must be integer"),
    (int, [], "type", {"type": "integer"}, "must be integer"),
    (float, "x", "type", {"type": "number"}, "must be number"),
    (float, None, "type", {"type": "number"}, "must be number"),
    (Decimal, "x", "type", {"type": "number"}, "must be number"),
    (bool, "x", "type", {"type": "boolean"}, "must be boolean"),
    (bool, [], "type", {"type": "boolean"}, "must be boolean"),
    (None, 5, "type", {"type": "null"}, "must be null"),
    (list[int], 5, "type", {"type": "array"}, "must be array"),
    (tuple[int, ...], 5, "type", {"type": "array"}, "must be array"),
    (set[int], 5, "type", {"type": "array"}, "must be array"),
    (dict[str, int], 5, "type", {"type": "object"}, "must be object"),
    (Place, 5, "type", {"type": "object"}, "must be object"),
    (datetime, "x", "format", {"format": "date-time"}, 'must match format "date-time"'),
    (date, "x", "format", {"format": "date"}, 'must match format "date"'),
    (time, "x", "format", {"format": "time"}, 'must match format "time"'),
    (timedelta, "x", "format", {"format": "duration"}, 'must match format "duration"'),
    (UUID, "x", "format", {"format": "uuid"}, 'must match format "uuid"'),
    (AnyUrl, "x", "format", {"format": "uri"}, 'must match format "uri"'),
    (
        Annotated[int, Field(gt=5)],
        5,
        "exclusiveMinimum",
        {"limit": 5, "comparison": ">"},
        "must be > 5",
    ),
    (Annotated[int, Field(ge=5)], 4, "minimum", {"limit": 5, "comparison": ">="}, "must be >= 5"),
    (
        Annotated[int, Field(lt=5)],
        5,
        "exclusiveMaximum",
        {"limit": 5, "comparison": "<"},
        "must be < 5",
    ),
    (Annotated[int, Field(le=5)], 6, "maximum", {"limit": 5, "comparison": "<="}, "must be <= 5"),
    (
        Annotated[int, Field(multiple_of=2)],
        5,
        "multipleOf",
        {"multipleOf": 2},
        "must be multiple of 2",
    ),
    (
        Annotated[str, Field(min_length=2)],
        "a",
        "minLength",
        {"limit": 2},
        "must NOT have fewer than 2 characters",
    ),
    (
        Annotated[str, Field(max_length=2)],
        "abc",
        "maxLength",
        {"limit": 2},
        "must NOT have more than 2 characters",
    ),
    (
        Annotated[list[int], Field(min_length=2)],
        [1],
        "minItems",
        {"limit": 2},
        "must NOT have fewer than 2 items",
    ),
    (
        Annotated[list[int], Field(max_length=2)],
        [1, 2, 3],
        "maxItems",
        {"limit": 2},
        "must NOT have more than 2 items",
    ),
    (
        Annotated[str, Field(pattern="^[{]a")],
        "x",
        "pattern",
        {"pattern": "^[{]a"},
        'must match pattern "^[{]a"',
    ),
    (
        Literal["a", "b"],
        "c",
        "enum",
        {"allowedValues": "'a' or 'b'"},
        "must be equal to one of the allowed values",
    ),
    (Kind, "c", "enum", {"allowedValues": "'a'"}, "must be equal to one of the allowed values"),
    (
        dict[Literal["a"], int],
        {"b": 1},
        "additionalProperties",
        {"additionalProperty": "b"},
        "must NOT have additional properties",
    ),
]


@pytest.mark.parametrize(("kind", "value", "keyword", "params", "message"), TABLE, ids=str)
def test_errors_become_failures_by_the_table(kind, value, keyword, params, message):
    (failure,) = told(kind, value)
    assert failure["instancePath"] == ""
    assert failure["schemaPath"] == f"#/{keyword}"
    assert failure["keyword"] == keyword
    assert failure["params"] == params
    assert failure["message"] == message


@pytest.mark.parametrize("secret", [SecretStr, SecretStr | None])
def test_the_length_of_a_secret_is_reported_in_characters(secret):
    validator = get_validator(create_model("Sign", p=(secret, Field(min_length=8, max_length=9))))
    for given, keyword, word in (
        ("short", "minLength", "fewer than 8"),
        ("x" * 10, "maxLength", "more than 9"),
    ):
        for value in (given, SecretStr(given)):
            with pytest.raises(BadRequest) as caught:
                validator.validate({"p": value})
            (failure,) = caught.value.data
            assert failure["keyword"] == keyword
            assert failure["message"] == f"must NOT have {word} characters"
            assert failure["instancePath"] == "/p"
            assert given not in str(caught.value.to_dict())


def test_errors_of_ones_own_keep_their_text():
    (shout,) = told(Message, {"text": "HI"})
    assert (shout["instancePath"], shout["keyword"]) == ("/text", "value_error")
    assert shout["message"] == "must not shout"
    (bad,) = told(Message, {"text": "bad"})
    assert (bad["keyword"], bad["message"]) == ("assertion_error", "must not be bad")


def test_members_of_a_union_are_no_part_of_the_place():
    paths = {f["instancePath"] for f in told(dict[str, int | list[int]], {"a/b": ["x"]})}
    assert paths == {"/a~1b", "/a~1b/0"}


def test_the_value_itself_is_not_in_the_answer():
    assert "secret" not in str(told(dict[str, int], {"a": "secret"}))


def test_any_value_fits_any():
    assert get_validator(Any).validate({"a": 1}) == {"a": 1}


def test_can_be_described_as_json_schema():
    schema = ModelValidator(Message).json_schema()
    assert schema["properties"].keys() == {"text", "sentAt", "places"}
    assert schema["additionalProperties"] is False
