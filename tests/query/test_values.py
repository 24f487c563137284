"""What may stand under the names of a query: numbers, fields to sort by and to select."""

from __future__ import annotations

from decimal import Decimal
from enum import IntEnum

import pytest

from alula.errors import BadRequest, shown_name
from alula.query import Grammar
from alula.query._grammar import MAX_NUMBER, MAX_SORT_FIELDS, as_list, copy_value

grammar = Grammar()

NO_NUMBERS = [
    -1,
    2.5,
    float("nan"),
    float("inf"),
    2**53,
    2**80,
    1e300,
    True,
    False,
    Decimal(1),
    1j,
    "-1",
    "",
    " 1",
    "1 ",
    "+1",
    "2.0",
    "2.9",
    "2abc",
    "1e3",
    "0x1",
    "abc",
    "NaN",
    "1_0",
    "\u0661",
    "\xb2",
    str(2**53),
    "9" * 17,
    "9" * 5000,
    b"1",  # digits, but not those meant
    None,
    [],
    ["1"],
    {},
    {"0": "1"},
]


def refusal(raw):
    with pytest.raises(BadRequest) as caught:
        grammar.read(raw)
    return caught.value.message


@pytest.mark.parametrize("name", ["$limit", "$skip"])
class TestNumbers:
    @pytest.mark.parametrize(
        ("given", "read"),
        [
            (0, 0),
            ("0", 0),
            (10, 10),
            ("10", 10),
            ("007", 7),
            (2.0, 2),
            (-0.0, 0),
            (MAX_NUMBER, MAX_NUMBER),
            (str(MAX_NUMBER), MAX_NUMBER),
            (float(2**52), 2**52),
        ],
    )
    def test_whole_numbers(self, name, given, read):
        query = grammar.read({name: given})
        number = query.limit if name == "$limit" else query.skip
        assert number == read
        assert type(number) is int

    @pytest.mark.parametrize("given", NO_NUMBERS, ids=lambda given: repr(given)[:20])
    def test_anything_else(self, name, given):
        assert refusal({name: given}) == (
            f"Invalid value for {name}: expected a whole number from 0 to 9007199254740991"
        )


class TestSort:
    @pytest.mark.parametrize("up", [1, "1", 1.0])
    @pytest.mark.parametrize("down", [-1, "-1", -1.0])
    def test_directions(self, up, down):
        sort = grammar.read({"$sort": {"b": down, "a.c": up, "ü": up}}).sort
        assert sort == (("b", -1), ("a.c", 1), ("ü", 1))
        assert {type(direction) for _, direction in sort} == {int}

    def test_directions_of_other_kinds_of_int(self):
        class Direction(IntEnum):
            UP = 1

        ((name, direction),) = grammar.read({"$sort": {"a": Direction.UP}}).sort
        assert (name, type(direction)) == ("a", int)
        assert type(grammar.read({"$limit": Direction.UP}).limit) is int

    def test_no_fields(self):
        assert grammar.read({"$sort": {}}).sort == ()

    @pytest.mark.parametrize(
        "direction",
        [0, 2, "0", "asc", "", "1.0", True, False, None, [], {}, {"$meta": "x"}, float("nan")],
    )
    def test_directions_that_are_none(self, direction):
        assert refusal({"$sort": {"a": 1, "name": direction}}) == (
            "Invalid value for $sort: 'name' must be 1 or -1"
        )

    @pytest.mark.parametrize("value", ["name", "", None, ["name"], 1, True])
    def test_what_is_no_object(self, value):
        assert refusal({"$sort": value}) == (
            "Invalid value for $sort: expected an object of fields with 1 or -1"
        )

    @pytest.mark.parametrize(
        "name", ["", "$x", "a.$x", "a.", ".a", "a..b", "a\0", ".".join("a" * 33)]
    )
    def test_names_that_are_none(self, name):
        assert refusal({"$sort": {name: 1}}) == (
            f"Invalid value for $sort: {shown_name(name)!r} is not a name of a field"
        )

    @pytest.mark.parametrize("name", [5, None])
    def test_names_that_are_no_text(self, name):
        assert refusal({"$sort": {name: 1}}) == (
            "Invalid value for $sort: a name of a field must be a string"
        )

    def test_the_most_fields(self):
        fields = {f"f{n}": 1 for n in range(MAX_SORT_FIELDS)}
        assert len(grammar.read({"$sort": fields}).sort) == 32
        assert refusal({"$sort": {**fields, "one": 1}}) == (
            "Invalid value for $sort: at most 32 fields are allowed"
        )


class TestSelect:
    @pytest.mark.parametrize(
        ("given", "read"),
        [
            (["a", "b.c"], ("a", "b.c")),
            (("a",), ("a",)),
            ("name", ("name",)),
            ([], ()),
            ({"0": "a", "1": "b"}, ("a", "b")),
            ({str(n): f"f{n}" for n in range(25)}, tuple(f"f{n}" for n in range(25))),
            (["a$", "_id", "a-b", ".".join("a" * 32)], ("a$", "_id", "a-b", ".".join("a" * 32))),
        ],
    )
    def test_names(self, given, read):
        assert grammar.read({"$select": given}).select == read

    @pytest.mark.parametrize("name", ["", "$x", "a.$x", "a.", "a..b", "a\0b"])
    @pytest.mark.parametrize("before", [[], ["a"]])
    def test_names_that_are_none(self, name, before):
        assert refusal({"$select": [*before, name]}) == (
            f"Invalid value for $select: {shown_name(name)!r} is not a name of a field"
        )

    def test_a_single_one_is_checked_too(self):
        assert refusal({"$select": ""}) == (
            "Invalid value for $select: '' is not a name of a field"
        )

    @pytest.mark.parametrize("name", [5, None, True, ["a"], {"a": 1}])
    def test_what_is_no_text_is_not_written_as_python_does(self, name):
        for value in (["a", name], [name]):
            assert refusal({"$select": value}) == (
                "Invalid value for $select: a name of a field must be a string"
            )

    @pytest.mark.parametrize("value", [{}, {"name": 1}, {"0": "a", "x": "b"}])
    def test_what_is_no_list(self, value):
        assert refusal({"$select": value}) == (
            "Invalid value for $select: expected a list of field names"
        )


def test_an_index_is_a_plain_decimal_and_sorts_as_a_number():
    assert as_list({"100": "c", "20": "b", "3": "a"}) == ["a", "b", "c"]
    assert as_list({"9" * 5000: "b", "0": "a"}) == ["a", "b"]
    assert as_list({"1": 0, "1.0": 0}) is None


def test_a_copy_shares_no_container():
    class Odd:
        pass

    odd = Odd()
    given = {"a": [1, {"b": (2, odd)}]}
    copied = copy_value(given, 1)
    assert copied == {"a": [1, {"b": [2, odd]}]}
    assert copied["a"] is not given["a"]
    assert copied["a"][1] is not given["a"][1]
    assert copied["a"][1]["b"][1] is odd
