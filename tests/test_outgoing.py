"""What clients get: the public part of records, JSON forms of types that JSON lacks; log lines."""

from __future__ import annotations

import copy
import datetime
import html
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from alula import App, HookContext, Params
from alula._json_encoding import dumps
from alula.adapters.memory import MemoryService
from alula.outgoing import RedactedRecord, public_part, public_result, register_json_encoder
from alula.outgoing._encoders import JSON_ENCODERS, as_mapping
from alula.outgoing._redaction import map_records, without_properties
from alula.outgoing._text import escape_html, javascript_date, one_line, short_line
from alula.types import Page

USER = {"id": 1, "name": "Ada", "password": "secret"}
SEEN = {"id": 1, "name": "Ada"}


def redacted() -> RedactedRecord:
    return RedactedRecord(USER, SEEN, "hook")


def test_a_redacted_record_is_a_dict_with_all_properties():
    user = redacted()
    assert user == USER
    assert isinstance(user, dict)
    assert user["password"] == "secret"
    assert {**user} == USER
    assert (user.public, user.redacted_by) == (SEEN, "hook")


def test_shows_only_what_may_leave():
    assert "secret" not in repr(redacted())
    assert "secret" not in f"{[redacted()]}"
    assert "Ada" in repr(redacted())


@pytest.mark.parametrize("value", [None, True, datetime.date(1815, 12, 10), (1, 2)])
def test_a_hidden_value_of_another_type_stays_as_it_is_for_the_application(value):
    user = RedactedRecord({"name": "Ada", "secret": value}, public={"name": "Ada"})
    assert user["secret"] is value
    assert json.loads(dumps(public_part(user))) == {"name": "Ada"}


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda user: user.copy(), lambda u: pickle.loads(pickle.dumps(u))],
)
def test_copies_are_redacted_too(copied):
    user = redacted()
    other = copied(user)
    assert other is not user
    assert other == USER
    assert public_part(other) == SEEN


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
    value = build(redacted())
    before = repr(value)
    assert public_part(value) == expected
    assert repr(value) == before


@pytest.mark.parametrize(
    ("set_by_hook", "sent"),
    [
        ({"result": [redacted()]}, [SEEN]),
        ({"result": [USER], "dispatch": {"of": redacted()}}, {"of": SEEN}),
        ({"result": [USER], "dispatch": None}, None),
    ],
)
async def test_what_clients_get_of_a_call(set_by_hook, sent):
    app = App().use("users", MemoryService())
    users = app.service("users").hooks(after=[lambda context: vars(context).update(set_by_hook)])
    context = HookContext(app, users, "find", Params())
    await users.run(context)
    assert public_result(context) == sent


@pytest.mark.parametrize("place", PLACES)
def test_leaves_in_json_without_what_is_hidden(place):
    build, expected = PLACES[place]
    assert dumps(build(redacted())) == dumps(expected)
    # The slower way, taken for what the quick one refuses, hides it as well.
    assert b"secret" not in dumps({"big": 2**70, "value": build(redacted())})


class Report(BaseModel):
    about: Any


@pytest.mark.parametrize("place", [place for place in PLACES if place != "a proxy"])
def test_leaves_in_a_model_without_what_is_hidden(place):
    build, expected = PLACES[place]
    model = Report(about=build(redacted()))
    for value in (model, [model], Report(about=[model])):
        assert b"secret" not in dumps(value)
    assert json.loads(dumps(model)) == {"about": json.loads(dumps(expected))}
    assert "secret" not in str(as_mapping(model))
    assert "secret" not in model.model_dump_json()


json_values = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(json_values)
def test_a_value_without_guards_is_returned_itself(value):
    assert public_part(value) is value


@given(json_values, json_values)
def test_what_stands_beside_stays_itself(one, other):
    shown = public_part({"one": one, "user": redacted(), "other": [other]})
    assert shown == {"one": one, "user": SEEN, "other": [other]}
    assert shown["one"] is one


class TestChanged:
    def test_hides_what_was_hidden_and_shows_what_is_new(self):
        made = redacted().changed({**USER, "name": "Lady Ada", "initials": "A"})
        assert made == {**USER, "name": "Lady Ada", "initials": "A"}
        assert made.public == {"id": 1, "name": "Lady Ada", "initials": "A"}

    def test_takes_away_what_is_gone(self):
        made = redacted().changed({"id": 1, "password": "secret"})
        assert made.public == {"id": 1}

    def test_keeps_a_mask(self):
        card = RedactedRecord({"number": "1234"}, {"number": "***4"})
        assert card.changed({"number": "1234 "}).public == {"number": "***4"}

    def test_keeps_the_guard_of_what_is_within(self):
        made = RedactedRecord({"id": 1}, {"id": 1}).changed({"id": 1, "user": redacted()})
        assert made.public == {"id": 1, "user": SEEN}
        assert public_part([made]) == [{"id": 1, "user": SEEN}]


