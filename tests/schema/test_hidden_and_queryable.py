"""Which properties there can be."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, Field

from alula.schema import Validator, resolve, virtual
from alula.schema._hidden_and_queryable import field_names

CLOSED = {"type": "object", "properties": {"id": {}, "name": {}}}


class Person(BaseModel):
    id: int
    full_name: str = Field(alias="fullName")


class Renamed(BaseModel):
    read_as: int = Field(validation_alias="in")
    written_as: int = Field(serialization_alias="out")


class Open(Person):
    model_config = ConfigDict(extra="allow")


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (CLOSED, ["id", "name"]),
        ({**CLOSED, "additionalProperties": False}, ["id", "name"]),
        (Validator(CLOSED), ["id", "name"]),
        (Person, ["id", "fullName"]),
        (Renamed, ["read_as", "out"]),
        ({**CLOSED, "additionalProperties": True}, None),
        ({**CLOSED, "additionalProperties": {"type": "string"}}, None),
        ({**CLOSED, "allOf": [{}]}, None),
        ({**CLOSED, "patternProperties": {"^x": {}}}, None),
        ({"type": "object"}, None),
        (Open, None),
    ],
)
def test_reads_the_names(schema, names):
    assert field_names(schema) == names


@pytest.mark.parametrize("schema", [3, "Person", Person(id=1, fullName="a")])
def test_what_is_not_a_schema_is_refused(schema):
    with pytest.raises(TypeError, match=r"neither a JSON Schema nor a Pydantic"):
        field_names(schema)


def test_a_resolver_for_an_unknown_property_is_refused_when_it_is_made():
    properties = {"name": lambda: 1, "size": virtual(lambda: 1)}
    assert resolve(properties, schema=CLOSED).names == ("name", "size")
    with pytest.raises(ValueError, match=r"'full_name'.*did you mean 'fullName'"):
        resolve({"full_name": lambda: 1}, schema=Person)
    assert resolve({"anything": lambda: 1}, schema=Open).names == ("anything",)
