"""Models that contain a choice of themselves: data that takes exponential time is refused."""

from __future__ import annotations

import time
from collections import deque
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, RootModel, TypeAdapter

from alula.errors import BadRequest
from alula.schema._pydantic_models.model_validator import ModelValidator
from alula.schema._pydantic_models.recursive_unions import UnionLimit


class Text(BaseModel):
    text: str


class Row(BaseModel):
    type: str = "row"  # the name of a key of core schemas, too
    child: Row | Column | Text | None = None
    children: list[Row | Column] = []


class Column(BaseModel):
    size: int = 1
    child: Annotated[Row | Column, AfterValidator(lambda value: value)] | None = None


class Tagged(BaseModel):
    kind: Literal["tagged"] = "tagged"
    child: Annotated[Tagged | Other, Field(discriminator="kind")] | None = None


class Other(BaseModel):
    kind: Literal["other"] = "other"
    child: Tagged | None = None


class Tree(BaseModel):
    left: Tree | None = None
    right: Tree | None = None


class Flat(BaseModel):
    item: Text | Tree


class Matrix(RootModel[list["Matrix | int"] | tuple["Matrix | int", ...] | dict[str, "Matrix"]]):
    pass


class Rows(RootModel[list["Rows | Queue"]]):
    pass


class Queue(RootModel[deque["Rows | Queue"]]):
    pass


def tries(model):
    limit = UnionLimit(TypeAdapter(model).core_schema)
    return limit.tries[dict], limit.tries[list]


def nested(depth, value=None, *, make=lambda value: {"child": value}):
    for _ in range(depth):
        value = make(value)
    return value


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (Row, (2, 1)),
        (Column, (2, 1)),
        (Tagged, (1, 1)),
        (Tree, (1, 1)),
        (Flat, (1, 1)),
        (Text, (1, 1)),
        (Matrix, (1, 2)),
        (Rows, (1, 2)),
    ],
)
def test_choices_that_contain_their_union_count(model, expected):
    assert tries(model) == expected


@pytest.mark.parametrize("leaf", [None, {"size": "no number"}])
def test_deep_data_is_refused_at_once(leaf):
    start = time.process_time()
    with pytest.raises(BadRequest, match="nested too deeply: too many combinations"):
        ModelValidator(Row).validate(nested(40, leaf))
    assert time.process_time() - start < 1


def test_deep_lists_are_refused():
    with pytest.raises(BadRequest, match="nested too deeply"):
        ModelValidator(Matrix).validate(nested(40, 1, make=lambda value: [value]))


def test_data_of_ordinary_depth_is_valid():
    data = nested(10, {"text": "x"})
    assert ModelValidator(Row, defaults=False).validate(data) == data


def test_many_records_are_valid():
    data = {"children": [{"size": number} for number in range(5_000)]}
    assert ModelValidator(Row, defaults=False).validate(data) == data


@pytest.mark.parametrize("model", [Tagged, Tree])
def test_one_choice_may_be_as_deep_as_any_model(model):
    data = nested(50, {}, make=lambda value: {"child" if model is Tagged else "left": value})
    if model is Tagged:
        data = nested(50, {"kind": "tagged"}, make=lambda v: {"kind": "tagged", "child": v})
    assert ModelValidator(model, defaults=False).validate(data) == data
