"""Refused bodies that would have very many failures."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator

from alula.errors import BadRequest
from alula.schema._pydantic_models.failure_limit import check_failures
from alula.schema._pydantic_models.model_validator import ModelValidator, check_hashes


class A(BaseModel):
    a: int
    b: int


class B(BaseModel):
    c: int
    d: int


class C(BaseModel):
    e: int
    f: int


class Items(BaseModel):
    name: str = "a"
    items: list[A | B | C] = []
    named: dict[str, A | B | C] = {}
    rows: list[list[A | B | C]] = []


LARGE = {
    "list": {"items": [{}] * 250_000},
    "dict": {"named": {f"{n:x}": {} for n in range(100_000)}},
    "rows": {"rows": [[{}] * 100] * 2_500},
    "long rows": {"rows": [[{}] * 2_500] * 100},
    "behind valid ones": {"items": [{"a": 1, "b": 2}] * 20_000 + [{}] * 100_000},
}


@pytest.mark.untraced
@pytest.mark.parametrize("data", LARGE.values(), ids=LARGE)
def test_a_refused_body_costs_little(data):
    validator = ModelValidator(Items)
    begun = time.thread_time()
    with pytest.raises(BadRequest, match="too many failures to list them"):
        validator.validate(data)
    # Half a second of the processor, however busy the machine is.
    # Without the limit, Pydantic alone takes two, and 700 MB.
    assert time.thread_time() - begun < 1.5


def test_parts_have_few_failures():
    numbers = []

    def validate(part):
        try:
            TypeAdapter(Items).validate_python(part)
        except ValidationError as error:
            numbers.append(error.error_count())
            raise

    with pytest.raises(BadRequest):
        check_failures(validate, LARGE["list"])
    # Those of a part are all that exist at once.
    assert max(numbers) <= 6_000
    assert sum(numbers) < 30_000


@pytest.mark.parametrize(
    "data",
    [
        {"items": [{"a": 1, "b": 2}] * 5_000},
        {"named": {str(n): {"c": 1, "d": 2} for n in range(3_000)}},
        {"rows": [[{"e": 1, "f": 2}] * 300] * 20, "name": "b"},
    ],
)
def test_valid_data_passes(data):
    assert ModelValidator(Items).validate(data) == {
        "name": "a", "items": [], "named": {}, "rows": [], **data
    }  # fmt: skip


def test_few_failures_in_large_data_are_listed():
    data = {"items": [{"a": 1, "b": 2}] * 5_000 + [{"a": 1}], "name": 5}
    with pytest.raises(BadRequest) as caught:
        ModelValidator(Items).validate(data)
    paths = {failure["instancePath"] for failure in caught.value.data}
    assert paths == {"/name", "/items/5000"}


def test_rules_for_the_whole_hold_for_the_whole_alone():
    class Whole(BaseModel):
        items: list[int] = Field(min_length=5_500, max_length=6_500)
        count: int

        @field_validator("count")
        @classmethod
        def counts(cls, count: int, info: Any) -> int:
            # A part has no items: it is not this validator's fault that it fails.
            assert count == len(info.data["items"])
            return count

    data = {"items": [1] * 6_000, "count": 6_000}
    assert ModelValidator(Whole).validate(data) == data


def test_a_list_of_its_own_is_tried_in_parts():
    sizes = []

    def note(part):
        sizes.append(check_hashes(part))

    check_failures(note, [[1] * 600, [2] * 600, 3, [4] * 1_500])
    assert sum(sizes) >= 2_700
    assert max(sizes) <= 1_001


def test_what_is_too_deep_is_left_to_the_check():
    data: list[Any] = []
    for _ in range(100_000):
        data = [data]
    check_failures(pytest.fail, data)
