"""Types of values, and what coercion makes of them."""

from __future__ import annotations

import math
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.schema._json_schema.json_types import (
    TYPE_TESTS,
    coercion,
    is_array,
    is_number,
    type_test,
)
from alula.types import UNSET

VALUES = {
    "string": ["", "a", "5"],
    "number": [0, -1, 1.5, 2.0, Decimal("0.1"), 10**30],
    "boolean": [True, False],
    "null": [None],
    "array": [[], [1], (1, 2)],
    "object": [{}, {"a": 1}, OrderedDict(a=1), MappingProxyType({}), datetime.now(UTC), b"x"],
}


@pytest.mark.parametrize("name", VALUES)
def test_each_value_has_one_type(name):
    for value in VALUES[name]:
        assert [kind for kind in VALUES if TYPE_TESTS[kind](value)] == [name]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_no_number(value):
    assert not is_number(value)
    assert not any(test(value) for test in TYPE_TESTS.values())


def test_a_whole_float_is_an_integer():
    assert [
        value for value in (1, 2.0, 1.5, True, "1", Decimal(3)) if TYPE_TESTS["integer"](value)
    ] == [
        1,
        2.0,
        Decimal(3),
    ]


def test_a_list_is_an_array_and_a_set_is_none():
    assert is_array([1])
    assert not is_array({1})


def test_one_of_several_types_is_enough():
    test = type_test(["string", "null"])
    assert test("a")
    assert test(None)
    assert not test(5)
    assert type_test(["string"]) is TYPE_TESTS["string"]


CONVERTED = [
    ("number", "5", 5),
    ("number", "-1.5", -1.5),
    ("number", "+5", 5),
    ("number", "5.", 5),
    ("number", ".5", 0.5),
    ("number", "1e1", 10),
    ("number", "0010", 10),
    ("number", "9007199254740993", 9007199254740993),
    ("number", "1e30", 1e30),
    ("number", True, 1),
    ("number", False, 0),
    ("number", None, 0),
    ("integer", "5", 5),
    ("integer", "5.0", 5),
    ("integer", None, 0),
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("boolean", 1, True),
    ("boolean", 0, False),
    ("boolean", 1.0, True),
    ("boolean", None, False),
    ("null", "", None),
    ("null", 0, None),
    ("null", False, None),
    ("string", 5, "5"),
    ("string", 5.0, "5"),
    ("string", 1.5, "1.5"),
    ("string", True, "true"),
    ("string", False, "false"),
    ("string", None, ""),
    ("string", 1e21, "1e+21"),
    ("string", 1e20, "100000000000000000000"),
    ("string", 1e-7, "1e-7"),
    ("string", 0.00001, "0.00001"),
    ("string", 1.5e300, "1.5e+300"),
    ("array", {"0": "a", "1": "b"}, ["a", "b"]),
    ("array", {"1": "b", "0": "a"}, ["a", "b"]),
]


@pytest.mark.parametrize(("name", "value", "wanted"), CONVERTED)
def test_coercion_makes_of_a_value(name, value, wanted):
    found = coercion([name])(value)
    assert found == wanted
    assert type(found) is type(wanted)


REFUSED = [
    *(("number", text) for text in ("", " ", "abc", " 10 ", "0x0a", "1_000", "Infinity", "NaN")),
    *(("number", text) for text in ("1e400", "٣", "--1", "1e", ".", "9" * 401)),
    ("number", [1]),
    ("number", {}),
    ("integer", "1.5"),
    ("integer", "abc"),
    *(("boolean", value) for value in ("1", "0", "", "yes", "True", 2, [], {})),
    *(("null", value) for value in ("null", "0", 1, True, [])),
    ("string", []),
    ("string", {}),
    ("string", math.nan),
    ("array", {}),
    ("array", {"a": 1}),
    ("array", "a"),
    ("array", 5),
]


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=str)
def test_coercion_makes_nothing_of_a_value(name, value):
    assert coercion([name])(value) is UNSET


def test_the_first_type_that_a_value_can_stand_for_counts():
    assert coercion(["number", "boolean"])("true") is True
    assert coercion(["number", "boolean"])("5") == 5
    assert coercion(["null", "number"])("") is None
    assert coercion(["number", "boolean"])("x") is UNSET


def test_nothing_becomes_an_object():
    assert coercion(["object"]) is None
    assert coercion(["object", "integer"])("5") == 5


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_comes_back_from_its_text(number):
    text = coercion(["string"])(number)
    assert coercion(["number"])(text) == number


@pytest.mark.parametrize("size", [1, 2, 14, 15, 16, 17, 18])
def test_whole_numbers_of_any_length_are_exact(size):
    for number in (int("9" * size), 10 ** (size - 1), 10**size - 3):
        found = coercion(["integer"])(f"0{number}")
        assert (found, type(found)) == (number, int)
        found = coercion(["number"])(str(number))
        assert (found, type(found)) == (number, int)


@given(st.text())
def test_a_text_is_a_number_or_nothing(text):
    found = coercion(["number"])(text)
    assert found is UNSET or float(text) == found
