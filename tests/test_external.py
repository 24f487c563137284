"""What may leave is bound to the record, wherever it goes."""

from __future__ import annotations

import copy
import datetime
import pickle
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.express._json_encoding import dumps
from alula.external import (
    GuardedRecord,
    map_records,
    mapping_of,
    outside_of,
    without_at_any_depth,
)
from alula.json_forms import FORMS
from alula.types import Page

USER = {"id": 1, "name": "Ada", "password": "secret"}
SEEN = {"id": 1, "name": "Ada"}


def guarded() -> GuardedRecord:
    return GuardedRecord(USER, SEEN, "hook")


def test_a_guarded_record_is_a_dict_with_all_properties():
    user = guarded()
    assert user == USER
    assert isinstance(user, dict)
    assert user["password"] == "secret"
    assert {**user} == USER
    assert (user.outside, user.by) == (SEEN, "hook")


def test_shows_only_what_may_leave():
    assert "secret" not in repr(guarded())
    assert "secret" not in f"{[guarded()]}"
    assert "Ada" in repr(guarded())


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda user: user.copy(), lambda u: pickle.loads(pickle.dumps(u))],
)
def test_copies_are_guarded_too(copied):
    user = guarded()
    other = copied(user)
    assert other is not user
    assert other == USER
    assert outside_of(other) == SEEN


PLACES = {
    "itself": (lambda user: user, SEEN),
    "a list": (lambda user: [1, user], [1, SEEN]),
    "a tuple": (lambda user: (user, 1), [SEEN, 1]),
    "another record": (lambda user: {"user": user, "text": "a"}, {"user": SEEN, "text": "a"}),
    "a page": (lambda user: {"total": 1, "data": [user]}, {"total": 1, "data": [SEEN]}),
    "deep": (lambda user: {"a": [{"b": {"c": [user]}}]}, {"a": [{"b": {"c": [SEEN]}}]}),
    "two": (lambda user: {"a": user, "b": user}, {"a": SEEN, "b": SEEN}),
    "a proxy": (lambda user: MappingProxyType({"user": user}), {"user": SEEN}),
}


@pytest.mark.parametrize("place", PLACES)
def test_is_replaced_wherever_it_is(place):
    build, expected = PLACES[place]
    value = build(guarded())
    before = repr(value)
    assert outside_of(value) == expected
    assert repr(value) == before


@pytest.mark.parametrize("place", PLACES)
def test_leaves_in_json_without_what_is_hidden(place):
    build, expected = PLACES[place]
    assert dumps(build(guarded())) == dumps(expected)
    # The slower way, taken for what the quick one refuses, hides it as well.
    assert b"secret" not in dumps({"big": 2**70, "value": build(guarded())})


json_values = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(json_values)
def test_a_value_without_guards_is_returned_itself(value):
    assert outside_of(value) is value


@given(json_values, json_values)
def test_what_stands_beside_stays_itself(one, other):
    shown = outside_of({"one": one, "user": guarded(), "other": [other]})
    assert shown == {"one": one, "user": SEEN, "other": [other]}
    assert shown["one"] is one


class TestChanged:
    def test_hides_what_was_hidden_and_shows_what_is_new(self):
        made = guarded().changed({**USER, "name": "Lady Ada", "initials": "A"})
        assert made == {**USER, "name": "Lady Ada", "initials": "A"}
        assert made.outside == {"id": 1, "name": "Lady Ada", "initials": "A"}

    def test_takes_away_what_is_gone(self):
        made = guarded().changed({"id": 1, "password": "secret"})
        assert made.outside == {"id": 1}

    def test_keeps_a_mask(self):
        card = GuardedRecord({"number": "1234"}, {"number": "***4"})
        assert card.changed({"number": "1234 "}).outside == {"number": "***4"}

    def test_keeps_the_guard_of_what_is_within(self):
        made = GuardedRecord({"id": 1}, {"id": 1}).changed({"id": 1, "user": guarded()})
        assert made.outside == {"id": 1, "user": SEEN}
        assert outside_of([made]) == [{"id": 1, "user": SEEN}]


class TestMerged:
    def test_hides_what_was_hidden_and_shows_what_is_added(self):
        made = guarded() | {"online": True, "name": "Lady Ada", "password": "other"}
        assert isinstance(made, GuardedRecord)
        assert made == {**USER, "online": True, "name": "Lady Ada", "password": "other"}
        assert made.outside == {"id": 1, "name": "Lady Ada", "online": True}

    def test_from_the_right_the_guarded_record_prevails(self):
        made = {"id": 9, "online": True} | guarded()
        assert isinstance(made, GuardedRecord)
        assert made == {**USER, "online": True}
        assert made.outside == {**SEEN, "online": True}
        assert (MappingProxyType({"id": 9}) | guarded()).outside == SEEN

    def test_with_another_guarded_record_hides_what_either_hides(self):
        card = GuardedRecord({"id": 2, "name": "x", "pin": "1", "no": "1234"}, {"no": "***4"})
        made = guarded() | card
        assert made == {**USER, **card}
        assert made.outside == {"no": "***4"}
        assert (card | guarded()).outside == {"no": "***4"}
        assert made.by is None

    def test_in_place_it_stays_the_record_it_is(self):
        user = same = guarded()
        user |= {"online": True, "by": guarded()}
        user |= [("at", 5)]
        assert user is same
        assert user == {**USER, "online": True, "by": USER, "at": 5}
        assert user.outside == {**SEEN, "online": True, "by": SEEN, "at": 5}

    @pytest.mark.parametrize("other", [[("a", 1)], None, 5])
    def test_only_with_dicts(self, other):
        with pytest.raises(TypeError, match="unsupported operand"):
            guarded() | other
        with pytest.raises(TypeError, match="unsupported operand"):
            other | guarded()


def test_what_is_no_container_is_returned_itself():
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert outside_of(moment) is moment
    assert outside_of({"at": moment, "user": guarded()}) == {"at": moment, "user": SEEN}


class Spelled:
    """A class of an application that looks like a text in JSON."""


def test_what_leaves_as_something_else_is_no_record(monkeypatch):
    monkeypatch.setitem(FORMS, Spelled, lambda _: "spelled")
    for value in (
        object(),
        Spelled(),
        Spelled,
        b"bytes",
        datetime.datetime(2026, 1, 2),
        None,
        1,
        "text",
    ):
        assert mapping_of(value) is value
        assert without_at_any_depth(value, {"password"}) is value


class TestMapRecords:
    """The rest is tested with the hooks that call it."""

    def test_maps_only_the_public_part_of_a_redacted_page(self):
        inner = {"id": 2, "password": "secret"}
        page = GuardedRecord({"data": [inner], "cursor": "secret"}, {"data": [{"id": 2}]})
        seen = []
        made = map_records(page, "find", lambda record: seen.append(record) or record, dict)
        assert seen == [{"id": 2}]
        assert made == {"data": [{"id": 2}]}

    def test_leaves_a_page_without_records_as_it_is(self):
        page = Page(total=3, limit=0, skip=0, data=[])
        del page["data"]
        made = map_records(page, "find", pytest.fail, pytest.fail)
        assert made == {"total": 3, "limit": 0, "skip": 0}
        assert type(made) is Page
        assert made is not page
