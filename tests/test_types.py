"""`UNSET`, and the tables of methods and events."""

import copy
import pickle

import pytest

from alula import UNSET
from alula.types import EVENT_OF_METHOD, ID_METHODS, STANDARD_METHODS


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