class TestWithout:
    def test_takes_a_property_out_of_the_record_and_of_what_clients_get(self):
        rest = redacted().without({"name"})
        assert (rest, rest.public) == ({"id": 1, "password": "secret"}, {"id": 1})
        assert repr(rest["password"]) == "<hidden: password>"

    def test_shows_no_hidden_property_and_keeps_masks(self):
        card = RedactedRecord({"id": 1, "number": "1234", "pin": "1"}, {"number": "***4"})
        rest = card.without({"pin", "other"})
        assert (rest, rest.public) == ({"id": 1, "number": "1234"}, {"number": "***4"})

    def test_keeps_a_public_part_that_is_no_mapping(self):
        assert RedactedRecord(USER, None).without({"name"}).public is None


class TestMerged:
    def test_hides_what_was_hidden_and_shows_what_is_added(self):
        made = redacted() | {"online": True, "name": "Lady Ada", "password": "other"}
        assert isinstance(made, RedactedRecord)
        assert made == {**USER, "online": True, "name": "Lady Ada", "password": "other"}
        assert made.public == {"id": 1, "name": "Lady Ada", "online": True}

    def test_from_the_right_the_redacted_record_prevails(self):
        made = {"id": 9, "online": True} | redacted()
        assert isinstance(made, RedactedRecord)
        assert made == {**USER, "online": True}
        assert made.public == {**SEEN, "online": True}
        assert (MappingProxyType({"id": 9}) | redacted()).public == SEEN

    def test_with_another_redacted_record_hides_what_either_hides(self):
        card = RedactedRecord({"id": 2, "name": "x", "pin": "1", "no": "1234"}, {"no": "***4"})
        made = redacted() | card
        assert made == {**USER, **card}
        assert made.public == {"no": "***4"}
        assert (card | redacted()).public == {"no": "***4"}
        assert made.redacted_by is None

    def test_in_place_it_stays_the_record_it_is(self):
        user = same = redacted()
        user |= {"online": True, "by": redacted()}
        user |= [("at", 5)]
        assert user is same
        assert user == {**USER, "online": True, "by": USER, "at": 5}
        assert user.public == {**SEEN, "online": True, "by": SEEN, "at": 5}

    @pytest.mark.parametrize("other", [[("a", 1)], None, 5])
    def test_only_with_dicts(self, other):
        with pytest.raises(TypeError, match="unsupported operand"):
            redacted() | other
        with pytest.raises(TypeError, match="unsupported operand"):
            other | redacted()


def test_what_is_no_container_is_returned_itself():
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert public_part(moment) is moment
    assert public_part({"at": moment, "user": redacted()}) == {"at": moment, "user": SEEN}


class Spelled:
    """A class of an application that looks like a text in JSON."""


def test_what_leaves_as_something_else_is_no_record(monkeypatch):
    monkeypatch.setitem(JSON_ENCODERS, Spelled, lambda _: "spelled")
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
        assert as_mapping(value) is value
        assert without_properties(value, {"password"}) is value


class Model(BaseModel):
    name: str
    password: str


@dataclass
class Record:
    name: str
    password: str
    _cached: int = 1


class Owner:
    """An object that an encoder turns into a mapping."""


def test_objects_that_are_sent_as_mappings_are_searched(monkeypatch):
    monkeypatch.setitem(JSON_ENCODERS, Owner, lambda owner: {"name": "Ada", "password": "x"})
    for value in (Model(name="Ada", password="x"), Record("Ada", "x"), Owner()):
        assert without_properties([{"owner": value}], {"password"}) == [{"owner": {"name": "Ada"}}]
    assert as_mapping(Model) is Model


class TestMapRecords:
    """The rest is tested with the hooks that call it."""

    def test_maps_only_the_public_part_of_a_redacted_page(self):
        inner = {"id": 2, "password": "secret"}
        page = RedactedRecord({"data": [inner], "cursor": "secret"}, {"data": [{"id": 2}]})
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


class Money:
    def __init__(self, cents):
        self.cents = cents


class Tip(Money): ...


class Coin(Money): ...


class Word(str):
    __slots__ = ()


class Days(float): ...


class Pair(NamedTuple):
    left: int
    right: int


class View(Mapping):
    def __getitem__(self, name):
        return {"a": 1}[name]

    def __iter__(self):
        return iter("a")

    def __len__(self):
        return 1


# Where one value is more than orjson takes, the standard library writes them all.
BESIDE = {"alone": 1, "beside a number that orjson refuses": 2**64}


