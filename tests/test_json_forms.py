from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from alula.express._json_encoding import dumps
from alula.json_forms import FORMS, register_json_form


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
def _forms_stay_as_they_were(monkeypatch):
    for kind in (Money, Coin):
        monkeypatch.delitem(FORMS, kind, raising=False)
    yield
    for kind in (Money, Coin):
        FORMS.pop(kind, None)


def test_a_type_has_the_form_that_was_registered():
    register_json_form(Money, lambda money: {"cents": money.cents})
    assert json.loads(dumps({"price": [Money(5)]})) == {"price": [{"cents": 5}]}


def test_a_subclass_has_the_form_of_the_nearest_type():
    register_json_form(Money, lambda money: money.cents)
    register_json_form(Coin, lambda coin: f"coin of {coin.cents}")
    assert json.loads(dumps([Tip(1), Coin(2)])) == [1, "coin of 2"]


def test_a_form_may_need_another_form():
    register_json_form(Money, lambda money: {money.cents})
    assert json.loads(dumps(Money(7))) == [7]


@pytest.mark.parametrize("other", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("value", [Word("w"), Days(1.5)], ids=["str", "float"])
def test_what_json_has_itself_is_sent_as_that(value, other, monkeypatch):
    monkeypatch.setitem(FORMS, type(value), lambda _: "another form")
    assert json.loads(dumps([value, other])) == [value, other]


@pytest.mark.parametrize("other", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("value", [Pair(1, 2), View()], ids=["named tuple", "mapping"])
def test_other_lists_and_mappings_have_their_form_wherever_they_stand(value, other, monkeypatch):
    monkeypatch.setitem(FORMS, type(value), lambda _: "the form")
    assert json.loads(dumps([value, other])) == ["the form", other]


def test_without_one_the_type_is_named():
    with pytest.raises(TypeError, match="Money"):
        dumps(Money(1))


@pytest.mark.parametrize(("kind", "form"), [("Money", str), (Money, None), (Money(1), str)])
def test_it_takes_a_type_and_a_function(kind, form):
    with pytest.raises(TypeError, match="takes a type and a function"):
        register_json_form(kind, form)
    assert Money not in FORMS
