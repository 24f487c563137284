"""`UNSET`, and the tables of methods and events."""

import copy
import pickle
from types import MappingProxyType

import pytest

from alula import UNSET, Page
from alula.types import (
    EVENT_OF_METHOD,
    ID_METHODS,
    PAGE_NAMES,
    STANDARD_METHODS,
    is_array,
    is_dict,
    is_list,
    is_mapping,
    is_page,
)


def test_unset_is_false_and_says_what_it_is():
    assert not UNSET
    assert repr(UNSET) == "UNSET"


def test_unset_is_no_other_value():
    assert UNSET is not None
    assert UNSET != None  # noqa: E711  # both comparisons, since code may use either
    assert UNSET != ""


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_there_is_one_unset_only(clone):
    assert clone(UNSET) is UNSET


def test_the_tables_agree_with_each_other():
    assert set(STANDARD_METHODS) >= ID_METHODS
    assert set(EVENT_OF_METHOD) == set(STANDARD_METHODS) - {"find", "get"}


@pytest.mark.parametrize(
    ("value", "tests"),
    [
        ({}, [is_mapping, is_dict]),
        (Page(total=0, limit=0, skip=0, data=[]), [is_mapping, is_dict, is_page]),
        (MappingProxyType({}), [is_mapping]),
        ([], [is_list, is_array]),
        ((), [is_array]),
        (set(), []),
        ("text", []),
        (None, []),
    ],
)
def test_what_a_value_is(value, tests):
    every = [is_mapping, is_dict, is_page, is_list, is_array]
    assert [test for test in every if test(value)] == tests


PAGE = {"total": 3, "limit": 1, "skip": 0, "data": [{"id": 1}]}


class TestPage:
    def test_is_a_dict_that_knows_that_it_is_a_page(self):
        page = Page(**PAGE)
        assert page == PAGE
        assert page.keys() == PAGE_NAMES
        assert isinstance(page, dict)
        with pytest.raises(TypeError, match="data"):
            Page(total=1, limit=1, skip=0)

    @pytest.mark.parametrize(
        "clone",
        [
            copy.copy,
            copy.deepcopy,
            Page.copy,
            lambda page: page | {},
            lambda page: {} | page,
            lambda page: pickle.loads(pickle.dumps(page)),
        ],
    )
    def test_copies_are_pages_too(self, clone):
        page = Page(**PAGE, cursor="x")
        copied = clone(page)
        assert type(copied) is Page
        assert copied == page
        assert copied is not page

    def test_what_stands_on_the_right_counts(self):
        page = Page(**PAGE)
        assert (page | {"total": 4, "more": 1}) == {**PAGE, "total": 4, "more": 1}
        assert ({"total": 4, "more": 1} | page) == {**PAGE, "more": 1}
        assert page == PAGE

    @pytest.mark.parametrize("other", [None, [("total", 1)]])
    def test_merges_with_mappings_only(self, other):
        with pytest.raises(TypeError, match="unsupported operand"):
            Page(**PAGE) | other
        with pytest.raises(TypeError, match="unsupported operand"):
            other | Page(**PAGE)