@pytest.fixture(autouse=True)
def _encoders_stay_as_they_were(monkeypatch):
    for kind in (Money, Coin):
        monkeypatch.delitem(JSON_ENCODERS, kind, raising=False)
    yield
    for kind in (Money, Coin):
        JSON_ENCODERS.pop(kind, None)


def test_a_type_is_sent_as_its_encoder_says():
    register_json_encoder(Money, lambda money: {"cents": money.cents})
    assert json.loads(dumps({"price": [Money(5)]})) == {"price": [{"cents": 5}]}


def test_a_subclass_has_the_encoder_of_the_nearest_type():
    register_json_encoder(Money, lambda money: money.cents)
    register_json_encoder(Coin, lambda coin: f"coin of {coin.cents}")
    assert json.loads(dumps([Tip(1), Coin(2)])) == [1, "coin of 2"]


def test_an_encoder_may_return_a_value_that_needs_another():
    register_json_encoder(Money, lambda money: {money.cents})
    assert json.loads(dumps(Money(7))) == [7]


@pytest.mark.parametrize("other", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("value", [Word("w"), Days(1.5)], ids=["str", "float"])
def test_what_json_has_itself_is_sent_as_that(value, other, monkeypatch):
    monkeypatch.setitem(JSON_ENCODERS, type(value), lambda _: "another form")
    assert json.loads(dumps([value, other])) == [value, other]


@pytest.mark.parametrize("other", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("value", [Pair(1, 2), View()], ids=["named tuple", "mapping"])
def test_other_lists_and_mappings_have_their_form_wherever_they_stand(value, other, monkeypatch):
    monkeypatch.setitem(JSON_ENCODERS, type(value), lambda _: "the form")
    assert json.loads(dumps([value, other])) == ["the form", other]


def test_without_an_encoder_the_type_is_named():
    with pytest.raises(TypeError, match="Money"):
        dumps(Money(1))


@pytest.mark.parametrize(("kind", "encoder"), [("Money", str), (Money, None), (Money(1), str)])
def test_an_encoder_is_registered_by_type_and_function(kind, encoder):
    with pytest.raises(TypeError, match="takes a type and a function"):
        register_json_encoder(kind, encoder)
    assert Money not in JSON_ENCODERS


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime.datetime(2026, 1, 2), "2026-01-02T00:00:00.000Z"),
        (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "2026-01-02T00:00:00.000Z"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, 6789), "2026-01-02T03:04:05.006Z"),
        (
            datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
            "2026-01-01T23:00:00.000Z",
        ),
        (
            datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
            "0001-01-01T00:00:00.000+01:00",
        ),
    ],
)
def test_dates_look_as_in_javascript(moment, text):
    assert javascript_date(moment) == text


# -- HTML -----------------------------------------------------------------------------------------


@given(st.text(st.sampled_from("&<>\"'a;#\n\udcff")))
def test_html_is_escaped_as_python_does_it(text):
    assert escape_html(text) == html.escape(text)


# -- one line stays one line --------------------------------------------------------------------


@pytest.mark.parametrize("char", ["\n", "\r", "\x1b", "\x00", "\x7f", "\x85", "\u2028", "\u2029"])
def test_what_could_begin_a_line_or_steer_a_terminal_is_written_out(char):
    assert one_line(f"a{char}b") == f"a\\x{ord(char):02x}b"


@pytest.mark.parametrize("char", ["\u202a", "\u202e", "\u2066", "\u2069"])
def test_what_turns_the_direction_of_writing_is_written_out(char):
    assert one_line(f"a{char}b") == f"a\\x{ord(char):x}b"


def test_half_of_a_surrogate_pair_is_written_out():
    one_line("a\ud800b").encode()
    assert one_line("a\ud800b \U0001f600") == "a\\ud800b \U0001f600"


def test_all_else_stays():
    assert one_line("Grüße, 世界 \\ 'x'") == "Grüße, 世界 \\ 'x'"


def test_nothing_that_is_to_be_written_out_counts_as_printable():
    codes = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000)]
    codes += [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    assert all(one_line(chr(code)) == f"\\x{code:02x}" for code in codes if code < 0xD800)
    assert all(one_line(chr(code)) == f"\\u{code:x}" for code in codes if code >= 0xD800)


@pytest.mark.parametrize(("sent", "kept"), [(2000, "a" * 2000), (2001, "a" * 2000 + "...")])
def test_what_is_long_is_cut_and_shows_it(sent, kept):
    assert short_line("a" * sent) == kept


def test_a_short_line_is_one_line():
    assert short_line("a\nb") == "a\\x0ab"
